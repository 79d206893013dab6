"""Who measures what against whom, and what cannot be measured is said."""

from __future__ import annotations

from hfprov.measure.plan import plan
from hfprov.measure.steps import GroupStep, HostStep, Machine, PairStep
from hfprov.measure.tool import End, Kind, Settings
from hfprov.measure.tools import tools_of
from hfprov.pairs.schedule import WHOLE_RACK

ALL = tuple(Kind)


def ends(hosts, rdma=()):
    return {
        host: End(host, "eth1", f"10.0.0.{n}", "mlx5_0" if host in rdma else "")
        for n, host in enumerate(hosts)
    }


def make(installed, rails=None, kinds=ALL, **machine):
    some = {host: frozenset(names) for host, names in installed.items()}
    machines = dict.fromkeys(installed, Machine(**machine))
    return plan(tools_of(kinds), Settings(), some, rails or {}, machines)


def named(found):
    return [step.tool.name for step in found.steps]


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


def test_a_fleet_is_measured_in_rounds_that_do_not_grow_with_it():
    def rounds(count):
        hosts = [f"n{number}" for number in range(count)]
        found = make(dict.fromkeys(hosts, ("iperf3",)), {"r": ends(hosts)}, (Kind.NETWORK,))
        [step] = found.steps
        return len(step.rounds)

    assert rounds(10_000) <= rounds(WHOLE_RACK)


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


LATENCY = (Kind.LATENCY,)


def test_on_plain_ethernet_latency_is_measured_without_rdma_and_nothing_is_missing():
    hosts = ("a", "b")
    found = make({host: ["sockperf", "ping"] for host in hosts}, {"r": ends(hosts)}, LATENCY)
    assert named(found) == ["sockperf"]
    assert found.missing == {}


def test_ping_stands_in_where_a_host_lacks_the_better_tool():
    hosts = ("a", "b", "c")
    installed = {"a": ["sockperf", "ping"], "b": ["sockperf", "ping"], "c": ["ping"]}
    found = make(installed, {"r": ends(hosts)}, LATENCY)
    steps = {step.tool.name: tuple(step.ends) for step in found.steps}
    assert steps == {"sockperf": ("a", "b"), "ping": hosts}
    assert found.missing == {}


def test_hosts_with_rdma_are_measured_three_ways_more_and_a_missing_tool_is_named():
    hosts = ("a", "b")
    tools = ["ping", "ib_write_lat", "ib_read_lat"]
    found = make(dict.fromkeys(hosts, tools), {"r": ends(hosts, hosts)}, LATENCY)
    assert named(found) == ["ping", "ib_write_lat", "ib_read_lat"]
    assert "'ib_send_lat'" in found.missing["a: latency"]
    assert "'diagnostics_tools'" in found.missing["a: latency"]


def test_a_host_without_any_tool_of_latency_is_missing():
    found = make({"a": [], "b": ["ping"]}, {"r": ends("ab")}, LATENCY)
    assert "'sockperf' nor 'ping'" in found.missing["a: latency"]
    assert "no other host" in found.missing["b: latency"]


GPU = (Kind.GPU,)
ALL_GPU = ["nvbandwidth", "TransferBench", "rvs"]


def test_each_vendor_s_accelerators_are_measured_with_its_own_tools():
    assert named(make({"a": ALL_GPU}, kinds=GPU, vendor="nvidia")) == ["nvbandwidth"]
    assert named(make({"a": ALL_GPU}, kinds=GPU, vendor="amd")) == ["TransferBench", "rvs"]


def test_amd_s_tools_that_are_missing_are_both_named():
    found = make({"a": ["nvbandwidth"]}, kinds=GPU, vendor="amd")
    assert found.steps == ()
    assert "'TransferBench'" in found.missing["a: gpu"]
    assert "'rvs'" in found.missing["a: gpu"]


def test_a_vendor_without_a_tool_is_missing_and_not_measured_with_another_s():
    found = make({"a": ALL_GPU}, kinds=GPU, vendor="ascend")
    assert found.steps == ()
    assert "'ascend'" in found.missing["a: gpu"]


