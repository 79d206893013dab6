"""The tables of the record. A change here needs a migration; a test compares the two.

Times are ISO 8601 text in UTC with microseconds: sortable, readable, the same in every database.
Order is told by ids, never by times: a controller's clock may go backwards.
"""

from __future__ import annotations

from sqlalchemy import (
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
)
from sqlalchemy.types import Float

HEAD = "0002"
"""The newest migration; a test compares it with the migrations shipped."""

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _id(name: str = "id") -> Column[int]:
    return Column(name, Integer, primary_key=True, autoincrement=True)


def _run() -> Column[int]:
    return Column("run_seq", ForeignKey("run.seq"), nullable=False)


def _host() -> Column[int]:
    return Column("host_id", ForeignKey("host.id"), nullable=False)


def _text(name: str, default: str | None = "") -> Column[str]:
    """A text that is never NULL; empty unless given."""
    return Column(name, Text, nullable=False, server_default=default)


host = Table(
    "host",
    metadata,
    _id(),
    Column("name", Text, nullable=False, unique=True),
    _text("machine_id"),
    _text("product_uuid"),
    _text("serial"),
    _text("identity_digest"),
    Column("first_seen", Text),
    Column("last_seen", Text),
    Index(None, "machine_id"),
    Index(None, "product_uuid"),
    sqlite_autoincrement=True,
)

run = Table(
    "run",
    metadata,
    _id("seq"),
    Column("id", Text, nullable=False, unique=True),
    _text("command", None),
    _text("argv", None),
    _text("controller", None),
    _text("controller_id", None),
    _text("boot_id", None),
    _text("pid_namespace", None),
    Column("pid", Integer, nullable=False),
    Column("process_started", Integer, nullable=False),
    _text("version", None),
    _text("started_at", None),
    Column("ended_at", Text),
    _text("status", None),
    Column("exit_code", Integer),
    Column("host_count", Integer, nullable=False),
    Index(None, "status"),
    sqlite_autoincrement=True,
)

baseline = Table(
    "baseline",
    metadata,
    Column("digest", Text, primary_key=True),
    _text("document", None),
    _text("recorded_at", None),
)

run_host = Table(
    "run_host",
    metadata,
    _run(),
    _host(),
    _text("state", None),
    _text("reason"),
    Column("baseline_digest", ForeignKey("baseline.digest")),
    _text("updated_at", None),
    PrimaryKeyConstraint("run_seq", "host_id"),
    Index(None, "host_id", "run_seq"),
)

evidence = Table(
    "evidence",
    metadata,
    _id(),
    _run(),
    _host(),
    _text("phase", None),
    _text("taken_at", None),
    _text("sha256", None),
    Column("size", Integer, nullable=False),
    # zlib; NULL once the content was let go, its digest stays.
    Column("content", LargeBinary),
    Index(None, "host_id", "run_seq"),
    Index(None, "taken_at"),
    sqlite_autoincrement=True,
)

fact = Table(
    "fact",
    metadata,
    Column("evidence_id", ForeignKey("evidence.id"), nullable=False),
    _text("source", None),
    _text("data", None),
    PrimaryKeyConstraint("evidence_id", "source"),
)

verdict_set = Table(
    "verdict_set",
    metadata,
    _id(),
    Column("digest", Text, nullable=False, unique=True),
    _text("outcome", None),
    *(
        Column(name, Integer, nullable=False)
        for name in ("passed", "warned", "failed", "unknown", "not_applicable")
    ),
    sqlite_autoincrement=True,
)

verdict = Table(
    "verdict",
    metadata,
    Column("set_id", ForeignKey("verdict_set.id"), nullable=False),
    _text("check_id", None),
    _text("subject", None),
    Column("position", Integer, nullable=False),
    _text("outcome", None),
    _text("observed", None),
    _text("expected", None),
    _text("reason", None),
    _text("not_applicable", None),
    _text("waiver"),
    PrimaryKeyConstraint("set_id", "check_id", "subject", "position"),
    sqlite_with_rowid=False,
)

judgement = Table(
    "judgement",
    metadata,
    _id(),
    _run(),
    _host(),
    _text("phase", None),
    Column("set_id", ForeignKey("verdict_set.id"), nullable=False),
    Column("evidence_id", ForeignKey("evidence.id")),
    _text("reason"),
    _text("judged_at", None),
    Index(None, "host_id", "id"),
    Index(None, "run_seq", "host_id", "id"),
    sqlite_autoincrement=True,
)

change = Table(
    "change",
    metadata,
    _id(),
    _run(),
    _host(),
    _text("role"),
    _text("task"),
    _text("action"),
    _text("item"),
    _text("diff"),
    _text("changed_at", None),
    Index(None, "run_seq", "host_id"),
    Index(None, "host_id"),
    sqlite_autoincrement=True,
)

event = Table(
    "event",
    metadata,
    _id(),
    Column("run_seq", ForeignKey("run.seq")),
    Column("host_id", ForeignKey("host.id")),
    _text("happened_at", None),
    _text("kind", None),
    _text("message"),
    _text("data", "{}"),
    Index(None, "run_seq"),
    Index(None, "host_id"),
    sqlite_autoincrement=True,
)

host_lock = Table(
    "host_lock",
    metadata,
    Column("host_id", ForeignKey("host.id"), primary_key=True, autoincrement=False),
    _run(),
    _text("acquired_at", None),
    Index(None, "run_seq"),
)

certificate = Table(
    "certificate",
    metadata,
    _id("seq"),
    Column("id", Text, nullable=False, unique=True),
    _run(),
    _host(),
    _text("profile", None),
    _text("issued_at", None),
    _text("expires_at", None),
    Column("revoked_at", Text),
    _text("revoke_reason"),
    _text("baseline_digest", None),
    _text("document", None),
    _text("signature", None),
    Index(None, "host_id", "seq"),
    sqlite_autoincrement=True,
)

group_certificate = Table(
    "group_certificate",
    metadata,
    _id("seq"),
    Column("id", Text, nullable=False, unique=True),
    _run(),
    _text("name", None),
    _text("profile", None),
    _text("issued_at", None),
    _text("expires_at", None),
    _text("document", None),
    _text("signature", None),
    Index(None, "name"),
    sqlite_autoincrement=True,
)

measurement = Table(
    "measurement",
    metadata,
    _id(),
    _run(),
    _host(),
    _text("peer"),
    _text("test", None),
    _text("parameters", "{}"),
    Column("value", Float),
    _text("unit"),
    _text("samples", "[]"),
    _text("conditions", "{}"),
    Column("raw", LargeBinary),
    _text("measured_at", None),
    Index(None, "host_id", "test", "id"),
    Index(None, "run_seq"),
    sqlite_autoincrement=True,
)
