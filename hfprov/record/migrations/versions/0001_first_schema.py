"""The first schema of the record."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "baseline",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("recorded_at", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_baseline")),
    )
    op.create_table(
        "host",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("machine_id", sa.Text(), server_default="", nullable=False),
        sa.Column("product_uuid", sa.Text(), server_default="", nullable=False),
        sa.Column("serial", sa.Text(), server_default="", nullable=False),
        sa.Column("identity_digest", sa.Text(), server_default="", nullable=False),
        sa.Column("first_seen", sa.Text(), nullable=True),
        sa.Column("last_seen", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_host")),
        sa.UniqueConstraint("name", name=op.f("uq_host_name")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_host_machine_id"), "host", ["machine_id"], unique=False)
    op.create_index(op.f("ix_host_product_uuid"), "host", ["product_uuid"], unique=False)
    op.create_table(
        "run",
        sa.Column("seq", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("command", sa.Text(), nullable=False),
        sa.Column("argv", sa.Text(), nullable=False),
        sa.Column("controller", sa.Text(), nullable=False),
        sa.Column("controller_id", sa.Text(), nullable=False),
        sa.Column("boot_id", sa.Text(), nullable=False),
        sa.Column("pid_namespace", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("process_started", sa.Integer(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("started_at", sa.Text(), nullable=False),
        sa.Column("ended_at", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("host_count", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_run")),
        sa.UniqueConstraint("id", name=op.f("uq_run_id")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_run_status"), "run", ["status"], unique=False)
    op.create_table(
        "verdict_set",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("passed", sa.Integer(), nullable=False),
        sa.Column("warned", sa.Integer(), nullable=False),
        sa.Column("failed", sa.Integer(), nullable=False),
        sa.Column("unknown", sa.Integer(), nullable=False),
        sa.Column("not_applicable", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_verdict_set")),
        sa.UniqueConstraint("digest", name=op.f("uq_verdict_set_digest")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "certificate",
        sa.Column("seq", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("run_seq", sa.Integer(), nullable=False),
        sa.Column("host_id", sa.Integer(), nullable=False),
        sa.Column("profile", sa.Text(), nullable=False),
        sa.Column("issued_at", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.Text(), nullable=False),
        sa.Column("revoked_at", sa.Text(), nullable=True),
        sa.Column("revoke_reason", sa.Text(), server_default="", nullable=False),
        sa.Column("baseline_digest", sa.Text(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("signature", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["host_id"], ["host.id"], name=op.f("fk_certificate_host_id")),
        sa.ForeignKeyConstraint(["run_seq"], ["run.seq"], name=op.f("fk_certificate_run_seq")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_certificate")),
        sa.UniqueConstraint("id", name=op.f("uq_certificate_id")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        op.f("ix_certificate_host_id_seq"), "certificate", ["host_id", "seq"], unique=False
    )
    op.create_table(
        "change",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("run_seq", sa.Integer(), nullable=False),
        sa.Column("host_id", sa.Integer(), nullable=False),
        sa.Column("role", sa.Text(), server_default="", nullable=False),
        sa.Column("task", sa.Text(), server_default="", nullable=False),
        sa.Column("action", sa.Text(), server_default="", nullable=False),
        sa.Column("item", sa.Text(), server_default="", nullable=False),
        sa.Column("diff", sa.Text(), server_default="", nullable=False),
        sa.Column("changed_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["host_id"], ["host.id"], name=op.f("fk_change_host_id")),
        sa.ForeignKeyConstraint(["run_seq"], ["run.seq"], name=op.f("fk_change_run_seq")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_change")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_change_host_id"), "change", ["host_id"], unique=False)
    op.create_index(
        op.f("ix_change_run_seq_host_id"), "change", ["run_seq", "host_id"], unique=False
    )
    op.create_table(
        "event",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("run_seq", sa.Integer(), nullable=True),
        sa.Column("host_id", sa.Integer(), nullable=True),
        sa.Column("happened_at", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), server_default="", nullable=False),
        sa.Column("data", sa.Text(), server_default="{}", nullable=False),
        sa.ForeignKeyConstraint(["host_id"], ["host.id"], name=op.f("fk_event_host_id")),
        sa.ForeignKeyConstraint(["run_seq"], ["run.seq"], name=op.f("fk_event_run_seq")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_event")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_event_host_id"), "event", ["host_id"], unique=False)
    op.create_index(op.f("ix_event_run_seq"), "event", ["run_seq"], unique=False)
    op.create_table(
        "evidence",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("run_seq", sa.Integer(), nullable=False),
        sa.Column("host_id", sa.Integer(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("taken_at", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(["host_id"], ["host.id"], name=op.f("fk_evidence_host_id")),
        sa.ForeignKeyConstraint(["run_seq"], ["run.seq"], name=op.f("fk_evidence_run_seq")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_evidence")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        op.f("ix_evidence_host_id_run_seq"), "evidence", ["host_id", "run_seq"], unique=False
    )
    op.create_index(op.f("ix_evidence_taken_at"), "evidence", ["taken_at"], unique=False)
    op.create_table(
        "host_lock",
        sa.Column("host_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("run_seq", sa.Integer(), nullable=False),
        sa.Column("acquired_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["host_id"], ["host.id"], name=op.f("fk_host_lock_host_id")),
        sa.ForeignKeyConstraint(["run_seq"], ["run.seq"], name=op.f("fk_host_lock_run_seq")),
        sa.PrimaryKeyConstraint("host_id", name=op.f("pk_host_lock")),
    )
    op.create_index(op.f("ix_host_lock_run_seq"), "host_lock", ["run_seq"], unique=False)
    op.create_table(
        "measurement",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("run_seq", sa.Integer(), nullable=False),
        sa.Column("host_id", sa.Integer(), nullable=False),
        sa.Column("peer", sa.Text(), server_default="", nullable=False),
        sa.Column("test", sa.Text(), nullable=False),
        sa.Column("parameters", sa.Text(), server_default="{}", nullable=False),
        sa.Column("value", sa.Float(), nullable=True),
        sa.Column("unit", sa.Text(), server_default="", nullable=False),
        sa.Column("samples", sa.Text(), server_default="[]", nullable=False),
        sa.Column("conditions", sa.Text(), server_default="{}", nullable=False),
        sa.Column("raw", sa.LargeBinary(), nullable=True),
        sa.Column("measured_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["host_id"], ["host.id"], name=op.f("fk_measurement_host_id")),
        sa.ForeignKeyConstraint(["run_seq"], ["run.seq"], name=op.f("fk_measurement_run_seq")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_measurement")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        op.f("ix_measurement_host_id_test_id"),
        "measurement",
        ["host_id", "test", "id"],
        unique=False,
    )
    op.create_index(op.f("ix_measurement_run_seq"), "measurement", ["run_seq"], unique=False)
    op.create_table(
        "run_host",
        sa.Column("run_seq", sa.Integer(), nullable=False),
        sa.Column("host_id", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), server_default="", nullable=False),
        sa.Column("baseline_digest", sa.Text(), nullable=True),
        sa.Column("updated_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["baseline_digest"], ["baseline.digest"], name=op.f("fk_run_host_baseline_digest")
        ),
        sa.ForeignKeyConstraint(["host_id"], ["host.id"], name=op.f("fk_run_host_host_id")),
        sa.ForeignKeyConstraint(["run_seq"], ["run.seq"], name=op.f("fk_run_host_run_seq")),
        sa.PrimaryKeyConstraint("run_seq", "host_id", name=op.f("pk_run_host")),
    )
    op.create_index(
        op.f("ix_run_host_host_id_run_seq"), "run_host", ["host_id", "run_seq"], unique=False
    )
    op.create_table(
        "verdict",
        sa.Column("set_id", sa.Integer(), nullable=False),
        sa.Column("check_id", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("observed", sa.Text(), nullable=False),
        sa.Column("expected", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("not_applicable", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["set_id"], ["verdict_set.id"], name=op.f("fk_verdict_set_id")),
        sa.PrimaryKeyConstraint(
            "set_id", "check_id", "subject", "position", name=op.f("pk_verdict")
        ),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "fact",
        sa.Column("evidence_id", sa.Integer(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["evidence_id"], ["evidence.id"], name=op.f("fk_fact_evidence_id")),
        sa.PrimaryKeyConstraint("evidence_id", "source", name=op.f("pk_fact")),
    )
    op.create_table(
        "judgement",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("run_seq", sa.Integer(), nullable=False),
        sa.Column("host_id", sa.Integer(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("set_id", sa.Integer(), nullable=False),
        sa.Column("evidence_id", sa.Integer(), nullable=True),
        sa.Column("reason", sa.Text(), server_default="", nullable=False),
        sa.Column("judged_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["evidence_id"], ["evidence.id"], name=op.f("fk_judgement_evidence_id")
        ),
        sa.ForeignKeyConstraint(["host_id"], ["host.id"], name=op.f("fk_judgement_host_id")),
        sa.ForeignKeyConstraint(["run_seq"], ["run.seq"], name=op.f("fk_judgement_run_seq")),
        sa.ForeignKeyConstraint(["set_id"], ["verdict_set.id"], name=op.f("fk_judgement_set_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_judgement")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_judgement_host_id_id"), "judgement", ["host_id", "id"], unique=False)
    op.create_index(
        op.f("ix_judgement_run_seq_host_id_id"),
        "judgement",
        ["run_seq", "host_id", "id"],
        unique=False,
    )
