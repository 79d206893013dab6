"""A trial measures, applies, measures, and gives nodes back as they were, whatever happens."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from hfprov.baseline import Baseline, Value
from hfprov.converge import Tools
from hfprov.declare.connection import Connection
from hfprov.errors import ExitCode, UsageError
from hfprov.measure import trial as trials
from hfprov.measure.result import Judging, judge
from hfprov.measure.run import Measured, Request
from hfprov.measure.steps import MeasurePlan
from hfprov.measure.taken import Taken
from hfprov.measure.tool import Figure, Kind, Settings
from hfprov.measure.tools import TOOLS
from hfprov.measure.trial import TrialRequest, effects, trial
from hfprov.play import HostResult, PlayOutcome, PlayStatus
from hfprov.record.store import Record
from hfprov.sweep import Fleet

IPERF = next(tool for tool in TOOLS if tool.name == "iperf3")
HOSTS = ("n1", "n2")
ASKED = TrialRequest(
    "jumbo_mtu",
    {"jumbo_mtu_bytes": 1500},
    {"jumbo_mtu_bytes": 9000},
    Request((Kind.NETWORK,)),
)


def results(rate, seed=1, *, second=1.0):
    """Both ways between two hosts; the way back reaches ``second`` times the rate."""
    chance = random.Random(seed)
    taken = []
    for pair, true in ((HOSTS, rate), (HOSTS[::-1], rate * second)):
        values = tuple(chance.gauss(true, 0.02 * true) for _ in range(5))
        figure = Figure("iperf3 tcp", "Gbit/s", values)
        taken.append(Taken(IPERF, *pair, "r", figures={figure.test: figure}))
    return tuple(judge(taken, Judging({}, {}, {})))


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A trial whose plays and measurements are told; what was done is in ``done``."""
    values = {"jumbo_mtu_bytes": Value(9000, "x"), "limits_nofile": Value(1, "x")}
    baselines = {host: Baseline(host, ("jumbo_mtu", "limits"), values) for host in HOSTS}
    fleet = Fleet(baselines, {host: Connection(host, "192.0.2.1") for host in HOSTS})
    tools = Tools((Path("i"),), Path("p"), Path("c"), Path("r"))

    class Site:
        def __init__(self):
            self.done: list[object] = []
            self.plays: list[object] = []
            self.rates: list[object] = [10.0, 12.0]

        def run(self, asked=ASKED):
            return trial(record, fleet, tools, log, asked, lambda _: None)

    made = Site()

    def run_play(request, _):
        made.done.append(request.extra_vars["jumbo_mtu_bytes"])
        answer = made.plays.pop(0) if made.plays else HostResult.OK
        if isinstance(answer, BaseException):
            raise answer
        failures = {} if answer is HostResult.OK else {"n1": "It failed."}
        return PlayOutcome(PlayStatus.FINISHED, dict.fromkeys(HOSTS, answer), failures)

    def measure(*_):
        rate = made.rates.pop(0)
        if isinstance(rate, BaseException):
            raise rate
        made.done.append("measure")
        plan = MeasurePlan(Settings(), (), {})
        return Measured("r1", plan, results(rate), (), {}, ExitCode.GOOD)

    monkeypatch.setattr(trials, "run_play", run_play)
    monkeypatch.setattr(trials, "measure", measure)
    with (
        Record.open(tmp_path / "record.db") as record,
        record.start_run("trial", ["hfprov"], baselines) as log,
    ):
        yield made
        log.finish(0)


def test_both_sides_are_measured_and_what_was_tried_is_undone(site):
    done = site.run()
    assert site.done == [1500, "measure", 9000, "measure", 1500]
    [found] = done.effects
    assert found.better is True
    assert found.effect is not None
    assert found.effect.low < 0.2 < found.effect.high
    assert done.code is ExitCode.GOOD
    assert done.kept is False


def test_what_is_worth_keeping_may_be_kept(site):
    done = site.run(TrialRequest(**{**_fields(ASKED), "keep": True}))
    assert site.done[-1] == "measure"
    assert done.kept


def test_an_interrupt_gives_the_nodes_back(site):
    site.rates[1] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        site.run()
    assert site.done == [1500, "measure", 9000, 1500]


def test_a_role_that_fails_is_not_measured_and_is_undone(site):
    site.plays = [HostResult.OK, HostResult.FAILED]
    done = site.run()
    assert site.done == [1500, "measure", 9000, 1500]
    assert done.failed["n1"] == "It failed."
    assert done.effects == []
    assert done.code is ExitCode.BAD


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"before": {}}, "compared with"),
        ({"role": "no_such_role"}, "has no role"),
        ({"after": {"limits_nofile": 5}}, "no variable 'limits_nofile'"),
        ({"before": {"jumbo_mtu_byte": 5}}, "no variable 'jumbo_mtu_byte'"),
    ],
)
def test_what_cannot_be_tried_is_refused_before_anything_is_done(site, change, said):
    with pytest.raises(UsageError, match=said):
        site.run(TrialRequest(**{**_fields(ASKED), **change}))
    assert site.done == []


def test_no_effect_is_called_none():
    [found] = effects(results(10, seed=1), results(10, seed=2))
    assert found.better is None


@pytest.mark.parametrize(("change", "better"), [(0.8, True), (1.25, False)])
def test_of_a_latency_less_is_better(change, better):
    def latencies(share):
        figures = {
            "ping": Figure("ping", "us", tuple(50 * share * x for x in (1, 1.01, 0.99, 1, 1.02)),
                           higher_is_better=False)
        }  # fmt: skip
        return tuple(judge([Taken(IPERF, *HOSTS, "r", figures=figures)], Judging({}, {}, {})))

    [found] = effects(latencies(1), latencies(change))
    assert found.better is better
    assert ("better" if better else "worse") in trials.sentence(found)


def test_pairs_that_differ_do_not_hide_an_effect():
    [found] = effects(results(10, 1, second=10), results(11.5, 2, second=10))
    assert found.better is True
    assert found.pairs == 2


def test_what_was_measured_once_only_tells_nothing():
    [found] = effects(results(10), ())
    assert found.effect is None
    assert "both times" in found.reason


def _fields(asked):
    return {name: getattr(asked, name) for name in asked.__dataclass_fields__}
