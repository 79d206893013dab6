"""What is recorded with a value: the conditions of all who took part."""

from __future__ import annotations

from hfprov.baseline import Baseline, Value
from hfprov.measure.judging import bound_of, conditions, measurement
from hfprov.measure.look import Ready
from hfprov.measure.result import Judging, judge
from hfprov.measure.taken import Taken
from hfprov.measure.tool import LATENCY, Figure
from hfprov.measure.tools import TOOLS

PING = next(tool for tool in TOOLS if tool.name == "ping")


def ready(host, **changes):
    here = {"kernel": "6.1", "mtu": {"eth1": 9000}, "load": "0.1", **changes}
    tools = {"ping": {"tool_sha256": "ab", "tool_version": "20221126"}}
    return Ready(host, here, tools, (), {}, cautions=(f"{host} is warm.",))


def taken(**changes):
    argv = ("numactl", "--cpunodebind=1", "--localalloc", "ping", "10.0.0.2")
    figure = Figure("ping round trip", "us", (50.0,) * 5, ((64.0, 50.0),),
                    higher_is_better=False, tolerance=LATENCY, details={"p99.9": 90.0})  # fmt: skip
    fields = {"argv": argv, "figures": {figure.test: figure}, **changes}
    return Taken(PING, "n1", **fields)


NODES = {"n1": ready("n1"), "n2": ready("n2", kernel="6.12"), "n3": ready("n3")}


def test_the_other_end_the_binding_and_the_tool_are_conditions():
    found = conditions(taken(peer="n2"), NODES)
    assert found["peer"] == {
        "kernel": "6.12", "mtu": {"eth1": 9000}, "tool_sha256": "ab", "tool_version": "20221126"
    }  # fmt: skip
    assert (found["numa_binding"], found["tool_sha256"]) == (1, "ab")
    assert found["argv"][0] == "numactl"
    assert found["cautions"] == ["n1 is warm."]
    assert "hosts" not in found


def test_members_of_a_group_that_are_unlike_the_others_are_named():
    found = conditions(taken(hosts=("n1", "n2", "n3")), NODES)
    assert found["hosts"] == ["n1", "n2", "n3"]
    assert found["cautions"] == ["n1 is warm.", "n2 differs from n1 in kernel."]


def test_a_result_is_recorded_with_its_direction_details_and_conditions():
    one = taken(peer="n3")
    known = Judging({}, {}, {("n1", "n3", "ping"): conditions(one, NODES)})
    found = measurement(judge([one], known)[0])
    assert found.parameters["higher_is_better"] is False
    assert found.parameters["details"] == {"p99.9": 90.0}
    assert found.parameters["curve"] == [[64.0, 50.0]]
    assert found.conditions["peer"]["kernel"] == "6.1"
    assert found.conditions["outcome"] == "unknown"


def test_runs_that_were_made_anew_are_recorded_and_told_with_the_repeats():
    one = taken(retried=["Its clock stood still.", "Its clock ran."])
    [result] = judge([one], Judging({}, {}, {}))
    found = measurement(result)
    assert found.parameters["retried"] == ["Its clock stood still.", "Its clock ran."]
    told = found.conditions["opinions"][0][2]
    assert told.endswith("2 runs had to be made anew: Its clock ran.")
    [sound] = judge([taken()], Judging({}, {}, {}))
    assert "anew" not in sound.opinions[0].reason


def test_what_is_declared_comes_before_what_the_catalogue_knows():
    def baseline(**values):
        return Baseline("n1", (), {name: Value(value, "x") for name, value in values.items()})

    test = "all_reduce_perf busbw"
    known = bound_of(baseline(node_sku="mi300x-8"), test)
    assert known is not None
    assert known.value == 304
    own = bound_of(baseline(node_sku="mi300x-8", node_expected_measurements={test: 310}), test)
    assert own is not None
    assert own.value == 310
    assert bound_of(baseline(), test) is None
