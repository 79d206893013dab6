"""Entries of the BMC's system event log (SEL): ``ipmitool sel list``, ``elist`` and ``get``.

Which events are severe follows the generic event names of the IPMI specification 2.0, section 42:
a transition to a critical or non-recoverable state, an upper or lower critical threshold, an
uncorrectable error, a lost redundancy, a failure.
"""

from __future__ import annotations

import re

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.host_values import bad_line, hexadecimal, natural, numbered_lines
from hfprov.evidence.text import excerpt
from hfprov.regex import regex

_SEVERE = regex(
    r"non-?recoverable|(?<!non-)critical|uncorrectable|fatal|fail|fault|lost|redundancy degraded"
    r"|non-redundant|machine check|ierr|thermal trip|perr|serr|bus (?:timeout|degraded)"
    r"|configuration error|power off|ac lost|parity|limit reached|overtemp|over.?temperature"
    r"|drive (?:fault|removed)|predictive|hard reset",
    re.IGNORECASE,
)
_HARMLESS = regex(
    r"from (?:critical|non-recoverable)|transition to ok|non-?fatal|fully redundant"
    r"|soft-?off|initiated by|power off/down|limit not exceeded",
    re.IGNORECASE,
)
_DIRECTIONS = {"Asserted": True, "Deasserted": False}
DATE = regex(r"[0-9]{1,4}[./-][0-9]{1,2}[./-][0-9]{2,4}")
"""A date in an entry; ipmitool 1.8.19 prints it as the locale of the caller has it."""

_UNTIMED = regex(r"[Pp]re-[Ii]nit.*|[0-9:]*|[Uu]nspecified")
_FIRST = regex(r"\s*([0-9a-f]{1,5})\s*")
_COLUMNS = (5, 6, 7)


class Event(Struct, frozen=True):
    """One entry of the log."""

    record: int
    """Record number; ipmitool prints it in hexadecimal."""
    date: str
    """As printed (month first); ``Pre-Init`` before the clock of the BMC was set."""
    time: str
    sensor: str
    """Type and number or name of the sensor: ``Memory #0xeb``."""
    description: str
    asserted: bool | None
    """False for "is over"; None where the entry has no direction (OEM records)."""
    reading: str
    """What ``elist`` adds: ``Reading 45 > Threshold 42 degrees C``."""

    @property
    def is_severe(self) -> bool:
        """Whether the event means that something is broken or was about to break."""
        words = f"{self.sensor} {self.description}"
        if re.search(r"critical interrupt", self.sensor, re.IGNORECASE):
            words = self.description
        return bool(_SEVERE.search(_HARMLESS.sub("", words)))


def parse_events(text: str) -> tuple[Event, ...]:
    """Rows of ``sel list`` or ``elist``, separated by ``|`` or (with ``-c``) by commas."""
    events = []
    seen: set[int] = set()
    for number, line in numbered_lines(text):
        if not line.strip():
            continue
        separator = "|" if "|" in line else ","
        cells = [cell.strip() for cell in line.split(separator)]
        event = _event(number, line, cells)
        if event.record in seen:
            raise bad_line("ipmitool sel", number, line, f"record {event.record:x} only once")
        seen.add(event.record)
        events.append(event)
    return tuple(events)


