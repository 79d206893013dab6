"""The tools of the field, each with how it is run once and what its output says. No I/O.

A tool of one host runs there alone; a tool of a pair has a server on one host and a client on the
other. What a tool says that cannot be used as a figure is a MeasureError, never a number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from hfprov.errors import NotUnderstoodError
from hfprov.evidence import fio, iperf, nccl_tests, nvbandwidth, perftest, stream, stress_ng
from hfprov.evidence.failures import ToolFailure
from hfprov.evidence.iperf_facts import IperfResult
from hfprov.evidence.nvbandwidth import Status
from hfprov.evidence.perftest_facts import BandwidthPoint

REPEATS = 5
"""Runs of each tool after one that warms up; fewer tell nothing about their own spread."""


class Kind(StrEnum):
    """What is measured, as named on the command line."""

    GPU = "gpu"
    MEMORY = "memory"
    NETWORK = "network"
    RDMA = "rdma"
    STORAGE = "storage"
    COLLECTIVE = "collective"


class MeasureError(NotUnderstoodError):
    """A tool ran and gave no figure that may be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One value of one run of a tool."""

    test: str
    unit: str
    values: tuple[float, ...]
    """Usually one; several where the tool itself measures in intervals."""
    curve: tuple[tuple[float, float], ...] = ()
    """By message size in bytes, where the tool sweeps."""
    higher_is_better: bool = True


@dataclass(frozen=True, slots=True)
class Settings:
    """What a person may choose for all tools."""

    seconds: int = 2
    """Length of one run of a tool that runs for a time."""
    directory: str = "/var/tmp"  # noqa: S108 - a private directory is made below it
    """Where files are written and read; on the disk that is to be measured."""
    file_mib: int = 256
    accelerators: int = 0
    """How many a node has, as declared."""


@dataclass(frozen=True, slots=True)
class HostTool:
    """A tool that runs on one host."""

    name: str
    kind: Kind
    argv: Callable[[Settings], Sequence[str]]
    read: Callable[[str], Sequence[Figure]]
    seconds: float
    """What one run takes beyond :attr:`Settings.seconds`, at most."""


@dataclass(frozen=True, slots=True)
class End:
    """One end of a pair: what the client and the server must know of each other."""

    host: str
    interface: str
    address: str
    rdma_device: str = ""


@dataclass(frozen=True, slots=True)
class PairTool:
    """A tool with a server on one host and a client on another."""

    name: str
    kind: Kind
    server: Callable[[End, int, Settings], Sequence[str]]
    """By the server's end and port. Serves one client and ends."""
    client: Callable[[End, End, int, Settings], Sequence[str]]
    """By the client's end, the server's end and port."""
    read: Callable[[str], Sequence[Figure]]
    """The client's output. Values are those of traffic from client to server."""
    seconds: float


Tool = HostTool | PairTool


# -- memory ---------------------------------------------------------------------------------------


def _read_stream(text: str) -> Sequence[Figure]:
    found = stream.parse(text)
    if isinstance(found, ToolFailure):
        raise MeasureError(found.sentence)
    if not found.validated:
        raise MeasureError(f"STREAM's results are wrong: {found.validation}")
    return [Figure("stream triad", "GB/s", (found.triad.bandwidth_gbs,))]


_STRESS_SECONDS = 5
"""In less it is too busy with its start to find a rate, and says so."""


def _read_stress(text: str) -> Sequence[Figure]:
    return [Figure("stress-ng stream", "GB/s", (stress_ng.parse(text).memory_gb_s,))]


# -- storage --------------------------------------------------------------------------------------

# The files are in a directory of our own that goes with the run, also when the run is ended.
_FIO = """\
made=$(mktemp -d -- "$1/hfprov-measure-XXXXXX") || exit
trap 'rm -rf -- "$made"' EXIT
trap 'exit 143' HUP INT TERM
shift
"$@" --directory="$made" & wait $!"""
_FIO_JOBS = (
    ("write", "write", "1M", 8),
    ("read", "read", "1M", 8),
    ("random read", "randread", "4k", 32),
)


def _fio_argv(chosen: Settings) -> Sequence[str]:
    argv = [
        *("sh", "-c", _FIO, "sh", chosen.directory, "fio", "--output-format=json"),
        *("--ioengine=libaio", "--direct=1", f"--size={chosen.file_mib}M", "--filename=data"),
        *("--time_based", f"--runtime={chosen.seconds}", "--group_reporting"),
    ]
    for name, how, block, depth in _FIO_JOBS:
        argv += [f"--name={name}", "--stonewall", f"--rw={how}", f"--bs={block}"]
        argv += [f"--iodepth={depth}"]
    return argv


def _read_fio(text: str) -> Sequence[Figure]:
    found = fio.parse(text)
    if isinstance(found, ToolFailure):
        raise MeasureError(found.sentence)
    if found.failed:
        bad = next(job for job in found.jobs if job.error)
        raise MeasureError(f"fio's job '{bad.name}' ended with error {bad.error}.")
    figures = []
    for job in found.jobs:
        side = job.write if job.name == "write" else job.read
        if side is None or side.io_bytes <= 0:
            raise MeasureError(f"fio's job '{job.name}' moved no data.")
        if job.name == "random read":
            figures.append(Figure("fio random read", "IOPS", (side.iops,)))
        else:
            figures.append(Figure(f"fio {job.name}", "GB/s", (side.bandwidth_bytes_s / 1e9,)))
    if len(figures) != len(_FIO_JOBS):
        raise MeasureError(f"fio ran {len(figures)} of {len(_FIO_JOBS)} jobs.")
    return figures


# -- GPUs -----------------------------------------------------------------------------------------

