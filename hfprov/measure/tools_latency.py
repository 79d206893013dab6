"""Latency between two hosts, with percentiles: RDMA, sockets, and the echo of the kernel. No I/O.

Less is better throughout. Times are microseconds; perftest tells half of a round trip (of
``ib_read_lat`` all of it), sockperf and ping tell the round trip.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace

from hfprov.evidence import ping_times, sockperf
from hfprov.evidence.failures import ToolFailure
from hfprov.evidence.perftest_facts import LatencyPoint
from hfprov.measure.pair_commands import (
    ALL_SIZES_SECONDS,
    Options,
    all_sizes,
    bound,
    client_of,
    iterations,
    server_of,
    single_run,
)
from hfprov.measure.tool import (
    LATENCY,
    TAIL,
    End,
    Figure,
    Kind,
    MeasureError,
    PairTool,
    Settings,
)


def latency_figures(
    test: str,
    middle: float,
    tail: float,
    details: dict[str, float | None],
) -> Sequence[Figure]:
    """The median and the 99th percentile, each a figure of its own; the rest beside the median.

    Jobs wait for the slowest message, so the tail is judged as well as the middle.
    """
    if not 0 < middle <= tail:
        raise MeasureError(f"A median of {middle:g} and a 99th percentile of {tail:g} us are none.")
    known = {name: value for name, value in details.items() if value is not None}
    return [
        Figure(test, "us", (middle,), higher_is_better=False, tolerance=LATENCY, details=known),
        Figure(f"{test} p99", "us", (tail,), higher_is_better=False, tolerance=TAIL),
    ]


def _latency_options(program: str) -> Options:
    def options(end: End, port: int, chosen: Settings) -> list[str]:
        argv = [program, "-d", end.rdma_device, "-p", str(port), "-F", "-R"]
        sizes = ["-a"] if chosen.all_sizes else ["-s", "2"]
        return [*argv, *sizes, "-n", iterations(end, 1000 if chosen.all_sizes else 10_000)]

    return options


def _latency_reader(program: str) -> Callable[[str], Sequence[Figure]]:
    def read(text: str) -> Sequence[Figure]:
        points = [one for one in single_run(text, program).points if isinstance(one, LatencyPoint)]
        if not points:
            raise MeasureError(f"There is no latency in the output of '{program}'.")
        middles, tails = [], []
        for one in points:
            if one.typical_us is None or one.p99_us is None:
                raise MeasureError(f"'{program}' tells no percentiles.")
            middles.append((float(one.message_bytes), one.typical_us))
            tails.append((float(one.message_bytes), one.p99_us))
        least = min(points, key=lambda point: point.message_bytes)
        found = latency_figures(
            program,
            min(middles)[1],
            min(tails)[1],
            {
                "min": least.minimum_us,
                "max": least.maximum_us,
                "mean": least.average_us,
                "deviation": least.deviation_us,
                "p99.9": least.p999_us,
            },
        )
        curves = tuple(middles), tuple(tails)
        return [replace(one, curve=curve) for one, curve in zip(found, curves, strict=True)]

    return read


def _rdma_latency(program: str) -> PairTool:
    options = _latency_options(program)
    return PairTool(
        program,
        Kind.LATENCY,
        server_of(options),
        client_of(options),
        _latency_reader(program),
        60,
        aim=program,
        rdma=True,
        curve=all_sizes,
        usual=lambda chosen: ALL_SIZES_SECONDS if chosen.all_sizes else 1.0,
    )


# sockperf's server serves for ever: it is ended when its only client has come and gone. Of the
# kernel's table of connections, "01" is one that is established.
_ONE_CLIENT = """\
port=$1
shift
"$@" & server=$!
trap 'kill "$server" 2>/dev/null' EXIT
trap 'exit 143' HUP INT TERM
served() { grep -qsi "^ *[0-9]*: [0-9a-f]*:$port [0-9a-f]*:[0-9a-f]* 01 " /proc/net/tcp*; }
until served; do kill -0 "$server" || exit 1; sleep 0.1; done
while served; do sleep 0.5; done"""
_USUAL_BYTES = 64
_CURVE_BYTES = (512, 4096, 32768)


def _sockperf_server(end: End, port: int, _: Settings) -> Sequence[str]:
    serve = bound(end, ["sockperf", "server", "--tcp", "-i", end.address, "-p", str(port)])
    return ["sh", "-c", _ONE_CLIENT, "sh", f"{port:04X}", *serve]


def _sockperf_client(mine: End, other: End, port: int, chosen: Settings) -> Sequence[str]:
    argv = [
        *("sockperf", "ping-pong", "--tcp", "-i", other.address, "-p", str(port)),
        *("--client_ip", mine.address, "-t", str(chosen.seconds), "--full-rtt"),
        *("-m", str(chosen.message_bytes or _USUAL_BYTES)),
    ]
    return bound(mine, argv)


def _read_sockperf(text: str) -> Sequence[Figure]:
    found = sockperf.parse(text)
    if isinstance(found, ToolFailure):
        raise MeasureError(found.sentence)
    if found.dropped or found.duplicated or not found.observations:
        raise MeasureError(
            f"Of {found.observations} messages {found.dropped} were lost and {found.duplicated} "
            "came twice."
        )
    if not found.round_trip or not {50.0, 99.0} <= found.percentiles_us.keys():
        raise MeasureError("sockperf tells no percentiles of the round trip.")
    return latency_figures(
        "sockperf tcp round trip",
        found.percentiles_us[50.0],
        found.percentiles_us[99.0],
        {
            "min": found.minimum_us,
            "max": found.maximum_us,
            "mean": found.mean_us,
            "deviation": found.deviation_us,
            "p99.9": found.percentiles_us.get(99.9),
        },
    )


_PING_SECONDS = 0.002
"""Between packets; iputils lets only root ask faster."""
_FEWEST_PINGS = 200
"""Below which a 99th percentile is one packet or two."""


def _pings(chosen: Settings) -> int:
    return max(_FEWEST_PINGS, round(chosen.seconds / _PING_SECONDS))


def _ping_client(mine: End, other: End, _: int, chosen: Settings) -> Sequence[str]:
    count = _pings(chosen)
    argv = [
        *("ping", "-n", "-i", f"{_PING_SECONDS:g}", "-c", str(count), "-W", "1"),
        *("-s", str(chosen.message_bytes or _USUAL_BYTES), "-I", mine.address, other.address),
    ]
    return bound(mine, argv)


def _read_ping(text: str) -> Sequence[Figure]:
    found = ping_times.parse(text)
    if found.lost or not found.times_us:
        raise MeasureError(f"{found.lost} of {found.sent} packets did not come back.")
    if len(found.times_us) < _FEWEST_PINGS:
        raise MeasureError(f"{len(found.times_us)} packets tell no 99th percentile.")
    cuts = statistics.quantiles(found.times_us, n=1000, method="inclusive")
    return latency_figures(
        "ping round trip",
        statistics.median(found.times_us),
        cuts[989],
        {
            "min": min(found.times_us),
            "max": max(found.times_us),
            "mean": statistics.fmean(found.times_us),
            "deviation": statistics.stdev(found.times_us),
        },
    )


def _sizes(chosen: Settings) -> Sequence[Settings]:
    return [replace(chosen, message_bytes=one) for one in (_USUAL_BYTES, *_CURVE_BYTES)]


LATENCY_TOOLS = (
    PairTool(
        "sockperf",
        Kind.LATENCY,
        _sockperf_server,
        _sockperf_client,
        _read_sockperf,
        15,
        aim="latency without rdma",
        curve=_sizes,
    ),
    PairTool(
        "ping",
        Kind.LATENCY,
        None,
        _ping_client,
        _read_ping,
        15,
        aim="latency without rdma",
        curve=_sizes,
        usual=lambda chosen: _pings(chosen) * _PING_SECONDS,
    ),
    *(_rdma_latency(one) for one in ("ib_write_lat", "ib_read_lat", "ib_send_lat")),
)
