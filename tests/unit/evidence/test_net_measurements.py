"""iperf3 and perftest: units, both directions, failures, and what is cut off."""

from __future__ import annotations

import json

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.evidence import iperf, perftest

UDP_NEW = {
    "start": {"version": "iperf 3.16", "test_start": {"protocol": "UDP", "num_streams": 2}},
    "end": {
        "sum": {"bits_per_second": 2e9, "bytes": 250, "seconds": 1, "packets": 100},
        "sum_sent": {"bits_per_second": 2e9, "bytes": 250, "seconds": 1, "packets": 100},
        "sum_received": {
            "bits_per_second": 1.5e9,
            "bytes": 190,
            "seconds": 1,
            "jitter_ms": 0.1,
            "lost_packets": 25,
            "packets": 100,
        },
    },
}


def test_udp_tells_what_arrived_and_what_was_lost():
    result = iperf.parse(json.dumps(UDP_NEW))
    assert result.protocol == "udp"
    assert result.received.bits_per_second == 1.5e9
    assert result.received.loss_percent == 25.0


def test_old_udp_does_not_take_what_was_sent_for_what_arrived():
    old = {
        "start": {"test_start": {"protocol": "UDP"}},
        "end": {
            "sum": {
                "bits_per_second": 1e9,
                "bytes": 1000,
                "seconds": 1,
                "lost_packets": 50,
                "packets": 100,
                "jitter_ms": 0.2,
            }
        },
    }
    result = iperf.parse(json.dumps(old))
    assert result.sent.bits_per_second == 1e9
    assert result.received.bits_per_second == 5e8
    del old["end"]["sum"]["lost_packets"]
    assert iperf.parse(json.dumps(old)).received is None


@pytest.mark.parametrize("printed", [-1, 2**64 - 1, 1.8446744073709552e19])
def test_retransmits_that_the_system_could_not_count_are_not_known(printed):
    sums = {"bits_per_second": 1e9, "bytes": 125, "seconds": 1, "retransmits": printed}
    text = json.dumps({"start": {"version": "iperf 3.19"}, "end": {"sum_sent": sums}})
    assert iperf.parse(text).sent.retransmits is None
    assert iperf.parse(text.replace(json.dumps(printed), "3")).sent.retransmits == 3


def test_both_directions():
    figures = {"bytes": 1, "seconds": 1}
    sums = ("sum_sent", "sum_received", "sum_sent_bidir_reverse", "sum_received_bidir_reverse")
    members = ",".join(
        json.dumps(name) + ":" + json.dumps({**figures, "bits_per_second": rate})
        for name, rate in zip(sums, (4.0, 3.0, 2.0, 1.0), strict=True)
    )
    text = '{"end":{' + members + "}}"
    expected = (4.0, 3.0, 2.0, 1.0)
    # iperf 3.7 to 3.9 repeat the keys instead.
    for form in (text, text.replace("_bidir_reverse", "")):
        result = iperf.parse(form)
        parts = (result.sent, result.received, result.reverse_sent, result.reverse_received)
        assert tuple(part.bits_per_second for part in parts) == expected


def test_an_error_is_kept_beside_what_was_measured_before():
    result = iperf.parse('{"start":{},"intervals":[],"end":{},"error":"unable to connect"}')
    assert result.error == "unable to connect"
    assert result.sent is None


def test_warm_up_intervals_are_left_out():
    document = {
        **UDP_NEW,
        "intervals": [
            {"sum": {"bits_per_second": 1.0, "omitted": True}},
            {"sum": {"bits_per_second": 2.0, "omitted": False}},
        ],
    }
    assert iperf.parse(json.dumps(document)).interval_bits_per_second == (2.0,)


def test_json_stream():
    events = [
        {"event": "start", "data": UDP_NEW["start"]},
        {"event": "interval", "data": {"sum": {"bits_per_second": 7.0, "omitted": False}}},
        {"event": "end", "data": UDP_NEW["end"]},
    ]
    text = "\n".join(json.dumps(event) for event in events)
    assert iperf.parse(text).interval_bits_per_second == (7.0,)
    with pytest.raises(NotUnderstoodError, match="neither a result"):
        iperf.parse("\n".join(text.splitlines()[:2]))


TEXT_HEAD = (
    "- - - - - - - - - - - - -\n[ ID] Interval           Transfer     Bitrate         Retr\n"
)
BIDIR = TEXT_HEAD + (
    "[  5][TX-C]   0.00-10.00  sec  10.0 GBytes  8.59 Gbits/sec    7             sender\n"
    "[  5][TX-C]   0.00-10.00  sec  9.90 GBytes  8.50 Gbits/sec                  receiver\n"
    "[  7][RX-C]   0.00-10.00  sec  5.00 GBytes  4.29 Gbits/sec    9             sender\n"
    "[  7][RX-C]   0.00-10.00  sec  4.90 GBytes  4.20 Gbits/sec                  receiver\n"
    "\niperf Done.\n"
)


