"""Huawei Ascend NPUs as ``npu-smi info`` reports them.

Read forms: the table of ``npu-smi info`` (310P, 910, 910B, 910C; releases 20 to 25), the
``key : value`` answers of ``-t board|ecc|health|common|usages|memory`` and ``-l``, and ``-m``.
The tool writes ``MB`` for units of 1024 * 1024 bytes.
"""

from __future__ import annotations

import re

from msgspec import Struct, field

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.failures import FailureKind, ToolFailure, failure_table, find_failure
from hfprov.evidence.fields import FieldError, Fields, integer, not_understood, numbered_lines
from hfprov.evidence.npu_smi_details import (
    ChipName,
    Details,
    Health,
    health_of,
    read_details,
    read_names,
)
from hfprov.evidence.text import clean, excerpt
from hfprov.regex import regex

TOOL = "npu-smi"


class Chip(Struct, frozen=True):
    """One chip: the two rows that the table has for it."""

    npu: int
    chip: int
    device: int | None
    """Logical or physical id, where the table has a second column for it."""
    name: str
    health: Health
    health_text: str
    bdf: str | None
    power_w: float | None
    temperature_c: float | None
    aicore_percent: float | None
    memory_used_mib: int | None
    memory_total_mib: int | None
    hbm_used_mib: int | None
    """None where the chip has no HBM column (310P)."""
    hbm_total_mib: int | None
    errors: tuple[FieldError, ...] = ()


class Process(Struct, frozen=True):
    npu: int
    chip: int
    pid: int
    name: str
    memory_mib: int | None


class NpuSmi(Struct, frozen=True):
    version: str | None = None
    """Version of the tool."""
    driver_version: str | None = None
    chips: tuple[Chip, ...] = ()
    processes: tuple[Process, ...] | None = None
    """None: the output does not say of every NPU what runs on it."""
    details: tuple[Details, ...] = ()
    names: tuple[ChipName, ...] = ()
    complete: bool = True
    """False when chips may be missing: the table does not end as this release ends it, or a list
    names fewer NPUs than its own total."""


_FAILURES = failure_table(
    {
        FailureKind.DRIVER_NOT_LOADED: (
            "dcmi module initialize failed",
            "dcmi_init",
            "DrvMng.* failed",
            "driver (?:is )?not (?:loaded|installed)",
        ),
        FailureKind.NO_DEVICES: (
            "no (?:npu|device|card)s? (?:found|detected)",
            "get card (?:list|num|count).*fail",
            "device (?:does )?not exist",
            "card (?:does )?not exist",
        ),
        FailureKind.NOT_SUPPORTED: ("does not support", "not support"),
        FailureKind.DEVICE_ERROR: ("fail(?:ed)? to (?:query|get)", "device is (?:not ready|lost)"),
        FailureKind.OTHER: (r"^error\b", r"ret is -\d+", "usage:"),
    }
)
_VERSION = regex(r"\| npu-smi (?P<tool>\S+) +Version: ?(?P<driver>\S+) *\|")
_TABLE = regex(r"^\| NPU +Name +\| Health +\|", re.MULTILINE)
"""The heading of the chips; whoever pastes the table may have left out the version above it."""
_BORDER = regex(r"\+[-=+]+\+$")
_BDF = regex(r"[0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]$")
_SLASH = regex(r" *\/ *")
_LAST_RELEASE_WITHOUT_PROCESSES = 21


def parse(text: str) -> NpuSmi | ToolFailure:
    """Facts of one npu-smi output. Raises NotUnderstoodError when it is in no known form."""
    text = clean(text)
    if not text.strip():
        raise NotUnderstoodError(f"The output of '{TOOL}' is empty.")
    version = _VERSION.search(text)
    if version or _TABLE.search(text):
        return _from_table(text, version)
    if names := read_names(text):
        return NpuSmi(names=names)
    if details := read_details(text):
        return NpuSmi(details=details, complete=_all_listed(details))
    failure = find_failure(text, _FAILURES)
    if failure is None:
        raise NotUnderstoodError(
            f"The output of '{TOOL}' is in no known form; it begins '{excerpt(text)}'."
        )
    return failure


def _all_listed(details: tuple[Details, ...]) -> bool:
    """Whether ``npu-smi info -l`` names as many NPUs as it says there are; other answers do."""
    total = next((one.total_count for one in details if one.total_count is not None), None)
    return total is None or total == sum(one.npu is not None for one in details)


