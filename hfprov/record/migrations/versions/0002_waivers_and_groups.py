"""Waivers beside verdicts; certificates of groups of hosts."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("verdict", sa.Column("waiver", sa.Text(), server_default="", nullable=False))
    op.create_table(
        "group_certificate",
        sa.Column("seq", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("run_seq", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("profile", sa.Text(), nullable=False),
        sa.Column("issued_at", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.Text(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("signature", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_seq"], ["run.seq"], name=op.f("fk_group_certificate_run_seq")
        ),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_group_certificate")),
        sa.UniqueConstraint("id", name=op.f("uq_group_certificate_id")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_group_certificate_name"), "group_certificate", ["name"], unique=False)
