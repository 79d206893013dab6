"""A collective over nodes is one run of all ranks that were asked for, or no figure."""

from __future__ import annotations

import re

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.measure.collective import group_argv, read_group, read_one_node
from hfprov.measure.tool import End, Group, Settings

HEAD = (
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 5 iters: 20 agg "
    "iters: 1 validation: 1 graph: 0\n#\n# Using devices\n"
)
TABLE = """#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    16.21    0.00    1.00      0    16.11    0.00    1.50      0
          16             4     float     sum      -1    16.12    0.00    9.00      0    16.02    0.00    8.00      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 5.0
#
"""  # noqa: E501 - as the tool prints it


def ends(count):
    return tuple(End(f"n{k}", "eth1", f"10.0.0.{k}") for k in range(1, count + 1))


def group(hosts, accelerators, **environment):
    return Group(ends(hosts), accelerators, environment)


def log(hosts, devices, table=TABLE):
    """One run of ``devices`` on each of ``hosts``."""
    ranks = [
        f"#  Rank {rank:2} Group  0 Pid {1000 + rank:6} on     node{rank // devices + 1:02} device "
        f"{rank % devices:2} [0x{rank % devices:02x}] NVIDIA H100 80GB HBM3"
        for rank in range(hosts * devices)
    ]
    return HEAD + "\n".join(ranks) + "\n" + table


def test_a_run_over_all_nodes_gives_both_halves_with_their_curves():
    found = {one.test: one for one in read_group(log(2, 8), group(2, 8))}
    assert found["all_reduce_perf busbw 2 nodes"].values == (9.0,)
    assert found["all_reduce_perf busbw 2 nodes in-place"].values == (8.0,)
    assert found["all_reduce_perf busbw 2 nodes in-place"].curve == ((8.0, 1.5), (16.0, 8.0))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (log(1, 8) + log(1, 8).replace("node01", "node02"), "several runs"),
        (log(1, 8), "on 1 host (node01)"),
        (log(1, 16), "on 1 host"),
        (log(2, 4), "8 ranks with 8 devices"),
        (log(3, 8), "on 3 hosts"),
        (log(2, 8).replace("on     node02", "on     node01"), "on 1 host"),
        (log(2, 8).replace("#  Rank 15 ", "#  Rank 14 "), "15 ranks"),
        (HEAD + TABLE, "which ranks"),
        (log(2, 8).replace("8.00      0", "8.00      3"), "3 results are wrong"),
        (log(2, 8).replace("values : 0 OK", "values : 4 FAILED"), "4 results are wrong"),
        (log(2, 8).replace("validation: 1", "validation: 0"), "not compared"),
        (log(2, 8).replace("# Avg bus bandwidth    : 5.0\n", ""), "did not end"),
        (log(2, 8) + "node02: Test NCCL failure common.cu:1 'unhandled system error'\n", "failure"),
        ("mpirun was unable to launch the specified application\n", "unable to launch"),
        ("node02: Permission denied (publickey).\n", "Permission denied"),
        ("", "empty"),
    ],
    ids=[
        "two single-node runs in one log",
        "one node only",
        "all ranks on one node",
        "half of the devices",
        "a node too many",
        "two nodes of one name",
        "a rank twice",
        "ranks not listed",
        "a wrong result in a row",
        "wrong results in the summary",
        "not validated",
        "cut off",
        "one rank failed",
        "not launched",
        "no way from node to node",
        "nothing",
    ],
)
def test_what_all_nodes_did_not_do_together_is_refused(text, reason):
    with pytest.raises(NotUnderstoodError, match=re.escape(reason)):
        read_group(text, group(2, 8))


def test_within_a_node_all_of_its_devices_take_part():
    assert read_one_node(log(1, 8), Settings(accelerators=8))[0].values == (9.0,)
    with pytest.raises(NotUnderstoodError, match="7 devices took part, and the node has 8"):
        read_one_node(log(1, 7), Settings(accelerators=8))
    with pytest.raises(NotUnderstoodError, match="2 hosts took part"):
        read_one_node(log(2, 4), Settings(accelerators=8))


def test_a_single_device_has_nobody_to_reduce_with():
    alone = TABLE.replace("9.00", "0.00").replace("8.00", "0.00")
    with pytest.raises(NotUnderstoodError, match="nobody to talk to"):
        read_one_node(log(1, 1, alone), Settings(accelerators=1))


def test_ranks_are_started_with_what_the_role_declares():
    argv = group_argv(group(4, 8, NCCL_IB_HCA="=mlx5_0", NCCL_SOCKET_IFNAME="=eth1"), Settings())
    assert argv[0] == "mpirun"
    assert argv[argv.index("--host") + 1] == "10.0.0.1:8,10.0.0.2:8,10.0.0.3:8,10.0.0.4:8"
    assert argv[argv.index("-np") + 1] == "32"
    assert argv[argv.index("oob_tcp_if_include") + 1] == "eth1"
    exported = {argv[n + 1] for n, word in enumerate(argv) if word == "-x"}
    assert exported == {"PATH", "NCCL_IB_HCA==mlx5_0", "NCCL_SOCKET_IFNAME==eth1"}
    assert argv[argv.index("all_reduce_perf") :][-2:] == ["-g", "1"]


def test_over_two_nodes_a_ring_is_measured_because_a_tree_shows_more_than_the_wire_carries():
    assert "NCCL_ALGO=Ring" in group_argv(group(2, 8), Settings())
    assert "NCCL_ALGO=Ring" not in group_argv(group(3, 8), Settings())