def test_text_of_both_directions():
    result = iperf.parse(BIDIR)
    assert (result.received.bits_per_second, result.reverse_received.bits_per_second) == (
        8.5e9,
        4.2e9,
    )
    assert (result.sent.retransmits, result.reverse_sent.retransmits) == (7, 9)


def test_text_of_udp():
    text = TEXT_HEAD + (
        "[  5]   0.00-10.00  sec  1.25 GBytes  1.07 Gbits/sec  0.000 ms  0/900 (0%)  sender\n"
        "[  5]   0.00-10.04  sec  1.20 GBytes  1.03 Gbits/sec  0.041 ms  36/900 (4%)  receiver\n"
    )
    received = iperf.parse(text).received
    assert (received.jitter_ms, received.lost_packets, received.packets) == (0.041, 36, 900)


def test_text_of_old_udp():
    text = (
        TEXT_HEAD + "[  4]   0.00-10.00  sec  1.25 GBytes  1.00 Gbits/sec  0.02 ms  10/100 (10%)\n"
    )
    result = iperf.parse(text)
    assert (result.sent.bits_per_second, result.received.bits_per_second) == (1e9, 9e8)


def test_text_error():
    result = iperf.parse("iperf3: error - unable to connect to server: Connection refused\n")
    assert result.error == "unable to connect to server: Connection refused"
    assert result.received is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Connecting to host 10.0.0.1, port 5201\n",
        "[  5]   0.00-1.00   sec  1.10 GBytes  9.41 Gbits/sec    0   1.5 MBytes\n",
        BIDIR.splitlines()[2] + "\n",
        TEXT_HEAD + BIDIR.splitlines()[2].replace("[TX-C]", "") * 1,
        '{"end":{}}',
        '{"end":{"sum_sent":{"bits_per_second":1e999,"seconds":1}}}',
        '{"end":{"sum_sent":{"bits_per_second":"fast","seconds":1}}}',
        '{"start":{},"end":{"sum_sent":',
        '[["no netperf"]]',
    ],
)
def test_iperf_refuses_what_has_no_result(text):
    with pytest.raises(NotUnderstoodError):
        iperf.parse(text)


def test_several_streams_without_their_sum_are_refused():
    lines = [
        f"[  {n}]   0.00-10.00  sec  1.0 GBytes  1.0 Gbits/sec  {side}"
        for n in (4, 6)
        for side in ("0  sender", "receiver")
    ]
    with pytest.raises(NotUnderstoodError, match="SUM"):
        iperf.parse("\n".join(lines))


RULE = "-" * 87
BANNER = f"""\
{RULE}
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : mlx5_0
 Number of qps   : 2\t\tTransport type : IB
 Mtu             : 4096[B]
 Link type       : IB
{RULE}
"""
BW_HEAD = " #bytes     #iterations    BW peak[{u}/sec]    BW average[{u}/sec]   MsgRate[Mpps]\n"
LAT_HEAD = (
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]"
    "    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n"
)


@pytest.mark.parametrize(
    ("unit", "average", "bits"),
    [
        ("MB", 11718.75, 11718.75 * 2**20 * 8),
        ("MiB", 11718.75, 11718.75 * 2**20 * 8),
        ("Gb", 98.3, 98.3e9),
    ],
)
def test_perftest_units(unit, average, bits):
    row = f" 65536      5000             {average}              {average}              0.187500\n"
    result = perftest.parse(BANNER + BW_HEAD.format(u=unit) + row + RULE + "\n")
    assert result.ok
    assert result.runs[0].points[0].average_bps == pytest.approx(bits)
    assert result.runs[0].queue_pairs == 2


def test_perftest_refuses_a_unit_that_the_message_rate_contradicts():
    row = " 65536      5000             92.42              92.40              0.017623\n"
    with pytest.raises(NotUnderstoodError, match="contradict"):
        perftest.parse(BANNER + BW_HEAD.format(u="Gb") + row + RULE + "\n")


def test_perftest_with_two_ports():
    head = BW_HEAD.format(u="Gb").rstrip() + (
        "   BW Port1[Gb/sec]   MsgRate Port1[Mpps]   BW Port2[Gb/sec]   MsgRate Port2[Mpps]\n"
    )
    row = " 65536 5000 190.1 190.0 0.362396 95.0 0.181198 95.0 0.181198\n"
    assert perftest.parse(BANNER + head + row + RULE).runs[0].points[0].average_bps == 190.0e9


