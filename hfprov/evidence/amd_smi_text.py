"""amd-smi's indented text, CSV and default screen, brought to leaves per device.

The indented text is what ``yaml.dump`` makes of the tool's data, in capitals: four spaces per
level, long values folded onto deeper lines, the same key twice where the data was a list.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.fields import integer, not_understood
from hfprov.evidence.text import clean, excerpt
from hfprov.regex import regex

TOOL = "amd-smi"
_DEVICE = regex(r"(GPU|CPU|CORE): ?([0-9]{1,6})$")
_ENTRY = regex(r"( +)(?:- )?([A-Za-z0-9_#/.+ -]{1,80}?):(?: (.*))?$")
_PROMPT = regex(r"\S*[$#] ")
_DEEPEST = 16


class Device(Struct):
    """One device while its lines are read: its kind (``gpu``, ``cpu``, ``core``) and leaves."""

    kind: str
    index: int
    leaves: dict[str, Any] = field(default_factory=dict)


class _Reader(Struct):
    devices: list[Device] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    stack: list[tuple[int, str]] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=dict)
    last: str = ""
    shortened: bool = False

    def entry(self, indent: int, key: str, value: str | None) -> None:
        while self.stack and self.stack[-1][0] >= indent:
            self.stack.pop()
        if len(self.stack) >= _DEEPEST:
            raise NotUnderstoodError(f"The text of '{TOOL}' is nested more than {_DEEPEST} deep.")
        parent = f"{self.stack[-1][1]}." if self.stack else ""
        path = f"{parent}{key.strip().lower()}"
        self.seen[path] = count = self.seen.get(path, 0) + 1
        if count > 1:
            path = f"{path}#{count}"
        self.stack.append((indent, path))
        self.last = ""
        if value is not None and value.strip():
            self.devices[-1].leaves[path] = value.strip()
            self.last = path


def read_indented(text: str) -> tuple[list[Device], list[str], bool]:
    """Devices, notes around them, and whether the document looks whole.

    Raises NotUnderstoodError for a line inside a device that is neither ``KEY: value`` nor the
    continuation of one, and for a list that does not end.
    """
    reader = _Reader()
    for number, line in enumerate(text.split("\n"), start=1):
        _read_line(reader, number, line.rstrip())
    if not reader.devices:
        raise NotUnderstoodError(f"There is no 'GPU: N' section in the output of '{TOOL}'.")
    return reader.devices, reader.notes, _looks_whole(reader)


def _read_line(reader: _Reader, number: int, line: str) -> None:
    if not line:
        return
    if line.strip() == "...":
        reader.shortened = True
        return
    if device := _DEVICE.match(line):
        reader.devices.append(Device(device[1].lower(), int(device[2])))
        reader.stack.clear()
        reader.seen.clear()
        reader.last = ""
        return
    if not line.startswith(" "):
        if not _PROMPT.match(line):
            reader.notes.append(excerpt(line, 200))
        return
    if not reader.devices:
        reader.notes.append(excerpt(line, 200))
        return
    indent = len(line) - len(line.lstrip())
    folded = bool(reader.last) and indent > reader.stack[-1][0]
    entry = _ENTRY.match(line)
    if entry is not None and not (folded and _unfinished(reader)):
        reader.entry(len(entry[1]), entry[2], entry[3])
        return
    if not folded:
        raise not_understood(TOOL, number, line, "'KEY: value'")
    leaves = reader.devices[-1].leaves
    leaves[reader.last] = f"{leaves[reader.last]} {line.strip()}"[:20_000]


def _unfinished(reader: _Reader) -> bool:
    value = reader.devices[-1].leaves[reader.last]
    return str(value).startswith("[") and not str(value).endswith("]")


_VARYING = ("process_info", "fw_list", "retired", "pending", "un_res")


def _looks_whole(reader: _Reader) -> bool:
    """Whether the end is there: the last device has all that the first of its kind has."""
    if reader.last and _unfinished(reader):
        raise NotUnderstoodError(f"The output of '{TOOL}' ends inside the list '{reader.last}'.")
    last = reader.devices[-1]
    if reader.shortened or not last.leaves or (reader.stack and not reader.last):
        return False
    first = next(device for device in reader.devices if device.kind == last.kind)
    missing = first.leaves.keys() - last.leaves.keys()
    return not any(not path.startswith(_VARYING) for path in missing)


def read_csv(text: str) -> list[Device]:
    """Devices of ``--csv`` output. Raises NotUnderstoodError for rows unlike the header."""
    lines = text.split("\n")
    start = next((n for n, line in enumerate(lines) if _CSV_HEADER.match(line)), None)
    if start is None:
        raise NotUnderstoodError(f"There is no CSV header with 'gpu' in the output of '{TOOL}'.")
    devices = []
    try:
        listed = _BARE_LIST.sub(r'"\g<0>"', "\n".join(lines[start:]))
        rows = list(csv.reader(io.StringIO(listed), strict=True))
    except csv.Error as error:
        raise NotUnderstoodError(f"The CSV of '{TOOL}' is not valid: {error}.") from error
    header = [name.strip().lower() for name in rows[0]]
    column = header.index("gpu")
    for offset, row in enumerate(rows[1:], start=1):
        if not any(cell.strip() for cell in row):
            continue
        if len(row) != len(header):
            raise not_understood(
                TOOL, start + offset + 1, ",".join(row), f"{len(header)} columns as in the header"
            )
        devices.append(Device("gpu", integer(row[column]), dict(zip(header, row, strict=True))))
    if not devices:
        raise NotUnderstoodError(f"The CSV of '{TOOL}' has a header and no rows.")
    return devices


_CSV_HEADER = regex(r"(?:timestamp,)?gpu,[a-z]", re.IGNORECASE)
_BARE_LIST = regex(r"(?<=,)\[[^\[\]\"\n]*\](?=,|$)", re.MULTILINE)
"""A cell that is a list (``[0, 0]``), which early releases do not quote."""

_SCREEN_TOP = regex(r"\| *BDF +GPU-Name *\| *Mem-Uti +Temp +UEC +Power-Usage *\|", re.IGNORECASE)
_SCREEN_FIRST = regex(
    r"\| *(?P<bdf>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]) +(?P<name>[^|]*?) *\|"
    r" *(?P<mem>N/A|[0-9.]+ ?%) +(?P<temp>N/A|[0-9.]+ ?°?C) +(?P<uec>N/A|[0-9]+)"
    r" +(?P<power>[^|]*?) *\|$"
)
_SCREEN_SECOND = regex(
    r"\| *(?P<gpu>[0-9]{1,6}) +(?P<hip>\S+) +(?P<oam>\S+) +(?P<mode>[^| ]+) *\|"
    r" *(?P<gfx>N/A|[0-9.]+ ?%) +(?P<fan>\S+(?: ?%)?) +(?P<memory>[^|]*?) *\|$"
)


def is_screen(text: str) -> bool:
    """Whether this is the default screen of amd-smi since ROCm 7."""
    return _SCREEN_TOP.search(text) is not None


def read_screen(text: str) -> tuple[list[Device], bool]:
    """GPUs of the default screen, and whether its frame is closed."""
    top = _SCREEN_TOP.search(text)
    lines = text[top.end() if top else 0 :].split("\n")
    devices: list[Device] = []
    first: dict[str, str] = {}
    for line in _rows(lines):
        if one := _SCREEN_FIRST.match(line):
            first = one.groupdict()
        elif first and (two := _SCREEN_SECOND.match(line)):
            devices.append(_screen_gpu(first, two.groupdict()))
            first = {}
        elif first or line.startswith("|0000"):
            raise NotUnderstoodError(f"A row of the screen of '{TOOL}' is {excerpt(line)!r}.")
    if first or not devices:
        raise NotUnderstoodError(f"The screen of '{TOOL}' has no whole GPU row.")
    return devices, "Processes" in text and text.rstrip().endswith("-+")


def _rows(lines: list[str]) -> Iterator[str]:
    for line in lines:
        stripped = line.strip()
        if stripped.startswith(("+--", "+==")) and "+" in stripped[1:-1]:
            continue
        if stripped.startswith("| Processes"):
            return
        if stripped.startswith("| ") and not stripped.startswith("| GPU "):
            yield stripped


_HALF = regex(r"N/A|[^/]+")


def _halves(cell: str) -> tuple[str, str]:
    """``a/b`` as its two values; a value may be ``N/A``, and so may the whole cell."""
    first, *rest = _HALF.findall(cell) or [""]
    return first.strip(), rest[0].strip() if rest else ""


def _screen_gpu(first: dict[str, str], second: dict[str, str]) -> Device:
    used, total = _halves(second["memory"])
    leaves: dict[str, Any] = {
        "bdf": first["bdf"],
        "asic.market_name": first["name"],
        "usage.umc_activity": first["mem"],
        "temperature.hotspot": first["temp"],
        "ecc.total_uncorrectable_count": first["uec"],
        "power.socket_power": _halves(first["power"])[0],
        "asic.oam_id": second["oam"],
        "usage.gfx_activity": second["gfx"],
        "vram_used": used,
        "vram_total": total,
    }
    compute, memory = _halves(second["mode"])
    if memory:
        leaves |= {"partition.compute_partition": compute, "partition.memory_partition": memory}
    return Device("gpu", int(second["gpu"]), leaves)


_ALIASES = {
    "socket_power": "power.socket_power", "current_socket_power": "power.socket_power",
    "power_usage": "power.socket_power", "power": "power.socket_power",
    "throttle_status": "power.throttle_status", "power_management": "power.power_management",
    "gfx_voltage": "power.gfx_voltage", "soc_voltage": "power.soc_voltage",
    "mem_voltage": "power.mem_voltage", "edge": "temperature.edge",
    "hotspot": "temperature.hotspot", "hotspot_temperature": "temperature.hotspot",
    "memory_temperature": "temperature.mem", "gfx_activity": "usage.gfx_activity",
    "gfx": "usage.gfx_activity", "umc_activity": "usage.umc_activity",
    "mm_activity": "usage.mm_activity", "width": "pcie.width", "speed": "pcie.speed",
    "replay_count": "pcie.replay_count", "pcie_replay": "pcie.replay_count",
    "l0_to_recovery_count": "pcie.l0_to_recovery_count",
    "replay_roll_over_count": "pcie.replay_roll_over_count",
    "nak_sent_count": "pcie.nak_sent_count", "nak_received_count": "pcie.nak_received_count",
    "total_correctable_count": "ecc.total_correctable_count",
    "total_uncorrectable_count": "ecc.total_uncorrectable_count",
    "total_deferred_count": "ecc.total_deferred_count",
    "single_bit_ecc": "ecc.total_correctable_count",
    "double_bit_ecc": "ecc.total_uncorrectable_count",
    "total_vram": "mem_usage.total_vram", "used_vram": "mem_usage.used_vram",
    "gfx_usage": "usage.gfx_usage", "mem_usage": "usage.mem_usage",
    "fb_total": "fb_usage.total_vram", "fb_used": "fb_usage.used_vram",
    "gfx_cur_clk": "clock.gfx_0.clk", "mem_cur_clk": "clock.mem_0.clk",
    "size": "vram.size", "gfx_clock": "clock.gfx_0.clk", "gfx_clk": "clock.gfx_0.clk",
    "mem_clock": "clock.mem_0.clk",
}  # fmt: skip
_FLAT_CLOCK = regex(
    r"((?:gfx|mem|vclk|dclk|soc|fclk|socclk)(?:_[0-9]+)?)_"
    r"(clk|min_clk|max_clk|clk_locked|deep_sleep)$"
)
_FLAT_ECC = regex(r"([a-z0-9_]+)_((?:un)?correctable_count|deferred_count)$")
_FLAT_VIOLATION = regex(r"[a-z0-9_]+_(?:accumulated|violation_status|violation_activity)$")


def with_paths(leaves: dict[str, Any]) -> dict[str, Any]:
    """Flat names (CSV, ``monitor``) as the dotted paths that ``metric`` and ``static`` use."""
    renamed = dict(leaves)
    for name, value in leaves.items():
        if "." in name:
            continue
        path = _path_of(name, leaves)
        if path:
            renamed.setdefault(path, clean(value) if isinstance(value, str) else value)
    return renamed


def _path_of(name: str, leaves: dict[str, Any]) -> str:
    if name == "mem":
        metric = "edge" in leaves or "hotspot" in leaves
        return "temperature.mem" if metric else "usage.umc_activity"
    if name in _ALIASES:
        return _ALIASES[name]
    if clock := _FLAT_CLOCK.match(name):
        return f"clock.{clock[1]}.{clock[2]}"
    if _FLAT_VIOLATION.match(name):
        return f"violation.{name}"
    if ecc := _FLAT_ECC.match(name):
        return f"ecc_blocks.{ecc[1]}.{ecc[2]}"
    return ""
