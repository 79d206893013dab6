"""Killed writers, dead owners and many writers: what was acknowledged is there."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from hfprov.baseline import Baseline
from hfprov.errors import HostBusyError
from hfprov.record.model import HostState, RunStatus
from hfprov.record.process import Process, this_process
from hfprov.record.schema import run
from hfprov.record.store import Record

# Says a line on stdout after each thing that the record has acknowledged.
WRITER = """
import sys
from hfprov.baseline import Baseline
from hfprov.record.model import Change, HostState
from hfprov.record.store import Record
from hfprov.verdict import Verdict, passed

path, prefix, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
names = [f"{prefix}{n}" for n in range(count)]
record = Record.open(path)
log = record.start_run("provision", [], {name: Baseline(name, ()) for name in names})
log.acquire(names)
print("run", log.id, flush=True)
for name in names:
    log.state(name, HostState.CONVERGING)
    print("state", name, flush=True)
    log.change(name, Change("role", "task", "action"))
    print("change", name, flush=True)
    verdicts = [Verdict(f"check{n}", passed(name, observed=name)) for n in range(40)]
    log.observed(name, "after", name.encode() * 500, verdicts, state=HostState.VERIFIED)
    print("observed", name, flush=True)
log.finish(0)
print("finished", log.id, flush=True)
"""


def writer(path, prefix, count):
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), prefix, str(count)],
        stdout=subprocess.PIPE,
        text=True,
    )


def intact(path):
    with sqlite3.connect(path) as plain:
        assert plain.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert plain.execute("PRAGMA foreign_key_check").fetchall() == []


def acknowledged_is_there(record, run_id, lines):
    told = {"state": set(), "change": set(), "observed": set()}
    for line in lines:
        kind, name = line.split()
        told.get(kind, set()).add(name)
    view = record.run(run_id)
    hosts = {host.host: host for host in view.hosts()}
    assert told["change"] <= {name for name, _ in view.changes()}
    for name in told["observed"]:
        assert len(hosts[name].judged["after"].verdicts) == 40
        assert record.evidence(run_id, name, "after") == name.encode() * 500
        assert hosts[name].state is HostState.VERIFIED
    for name in told["state"] - told["observed"]:
        assert hosts[name].state in (HostState.INTERRUPTED, HostState.VERIFIED)
    return told, hosts


def test_kill_9_at_random_moments_loses_nothing_acknowledged(tmp_path):
    path = tmp_path / "record.db"
    choose = random.Random(20261129)
    for attempt in range(10):
        process = writer(path, f"a{attempt}-", 500)
        lines = [process.stdout.readline() for _ in range(choose.randrange(2, 120))]
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.readlines()
        process.wait()
        intact(path)
        with Record.open(path) as record:
            run_id = lines[0].split()[1]
            told, hosts = acknowledged_is_there(record, run_id, lines[1:])
            assert record.run(run_id).info.status is RunStatus.CRASHED
            assert record.run(run_id).info.ended_at is None
            assert len(told["state"]) < len(hosts) == 500
            assert hosts[f"a{attempt}-499"].state is HostState.NOT_ATTEMPTED
            assert record.busy() == []
    intact(path)


def test_many_processes_write_at_once(tmp_path):
    path = tmp_path / "record.db"
    processes = [writer(path, f"p{number}-", 25) for number in range(4)]
    outputs = [process.communicate(timeout=120)[0].splitlines() for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0, 0]
    intact(path)
    with Record.open(path) as record:
        assert [info.status for info in record.runs()] == [RunStatus.COMPLETE] * 4
        for lines in outputs:
            told, _ = acknowledged_is_there(record, lines[0].split()[1], lines[1:-1])
            assert len(told["observed"]) == 25


@pytest.fixture
def crashed(tmp_path):
    """A record with a run whose process was killed while it converged host a."""
    path = tmp_path / "record.db"
    process = writer(path, "h", 1000)
    for line in process.stdout:
        if line == "state h0\n":
            break
    process.kill()
    process.communicate()
    return path


def test_the_next_open_finds_a_crashed_run(crashed):
    with Record.open(crashed) as record:
        view = record.run()
        assert view.info.status is RunStatus.CRASHED
        assert [event.kind for event in view.events()] == ["run_crashed"]
        states = view.states()
        assert states[HostState.NOT_ATTEMPTED] > 0
        assert set(states) <= {
            HostState.INTERRUPTED, HostState.NOT_ATTEMPTED, HostState.VERIFIED
        }  # fmt: skip
        assert record.busy() == []
    with Record.open(crashed) as record:
        assert len(list(record.events())) == 1


def test_a_lock_whose_owner_dies_later_is_broken_with_an_event(tmp_path):
    path = tmp_path / "record.db"
    process = writer(path, "h", 1000)
    process.stdout.readline()
    with Record.open(path) as record:
        log = record.start_run("repair", [], {"h1": Baseline("h1", ()), "x": Baseline("x", ())})
        with pytest.raises(HostBusyError, match=f"process {process.pid} on"):
            log.acquire(["h1"])
        process.kill()
        process.communicate()
        assert log.acquire(["h1", "x"]).hosts == ("h1", "x")
        (event,) = [event for event in record.events("h1") if event.kind == "lock_broken"]
        assert (event.run, f"process {process.pid}" in event.message) == (log.id, True)
        assert [holder.run for holder in record.busy()] == [log.id, log.id]
        log.finish(0)


def test_a_living_run_is_left_alone(tmp_path):
    path = tmp_path / "record.db"
    with Record.open(path) as record:
        log = record.start_run("check", [], {"a": Baseline("a", ())})
        log.acquire(["a"])
        with Record.open(path) as second:
            assert second.run().info.status is RunStatus.RUNNING
            assert len(second.busy()) == 1
        log.finish(0)


@pytest.mark.parametrize(
    ("columns", "status"),
    [
        ({"boot_id": "another boot"}, RunStatus.CRASHED),
        ({"process_started": 1}, RunStatus.CRASHED),
        ({"pid": 2**22 + 1}, RunStatus.CRASHED),
        ({"pid": 2**22 + 1, "pid_namespace": "pid:[1]"}, RunStatus.RUNNING),
        ({"boot_id": "x", "controller": "elsewhere"}, RunStatus.RUNNING),
        ({"boot_id": "x", "controller_id": "another machine"}, RunStatus.RUNNING),
    ],
)
def test_only_what_is_surely_dead_is_called_crashed(tmp_path, columns, status):
    path = tmp_path / "record.db"
    with Record.open(path) as record:
        record.start_run("check", [], {})
        with record._database.write() as connection:
            connection.execute(run.update().values(columns))
    with Record.open(path) as record:
        assert record.run().info.status is status


def test_a_zombie_is_dead():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    here = this_process()
    stat = Path(f"/proc/{child.pid}/stat")
    started = int(stat.read_text().rpartition(")")[2].split()[19])
    alive = Process(
        here.controller, here.controller_id, here.boot_id, here.pid_namespace, child.pid, started
    )
    assert not alive.surely_dead(here)
    child.kill()
    while True:  # until it is a zombie: it is not waited for yet
        if stat.read_text().rpartition(")")[2].split()[0] == "Z":
            break
    assert alive.surely_dead(here)
    child.communicate()
    assert alive.surely_dead(here)
