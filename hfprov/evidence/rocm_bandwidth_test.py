"""AMD rocm-bandwidth-test 2.x (it ends with ROCm 7.14): devices, matrices, and curves over size.

Bandwidths are GB/s (1e9 bytes per second). A matrix with fewer rows than columns is refused.
"""

from __future__ import annotations

import re

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.failures import FailureKind, ToolFailure, failure_table, find_failure
from hfprov.evidence.fields import not_understood, numbered_lines
from hfprov.evidence.text import clean, excerpt, number
from hfprov.regex import regex

TOOL = "rocm-bandwidth-test"


class Device(Struct, frozen=True):
    index: int
    type: str
    """``CPU`` or ``GPU``."""
    name: str
    bdf: str | None
    uuid: str | None
    memory_kib: tuple[int, ...]
    """Allocatable memory of each pool."""


class Matrix(Struct, frozen=True):
    title: str
    devices: tuple[int, ...]
    rows: tuple[tuple[float | None, ...], ...]
    """``rows[i][j]``: from device ``devices[i]`` to ``devices[j]``; None for ``N/A``."""


class Sample(Struct, frozen=True):
    size_bytes: int
    average_us: float
    average_gbs: float
    min_us: float
    peak_gbs: float


class Curve(Struct, frozen=True):
    title: str
    source: int
    source_type: str
    target: int
    target_type: str
    samples: tuple[Sample, ...]


class RocmBandwidthTest(Struct, frozen=True):
    version: str | None
    command: str | None
    devices: tuple[Device, ...]
    matrices: tuple[Matrix, ...]
    curves: tuple[Curve, ...]


_FAILURES = failure_table(
    {
        FailureKind.DRIVER_NOT_LOADED: ("HSA_STATUS_ERROR_OUT_OF_RESOURCES", "/dev/kfd"),
        FailureKind.NO_DEVICES: ("no (?:ROCm|HSA|GPU) ?(?:devices?|agents?)",),
        FailureKind.OTHER: ("HSA_STATUS_ERROR", r"^error\b", "invalid"),
    }
)
_VERSION = regex(r"RocmBandwidthTest Version: (\S+)")
_COMMAND = regex(r"Launch Command is: (.+)$", re.MULTILINE)
_FIELD = regex(r"(Device +(?:Index|Type|Name|BDF|UUID)|Allocatable Memory Size \(KB\)): +(.*)$")
_LISTED = regex(r"Device: +([0-9]{1,6}), +(.*)$")
_MATRIX = regex(r"D/D +([0-9]{1,6}(?: +[0-9]{1,6})*)$")
_ROW = regex(r"([0-9]{1,6}) +((?:N/A|[0-9.]+)(?: +(?:N/A|[0-9.]+))*)$")
_BENCHMARK = regex(r"=+ +(\S+ Benchmark Result) +=+$")
_END = regex(
    r"=+ +(?P<end>Src|Dst) Device Id: (?P<id>[0-9]{1,6})"
    r" (?:Src|Dst) Device Type: (?P<type>\S+) +=+$"
)
_SAMPLE = regex(r"([0-9]{1,12}) (B|KB|MB|GB) +(\S+) +(\S+) +(\S+) +(\S+)$")
_SIZES = {"B": 1, "KB": 1024, "MB": 1024**2, "GB": 1024**3}


def parse(text: str) -> RocmBandwidthTest | ToolFailure:
    """Facts of one run. Raises NotUnderstoodError when it is cut off or has no result."""
    text = clean(text)
    lines = [(at, line.strip()) for at, line in numbered_lines(text, TOOL) if line.strip()]
    facts = RocmBandwidthTest(
        version=_first(_VERSION, text),
        command=_first(_COMMAND, text),
        devices=_devices(lines),
        matrices=_matrices(lines),
        curves=_curves(lines),
    )
    if not facts.devices and not facts.matrices and not facts.curves:
        failure = find_failure(text, _FAILURES)
        if failure is not None:
            return failure
        raise NotUnderstoodError(
            f"The output of '{TOOL}' has no result; it begins '{excerpt(text)}'."
        )
    return facts


_Lines = list[tuple[int, str]]


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return None if match is None else match[1].strip()


