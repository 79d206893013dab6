"""An orchestrator that is killed or interrupted: nothing known is lost, nothing is left at work."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import threading
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.lab, pytest.mark.slow]

# Python answers the probe, and hangs for ever under any Ansible module.
HANG = r"""
rm /usr/bin/python3
printf '#!/bin/sh\ncase "$1" in -IS) exec /usr/bin/python3.11 "$@" ;; esac\nsleep 300\n' \
    > /usr/bin/python3
chmod 755 /usr/bin/python3
"""
HEAL = """
cp -a /root/limits.d /etc/security
ln -sf python3.11 /usr/bin/python3
pkill -f '[s]leep 300' || :
"""


@pytest.fixture
def scratch(site):
    """The orchestrator's TMPDIR: plays keep their private directories in it."""
    folder = site.db.parent / "tmp"
    folder.mkdir()
    return folder


@pytest.fixture
def hung(site):
    """node01 needs a role, and hangs in its first module."""
    site.inside("node01", "cp -a /etc/security/limits.d /root")
    site.rack.break_node("node01", "limits-value")
    site.inside("node01", HANG)
    try:
        yield
    finally:
        site.inside("node01", HEAL)


@pytest.fixture(autouse=True)
def _as_without_nohup():
    """A process that ignores SIGHUP has its children ignore it; one that handles it does not."""
    before = signal.signal(signal.SIGHUP, lambda *_: None)
    yield
    signal.signal(signal.SIGHUP, before)


class Provision:
    """A provision in the background, with what it has said so far."""

    def __init__(self, site, scratch, *options):
        self.site = site
        self.scratch = scratch
        self.said = ""
        self.started = time.monotonic()
        self.left = set(plays(scratch))
        self.earlier = max((seq for (seq,) in self.ask("SELECT seq FROM run")), default=0)
        self.process = site.start("provision", *options, env={"TMPDIR": str(scratch)})
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.said += line

    def end(self, number, *, seconds=35):
        """Send a signal; the exit code. Fails when the process does not end."""
        self.process.send_signal(number)
        code = self.process.wait(seconds)
        self._reader.join(10)
        return code

    def ask(self, query):
        """Read the record beside the orchestrator."""
        if not self.site.db.exists():
            return []
        try:
            with contextlib.closing(
                sqlite3.connect(f"file:{self.site.db}?mode=ro", uri=True, timeout=5)
            ) as plain:
                return plain.execute(query).fetchall()
        except sqlite3.OperationalError:
            return []  # the tables are not made yet

    def states(self):
        """States of the hosts in this run."""
        query = f"SELECT state FROM run_host WHERE run_seq > {self.earlier}"
        return [state for (state,) in self.ask(query)]

    def plays(self):
        """Private directories of this run's plays."""
        return set(plays(self.scratch)) - self.left

    def until(self, condition):
        def look():
            assert self.process.poll() is None, f"it ended too early:\n{self.said}"
            return condition(self)

        return self.site.until(look)


