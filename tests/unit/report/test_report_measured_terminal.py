"""Measurements on a terminal: plan, values with their direction, who explains slow pairs."""

from __future__ import annotations

import pytest

from hfprov.baseline import Baseline
from hfprov.errors import ExitCode
from hfprov.measure.judging import measurement
from hfprov.measure.plan import plan
from hfprov.measure.result import Judging, culprits, judge
from hfprov.measure.run import Measured
from hfprov.measure.steps import Machine, MeasurePlan
from hfprov.measure.taken import Taken
from hfprov.measure.tool import LATENCY, End, Figure, Kind, Settings
from hfprov.measure.tools import TOOLS, tools_of
from hfprov.record.model import Measurement
from hfprov.record.store import Record
from hfprov.report.documents import run_document
from hfprov.report.measured import (
    measured_document,
    print_measure_plan,
    print_measured,
    print_recorded,
)

HOSTS = ("n1", "n2", "n3")
PING = next(tool for tool in TOOLS if tool.name == "ping")


def make():
    tools = frozenset({"ping", "all_reduce_perf", "mpirun"})
    rails = {"r": {host: End(host, "eth1", f"10.0.0.{n}") for n, host in enumerate(HOSTS)}}
    machines = dict.fromkeys(HOSTS, Machine("nvidia", 8))
    kinds = tools_of((Kind.LATENCY, Kind.COLLECTIVE))
    return plan(kinds, Settings(), dict.fromkeys(HOSTS, tools), rails, machines)


@pytest.fixture
def done():
    taken = []
    for a in HOSTS:
        for b in HOSTS:
            if a != b:
                value = 500.0 if "n2" in (a, b) else 50.0
                figure = Figure("ping round trip", "us", (value,) * 5, higher_is_better=False,
                                tolerance=LATENCY, details={"p99.9": 2 * value})  # fmt: skip
                taken.append(Taken(PING, a, b, "r", figures={figure.test: figure}))
    results = tuple(judge(taken, Judging({}, {}, {})))
    todo = MeasurePlan(Settings(), (), {})
    cautions = {"n1": ("It has 9 MiB in swap.",)}
    return Measured("r1", todo, results, tuple(culprits(taken)), {}, ExitCode.UNKNOWN, cautions)


def test_the_plan_says_which_nodes_run_a_collective_together(capsys):
    print_measure_plan(make())
    said = " ".join(capsys.readouterr().err.split())
    assert "all_reduce_perf on n1, n2, n3:" in said
    assert "all_reduce_perf over n1, n2, n3 together, 24 ranks:" in said
    assert "ping in r: 3 pairs of 3 hosts, both ways, in 3 rounds:" in said


def test_a_latency_is_shown_with_its_percentiles_its_direction_and_the_slow_node(done, capsys):
    print_measured(done)
    said = " ".join(capsys.readouterr().out.split())
    assert "50 us (5 repeats, 50 to 50, p99.9 100)" in said
    assert "us, less is better, from the row to the column" in said
    assert "n2: ping round trip in r: 2 of 2 pairs are slow (500 us, where others need 50)." in said


def failed():
    """What is recorded of a measurement without a figure."""
    [result] = judge([Taken(PING, "n1", "n2", problem="Nothing came back.")], Judging({}, {}, {}))
    return measurement(result)


def test_of_a_recorded_run_the_first_values_are_shown_and_a_fleet_is_cut(capsys):
    hostile = Measurement("n1", "iperf3 tcp\x1b[2J", 14.02, "Gbit/s", "n2", samples=(14.0, 14.02),
                          conditions={"outcome": "pass"})  # fmt: skip
    print_recorded([hostile, Measurement("n1", "fio write", None, "GB/s"), failed()])
    assert capsys.readouterr().out.splitlines() == [
        "n1 -> n2 iperf3 tcp 14.02 Gbit/s (2 samples): pass",
        "n1 fio write no value",
        "n1 -> n2 ping no value: unknown - Nothing came back.",
    ]
    print_recorded(hostile for _ in range(1000))
    said = capsys.readouterr().out.splitlines()
    assert len(said) < 300
    assert said[-1] == "More was measured. Give '--limit' to see that of some hosts."


def test_programs_are_told_why_there_is_no_value(done, tmp_path):
    with Record.open(tmp_path / "record.db") as record:
        with record.start_run("measure", [], {"n1": Baseline("n1", ())}) as log:
            log.measured(failed())
            log.measured(measurement(done.results[0]))
            log.finish(3)
        document = run_document(record.run(), record.measurements(wanted_run=log.id))
    told = {one["test"]: (one["value"], one["reason"]) for one in document["measurements"]}
    assert told == {"ping": (None, "Nothing came back."), "ping round trip": (500.0, "")}


def test_programs_are_told_the_same(done):
    document = measured_document(done)
    assert document["cautions"] == {"n1": ["It has 9 MiB in swap."]}
    assert {one["higher_is_better"] for one in document["results"]} == {False}
    assert document["results"][0]["details"] == {"p99.9": 1000.0}
    [cause] = document["causes"]
    assert cause["hosts"] == [["n2"]]


def test_a_plan_for_programs_tells_groups_from_hosts_that_measure_by_themselves():
    document = measured_document(Measured("r1", make(), (), (), {}, ExitCode.NOTHING))
    together = {(one["tool"], one["together"], one["rail"]) for one in document["plan"]["steps"]}
    assert together == {
        ("ping", False, "r"), ("all_reduce_perf", False, ""), ("all_reduce_perf", True, "r")
    }  # fmt: skip
