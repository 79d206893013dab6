"""Opening a record: made, upgraded, or refused with a sentence that helps."""

from __future__ import annotations

import errno
import multiprocessing
import os
import sqlite3
import stat
import tempfile
import threading
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, text

from hfprov.baseline import Baseline
from hfprov.errors import RecordError
from hfprov.record import database as database_module
from hfprov.record.migrate import MIGRATIONS
from hfprov.record.schema import HEAD, metadata
from hfprov.record.store import Record


def refused(where, **options):
    with pytest.raises(RecordError) as caught:
        Record.open(where, **options)
    assert caught.value.hint
    return caught.value.message


def test_a_new_record_is_for_its_owner_only(tmp_path):
    path = tmp_path / "deep" / "er" / "record.db"
    with Record.open(path) as record:
        assert record.where == str(path)
        record.start_run("check", [], {"n1": Baseline("n1", ())})
        for file in path.parent.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_a_file_may_have_a_name_of_another_encoding(tmp_path):
    path = tmp_path / "r\udce9cord.db"
    with Record.open(str(path)) as record:
        record.start_run("check", ["hfprov", str(path)], {}).finish(0)
    with Record.open(path) as record:
        assert [run.command for run in record.runs()] == ["check"]


def test_a_word_of_another_encoding_is_refused(tmp_path):
    with Record.open(tmp_path / "record.db") as record:
        record.start_run("check", [], {}).finish(0)
        for ask in (record.run, record.history):
            with pytest.raises(RecordError, match="in another encoding than UTF-8"):
                list(ask("n\udce9"))


def test_opens_again_with_all_it_had(tmp_path):
    path = tmp_path / "record.db"
    with Record.open(str(path)) as record:
        record.start_run("check", [], {}).finish(0)
    with Record.open(f"sqlite:///{path}") as record:
        assert [run.command for run in record.runs()] == ["check"]


def test_the_file_uses_wal_and_full_sync(tmp_path):
    with Record.open(tmp_path / "record.db") as record, record._database.write() as connection:
        pragmas = [
            connection.execute(text(f"PRAGMA {name}")).scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        ]
    assert pragmas == ["wal", 2, 1]


def test_absent_is_refused_where_nothing_is_to_be_made(tmp_path):
    path = tmp_path / "record.db"
    assert refused(path, create=False) == f"There is no record at '{path}'."
    assert not path.exists()


def test_the_migrations_make_the_schema(tmp_path):
    Record.open(tmp_path / "record.db").close()
    engine = create_engine(f"sqlite:///{tmp_path / 'record.db'}")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection)
        assert compare_metadata(context, metadata) == []
        assert context.get_current_revision() == HEAD
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


def test_a_newer_record_is_refused_with_both_versions(tmp_path):
    path = tmp_path / "record.db"
    Record.open(path).close()
    with sqlite3.connect(path) as plain:
        plain.execute("UPDATE alembic_version SET version_num = '0099'")
    message = refused(path)
    assert "schema version '0099'" in message
    assert f"up to '{HEAD}'" in message


def test_an_interrupted_upgrade_leaves_nothing_half_made(tmp_path, monkeypatch):
    path = tmp_path / "record.db"
    real = Record.open.__globals__["migrate"]._migrate

    def power_cut(connection):
        real(connection)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("hfprov.record.migrate._migrate", power_cut)
        with pytest.raises(KeyboardInterrupt):
            Record.open(path)
    with sqlite3.connect(path) as plain:
        assert plain.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    Record.open(path).close()


