"""Latency with percentiles: perftest, sockperf and ping; less is better, and the tail counts."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfprov.errors import NotUnderstoodError
from hfprov.evidence import sockperf
from hfprov.evidence.failures import ToolFailure
from hfprov.measure.tool import End, Kind, PairTool, Settings
from hfprov.measure.tools import TOOLS

BY_NAME = {tool.name: tool for tool in TOOLS if isinstance(tool, PairTool)}
A, B = End("a", "eth1", "10.0.0.1", "mlx5_0"), End("b", "eth1", "10.0.0.2", "mlx5_1")

# sockperf 3.7 on Debian 12, between two addresses of one machine.
SOCKPERF = """\
sockperf: \x1b[2;35m== version #3.7-no.git == \x1b[0m
sockperf[CLIENT] send on:sockperf: using recvfrom() to block on socket(s)

[ 0] IP = 127.0.0.1       PORT = 15333 # TCP
sockperf: Warmup stage (sending a few dummy messages)...
sockperf: Starting test...
sockperf: Test end (interrupted by timer)
sockperf: Test ended
sockperf: [Total Run] RunTime=2.001 sec; Warm up time=400 msec; SentMessages=44924; ReceivedMessages=44923
sockperf: ========= Printing statistics for Server No: 0
sockperf: [Valid Duration] RunTime=1.539 sec; SentMessages=35335; ReceivedMessages=35335
sockperf: \x1b[2;35m====> avg-rtt=43.515 (std-dev=373.580)\x1b[0m
sockperf: # dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0
sockperf: Summary: Round trip is 43.515 usec
sockperf: \x1b[2;35mTotal 35335 observations\x1b[0m; each percentile contains 353.35 observations
sockperf: ---> <MAX> observation = 43753.612
sockperf: ---> percentile 99.999 = 43753.612
sockperf: ---> percentile 99.990 = 6248.880
sockperf: ---> percentile 99.900 = 3581.085
sockperf: ---> percentile 99.000 = 1250.633
sockperf: ---> percentile 90.000 =   13.159
sockperf: ---> percentile 75.000 =   12.769
sockperf: ---> percentile 50.000 =   12.538
sockperf: ---> percentile 25.000 =   12.108
sockperf: ---> <MIN> observation =   11.376
"""  # noqa: E501 - as the tool prints it
# It ends with exit code 0 all the same.
NO_SERVER = """\
sockperf: \x1b[2;35m== version #3.7-no.git == \x1b[0m
sockperf: ERROR: Can`t connect socket (errno=111 Connection refused)
"""
# perftest 6 between two ConnectX: the table of a latency test, with other figures.
PERFTEST = """\
---------------------------------------------------------------------------------------
                    RDMA_Write Latency Test
 Dual-port       : OFF		Device         : mlx5_0
 Number of qps   : 1		Transport type : IB
 Connection type : RC		Using SRQ      : OFF
 TX depth        : 1
 Mtu             : 4096[B]
 Link type       : Ethernet
 GID index       : 3
 rdma_cm QPs	 : ON
 Data ex. method : rdma_cm
---------------------------------------------------------------------------------------
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]
 2       1000          1.44           9.93         1.48     	       1.49        	0.02   		1.56    		2.93
 4       1000          1.45           9.93         1.49     	       1.50        	0.02   		1.57    		2.94
 4096    1000          2.45           9.99         2.49     	       2.50        	0.02   		2.57    		3.94
---------------------------------------------------------------------------------------
"""  # noqa: E501 - as the tool prints it


def read(name, text):
    return {one.test: one for one in BY_NAME[name].read(text)}


def test_sockperf_s_median_and_tail_are_figures_and_the_rest_is_beside_them():
    found = read("sockperf", SOCKPERF)
    middle, tail = found["sockperf tcp round trip"], found["sockperf tcp round trip p99"]
    assert (middle.values, tail.values, middle.unit) == ((12.538,), (1250.633,), "us")
    assert not middle.higher_is_better
    assert not tail.higher_is_better
    assert middle.details == {
        "min": 11.376, "max": 43753.612, "mean": 43.515, "deviation": 373.58, "p99.9": 3581.085
    }  # fmt: skip


def test_a_client_of_sockperf_without_a_server_is_a_failure_although_it_ends_with_0():
    found = sockperf.parse(NO_SERVER)
    assert isinstance(found, ToolFailure)
    assert "Connection refused" in found.sentence


@pytest.mark.parametrize(
    "text",
    [
        "",
        NO_SERVER,
        SOCKPERF.replace("dropped messages = 0", "dropped messages = 7"),
        SOCKPERF.replace("Round trip is", "Latency is"),
        SOCKPERF[: SOCKPERF.index("sockperf: ---> percentile 50.000")],
        SOCKPERF.replace("Total 35335 observations", "Total 0 observations"),
        SOCKPERF.replace("percentile 99.000 = 1250.633", "percentile 99.000 = 0.000"),
    ],
    ids=["empty", "no server", "lost", "half a trip", "cut", "nothing", "a tail below the middle"],
)
def test_half_a_run_of_sockperf_is_refused(text):
    with pytest.raises(NotUnderstoodError):
        read("sockperf", text)


def ping(count=500, late=10, lost=0, extra=""):
    """Packets of 50 us, the last few of 900 us."""
    received = count - lost
    lines = [
        f"72 bytes from 10.0.0.2: icmp_seq={n + 1} ttl=64 "
        f"time={'0.900' if n >= received - late else '0.050'} ms"
        for n in range(received)
    ]
    share = f"{100 * lost / count:g}"
    return "\n".join(
        [
            "PING 10.0.0.2 (10.0.0.2) from 10.0.0.1 : 64(92) bytes of data.",
            *lines,
            *([extra] if extra else []),
            "",
            "--- 10.0.0.2 ping statistics ---",
            f"{count} packets transmitted, {received} received, {share}% packet loss, time 999ms",
            "rtt min/avg/max/mdev = 0.050/0.060/0.900/0.010 ms",
        ]
    )


def test_ping_s_percentiles_are_those_of_its_packets():
    found = read("ping", ping())
    assert found["ping round trip"].values == (50.0,)
    assert found["ping round trip p99"].values == pytest.approx((900.0,), rel=0.02)
    assert found["ping round trip"].details["max"] == 900


@pytest.mark.parametrize(
    "text",
    [
        "",
        ping(lost=1),
        ping(count=150),
        ping().replace("icmp_seq=7 ", "icmp_seq=seven "),
        ping(extra="72 bytes from 10.0.0.2: icmp_seq=3 ttl=64 time=0.050 ms"),
    ],
    ids=["empty", "lost", "few", "strange", "more lines than packets"],
)
def test_a_run_of_ping_that_tells_no_percentile_is_refused(text):
    with pytest.raises(NotUnderstoodError):
        read("ping", text)


def test_a_packet_that_came_twice_counts_once():
    twice = "72 bytes from 10.0.0.2: icmp_seq=3 ttl=64 time=9.000 ms (DUP!)"
    assert read("ping", ping(extra=twice))["ping round trip"].details["max"] == 900


@given(st.text() | st.lists(st.sampled_from([*SOCKPERF.splitlines(), *ping(5).splitlines()])))
def test_whatever_a_node_prints_is_a_figure_or_refused(told):
    text = told if isinstance(told, str) else "\n".join(told)
    for name in ("sockperf", "ping", "ib_send_lat"):
        with contextlib.suppress(NotUnderstoodError):
            assert all(one.values[0] > 0 for one in BY_NAME[name].read(text))


def test_perftest_s_latency_is_that_of_its_smallest_message_with_a_curve_over_all():
    found = read("ib_write_lat", PERFTEST)
    middle, tail = found["ib_write_lat"], found["ib_write_lat p99"]
    assert (middle.values, tail.values) == ((1.48,), (1.56,))
    assert middle.curve == ((2.0, 1.48), (4.0, 1.49), (4096.0, 2.49))
    assert tail.curve[-1] == (4096.0, 2.57)
    assert middle.details == {
        "min": 1.44, "max": 9.93, "mean": 1.49, "deviation": 0.02, "p99.9": 2.93
    }  # fmt: skip


def test_another_test_of_perftest_is_not_taken_for_it():
    with pytest.raises(NotUnderstoodError, match="RDMA_Write Latency Test"):
        read("ib_read_lat", PERFTEST)


@pytest.mark.parametrize(
    "name", [one.name for one in TOOLS if one.kind is Kind.LATENCY and one.name.startswith("ib_")]
)
def test_an_rdma_latency_is_measured_with_percentiles_and_then_over_all_sizes(name):
    tool = BY_NAME[name]
    usual = list(tool.client(A, B, 15201, Settings()))
    assert "-D" not in usual  # which would tell an average and no percentile
    assert usual[-1] == "10.0.0.2"
    [sweep] = tool.curve(Settings())
    assert "-a" in tool.client(A, B, 15201, sweep)
    assert tool.server is not None
    assert "-a" in tool.server(B, 15201, sweep)


def test_the_server_of_sockperf_ends_behind_its_client():
    tool = BY_NAME["sockperf"]
    assert tool.server is not None
    argv = list(tool.server(B, 15201, Settings()))
    assert argv[:2] == ["sh", "-c"]
    assert argv[4] == "3B61"  # the port as the kernel's table has it
    assert argv[5:] == ["sockperf", "server", "--tcp", "-i", "10.0.0.2", "-p", "15201"]
