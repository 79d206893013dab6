"""Waves of reboots: proof before release, a budget, no second attempt, a truthful record."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hfprov import rollout
from hfprov.baseline import Baseline
from hfprov.checks.registry import Check
from hfprov.converge import Progress
from hfprov.declare.connection import Connection
from hfprov.errors import ExitCode
from hfprov.operate import Policy
from hfprov.reboot import fleet as reboots
from hfprov.reboot import wave
from hfprov.reboot.fleet import reboot_hosts
from hfprov.reboot.hooks import Hook
from hfprov.reboot.node import Patience
from hfprov.reboot.wave import Orders
from hfprov.record.model import HostState
from hfprov.record.store import Record
from hfprov.sweep import Fleet, HostVerdicts
from hfprov.verdict import Impact, Verdict, failed, passed
from tests.unit.reboot.conftest import GONE, NEW, OLD

KERNEL = "kernel.running"
CLOCK = "time.offset"
QUICK = Patience(boot=0.3, drain=0.2, poll=0.01)
WAITS = Verdict(KERNEL, failed("", observed="6.1", expected="6.12", reason="It waits."))
RIGHT = Verdict(KERNEL, passed(observed="6.12", expected="6.12"))
CLOCK_IS_OFF = Verdict(
    CLOCK, failed("", observed="9 s", expected="0 s", reason="The clock is off.")
)


class Site:
    """Three hosts, a record, and what the sweeps before and after see of the hosts."""

    def __init__(self, record, log, hosts):
        self.record, self.log = record, log
        self.fleet = Fleet(
            {host: Baseline(host, ()) for host in hosts},
            {host: Connection(host, "192.0.2.1") for host in hosts},
        )
        self.before = {host: self.view(host, WAITS) for host in hosts}
        self.after: dict[str, list[HostVerdicts]] = {}

    @staticmethod
    def view(host, *verdicts, reachable=True, workloads=()):
        reason = "" if reachable else "No route."
        return HostVerdicts(host, verdicts, reachable=reachable, reason=reason, workloads=workloads)

    def swept(self, fleet, log, *, state, **_):
        seen = {}
        for host in fleet.baselines:
            views = self.after.setdefault(host, [self.view(host, RIGHT)])
            seen[host] = views.pop(0) if len(views) > 1 else views[0]
            log.state(host, state if seen[host].reachable else HostState.UNREACHABLE)
        return seen

    def reboot(self, **orders):
        orders = {"policy": Policy(("1", "100%"), "1"), "patience": QUICK, "settle": 0.2, **orders}
        return reboot_hosts(
            self.record, self.fleet, self.log, Orders(**orders), Progress(), lambda _: None
        )

    def events(self, kind):
        found = self.record.run(self.log.id)
        return [one.host for one in found.events() if one.kind == kind]

    def states(self):
        return {one.host: one.state for one in self.record.run(self.log.id).hosts()}


@pytest.fixture
def site(tmp_path, monkeypatch, script):  # noqa: ARG001 - replaces what nodes are read with
    hosts = ("n1", "n2", "n3")
    known = {
        KERNEL: Check(KERNEL, lambda _f, _b: (), (), "kernel", Impact.REBOOT, ()),
        CLOCK: Check(CLOCK, lambda _f, _b: (), (), "time_sync", Impact.NONE, ()),
    }
    monkeypatch.setattr(rollout, "find_check", known.get)
    with Record.open(tmp_path / "record.db") as record:
        baselines = {host: Baseline(host, ()) for host in hosts}
        with record.start_run("reboot", ["hfprov", "reboot"], baselines) as log:
            made = Site(record, log, hosts)
            monkeypatch.setattr(reboots, "look", lambda *_: made.before)
            monkeypatch.setattr(wave, "sweep", made.swept)
            yield made
            log.finish(0)


def test_hosts_that_need_it_are_rebooted_once_and_proven(site, script):
    site.before["n2"] = site.view("n2", RIGHT)
    done = site.reboot()
    assert script.rebooted == ["n1", "n3"]
    assert done.code is ExitCode.GOOD
    assert done.report.rebooted["n1"] == (OLD, NEW)
    assert site.events("rebooted") == ["n1", "n3"]


def test_everyone_means_everyone(site, script):
    site.before["n2"] = site.view("n2", RIGHT)
    site.reboot(policy=Policy(("100%",), "1", everything=True))
    assert sorted(script.rebooted) == ["n1", "n2", "n3"]


def test_a_plan_reboots_nobody(site, script):
    done = site.reboot(only_plan=True)
    assert list(done.plan.reasons) == ["n1", "n2", "n3"]
    assert script.rebooted == []
    assert done.code is ExitCode.BAD


def test_a_host_at_work_is_left_alone_and_said(site, script):
    site.before["n1"] = site.view("n1", WAITS, workloads=("1: conmon",))
    site.before["n2"] = site.view("n2", WAITS, workloads=None)
    done = site.reboot()
    assert script.rebooted == ["n3"]
    assert set(done.plan.withheld) == {"n1", "n2"}
    assert done.code is ExitCode.BAD


def test_a_reboot_that_does_not_help_is_not_repeated_and_stops_the_rollout(site, script):
    site.after["n1"] = [site.view("n1", WAITS)]
    done = site.reboot()
    assert script.rebooted == ["n1"]
    assert "there will be no second one" in done.report.failed["n1"]
    assert done.report.not_attempted == ("n2", "n3")
    assert "first wave" in done.report.stopped
    assert done.code is ExitCode.BAD
    assert site.states()["n1"] is HostState.FAILED


def test_the_wrong_kernel_is_named(site):
    done = site.reboot(kernel="6.12.9")
    assert "'6.12.1' and not '6.12.9'" in done.report.failed["n1"]


def test_a_missing_device_fails_the_host(site, script):
    script.after_order["n1"] = [replace(NEW, devices={**OLD.devices, "3D controllers": 7})]
    done = site.reboot()
    assert "8 3D controllers and has 7" in done.report.failed["n1"]


def test_a_host_that_does_not_come_back_is_unreachable_and_stops_the_rollout(site, script):
    script.after_order["n1"] = [GONE]
    site.after["n1"] = [site.view("n1", RIGHT, reachable=False)]
    done = site.reboot()
    assert "did not come back" in done.report.failed["n1"]
    assert done.code is ExitCode.UNKNOWN
    assert script.rebooted == ["n1"]
    assert site.states()["n1"] is HostState.UNREACHABLE
    assert site.states()["n2"] is HostState.NOT_ATTEMPTED


def test_what_was_good_and_is_not_any_more_gets_time_and_is_then_a_failure(site):
    good, bad = (
        Verdict(CLOCK, passed()),
        Verdict(CLOCK, failed("", observed="9 s", expected="0 s", reason="The clock is off.")),
    )
    for host in site.before:
        site.before[host] = site.view(host, WAITS, good)
    late = site.view("n1", RIGHT, bad)
    site.after["n1"] = [late, late, site.view("n1", RIGHT, good)]
    site.after["n2"] = [site.view("n2", RIGHT, bad)]
    done = site.reboot()
    assert "n1" not in done.report.failed
    assert "time.offset was good before the reboot: The clock is off." in done.report.failed["n2"]


def test_what_was_wrong_before_is_no_failure_of_the_reboot(site):
    bad = CLOCK_IS_OFF
    for host in site.before:
        site.before[host] = site.view(host, WAITS, bad)
        site.after[host] = [site.view(host, RIGHT, bad)]
    assert site.reboot().report.failed == {}


class TestHooks:
    @pytest.fixture
    def log_file(self, tmp_path):
        return tmp_path / "hooks"

    def hook(self, kind, log_file, code=0):
        return Hook(kind, ("sh", "-c", f'echo {kind} "$0" >> {log_file}; exit {code}', "{host}"))

    def test_a_host_is_drained_first_and_released_when_it_is_proven(self, site, log_file):
        drain, release = self.hook("drain", log_file), self.hook("release", log_file)
        done = site.reboot(drain=drain, release=release)
        lines = log_file.read_text().split("\n")
        assert lines[:2] == ["drain n1", "release n1"]
        assert sorted(lines[2:6]) == ["drain n2", "drain n3", "release n2", "release n3"]
        assert done.report.drained == {}
        assert sorted(site.events("released")) == ["n1", "n2", "n3"]

    def test_a_host_that_is_not_proven_stays_drained(self, site, log_file):
        site.after["n1"] = [site.view("n1", WAITS)]
        drain, release = self.hook("drain", log_file), self.hook("release", log_file)
        done = site.reboot(drain=drain, release=release)
        assert log_file.read_text() == "drain n1\n"
        assert "no second one" in done.report.drained["n1"]

    def test_without_a_drain_that_worked_nothing_is_rebooted(self, site, script, log_file):
        done = site.reboot(drain=self.hook("drain", log_file, code=1))
        assert script.rebooted == []
        assert "exit code 1" in done.report.failed["n1"]

    def test_a_release_that_fails_is_told(self, site, log_file):
        release = self.hook("release", log_file, code=2)
        done = site.reboot(drain=self.hook("drain", log_file), release=release)
        assert "release hook for 'n1' ended with exit code 2" in done.report.failed["n1"]
        assert "n1" in done.report.drained

    def test_drained_without_a_release_hook_is_said(self, site, log_file):
        done = site.reboot(drain=self.hook("drain", log_file))
        assert set(done.report.drained) == {"n1", "n2", "n3"}
        assert done.code is ExitCode.BAD


def test_a_host_that_another_run_holds_is_left_to_it(site, script):
    with site.record.start_run("drift", ["hfprov"], {"n1": Baseline("n1", ())}) as other:
        other.acquire(["n1"])
        done = site.reboot()
        other.finish(0)
    assert "n1" not in script.rebooted
    assert other.id in done.report.failed["n1"]


def test_work_that_began_since_the_plan_keeps_a_host_from_being_rebooted(site, script):
    script.workloads[:] = [("1: conmon",)]
    done = site.reboot()
    assert script.rebooted == []
    assert "1 container or job is at work on 'n1'" in done.report.failed["n1"]