class _Table(Struct):
    """The table while its rows are read."""

    has_hbm: bool
    chips: list[Chip] = field(default_factory=list)
    processes: list[Process] | None = None
    upper: list[str] | None = None
    listed: set[int] = field(default_factory=set)
    """NPUs that the process table has a word about."""

    def row(self, number: int, line: str) -> None:
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if cells[0].split(" ", 1)[0] in ("npu-smi", "NPU", "Chip"):
            if "Process id" in line:
                self.processes = []
        elif self.processes is not None:
            self.process(number, line, cells)
        elif len(cells) != 3:
            raise not_understood(TOOL, number, line, "a chip row with three cells")
        elif self.upper is None:
            self.upper = cells
        else:
            self.chips.append(_chip(self.upper, cells, number, has_hbm=self.has_hbm))
            self.upper = None

    def process(self, number: int, line: str, cells: list[str]) -> None:
        if idle := _IDLE.match(cells[0]):
            self.listed |= {int(idle[1])} if idle[1] else {chip.npu for chip in self.chips}
            return
        process = _process(number, line, cells)
        self.listed.add(process.npu)
        if self.processes is not None:
            self.processes.append(process)

    @property
    def every_npu_listed(self) -> bool:
        return bool(self.chips) and {chip.npu for chip in self.chips} <= self.listed


def _from_table(text: str, version: re.Match[str] | None) -> NpuSmi:
    table = _Table(has_hbm="HBM-Usage" in text)
    last = ""
    for number, line in numbered_lines(text, TOOL):
        stripped = line.strip()
        if stripped.startswith("|"):
            table.row(number, line)
        elif stripped and table.upper is not None:
            raise not_understood(TOOL, number, line, "the second row of a chip")
        last = stripped or last
    if table.upper is not None or not table.chips:
        raise NotUnderstoodError(f"The table of '{TOOL}' has no whole chip: it is cut off.")
    closed = _BORDER.match(last) is not None
    listed = tuple(table.processes or ()) if table.every_npu_listed else None
    return NpuSmi(
        version=version["tool"] if version else None,
        driver_version=version["driver"] if version else None,
        chips=tuple(table.chips),
        processes=listed,
        complete=version is not None and closed and (listed is not None or _old(version["tool"])),
    )


def _old(version: str) -> bool:
    """Whether a release is so old that it prints no process table."""
    major = version.partition(".")[0]
    return major.isascii() and major.isdigit() and int(major[:6]) <= _LAST_RELEASE_WITHOUT_PROCESSES


def _chip(upper: list[str], lower: list[str], number: int, *, has_hbm: bool) -> Chip:
    npu, _, name = upper[0].partition(" ")
    ids = lower[0].split()
    state = _SLASH.sub("/", upper[2]).split()
    use = _SLASH.sub("/", lower[2]).split()
    expected = 3 if has_hbm else 2
    if not ids or len(state) < 2 or len(use) < expected or not name.strip():
        raise not_understood(TOOL, number, " | ".join(lower), "usage of the chip in this row")
    read = Fields({"power": state[0], "temperature": state[1], "aicore": use[0]})
    memory = _pair(read, "memory", use[1])
    hbm = _pair(read, "hbm", use[2]) if has_hbm else (None, None)
    bdf = lower[1] if _BDF.match(lower[1]) else None
    if bdf is None and lower[1] not in ("NA", "N/A", "-"):
        read.error("bus-id", lower[1])
    return Chip(
        npu=integer(npu),
        chip=integer(ids[0]),
        device=integer(ids[1]) if len(ids) > 1 else None,
        name=name.strip(),
        health=health_of(upper[1]),
        health_text=excerpt(upper[1], 40),
        bdf=bdf,
        power_w=read.number("power"),
        temperature_c=read.number("temperature"),
        aicore_percent=read.number("aicore"),
        memory_used_mib=memory[0],
        memory_total_mib=memory[1],
        hbm_used_mib=hbm[0],
        hbm_total_mib=hbm[1],
        errors=tuple(read.errors),
    )


def _pair(read: Fields, name: str, text: str) -> tuple[int | None, int | None]:
    """``994/21534`` as used and total; two None for ``NA``."""
    if text.upper() in ("NA", "N/A", "-"):
        return None, None
    used, _, total = text.partition("/")
    try:
        return integer(used), integer(total)
    except NotUnderstoodError:
        read.error(name, text)
        return None, None


_IDLE = regex(r"No running process(?:es)? found(?: in NPU ([0-9]{1,9}))?", re.IGNORECASE)


def _process(number: int, line: str, cells: list[str]) -> Process:
    where = cells[0].split()
    if len(cells) != 4 or len(where) != 2:
        raise not_understood(TOOL, number, line, "a process row with four cells")
    memory = None if cells[3] in ("NA", "N/A", "-", "") else integer(cells[3])
    return Process(integer(where[0]), integer(where[1]), integer(cells[1]), cells[2], memory)
