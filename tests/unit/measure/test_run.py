"""A plan ends as its measurement would, and every host is left in the state that is true."""

from __future__ import annotations

import contextlib

import pytest

from hfprov.baseline import Baseline
from hfprov.declare.connection import Connection
from hfprov.errors import ExitCode
from hfprov.measure import run as runs
from hfprov.measure import session
from hfprov.measure.judges import Bound
from hfprov.measure.look import Looked, Ready
from hfprov.measure.result import Judging, culprits, judge
from hfprov.measure.run import Request, measure
from hfprov.measure.taken import Taken
from hfprov.measure.tool import Figure, Kind
from hfprov.measure.tools import TOOLS
from hfprov.record.model import HostState
from hfprov.record.store import Record
from hfprov.remote import Output
from hfprov.sweep import Fleet

HOSTS = ("n1", "n2", "n3", "n4")
BUSY, SILENT = "A job is at work: drain the node first.", "No route to host."
STRESS = b"""stress-ng: info:  [1] dispatching hogs: 2 stream
stress-ng: info:  [2] stream: memory rate: 9000.00 MB read/sec, 4500.00 MB write/sec, 1.0 DP Mflop/sec
"""  # noqa: E501 - as the tool prints it


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Four hosts: one ready, one without a tool, one at work, one that does not answer."""
    baselines = {host: Baseline(host, ()) for host in HOSTS}
    fleet = Fleet(baselines, {host: Connection(host, "192.0.2.1") for host in HOSTS})
    tool = {"stress-ng": {"tool_sha256": "1", "tool_version": "1"}}
    ready = {"n1": Ready("n1", {}, tool, (), {}), "n2": Ready("n2", {}, {}, (), {})}
    unfit = {"n3": BUSY, "n4": SILENT}
    monkeypatch.setattr(runs, "look", lambda *_: Looked(ready, dict(unfit), frozenset({"n4"})))
    monkeypatch.setattr(runs, "states", lambda *_: {})
    monkeypatch.setattr(runs, "quiet_nodes", lambda *_: contextlib.nullcontext({}))
    monkeypatch.setattr(session, "run", lambda *_, **__: Output(STRESS, "", 0))
    with Record.open(tmp_path / "record.db") as record:

        def measured(*, kind=Kind.MEMORY, only_plan=False):
            said = []
            with record.start_run("measure", ["hfprov"], baselines) as log:
                asked = Request((kind,), only_plan=only_plan)
                done = measure(record, fleet, log, asked, lambda _: None, said.append)
                log.finish(int(done.code))
            states = {one.host: (one.state, one.reason) for one in record.run(log.id).hosts()}
            return done, states, said

        yield measured


LOOKED_AT = {
    "n1": (HostState.OBSERVED, ""),
    "n2": (HostState.OBSERVED, ""),
    "n3": (HostState.OBSERVED, BUSY),
    "n4": (HostState.UNREACHABLE, SILENT),
}


def test_a_plan_for_all_hosts_is_good(site, monkeypatch):
    tool = {"stress-ng": {"tool_sha256": "1", "tool_version": "1"}}
    ready = {"n1": Ready("n1", {}, tool, (), {})}
    monkeypatch.setattr(runs, "look", lambda *_: Looked(ready, {}, frozenset()))
    done, _, _ = site(only_plan=True)
    assert done.code is ExitCode.GOOD


def test_a_plan_says_who_cannot_be_measured_and_its_hosts_are_observed(site):
    done, states, said = site(only_plan=True)
    assert done.code is ExitCode.UNKNOWN
    assert done.results == ()
    assert said == []
    assert states == LOOKED_AT


def test_a_plan_of_nothing_is_nothing(site):
    done, states, _ = site(kind=Kind.STORAGE, only_plan=True)
    assert done.code is ExitCode.NOTHING
    assert states == LOOKED_AT


def test_hosts_that_could_not_be_measured_were_looked_at_nevertheless(site):
    done, states, said = site()
    assert done.code is ExitCode.UNKNOWN
    assert [one.host for one in done.results] == ["n1"]
    assert states == LOOKED_AT
    assert said[0].startswith("stress-ng on 1 host, about 63 s, up to ")


@pytest.mark.parametrize(("others", "code"), [(14.0, ExitCode.UNKNOWN), (9.0, ExitCode.BAD)])
def test_a_host_that_may_be_slow_is_not_bad_and_not_good_either(others, code):
    [iperf] = [one for one in TOOLS if one.name == "iperf3"]
    hosts = ("n1", "n2", "n3")
    taken = [
        Taken(iperf, a, b, "r", figures={"t": Figure("t", "Gbit/s", (value,) * 5)})
        for a in hosts
        for b in hosts
        if a != b and (value := others if "n3" in (a, b) else 20.0)
    ]
    results = judge(taken, Judging({(host, "t"): Bound(5, "declared") for host in hosts}, {}, {}))
    assert runs._exit_code(results, culprits(taken), {}) is code
