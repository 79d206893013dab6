"""The log of NVIDIA's fabric manager: ``/var/log/fabricmanager.log``, or its lines of the journal.

It appends: one file holds several starts. What counts for the present is what follows the last
start; :attr:`FabricManagerLog.runs` keeps them apart.
"""

from __future__ import annotations

import re
from datetime import datetime

from msgspec import Struct, field

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.nvidia_smi.values import find_pci_address
from hfprov.evidence.text import clean, excerpt
from hfprov.regex import regex

_ENTRY = regex(
    r"\[([A-Z][a-z]{2}) +(\d{1,2}) (\d{4}) (\d\d:\d\d:\d\d)\] \[([A-Z]+)\] \[tid (\d+)\] (.*)"
)
_JOURNAL = regex(
    r"(?:((?:\d{1,2}月|[^\W\d_]{3,5}\.?) +\d{1,2} \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\S+) \S+ )?"
    r"(nv-fabricmanager|nvidia-fabricmanager-start\.sh|systemd)\[\d+\]: (.*)"
)
_JOURNAL_ERROR = regex(
    r"(?:doesn't|don't|does not) match|\b(?:failed|failure|error|unable|unknown option)\b",
    re.IGNORECASE,
)
"""Errors of the journal's lines, which have no level."""
_JOURNAL_START = regex(r"Starting .*fabric ?manager", re.IGNORECASE)
_MISMATCH = regex(r"driver interface version (\S+) (?:don't|doesn't|does not) match")
_START = regex(r"Fabric Manager Log initializing at: (\S+ \S+)")
_VERSION = regex(r"Fabric Manager version (\S+) is running")
_OPTION = regex(r"([A-Za-z][A-Za-z0-9 /]+?) = (.*)")
_SWITCH_ERROR = regex(
    r"detected NVSwitch (?P<kind>non-fatal|fatal) error (?P<code>\d{1,9})"
    r".*?(?:physical id (?P<id>\d{1,9}))?(?: port (?P<port>\d{1,9}))?$"
)
_TOPOLOGY = regex(r"topology file NVSwitches: (\d{1,6}), GPUs: (\d{1,6})")
_SWITCH = regex(r"\s*Index: \d+ +Physical Id: (\d+) +PCI Bus ID: (\S+)")
_GPU_UUID = regex(r"added GPU with UUID (GPU-[0-9A-Fa-f-]+)")
_CONFIGURED = "Successfully configured all the available NVSwitches"
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_LONGEST = 2000


class FabricEvent(Struct, frozen=True):
    """An entry of level WARNING or worse, or one that reports an error of a switch."""

    kind: str
    """``nvswitch_fatal``, ``nvswitch_non_fatal``, ``error``, ``critical`` or ``warning``."""
    message: str
    time_text: str
    time: datetime | None
    """In the node's local time; the log has no zone."""
    line: int
    code: int | None = None
    """SXid of the switch's error."""
    pci_address: str = ""
    physical_id: int | None = None
    port: int | None = None


class FabricRun(Struct, frozen=True):
    """What is in the log from one start of the fabric manager to the next."""

    version: str = ""
    """Empty when the log begins in the middle of a run."""
    started_at: str = ""
    options: tuple[tuple[str, str], ...] = ()
    configured: bool = False
    """Whether it said that it configured all NVSwitches."""
    expected_switches: int | None = None
    expected_gpus: int | None = None
    switches: tuple[str, ...] = ()
    """PCI addresses of the NVSwitches that it found."""
    gpu_uuids: tuple[str, ...] = ()
    """GPUs that registered."""
    events: tuple[FabricEvent, ...] = ()
    entries: int = 0


class FabricManagerLog(Struct, frozen=True):
    runs: tuple[FabricRun, ...]
    """In the order of the log; the last one is the present."""
    lines: int

    @property
    def version(self) -> str:
        """Version of the last start that is in the log; must equal the driver's."""
        return next((run.version for run in reversed(self.runs) if run.version), "")

    @property
    def present(self) -> FabricRun:
        """The last run: the fabric manager that runs now, if it does."""
        return self.runs[-1]

    @property
    def events(self) -> tuple[FabricEvent, ...]:
        return tuple(event for run in self.runs for event in run.events)


class _Run(Struct):
    """A run while its lines are read."""

    version: str = ""
    started_at: str = ""
    options: list[tuple[str, str]] = field(default_factory=list)
    configured: bool = False
    expected_switches: int | None = None
    expected_gpus: int | None = None
    switches: list[str] = field(default_factory=list)
    gpu_uuids: list[str] = field(default_factory=list)
    events: list[FabricEvent] = field(default_factory=list)
    entries: int = 0

    def frozen(self) -> FabricRun:
        return FabricRun(
            version=self.version,
            started_at=self.started_at,
            options=tuple(self.options),
            configured=self.configured,
            expected_switches=self.expected_switches,
            expected_gpus=self.expected_gpus,
            switches=tuple(self.switches),
            gpu_uuids=tuple(self.gpu_uuids),
            events=tuple(self.events),
            entries=self.entries,
        )


