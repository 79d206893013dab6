"""Memory and disks of one host: STREAM, stress-ng, fio. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from hfprov.evidence import fio, stream, stress_ng
from hfprov.evidence.failures import ToolFailure
from hfprov.measure.tool import Figure, HostTool, Kind, MeasureError, Settings


def _read_stream(text: str, _: Settings) -> Sequence[Figure]:
    found = stream.parse(text)
    if isinstance(found, ToolFailure):
        raise MeasureError(found.sentence)
    if not found.validated:
        raise MeasureError(f"STREAM's results are wrong: {found.validation}")
    return [Figure("stream triad", "GB/s", (found.triad.bandwidth_gbs,))]


_STRESS_SECONDS = 10
"""In less it is too busy with its start to find a rate, and says so."""


def _read_stress(text: str, _: Settings) -> Sequence[Figure]:
    return [Figure("stress-ng stream", "GB/s", (stress_ng.parse(text).memory_gb_s,))]


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


def _read_fio(text: str, _: Settings) -> Sequence[Figure]:
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


HOST_TOOLS = (
    HostTool("stream", Kind.MEMORY, lambda _: ["stream"], _read_stream, 120, aim="memory"),
    HostTool(
        "stress-ng",
        Kind.MEMORY,
        lambda chosen: [
            *("stress-ng", "--stream", "0", "--metrics"),
            *("--timeout", f"{max(chosen.seconds, _STRESS_SECONDS)}s"),
        ],
        _read_stress,
        30,
        aim="memory",
        usual=lambda chosen: max(chosen.seconds, _STRESS_SECONDS),
    ),
    HostTool(
        "fio",
        Kind.STORAGE,
        _fio_argv,
        _read_fio,
        60,
        aim="storage",
        usual=lambda chosen: len(_FIO_JOBS) * chosen.seconds,
    ),
)