def _devices(lines: _Lines) -> tuple[Device, ...]:
    groups: list[dict[str, list[str]]] = []
    devices = []
    for _, line in lines:
        if match := _FIELD.match(line):
            key = " ".join(match[1].split())
            if key == "Device Index":
                groups.append({})
            if groups:
                groups[-1].setdefault(key, []).append(match[2].strip())
        elif match := _LISTED.match(line):
            devices.append(_listed(int(match[1]), match[2]))
    return tuple(devices) or tuple(_device(group) for group in groups)


def _device(group: dict[str, list[str]]) -> Device:
    def one(key: str) -> str | None:
        return group[key][0] if key in group else None

    index, kind = one("Device Index"), one("Device Type")
    if index is None or kind is None or not index.isascii() or not index[:9].isdigit():
        raise NotUnderstoodError(f"A device of '{TOOL}' has no index or type: it is cut off.")
    memory = [number(text) for text in group.get("Allocatable Memory Size (KB)", [])]
    if not memory:
        raise NotUnderstoodError(f"Device {index} of '{TOOL}' has no memory: it is cut off.")
    return Device(
        int(number(index)),
        kind,
        one("Device Name") or "",
        one("Device BDF"),
        one("Device UUID"),
        tuple(int(size) for size in memory),
    )


def _listed(index: int, text: str) -> Device:
    """``Device: 2,  AMD Instinct MI300X,  GPU-0123,  05:0.0``: the default output's list."""
    parts = [part.strip() for part in text.split(",")]
    gpu = len(parts) > 1
    bdf = parts[-1] if gpu else None
    uuid = parts[1] if len(parts) > 2 else None
    return Device(index, "GPU" if gpu else "CPU", parts[0], bdf, uuid, ())


def _matrices(lines: _Lines) -> tuple[Matrix, ...]:
    matrices = []
    title = ""
    position = 0
    while position < len(lines):
        at, line = lines[position]
        header = _MATRIX.match(line)
        if header is None:
            title = line
            position += 1
            continue
        columns = [int(column) for column in header[1].split()]
        body = lines[position + 1 : position + 1 + len(columns)]
        rows = [_row(number_of, row, columns) for number_of, row in body]
        if [index for index, _ in rows] != columns:
            raise not_understood(TOOL, at, line, f"{len(columns)} rows under '{excerpt(title)}'")
        matrices.append(Matrix(title, tuple(columns), tuple(cells for _, cells in rows)))
        position += 1 + len(columns)
    return tuple(matrices)


def _row(at: int, line: str, columns: list[int]) -> tuple[int, tuple[float | None, ...]]:
    match = _ROW.match(line)
    cells = match[2].split() if match else []
    if match is None or len(cells) != len(columns):
        raise not_understood(TOOL, at, line, f"a row with {len(columns)} values")
    try:
        values = tuple(None if cell == "N/A" else number(cell) for cell in cells)
    except NotUnderstoodError:
        raise not_understood(TOOL, at, line, "numbers or N/A") from None
    return int(match[1]), values


def _curves(lines: _Lines) -> tuple[Curve, ...]:
    curves: list[Curve] = []
    title = ""
    ends: dict[str, tuple[int, str]] = {}
    samples: list[Sample] = []

    def close() -> None:
        if not title:
            return
        if len(ends) != 2 or not samples:
            raise NotUnderstoodError(f"The benchmark '{title}' of '{TOOL}' is cut off.")
        curves.append(Curve(title, *ends["Src"], *ends["Dst"], tuple(samples)))

    for at, line in lines:
        if match := _BENCHMARK.match(line):
            close()
            title, ends, samples = match[1], {}, []
        elif match := _END.match(line):
            if samples:  # the next pair of the same benchmark
                close()
                ends, samples = {}, []
            ends[match["end"]] = (int(match["id"]), match["type"])
        elif title and (match := _SAMPLE.match(line)):
            samples.append(_sample(at, line, match))
    close()
    return tuple(curves)


def _sample(at: int, line: str, match: re.Match[str]) -> Sample:
    try:
        values = [number(cell) for cell in match.groups()[2:]]
    except NotUnderstoodError:
        raise not_understood(TOOL, at, line, "a size and four numbers") from None
    return Sample(int(match[1]) * _SIZES[match[2]], *values)