def _event(number: int, line: str, cells: list[str]) -> Event:
    if not _FIRST.fullmatch(cells[0]):
        raise bad_line("ipmitool sel", number, line, "a record number first")
    record = hexadecimal(cells[0], "A SEL record number")
    rest = cells[1:]
    if rest and rest[0].startswith("OEM record"):
        # Records e0 to ff carry no time.
        return Event(record, "", "", rest[0], " ".join(rest[1:]), None, "")
    if rest and _UNTIMED.fullmatch(rest[0]):
        # "Pre-Init Time-stamp" stands for date and time, in one column or in both.
        date, time = "Pre-Init", ""
        rest = rest[1:]
        if rest and _UNTIMED.fullmatch(rest[0]):
            rest = rest[1:]
    else:
        if len(rest) < _COLUMNS[0] - 1 - 1:
            raise bad_line("ipmitool sel", number, line, "date, time, sensor and event")
        date, time, rest = rest[0], rest[1], rest[2:]
        if not DATE.fullmatch(date):
            raise bad_line("ipmitool sel", number, line, "a date like 03/23/2024")
    if rest and rest[0].startswith("OEM record"):
        return Event(record, date, time, rest[0], " ".join(rest[1:]), None, "")
    if len(rest) < len(("sensor", "event", "direction")) or rest[2] not in _DIRECTIONS:
        raise bad_line("ipmitool sel", number, line, "'sensor | event | Asserted'")
    return Event(record, date, time, rest[0], rest[1], _DIRECTIONS[rest[2]], " ".join(rest[3:]))


def parse_freeipmi_events(text: str) -> tuple[Event, ...]:
    """FreeIPMI's ``ipmi-sel``: a header, then ID, Date, Time, Name, Type, maybe State, and Event.

    With ``--output-event-state`` FreeIPMI itself judges the event; its word comes first.
    """
    names: list[str] = []
    events = []
    for number, line in numbered_lines(text):
        if not line.strip():
            continue
        cells = [cell.strip() for cell in line.split("|" if "|" in line else ",")]
        if not names:
            names = cells
            continue
        if len(cells) < len(names):
            raise bad_line("ipmi-sel", number, line, f"{len(names)} columns")
        row = dict(zip(names, cells, strict=False))
        missing = {"ID", "Date", "Time", "Name", "Event"} - set(row)
        if missing:
            raise bad_line("ipmi-sel", number, line, f"a column '{min(missing)}'")
        state = row.get("State", "")
        words = f"{state}: {row['Event']}" if state in ("Warning", "Critical") else row["Event"]
        events.append(
            Event(
                record=natural(row["ID"], "A SEL record number"),
                date=row["Date"],
                time=row["Time"],
                sensor=" ".join(part for part in (row.get("Type", ""), row["Name"]) if part),
                description=words,
                asserted="deassert" not in row["Event"].lower(),
                reading="",
            )
        )
    return tuple(events)


def parse_event_details(text: str) -> tuple[Event, ...]:
    """``sel get``: blocks of ``key : value`` that begin with ``SEL Record ID``."""
    blocks: list[dict[str, str]] = []
    for number, line in numbered_lines(text):
        if not line.strip():
            continue
        key, colon, value = line.partition(":")
        name = key.strip()
        if name == "SEL Record ID":
            blocks.append({})
        if not colon or not blocks:
            raise bad_line("ipmitool sel get", number, line, "'key : value'")
        # "Sensor Type" comes twice, as a word and as a word with a number: the first counts.
        blocks[-1].setdefault(name, value.strip())
    return tuple(_details(block) for block in blocks)


def _details(block: dict[str, str]) -> Event:
    record = hexadecimal(block["SEL Record ID"], "A SEL record number")
    for name in ("Timestamp", "Event Direction", "Description"):
        if name not in block and "Record Type" in block and "OEM" not in block["Record Type"]:
            raise NotUnderstoodError(f"SEL record {record:x} has no '{name}': it is cut off.")
    direction = block.get("Event Direction", "")
    if direction and direction not in ("Assertion Event", "Deassertion Event"):
        raise NotUnderstoodError(
            f"The direction of SEL record {record:x} is '{excerpt(direction, 40)}'."
        )
    date, _, time = block.get("Timestamp", "").partition(" ")
    sensor = block.get("Sensor Type", "")
    if "Sensor Number" in block:
        sensor = f"{sensor} #0x{block['Sensor Number']}"
    return Event(
        record=record,
        date=date,
        time=time.strip(),
        sensor=sensor,
        description=block.get("Description", ""),
        asserted=None if not direction else direction == "Assertion Event",
        reading=block.get("Sensor ID", ""),
    )