_COPIES = (
    "host_to_device_memcpy_ce",
    "device_to_host_memcpy_ce",
    "device_to_device_memcpy_read_ce",
)


def _read_nvbandwidth(text: str) -> Sequence[Figure]:
    """The slowest device, or pair of devices, of each test: the others wait for it."""
    found = nvbandwidth.parse(text)
    if isinstance(found, ToolFailure):
        raise MeasureError(found.sentence)
    corrupt = [line for line in found.messages if "checking the pattern" in line]
    if found.error or corrupt or not found.complete:
        raise MeasureError(found.error or (corrupt[0] if corrupt else "nvbandwidth did not end."))
    figures = []
    for test in found.tests:
        if test.status is Status.WAIVED:
            continue
        if test.status is not Status.PASSED:
            raise MeasureError(f"nvbandwidth's test '{test.name}' is '{test.status.value}'.")
        # A device to itself is N/A.
        cells = [cell for row in test.rows for cell in row if cell is not None]
        if not cells:
            raise MeasureError(f"nvbandwidth's test '{test.name}' has no figure.")
        figures.append(Figure(f"nvbandwidth {test.name}", test.unit or "GB/s", (min(cells),)))
    if not figures:
        raise MeasureError("nvbandwidth measured nothing: every test was waived.")
    return figures


def _read_nccl(text: str) -> Sequence[Figure]:
    found = nccl_tests.parse(text)
    if isinstance(found, ToolFailure):
        raise MeasureError(found.sentence)
    if not found.complete or found.summaries != 1:
        raise MeasureError(
            f"This is no single whole run: {found.headers} tables, {found.summaries} summaries."
        )
    if found.out_of_bounds or found.ok is False:
        raise MeasureError(f"{found.out_of_bounds or 'Some'} results are wrong.")
    points = [
        (float(row.size_bytes), half.busbw_gbs)
        for row in found.rows
        if (half := row.out_of_place) is not None and half.busbw_gbs is not None
    ]
    if not points:
        raise MeasureError("There is no bus bandwidth in the output.")
    best = max(points)[1]
    return [Figure("all_reduce_perf busbw", "GB/s", (best,), curve=tuple(points))]


# -- networks -------------------------------------------------------------------------------------


def _iperf_server(end: End, port: int, _: Settings) -> Sequence[str]:
    return ["iperf3", "--server", "--one-off", "--bind", end.address, "--port", str(port)]


def _iperf_client(mine: End, other: End, port: int, chosen: Settings) -> Sequence[str]:
    return [
        *("iperf3", "--json", "--client", other.address, "--bind", mine.address),
        *("--port", str(port), "--omit", "1", "--interval", "1", "--connect-timeout", "5000"),
        *("--time", str(max(chosen.seconds, REPEATS))),
    ]


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


def _perftest(end: End, port: int, chosen: Settings) -> list[str]:
    return [
        *("ib_write_bw", "-d", end.rdma_device, "-p", str(port), "-F", "-R", "--report_gbits"),
        *("-D", str(chosen.seconds)),
    ]


def _perftest_server(end: End, port: int, chosen: Settings) -> Sequence[str]:
    return _perftest(end, port, chosen)


def _perftest_client(mine: End, other: End, port: int, chosen: Settings) -> Sequence[str]:
    return [*_perftest(mine, port, chosen), other.address]


def _read_perftest(text: str) -> Sequence[Figure]:
    found = perftest.parse(text)
    if not found.ok or found.interleaved or len(found.runs) != 1:
        raise MeasureError(
            found.failures[0] if found.failures else "This is no single whole run of perftest."
        )
    # With -D the peak is not measured and printed as 0.00; the average is what counts.
    points = [
        (float(one.message_bytes), one.average_bps / 1e9)
        for one in found.runs[0].points
        if isinstance(one, BandwidthPoint)
    ]
    if not points or max(points)[1] <= 0:
        raise MeasureError("perftest says that nothing was sent.")
    return [Figure("ib_write_bw", "Gbit/s", (max(points)[1],), curve=tuple(points))]


TOOLS: tuple[Tool, ...] = (
    HostTool("stream", Kind.MEMORY, lambda _: ["stream"], _read_stream, 120),
    HostTool(
        "stress-ng",
        Kind.MEMORY,
        lambda chosen: [
            *("stress-ng", "--stream", "0", "--metrics"),
            *("--timeout", f"{max(chosen.seconds, _STRESS_SECONDS)}s"),
        ],
        _read_stress,
        30,
    ),
    HostTool("fio", Kind.STORAGE, _fio_argv, _read_fio, 60),
    HostTool(
        "nvbandwidth",
        Kind.GPU,
        lambda _: ["nvbandwidth", "-j", "-t", *_COPIES],
        _read_nvbandwidth,
        300,
    ),
    HostTool(
        "all_reduce_perf",
        Kind.COLLECTIVE,
        lambda chosen: [
            *("all_reduce_perf", "-b", "8", "-e", "8G", "-f", "2"),
            *("-g", str(max(1, chosen.accelerators))),
        ],
        _read_nccl,
        300,
    ),
    PairTool("iperf3", Kind.NETWORK, _iperf_server, _iperf_client, _read_iperf, 15),
    PairTool("ib_write_bw", Kind.RDMA, _perftest_server, _perftest_client, _read_perftest, 30),
)
"""Every tool. Of two that measure one kind on one host, the first that is installed is used."""


def tools_of(kinds: Sequence[Kind]) -> list[Tool]:
    """The tools of some kinds, in the order of :data:`TOOLS`."""
    return [tool for tool in TOOLS if tool.kind in kinds]
