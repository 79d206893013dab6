"""Connections and transactions: SQLite in WAL mode by default, PostgreSQL by URL.

SQLite: every write transaction begins with BEGIN IMMEDIATE, so that it waits for other writers at
its start and never fails half-way; ``synchronous=FULL`` makes a commit survive a power cut, not
only a killed process. Reads see one consistent state and block nobody.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from sqlalchemy import Connection, Engine, Insert, Row, Select, Table, create_engine, event, text
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from hfprov.errors import RecordError

BUSY_SECONDS = 60
"""How long a writer waits for another one. A transaction of ours takes milliseconds."""

AnyRow: TypeAlias = "Row[*tuple[Any, ...]]"
AnySelect: TypeAlias = "Select[*tuple[Any, ...]]"

_WRITE = "record_write"

_MAKE_ROOM = (
    "Make room on its file system (see 'df -h' and 'df -i'), and run it again; what was recorded "
    "is safe."
)
_LEAST_ROOM = 64 * 1024
"""Bytes. The index of the WAL takes 32 KiB as soon as a record is opened."""
_HINTS = (
    ("file is not a database", "It is not a record of hfprov; name another file."),
    ("disk image is malformed", "The file is damaged; restore it from a backup."),
    ("disk is full", _MAKE_ROOM),
    (
        "readonly database",
        "The user who runs hfprov must be able to write the file and its folder.",
    ),
    ("unable to open database", "The folder must exist and be writable for this user."),
    ("database is locked", f"Another process has been writing for {BUSY_SECONDS} seconds."),
    (
        "disk i/o error",
        "The file system reports an error: see the kernel log, and whether a quota is used up.",
    ),
    ("connection refused", "Is the PostgreSQL server running and reachable?"),
)


class Database:
    """One record's database. Safe to use from several threads; not across a fork."""

    def __init__(self, where: str | Path, *, create: bool = True) -> None:
        url = _url(where)
        self.is_sqlite = url.get_backend_name() == "sqlite"
        self._one_writer = threading.Lock()
        if not self.is_sqlite:
            self.name = url.render_as_string(hide_password=True)
        else:
            self.name = url.database or ""
            _prepare_file(Path(self.name), create=create)
        with self._errors():
            self._engine = _engine(url, sqlite_file=self.is_sqlite)
        self._writer = self._engine.execution_options(**{_WRITE: True})
        if self.is_sqlite:
            with self._errors():
                _use_wal(self._engine)

    @contextlib.contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection that sees one consistent state. Keep it short: it holds back the WAL."""
        with self._errors(), self._engine.connect() as connection:
            yield connection

    @contextlib.contextmanager
    def write(self) -> Iterator[Connection]:
        """One transaction: all of it is stored when the block ends, or nothing of it."""
        # Threads of one process queue here: SQLite's own waiting is by polling.
        with self._one_writer, self._errors(), self._writer.begin() as connection:
            yield connection

    def serialise(self, connection: Connection, topic: int) -> None:
        """Let one transaction at a time do what ``topic`` stands for, across processes."""
        if not self.is_sqlite:  # SQLite has one writer at a time anyway
            connection.execute(text("SELECT pg_advisory_xact_lock(:topic)"), {"topic": topic})

    def insert_new(self, table: Table) -> Insert:
        """An INSERT that leaves rows alone that are there already.

        Whether a row was new is told by what it returns: with PostgreSQL a row count is not known.
        """
        if self.is_sqlite:
            return sqlite.insert(table).on_conflict_do_nothing()
        # Seldom needed, and slow to import.
        from sqlalchemy.dialects import postgresql  # noqa: PLC0415 - see above

        return postgresql.insert(table).on_conflict_do_nothing()

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except ModuleNotFoundError as error:
            raise RecordError(
                f"The record '{self.name}' needs the Python package '{error.name}'.",
                hint="Install hfprov with its extra: 'hfprov[postgresql]'.",
            ) from error
        except UnicodeEncodeError as error:
            raise RecordError(
                f"'{error.object}' is in another encoding than UTF-8; the record has no such word.",
                hint="Is the terminal's encoding UTF-8?",
            ) from error
        except (SQLAlchemyError, sqlite3.Error) as error:
            raise self._record_error(error) from error

    def _record_error(self, error: Exception) -> RecordError:
        said = (
            str(error.orig if isinstance(error, DBAPIError) else error).strip().partition("\n")[0]
        )
        if "i/o error" in said.casefold() and self.is_sqlite and _is_full(Path(self.name).parent):
            said = f"its disk is full ({said})"
        hint = next((hint for sign, hint in _HINTS if sign in said.casefold()), "")
        return RecordError(f"The record '{self.name}' cannot be used: {said}.", hint=hint)


def _url(where: str | Path) -> URL:
    """The database's URL; anything without ``://`` is the path of a SQLite file."""
    if isinstance(where, Path) or "://" not in where:
        return URL.create("sqlite+pysqlite", database=str(Path(where).expanduser().absolute()))
    try:
        where.encode()  # what a terminal of another encoding sends would fail much later
        url = make_url(where)
    except (ArgumentError, UnicodeEncodeError) as error:
        raise RecordError(
            "The record's URL cannot be understood.", hint="For example postgresql://host/name"
        ) from error
    backend = url.get_backend_name()
    if backend not in ("sqlite", "postgresql"):
        raise RecordError(
            f"The record cannot be kept in '{backend}'.",
            hint="Use the path of a file (SQLite) or postgresql://host/name",
        )
    if backend == "sqlite" and not url.database:
        raise RecordError("A record in memory would be gone at the end.", hint="Name a file.")
    return url.set(drivername="postgresql+psycopg") if url.drivername == "postgresql" else url


def _engine(url: URL, *, sqlite_file: bool) -> Engine:
    if not sqlite_file:
        try:
            return create_engine(url, pool_pre_ping=True, pool_size=4, max_overflow=12)
        except NoSuchModuleError as error:
            raise RecordError(
                f"The database driver '{url.drivername}' is unknown.", hint="Use postgresql://…"
            ) from error
    engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False})
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", _on_begin)
    return engine


def _on_connect(connection: Any, _record: Any) -> None:
    # Python's sqlite3 would begin transactions by itself, and too late; see _on_begin.
    connection.isolation_level = None
    # A WAL of 16 MB: pages that many transactions touch are copied back less often.
    for pragma in (
        "foreign_keys=ON",
        "synchronous=FULL",
        "cache_size=-16000",
        "wal_autocheckpoint=4000",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _on_begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _prepare_file(path: Path, *, create: bool) -> None:
    """Make a new record readable for its owner only: evidence shows how machines are set up."""
    if path.exists():
        return
    if not create:
        raise RecordError(
            f"There is no record at '{path}'.",
            hint="It is made by the first run that observes a host.",
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = "The folder must be writable for the user who runs hfprov."
        raise RecordError(
            f"The record '{path}' cannot be made: {error.strerror}.",
            hint=_MAKE_ROOM if is_full else hint,
        ) from error


def _is_full(folder: Path) -> bool:
    """Whether a file system has no room: SQLite tells some of that as an I/O error, not as full."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    blocks = found.f_bfree if os.geteuid() == 0 else found.f_bavail
    # A file system that makes inodes as it needs them says that it has none.
    no_inodes = found.f_files > 0 and found.f_favail == 0
    return blocks * found.f_frsize < _LEAST_ROOM or no_inodes


def _use_wal(engine: Engine) -> None:
    """Switch the file to WAL once. SQLite does not wait for others here, so we do."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        raw = engine.raw_connection()
        try:
            raw.cursor().execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return
        finally:
            raw.close()