def test_perftest_curve_over_message_sizes():
    rows = "".join(
        f" {size}  5000  0.00  {size * 8 * 1.0 / 1000:.2f}  1.000000\n"
        for size in (1024, 2048, 4096)
    )
    run = perftest.parse(BANNER + BW_HEAD.format(u="Gb") + rows + RULE).runs[0]
    assert [point.message_bytes for point in run.points] == [1024, 2048, 4096]
    assert run.at(2048).average_bps == pytest.approx(16.38e9)
    assert run.at(2048).peak_bps is None
    assert run.at(8192) is None


def test_perftest_sweep_that_was_cut_off_is_not_complete():
    rows = " 2  1000  1.44  2.93  1.48  1.49  0.02  1.56  2.93\n"
    result = perftest.parse(BANNER.replace("BW", "Latency") + LAT_HEAD + rows)
    assert result.runs[0].points[0].p99_us == 1.56
    assert not result.ok


@pytest.mark.parametrize(
    "row",
    [
        " 2  1000  1.44  2.93  1.48  1.49  0.02  1.56\n",
        " 2  1000  1.44  2.93  1.48  1.49  0.02  1.56  1\n",
        " 2  1000  1.44  2.93  1.48  1.49  0.02  1.56  nan\n",
        " 2  1000\n",
        " 2\n",
    ],
)
def test_perftest_refuses_half_a_row(row):
    with pytest.raises(NotUnderstoodError):
        perftest.parse(BANNER + LAT_HEAD + row)


@pytest.mark.parametrize(
    "line",
    [
        "Couldn't allocate MR",
        " Failed status 10: wr_id 0 syndrom 0x88",
        " Failed status 12: wr_id 0 syndrom 0x81",
        " Unable to init the socket connection",
        " Unable to find the Infiniband/RoCE device",
        "Couldn't connect to 10.0.0.1:18515",
        " Port number 1 state is Down",
        " Couldn't set the link layer",
        "IB device mlx5_9 not found",
        "ethernet_read_keys: Couldn't read remote address",
        "Unexpected CM event bl blka 8",
        "mlx5: node1: got completion with error:",
        "Error: BW result is below bw limit",
        "bash: ib_write_bw: command not found",
    ],
)
def test_perftest_failures_spoil_the_figures(line):
    row = " 65536      5000             98.3              98.3              0.187500\n"
    whole = BANNER + BW_HEAD.format(u="Gb") + row + RULE + "\n"
    assert perftest.parse(whole).ok
    result = perftest.parse(whole + line + "\n")
    assert result.failures
    assert not result.ok
    assert perftest.parse(line).runs == ()


UNCLOCKED = "Correlation coefficient r^2: 0.838123 < 0.9\n"


@pytest.mark.parametrize(
    "table",
    [
        BW_HEAD.format(u="Gb") + " 65536      5000             0.00               0.000000\t\t     "
        "0.000000\n",
        LAT_HEAD
        + " 2       1000          inf           inf           inf   inf    -nan  inf   inf\n",
    ],
)
def test_perftest_without_a_clock_has_no_figures(table):
    for text in (BANNER + table + RULE + "\n" + UNCLOCKED, BANNER + UNCLOCKED + table + RULE):
        result = perftest.parse(text)
        assert (result.runs, result.failures) == ((), (UNCLOCKED.strip(),))
        assert result.no_clock
    row = " 65536      5000             98.3              98.3              0.187500\n"
    assert not perftest.parse(BANNER + BW_HEAD.format(u="Gb") + row + RULE).no_clock


def test_perftest_keeps_what_it_does_not_know_among_the_figures():
    row = " 65536      5000             98.3              98.3              0.187500\n"
    text = BANNER + BW_HEAD.format(u="Gb") + "the node caught fire\n" + row + RULE + "\n"
    assert perftest.parse(text).warnings == ("the node caught fire",)


def test_perftest_refuses_rows_of_different_tables_mixed():
    text = BANNER + BW_HEAD.format(u="Gb") + LAT_HEAD
    text += " 65536      5000             98.3              98.3              0.187500\n"
    with pytest.raises(NotUnderstoodError):
        perftest.parse(text)


LOOSE = """\
{
test_info: {
test: RDMA_Write_Latency_Test,
Dual_port: OFF,
Device: "rxe0",
TX_depth : 1,
Mtu: 1024,
},
results: {
MsgSize: 128,
n_iterations: 5000,
t_min: 2.37,
t_max: 5.39,
t_typical: 2.42,
t_avg: 2.42,
t_stdev: 0.05,
percentile_99: 2.47,
percentile_99.9: 4.03,
},
}
"""