def test_many_open_a_new_record_at_once(tmp_path):
    problems = []

    def open_it():
        try:
            Record.open(tmp_path / "record.db").close()
        except Exception as error:
            problems.append(error)
            raise

    threads = [threading.Thread(target=open_it) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_a_file_of_another_kind(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database " * 100)
    before = path.read_bytes()
    assert "file is not a database" in refused(path)
    assert path.read_bytes() == before


def test_a_database_of_another_program(tmp_path):
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as plain:
        plain.execute("CREATE TABLE songs (title TEXT)")
    assert refused(path) == f"The database '{path}' belongs to another program."


def test_a_folder(tmp_path):
    assert "unable to open database file" in refused(tmp_path)


def test_a_folder_that_cannot_be_made():
    assert "cannot be made" in refused("/proc/1/hfprov/record.db")


def test_a_damaged_file(tmp_path):
    path = tmp_path / "record.db"
    with Record.open(path) as record:
        for _ in range(50):
            record.start_run("check", ["x" * 500], {}).finish(0)
    raw = bytearray(path.read_bytes())
    raw[4096:] = os.urandom(len(raw) - 4096)
    path.write_bytes(raw)
    assert "malformed" in refused(path)


def test_a_full_disk(tmp_path):
    with Record.open(tmp_path / "record.db") as record:
        log = record.start_run("check", [], {"n1": Baseline("n1", ())})
        log.observed("n1", "before", b"{}", [])
        with record._database.write() as connection:
            pages = connection.execute(text("PRAGMA page_count")).scalar()
            connection.execute(text(f"PRAGMA max_page_count = {pages + 4}"))
        with pytest.raises(RecordError, match="disk is full") as caught:
            log.observed("n1", "after", os.urandom(1 << 20), [])
        assert "what was recorded is safe" in caught.value.hint
        assert list(record.run().host("n1").judged) == ["before"]


class Disk:
    """What os.statvfs tells of a file system."""

    f_frsize = 4096

    def __init__(self, *, room=1 << 30, inodes=1000, free_inodes=900):
        self.f_bfree = self.f_bavail = room // self.f_frsize
        self.f_files, self.f_favail = inodes, free_inodes


@pytest.mark.parametrize(
    ("disk", "full"),
    [
        (Disk(), False),
        (Disk(room=32 * 1024), True),
        (Disk(room=0), True),
        (Disk(free_inodes=0), True),
        (Disk(inodes=0, free_inodes=0), False),
    ],
)
def test_an_error_of_a_full_disk_is_told_as_one(tmp_path, monkeypatch, disk, full):
    """SQLite cannot make the index of its WAL on a full disk, and calls that an I/O error."""
    with Record.open(tmp_path / "record.db") as record:
        monkeypatch.setattr("hfprov.record.database.os.statvfs", lambda _: disk)
        with pytest.raises(RecordError) as caught, record._database.write():
            raise sqlite3.OperationalError("disk I/O error")
    assert ("disk is full" in caught.value.message) is full
    assert ("Make room" in caught.value.hint) is full
    assert "disk I/O error" in caught.value.message
    assert full or "kernel log" in caught.value.hint


def test_an_error_of_a_disk_that_is_gone_is_one(tmp_path, monkeypatch):
    def gone(_):
        raise OSError(errno.EIO, "Input/output error")

    with Record.open(tmp_path / "record.db") as record:
        monkeypatch.setattr("hfprov.record.database.os.statvfs", gone)
        with pytest.raises(RecordError, match="disk I/O error") as caught, record._database.write():
            raise sqlite3.OperationalError("disk I/O error")
    assert "full" not in caught.value.message


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_record_that_finds_no_room_at_its_start_says_so(tmp_path, monkeypatch, number):
    def refuse(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("hfprov.record.database.os.open", refuse)
    with pytest.raises(RecordError, match="cannot be made") as caught:
        Record.open(tmp_path / "record.db")
    assert "Make room" in caught.value.hint


def _as_nobody(path, answer):
    if os.getuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    try:
        Record.open(path)
    except RecordError as error:
        answer.send((error.message, error.hint))
    else:
        answer.send(("opened", ""))


@pytest.mark.parametrize("exists", [False, True])
def test_a_folder_that_may_not_be_written(exists):
    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.db"
        if exists:
            Record.open(path).close()
            path.chmod(0o444)
        Path(folder).chmod(0o555)
        mine, theirs = fork.Pipe()
        child = fork.Process(target=_as_nobody, args=(path, theirs))
        child.start()
        message, hint = mine.recv()
        child.join()
        Path(folder).chmod(0o755)
    said = "readonly database" if exists else "cannot be made: Permission denied"
    assert said in message or "unable to open database file" in message
    assert "writable" in hint or "able to write" in hint


def test_a_writer_that_never_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(database_module, "BUSY_SECONDS", 0.1)
    path = tmp_path / "record.db"
    with Record.open(path) as record:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(RecordError, match="database is locked"):
            record.start_run("check", [], {})
        other.close()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://host/db", "cannot be kept in 'mysql'"),
        ("sqlite://", "in memory"),
        ("://", "cannot be understood"),
        ("postgresql://hfprov:geheim@127.0.0.1:1/none", "hfprov:***@127.0.0.1"),
    ],
)
def test_urls(url, says):
    message = refused(url)
    assert says in message
    assert "geheim" not in message
