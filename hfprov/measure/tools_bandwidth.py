"""Bandwidth between two hosts: TCP and RDMA. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from hfprov.evidence import iperf
from hfprov.evidence.iperf_facts import IperfResult
from hfprov.evidence.perftest_facts import BandwidthPoint
from hfprov.measure.pair_commands import (
    ALL_SIZES_SECONDS,
    all_sizes,
    bound,
    client_of,
    is_software,
    iterations,
    server_of,
    single_run,
)
from hfprov.measure.tool import REPEATS, End, Figure, Kind, MeasureError, PairTool, Settings


def _iperf_server(end: End, port: int, _: Settings) -> Sequence[str]:
    argv = ["iperf3", "--server", "--one-off", "--bind", end.address, "--port", str(port)]
    return bound(end, argv)


def _iperf_client(mine: End, other: End, port: int, chosen: Settings) -> Sequence[str]:
    argv = [
        *("iperf3", "--json", "--client", other.address, "--bind", mine.address),
        *("--port", str(port), "--omit", "1", "--interval", "1", "--connect-timeout", "5000"),
        *("--time", str(max(chosen.seconds, REPEATS))),
    ]
    return bound(mine, argv)


def _read_iperf(text: str) -> Sequence[Figure]:
    found = iperf.parse(text)
    if not isinstance(found, IperfResult):
        raise MeasureError("This is no output of iperf3.")
    if found.error or found.received is None:
        raise MeasureError(f"iperf3 failed: {found.error or 'nothing arrived'}")
    if found.received.bits_per_second <= 0:
        raise MeasureError("iperf3 says that nothing arrived.")
    values = found.interval_bits_per_second or (found.received.bits_per_second,)
    return [Figure("iperf3 tcp", "Gbit/s", tuple(one / 1e9 for one in values))]


_BANDWIDTH_BYTES = 1 << 20
"""perftest's own 64 KiB, and one queue pair, do not fill a fast link."""
_SOFTWARE_BYTES = 1 << 16
_QUEUE_PAIRS = 2
_DEPTH = 16
"""Messages under way per queue pair: 32 MiB in all, more than any link holds."""


def _bandwidth(end: End, port: int, chosen: Settings) -> list[str]:
    argv = ["ib_write_bw", "-d", end.rdma_device, "-p", str(port), "-F", "-R", "--report_gbits"]
    argv += ["-q", str(_QUEUE_PAIRS), "-t", str(_DEPTH)]
    if chosen.all_sizes:
        return [*argv, "-a", "-n", iterations(end, 1000)]
    size = _SOFTWARE_BYTES if is_software(end) else _BANDWIDTH_BYTES
    return [*argv, "-s", str(size), "-D", str(chosen.seconds)]


def read_bandwidth(text: str) -> Sequence[Figure]:
    """Average of the largest message: with ``-D`` no peak is measured, and printed as 0.00."""
    points = [
        (float(one.message_bytes), one.average_bps / 1e9)
        for one in single_run(text, "ib_write_bw").points
        if isinstance(one, BandwidthPoint)
    ]
    if not points or max(points)[1] <= 0:
        raise MeasureError("perftest says that nothing was sent.")
    return [Figure("ib_write_bw", "Gbit/s", (max(points)[1],), curve=tuple(points))]


BANDWIDTH_TOOLS = (
    PairTool(
        "iperf3",
        Kind.NETWORK,
        _iperf_server,
        _iperf_client,
        _read_iperf,
        15,
        aim="tcp bandwidth",
        usual=lambda chosen: 1 + max(chosen.seconds, REPEATS),
        intervals=True,
    ),
    PairTool(
        "ib_write_bw",
        Kind.RDMA,
        server_of(_bandwidth),
        client_of(_bandwidth),
        read_bandwidth,
        30,
        aim="rdma bandwidth",
        rdma=True,
        curve=all_sizes,
        usual=lambda chosen: ALL_SIZES_SECONDS if chosen.all_sizes else chosen.seconds,
    ),
)