class _Entry(Struct, frozen=True):
    level: str
    message: str
    time_text: str
    time: datetime | None


def parse(text: str) -> FabricManagerLog:
    """Starts and events.

    Raises NotUnderstoodError when the text is empty or has no line of the fabric manager's form.
    """
    text = clean(text)
    runs = [_Run()]
    lines = 0
    understood = False
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw[:_LONGEST]
        if not line.strip():
            continue
        lines += 1
        entry, switch = _from_file(line) or _from_journal(line), _SWITCH.match(line)
        start = _start(line, entry)
        understood = understood or start is not None or entry is not None
        if start is not None:
            if runs[-1] != _Run():
                runs.append(_Run())
            runs[-1].started_at = start
        elif entry:
            _entry(runs[-1], entry, number)
        elif switch:
            runs[-1].switches.append(find_pci_address(switch.group(2)))
    if not lines:
        raise NotUnderstoodError("The fabric manager's log is empty.")
    if not understood:
        raise NotUnderstoodError(
            "No line has the form '[Mon DD YYYY HH:MM:SS] [LEVEL] [tid N] …'; the first is "
            f"'{excerpt(text.strip())}'."
        )
    return FabricManagerLog(tuple(run.frozen() for run in runs), lines)


def _start(line: str, entry: _Entry | None) -> str | None:
    """When a run began, if the line tells of it: the log's first line, or systemd's."""
    if entry is not None:
        return entry.time_text if _JOURNAL_START.match(entry.message) else None
    start = _START.match(line)
    return start.group(1) if start else None


def _from_file(line: str) -> _Entry | None:
    entry = _ENTRY.match(line)
    if entry is None:
        return None
    month, day, year, clock = entry.group(1), entry.group(2), entry.group(3), entry.group(4)
    time = _time(month, day, year, clock)
    return _Entry(entry.group(5), entry.group(7).strip(), f"{month} {day} {year} {clock}", time)


def _from_journal(line: str) -> _Entry | None:
    """A line of the service; of systemd's own only those about it."""
    entry = _JOURNAL.match(line)
    if entry is None:
        return None
    when, program, message = entry.group(1) or "", entry.group(2), entry.group(3).strip()
    if program == "systemd" and "fabric" not in message.lower():
        return None
    return _Entry("ERROR" if _JOURNAL_ERROR.search(message) else "INFO", message, when, None)


def _entry(run: _Run, entry: _Entry, number: int) -> None:
    message = entry.message
    run.entries += 1
    version = _VERSION.search(message) or _MISMATCH.search(message)
    option = _OPTION.fullmatch(message) if run.version and not run.configured else None
    topology = _TOPOLOGY.search(message)
    uuid = _GPU_UUID.search(message)
    if version:
        run.version = version.group(1)
    elif option:
        run.options.append((option.group(1), option.group(2).strip()))
    elif topology:
        run.expected_switches = int(topology.group(1))
        run.expected_gpus = int(topology.group(2))
    elif uuid:
        run.gpu_uuids.append(uuid.group(1))
    elif message.startswith(_CONFIGURED):
        run.configured = True
    event = _event(entry, number)
    if event is not None:
        run.events.append(event)


def _event(entry: _Entry, number: int) -> FabricEvent | None:
    level, message = entry.level, entry.message
    switch = _SWITCH_ERROR.search(message)
    kind = {"WARN": "warning", "WARNING": "warning", "ERROR": "error"}.get(level, "")
    if level in ("CRITICAL", "FATAL"):
        kind = "critical"
    if switch:
        kind = "nvswitch_fatal" if switch["kind"] == "fatal" else "nvswitch_non_fatal"
    if not kind:
        return None
    return FabricEvent(
        kind=kind,
        message=message,
        time_text=entry.time_text,
        time=entry.time,
        line=number,
        code=int(switch["code"]) if switch else None,
        pci_address=find_pci_address(message),
        physical_id=_number(switch["id"]) if switch else None,
        port=_number(switch["port"]) if switch else None,
    )


def _number(text: str | None) -> int | None:
    return int(text) if text else None


def _time(month: str, day: str, year: str, clock: str) -> datetime | None:
    try:
        return datetime.fromisoformat(f"{year}-{_MONTHS.index(month) + 1:02}-{int(day):02}T{clock}")
    except ValueError:
        return None
