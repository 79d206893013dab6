"""What may be said of an interrupted process: that a run is recorded, or that none is."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hfprov.baseline import Baseline
from hfprov.errors import RecordError
from hfprov.record import begun
from hfprov.record.store import Record


def test_a_process_that_only_reads_has_begun_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(begun, "_runs", [])
    with Record.open(tmp_path / "record.db") as record:
        record.runs()
        assert begun.latest() == ""
        first = record.start_run("drift", [], {"n1": Baseline("n1", ())})
        assert begun.latest() == first.id
        second = record.start_run("drift", [], {"n1": Baseline("n1", ())})
        assert begun.latest() == second.id
        for log in (first, second):
            log.finish(0)


def test_a_run_that_could_not_be_stored_was_not_begun(tmp_path, monkeypatch):
    monkeypatch.setattr(begun, "_runs", [])
    with Record.open(tmp_path / "record.db") as record:
        monkeypatch.setattr(record, "_add_run", _refuse)
        with pytest.raises(RecordError, match="is full"):
            record.start_run("drift", [], {"n1": Baseline("n1", ())})
    assert begun.latest() == ""


def _refuse(*_, **__):
    raise RecordError("The disk is full.")


def test_to_ask_loads_no_database():
    script = (
        "import sys; from hfprov.record import begun; "
        "print(repr(begun.latest()), 'sqlalchemy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "'' False\n"