def test_perftest_report_of_debian_12_that_is_no_json():
    run = perftest.parse(LOOSE).runs[0]
    assert (run.kind, run.device, run.mtu_bytes) == ("latency", "rxe0", 1024)
    assert (run.points[0].p99_us, run.points[0].p999_us) == (2.47, 4.03)


def test_perftest_report_cut_off_anywhere_is_refused():
    for form in (LOOSE, json.dumps({"test_info": {}, "results": {"MsgSize": 1}}, indent=1)):
        lines = form.rstrip().splitlines()
        for end in range(len(lines)):
            with pytest.raises(NotUnderstoodError):
                perftest.parse("\n".join(lines[:end]))


@pytest.mark.parametrize(("average", "bits"), [(98.3, 98.3e9), (11718.75, 11718.75 * 2**20 * 8)])
def test_perftest_report_finds_its_unit(average, bits):
    results = {"MsgSize": 65536, "n_iterations": 5000, "BW_average": average, "MsgRate": 0.1875}
    document = {"test_info": {"test": "Send_BW_Test"}, "results": results}
    point = perftest.parse(json.dumps(document)).runs[0].points[0]
    assert point.average_bps == pytest.approx(bits)


@pytest.mark.parametrize(
    "results",
    [
        {},
        {"MsgSize": 65536, "BW_average": 98.3},
        {"MsgSize": 65536, "BW_average": 50.0, "MsgRate": 0.1875},
        {"MsgSize": 65536, "BW_average": 0.0, "MsgRate": 0.0},
        {"MsgSize": "big", "BW_average": 98.3, "MsgRate": 0.1875},
        {"t_avg": 1.0},
    ],
)
def test_perftest_report_without_its_figures_is_refused(results):
    with pytest.raises(NotUnderstoodError):
        perftest.parse(json.dumps({"test_info": {}, "results": results}))


IPERF2 = """\
------------------------------------------------------------
Client connecting to 10.5.0.5, TCP port 5001
------------------------------------------------------------
[  4] local 10.5.0.6 port 50555 connected with 10.5.0.5 port 5001
[  3] local 10.5.0.6 port 50556 connected with 10.5.0.5 port 5001
[ ID] Interval       Transfer     Bandwidth
[  4]  0.0- 5.0 sec  1.00 GBytes  1.72 Gbits/sec
[  3]  0.0- 5.0 sec  1.00 GBytes  1.72 Gbits/sec
[SUM]  0.0- 5.0 sec  2.00 GBytes  3.44 Gbits/sec
[  4]  0.0-10.0 sec  2.00 GBytes  1.72 Gbits/sec 900/0   55   555K/505 us
[  3]  0.0-10.0 sec  2.00 GBytes  1.72 Gbits/sec
[SUM]  0.0-10.0 sec  4.00 GBytes  3.44 Gbits/sec
"""


def test_iperf_2_client():
    result = iperf.parse(IPERF2)
    assert (result.streams, result.received, result.protocol) == (2, None, "tcp")
    assert result.sent.bits_per_second == 3.44e9
    assert (result.sent.seconds, result.sent.retransmits) == (10.0, None)


def test_iperf_2_server_and_udp():
    row = "[  3]  0.0-10.0 sec  1.25 MBytes  1.05 Mbits/sec{}\n"
    server = "Server listening on TCP port 5001\n" + row.format("")
    assert iperf.parse(server).received.bits_per_second == 1.05e6
    assert iperf.parse(server).sent is None
    client = "Client connecting to 10.5.0.5, UDP port 5001\n" + row.format("")
    result = iperf.parse(
        client + "[  3] Server Report:\n" + row.format("   0.055 ms    5/  893 (0.56%)")
    )
    assert (result.sent.jitter_ms, result.received.lost_packets) == (None, 5)


@pytest.mark.parametrize(
    "text",
    [
        IPERF2[: IPERF2.index("[SUM]  0.0- 5.0")],
        IPERF2 + "[  3] 10.0-12.0 sec  2.00 GBytes  1.72 Gbits/sec\n",
        IPERF2 + "Server listening on TCP port 5001\n",
        "Server listening on 5201 (test #5)\n[  5] 0.00-1.00  sec  1.00 GBytes  8.59 Gbits/sec\n",
    ],
)
def test_iperf_2_without_its_end_is_refused(text):
    with pytest.raises(NotUnderstoodError):
        iperf.parse(text)
