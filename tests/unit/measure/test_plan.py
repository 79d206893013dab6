"""Who measures what against whom, and what cannot be measured is said."""

from __future__ import annotations

from hfprov.measure.plan import HostStep, PairStep, plan
from hfprov.measure.tools import End, Kind, Settings, tools_of
from hfprov.pairs.schedule import WHOLE_RACK

ALL = tuple(Kind)


def ends(hosts, rdma=()):
    return {
        host: End(host, "eth1", f"10.0.0.{n}", "mlx5_0" if host in rdma else "")
        for n, host in enumerate(hosts)
    }


def make(installed, rails=None, kinds=ALL):
    some = {host: frozenset(names) for host, names in installed.items()}
    return plan(tools_of(kinds), Settings(), some, rails or {})


def test_of_two_tools_of_a_kind_the_first_that_is_there_is_used():
    found = make({"a": ["stream", "stress-ng"], "b": ["stress-ng"]}, kinds=(Kind.MEMORY,))
    assert [(step.tool.name, step.hosts) for step in found.steps] == [
        ("stream", ("a",)),
        ("stress-ng", ("b",)),
    ]


def test_a_missing_tool_names_the_role_that_installs_it():
    found = make({"a": []}, kinds=(Kind.STORAGE,))
    assert found.steps == ()
    assert "'diagnostics_tools'" in found.missing["a: storage"]


def test_pairs_go_in_rounds_per_rail_and_only_among_hosts_with_the_tool():
    hosts = ("a", "b", "c", "d")
    installed = {host: ["iperf3"] for host in hosts[:3]} | {"d": []}
    rails = {"one": ends(hosts), "two": ends(hosts[:2])}
    found = make(installed, rails, (Kind.NETWORK,))
    steps = {step.rail: step for step in found.steps if isinstance(step, PairStep)}
    assert {frozenset(pair) for one in steps["one"].rounds for pair in one} == {
        frozenset("ab"), frozenset("ac"), frozenset("bc")
    }  # fmt: skip
    assert len(steps["two"].rounds) == 1
    assert set(found.missing) == {"d: network"}


def test_rdma_needs_a_device_on_both_ends():
    hosts = ("a", "b", "c")
    found = make({host: ["ib_write_bw"] for host in hosts}, {"r": ends(hosts, "ab")}, (Kind.RDMA,))
    [step] = found.steps
    assert isinstance(step, PairStep)
    assert set(step.ends) == {"a", "b"}
    assert "RDMA device" in found.missing["c: rdma"]


def test_a_fleet_is_measured_in_a_time_that_does_not_grow_with_it():
    def seconds(count):
        hosts = [f"n{number}" for number in range(count)]
        rails = {"r": ends(hosts)}
        return make(dict.fromkeys(hosts, ("iperf3",)), rails, (Kind.NETWORK,)).seconds

    assert seconds(10_000) <= seconds(WHOLE_RACK)


def test_everyone_who_takes_part_is_named_once():
    found = make(
        {"a": ["fio", "iperf3"], "b": ["iperf3"]},
        {"r": ends("ab")},
        (Kind.STORAGE, Kind.NETWORK),
    )
    assert found.hosts == ("a", "b")
    assert any(isinstance(step, HostStep) for step in found.steps)


def test_hosts_that_cannot_be_kept_quiet_are_left_out_with_their_pairs():
    hosts = ("a", "b", "c")
    found = make(
        {host: ["fio", "iperf3"] for host in hosts},
        {"r": ends(hosts)},
        (Kind.STORAGE, Kind.NETWORK),
    )
    left = found.without({"b"})
    assert left.hosts == ("a", "c")
    [pairs] = [step for step in left.steps if isinstance(step, PairStep)]
    assert {frozenset(pair) for one in pairs.rounds for pair in one} == {frozenset("ac")}
    assert all(pairs.rounds)
    assert found.without(hosts).steps == ()
    assert found.without(()).hosts == hosts