def processes(scratch):
    """Processes on this machine that belong to plays in a folder, or to the one of a play."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"HFPROV_PLAY={scratch}".encode() in environ.read_bytes():
                found.append(int(environ.parent.name))
        except OSError:
            continue
    return found


def plays(scratch):
    return list(scratch.glob("hfprov-play-*"))


def at_rest(site, name):
    """Wait until no Ansible module is at work on a node: an orphan finishes its task."""
    lines = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' || :"
    site.until(lambda: "&& sleep 0" not in site.inside(name, lines))


MOMENTS = {
    "it reads the inventory": lambda run: time.monotonic() - run.started > 0.4,
    "the run is recorded": lambda run: run.states(),
    "one host is observed": lambda run: "observed 1/2" in run.said,
    "the plan is made": lambda run: "wave 1:" in run.said,
    "a host is about to be changed": lambda run: "converging" in run.states(),
    "a play has its directory": lambda run: run.plays(),
    "Ansible has started": lambda run: any(map(processes, run.plays())),
    "something was changed": lambda run: "changed:" in run.said,
    "the play is over": lambda run: "converged" in run.states() or "verified" in run.states(),
    "the host is observed again": lambda run: "observed again" in run.said,
}


def test_kill_9_at_ten_moments_loses_nothing_and_the_next_run_completes(site, scratch):
    hosts = ("-l", "node01,node02", "--waves", "1")
    site.rack.break_node("node02", "mtu-runtime")
    for moment, reached in MOMENTS.items():
        site.rack.break_node("node01", "limits-value")
        known = len(site.hfprov("runs", "--json").document["runs"]) if site.db.exists() else 0
        run = Provision(site, scratch, *hosts)
        run.until(reached)
        assert run.end(signal.SIGKILL) == -signal.SIGKILL
        at_rest(site, "node01")
        if not site.db.exists():
            continue
        runs = site.hfprov("runs", "--json").document["runs"]
        if moment == "it reads the inventory":
            assert len(runs) <= known + 1
            continue
        assert len(runs) == known + 1, moment
        assert (runs[0]["status"], runs[0]["exit_code"], runs[0]["ended_at"]) == (
            "crashed", None, None
        ), moment  # fmt: skip
        shown = site.run()
        assert shown["events"][-1]["kind"] == "run_crashed"
        states = {one["host"]: one["state"] for one in shown["hosts"]}
        assert not {"converging", "planned"} & set(states.values()), moment
        if "observed again" not in run.said:
            assert states["node02"] in ("observed", "not_attempted"), moment
    done = site.hfprov("provision", *hosts, "--json", env={"TMPDIR": str(scratch)})
    assert done.code == 0, done.out
    assert site.hfprov("drift", "-l", "node01,node02").code == 0
    assert processes(scratch) == []
    assert plays(scratch) == []


@pytest.mark.usefixtures("hung")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_an_interrupted_run_stops_its_plays_and_says_what_is_unknown(site, scratch, name):
    run = Provision(site, scratch, "-l", "node01,node02", "--full", "--waves", "1")
    run.until(lambda one: len(processes(one.scratch)) >= 3)  # Ansible, its worker, ssh
    assert run.end(getattr(signal, name)) == 130
    assert "Interrupted" in run.said
    assert processes(scratch) == []
    assert plays(scratch) == []
    shown = site.run()
    assert (shown["status"], shown["exit_code"]) == ("interrupted", 130)
    states = {one["host"]: one for one in shown["hosts"]}
    assert states["node01"]["state"] == "interrupted"
    assert states["node01"]["reason"].startswith("Interrupted, state unknown.")
    assert states["node02"]["state"] == "observed"
    assert site.hfprov("drift", "-l", "node01").code == 1
    assert "Nobody holds" in site.hfprov("unlock", "node01", "--reason", "it is free").out


@pytest.mark.usefixtures("hung")
def test_a_play_that_a_killed_run_left_behind_is_stopped_by_the_next(site, scratch):
    run = Provision(site, scratch, "-l", "node01")
    run.until(lambda one: len(processes(one.scratch)) >= 3)
    run.end(signal.SIGKILL)
    assert processes(scratch) != []
    assert site.hfprov("provision", "-l", "node02", env={"TMPDIR": str(scratch)}).code == 0
    assert processes(scratch) == []
    assert plays(scratch) == []
    [event] = [one for one in site.run()["events"] if one["kind"] == "play_abandoned"]
    assert f"process {run.process.pid}, which is gone, was still at work" in event["message"]


def test_a_role_waits_for_modules_that_an_earlier_run_left_at_work(site):
    site.rack.break_node("node01", "limits-value")
    module = "/root/.ansible/tmp/ansible-tmp-1-2/AnsiballZ_apt.py"
    site.inside(
        "node01", f"systemd-run -q --unit=leftover bash -c 'exec -a python3:{module} sleep 300'"
    )
    try:
        done = site.hfprov("provision", "-l", "node01", "--json")
        assert done.code == 1
        assert done.failing("node01") >= {"node.leftover_work", "limits.pam.file"}
        assert done.document["plan"]["roles"] == {}
        assert "still at work" in done.document["plan"]["withheld"]["node01"]["limits"]
    finally:
        site.inside("node01", "systemctl stop leftover")
    assert site.hfprov("provision", "-l", "node01").code == 0


@pytest.mark.usefixtures("hung")
def test_a_host_that_another_run_works_on_is_left_to_it_and_the_others_finish(site, scratch):
    first = Provision(site, scratch, "-l", "node01")
    first.until(lambda one: processes(one.scratch))
    holder = site.hfprov("runs", "--json").document["runs"][0]["run"]
    site.rack.break_node("node02", "time-stopped")
    second = site.hfprov("provision", "--waves", "1", "--json")
    assert second.code == 1
    failed = second.document["failed"]
    assert set(failed) == {"node01"}
    assert f"Run '{holder}' (provision, process {first.process.pid} on" in failed["node01"]
    assert "has been working on it since 2" in failed["node01"]
    assert (second.document["stopped"], second.document["not_attempted"]) == ("", [])
    outcomes = {one["host"]: one["outcome"] for one in second.document["hosts"]}
    assert outcomes == {"node01": "fail", "node02": "pass", "node03": "pass"}
    assert first.process.poll() is None
    assert first.end(signal.SIGTERM) == 130


@pytest.mark.usefixtures("hung")
def test_a_module_that_an_interrupt_left_on_the_node_is_found(site, scratch):
    run = Provision(site, scratch, "-l", "node01")
    run.until(lambda one: len(processes(one.scratch)) >= 3)
    run.end(signal.SIGINT)
    assert "node.leftover_work" in site.hfprov("drift", "-l", "node01", "--json").failing("node01")
