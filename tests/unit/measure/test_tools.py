"""What a tool says that is no figure becomes none."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.evidence import stress_ng
from hfprov.measure.tool import End, Group, GroupTool, HostTool, PairTool, Settings
from hfprov.measure.tools import TOOLS

BY_NAME = {tool.name: tool for tool in TOOLS if not isinstance(tool, GroupTool)}
A, B = End("a", "eth1", "10.0.0.1", "mlx5_0"), End("b", "eth1", "10.0.0.2", "mlx5_1")


def read(name, text):
    tool = BY_NAME[name]
    found = tool.read(text, Settings()) if isinstance(tool, HostTool) else tool.read(text)
    return {one.test: one for one in found}


STRESS = """stress-ng: info:  [7] dispatching hogs: 2 stream
stress-ng: info:  [8] stream: memory rate: 5000.00 MB read/sec, 2500.00 MB write/sec, 40 Mflop/sec
stress-ng: info:  [9] stream: memory rate: 4000.00 MB read/sec, 2000.00 MB write/sec, 40 Mflop/sec
stress-ng: info:  [7] successful run completed in 5.01s
"""


def test_stress_ng_is_summed_over_its_instances():
    found = stress_ng.parse(STRESS)
    assert found.instances == 2
    assert found.memory_gb_s == pytest.approx(13500 * 1.048576 / 1000)


@pytest.mark.parametrize(
    "text",
    [
        "",
        STRESS.replace("successful run completed", ""),
        STRESS + "stress-ng: fail:  [8] stream: checksum is wrong\n",
        STRESS.replace("memory rate:", "run duration too short to determine memory rate"),
    ],
)
def test_half_a_run_of_stress_ng_is_refused(text):
    with pytest.raises(NotUnderstoodError):
        read("stress-ng", text)


def iperf(**end):
    received = {"bits_per_second": 9e9, "bytes": 1e9, "seconds": 5.0, "start": 0, "end": 5}
    return json.dumps(
        {
            "start": {"version": "iperf 3.12", "test_start": {"protocol": "TCP"}},
            "intervals": [
                {"sum": {"bits_per_second": rate, "bytes": 1, "seconds": 1.0, "omitted": omitted}}
                for rate, omitted in ((1e9, True), (9e9, False), (9.1e9, False))
            ],
            "end": {"sum_sent": received, "sum_received": received},
            **end,
        }
    )


def test_iperf_s_intervals_are_its_repeats_without_the_warm_up():
    assert read("iperf3", iperf())["iperf3 tcp"].values == (9.0, 9.1)


@pytest.mark.parametrize("text", [iperf(error="the server is busy"), "", "{}", "[1]"])
def test_iperf_without_a_result_is_refused(text):
    with pytest.raises(NotUnderstoodError):
        read("iperf3", text)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: f"{tool.name} {tool.aim}")
def test_an_argv_has_no_shell_in_it_beside_our_own_scripts(tool):
    settings = Settings(directory="/data; rm -rf /", accelerators=8)
    if isinstance(tool, HostTool):
        argvs = [tool.argv(settings)]
    elif isinstance(tool, GroupTool):
        argvs = [tool.argv(Group((A, B), 8, {"NCCL_IB_HCA": "=mlx5_0; rm -rf /"}), settings)]
    else:
        argvs = [tool.client(A, B, 15201, settings)]
        argvs += [tool.server(B, 15201, settings)] if tool.server else []
    for argv in argvs:
        assert all(isinstance(word, str) for word in argv)
        if argv[0] == "sh":
            assert "rm -rf /" not in argv[2].replace('rm -rf -- "$made"', "")


@pytest.mark.parametrize("tool", [one for one in TOOLS if isinstance(one, PairTool)],
                         ids=lambda tool: tool.name)  # fmt: skip
def test_both_ends_run_on_the_numa_node_of_their_card(tool):
    near, far = replace(A, numa_node=1), replace(B, numa_node=3)
    client = list(tool.client(near, far, 15201, Settings()))
    assert client[:2] == ["numactl", "--cpunodebind=1"]
    assert "numactl" not in tool.client(A, B, 15201, Settings())
    if tool.server:
        server = list(tool.server(far, 15201, Settings()))
        assert server[server.index("numactl") + 1] == "--cpunodebind=3"


def test_a_client_talks_to_the_server_s_address_from_its_own():
    tool = BY_NAME["iperf3"]
    assert isinstance(tool, PairTool)
    argv = list(tool.client(A, B, 15201, Settings()))
    assert argv[argv.index("--client") + 1] == "10.0.0.2"
    assert argv[argv.index("--bind") + 1] == "10.0.0.1"


NCCL = """# nThread 1 nGpus 1 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid   1001 on     node01 device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    16.21    0.00    1.00      0    16.11    0.00    1.00      0
          16             4     float     sum      -1    16.12    0.00    9.00      0    16.02    0.00    9.00      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 5.0
#
"""  # noqa: E501 - as the tool prints it


def test_a_collective_is_its_largest_message_with_the_curve():
    found = read("all_reduce_perf", NCCL)["all_reduce_perf busbw"]
    assert found.values == (9.0,)
    assert found.curve == ((8.0, 1.0), (16.0, 9.0))


@pytest.mark.parametrize(
    "text",
    [
        NCCL + NCCL.replace("node01", "node02"),
        NCCL.replace("values : 0 OK", "values : 3 FAILED"),
        NCCL.replace("# Avg bus bandwidth    : 5.0\n", ""),
    ],
    ids=["two single-node runs posing as one", "wrong results", "cut off"],
)
def test_a_collective_that_is_no_single_right_run_gives_no_figure(text):
    with pytest.raises(NotUnderstoodError):
        read("all_reduce_perf", text)