def test_of_a_machine_that_nobody_knows_the_tool_that_is_there_is_used():
    found = make({"a": ["TransferBench"]}, kinds=GPU)
    assert named(found) == ["TransferBench"]
    assert found.missing == {}


def test_accelerators_that_may_be_in_use_are_not_measured_and_the_network_is():
    hosts = ("a", "b")
    installed = {host: ["nvbandwidth", "all_reduce_perf", "iperf3"] for host in hosts}
    found = make(
        installed,
        {"r": ends(hosts)},
        (Kind.GPU, Kind.COLLECTIVE, Kind.NETWORK),
        vendor="nvidia",
        accelerators=8,
        in_use="Nobody tells.",
    )
    assert named(found) == ["iperf3"]
    assert found.missing["a: gpu"] == "Nobody tells."


COLLECTIVE = (Kind.COLLECTIVE,)
MPI = ["all_reduce_perf", "mpirun"]


def groups(found):
    return [step for step in found.steps if isinstance(step, GroupStep)]


def test_a_collective_runs_in_each_node_and_once_over_all_nodes_of_its_rails():
    hosts = ("a", "b", "c")
    rails = {"one": ends(hosts), "two": ends(hosts), "three": ends(hosts[:2])}
    found = make(
        dict.fromkeys(hosts, MPI),
        rails,
        COLLECTIVE,
        vendor="nvidia",
        accelerators=8,
        environment={"NCCL_IB_HCA": "=mlx5_0"},
    )
    [alone] = [step for step in found.steps if isinstance(step, HostStep)]
    assert alone.hosts == hosts
    assert [(step.rail, step.hosts) for step in groups(found)] == [
        ("one", hosts),
        ("three", ("a", "b")),
    ]
    assert groups(found)[0].group.ranks == 24
    assert groups(found)[0].group.environment == {"NCCL_IB_HCA": "=mlx5_0"}
    assert found.missing == {}


def test_without_the_launcher_the_run_over_nodes_is_missing_and_that_within_a_node_is_not():
    hosts = ("a", "b")
    installed = {host: ["all_reduce_perf"] for host in hosts}
    found = make(installed, {"r": ends(hosts)}, COLLECTIVE, vendor="amd", accelerators=8)
    assert groups(found) == []
    assert len(found.steps) == 1
    assert "'mpirun'" in found.missing["a: collective"]


def test_what_a_host_lacks_is_said_once_however_many_aims_need_it():
    hosts = ("a", "b")
    found = make(dict.fromkeys(hosts, ()), {"r": ends(hosts)}, COLLECTIVE, accelerators=8)
    said = found.missing["a: collective"]
    assert said.startswith("It has no 'all_reduce_perf', no 'mpirun'. Role 'diagnostics_tools'")
    assert said.count("'all_reduce_perf'") == said.count("'diagnostics_tools'") == 1


def test_a_node_alone_has_no_run_over_nodes_and_lacks_none():
    found = make({"a": MPI}, kinds=COLLECTIVE, vendor="nvidia", accelerators=8)
    assert groups(found) == []
    assert found.missing == {}


def test_ranks_cannot_be_counted_on_nodes_of_which_nobody_says_what_they_have():
    hosts = ("a", "b")
    found = make(dict.fromkeys(hosts, MPI), {"r": ends(hosts)}, COLLECTIVE, vendor="nvidia")
    assert groups(found) == []
    assert "'node_sku'" in found.missing["a: collective"]


def test_a_group_goes_on_without_a_host_that_cannot_be_kept_quiet_but_not_alone():
    hosts = ("a", "b", "c")
    found = make(
        dict.fromkeys(hosts, MPI), {"r": ends(hosts)}, COLLECTIVE, vendor="nvidia", accelerators=4
    )
    assert groups(found.without({"b"}))[0].hosts == ("a", "c")
    assert groups(found.without({"a", "b"})) == []


def test_nodes_of_one_accelerator_have_a_collective_only_together():
    hosts = ("a", "b")
    found = make(dict.fromkeys(hosts, MPI), {"r": ends(hosts)}, COLLECTIVE, accelerators=1)
    assert [type(step) for step in found.steps] == [GroupStep]
    assert found.missing == {}
