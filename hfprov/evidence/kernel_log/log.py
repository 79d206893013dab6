"""The kernel log: what happened to GPUs, links, memory, disks and the kernel itself, and when.

The text alone does not show whether the log's beginning was overwritten: see
:attr:`KernelLog.from_boot`. "No event" is only as good as the part of the log that was read.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo

from msgspec import Struct, field
from msgspec.structs import replace

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.kernel_log.lines import LogLine, one_line_each, split_line
from hfprov.evidence.kernel_log.rules import HINTS, RULES
from hfprov.evidence.nvidia_smi.values import find_pci_address
from hfprov.evidence.text import clean, excerpt
from hfprov.evidence.xid import Severity, Sxid, Xid, find_sxid, find_xids
from hfprov.regex import regex

_AER_BIT = regex(r".*?\[ ?(\d{1,2})\] ([A-Za-z]\w*(?: [A-Za-z]\w*)*)\s*(?:\(First\))?\s*$")
_AER_DEVICE = regex(r"device \[([0-9a-f]{4}:[0-9a-f]{4})\] error status/mask=(\S+)")
_DISK = regex(r"\b(nvme\d+(?:n\d+)?|sd[a-z]+|dm-\d+|md\d+)\b")
_JOURNAL_MARK = regex(r"-- .*")
_CURSOR = regex(r"-- cursor: (\S+)")
_BAD_LEVELS = {"emerg": Severity.WARN, "alert": Severity.WARN, "crit": Severity.WARN}
_NOT_KERNEL = frozenset({"nic_link"})
_LONGEST_NAMES = 400
_LONGEST = 2000
"""The kernel's own limit for a message is about half of this."""


class KernelEvent(Struct, frozen=True):
    """Something that happened, as one message of the kernel tells it."""

    category: str
    """``xid``, ``sxid``, ``aer``, ``oom``, …: the rule's category; ``unclassified`` for messages of
    level err or worse that no rule knows."""
    severity: Severity
    device: str
    """PCI address as ``0000:9b:00.0``, or the name of a disk or interface; empty if not said."""
    message: str
    line: int
    """Line number in the text, from 1."""
    time_text: str = ""
    time: datetime | None = None
    uptime_s: float | None = None
    sequence: int | None = None
    level: str = ""
    details: Mapping[str, str] = field(default_factory=dict)
    xid: Xid | None = None
    sxid: Sxid | None = None


class KernelLog(Struct, frozen=True):
    events: tuple[KernelEvent, ...]
    lines: int
    """How many lines with a message were read."""
    from_boot: bool = False
    """Whether the log begins with the boot of the kernel, so that nothing before is missing."""
    first_time_text: str = ""
    last_time_text: str = ""
    too_long: int = 0
    """How many lines were longer than any kernel message is, and were looked at only in part."""
    cursor: str = ""
    """The journal cursor after the last line (``journalctl --show-cursor``)."""
    last_sequence: int | None = None

    def of(self, *categories: str) -> tuple[KernelEvent, ...]:
        """The events of some categories."""
        return tuple(event for event in self.events if event.category in categories)


def parse(text: str) -> KernelLog:
    """Events of a kernel log in any of the forms of :mod:`~hfprov.evidence.kernel_log.lines`.

    Raises NotUnderstoodError for an empty text, and for one in which no line looks like a log's.
    """
    text = one_line_each(clean(text))
    events: list[KernelEvent] = []
    count = framed = too_long = 0
    first: LogLine | None = None
    last = LogLine("")
    cursor, marked, from_boot = "", False, False
    previous = ""
    for number, raw in enumerate(text.split("\n"), 1):
        if not raw.strip():
            continue
        if _JOURNAL_MARK.fullmatch(raw[:200]):
            marked = True
            found = _CURSOR.match(raw)
            cursor = found.group(1) if found else cursor
            continue
        line = split_line(raw[:_LONGEST])
        count += 1
        too_long += len(raw) > _LONGEST
        framed += line.framed
        first = first or line
        last = line if line.framed else last
        # Only the beginning counts: the middle of a log may boot again.
        if count <= 3 and ("Linux version " in line.message or line.uptime_s == 0.0):
            from_boot = True
        _add_events(line, number, previous, events)
        previous = line.message
    if not count and not marked:
        raise NotUnderstoodError("The kernel log is empty.")
    if count and not framed and not events:
        raise NotUnderstoodError(
            f"No line looks like a line of a kernel log; the first is '{excerpt(text.strip())}'."
        )
    return KernelLog(
        tuple(events),
        lines=count,
        too_long=too_long,
        from_boot=from_boot,
        first_time_text=first.time_text if first else "",
        last_time_text=last.time_text,
        cursor=cursor,
        last_sequence=last.sequence,
    )


def _add_events(line: LogLine, number: int, previous: str, events: list[KernelEvent]) -> None:
    message = line.message
    if line.source not in ("", "kernel"):
        # Any program can write "Xid" to the log; only what the kernel says of hardware counts.
        _add_by_rule(line, number, previous, events, only=_NOT_KERNEL)
        return
    if "Xid" in message:
        sxid = find_sxid(message)
        if sxid is not None:
            events.append(_event(line, number, "sxid", sxid.severity, sxid.pci_address, sxid=sxid))
            return
        xids = list(find_xids(message))
        events.extend(
            _event(line, number, "xid", xid.severity, xid.pci_address, xid=xid) for xid in xids
        )
        if "NVRM: Xid" in message and not xids:
            # Garbled beyond its code; still not nothing.
            events.append(_event(line, number, "xid", Severity.UNKNOWN, find_pci_address(message)))
        if xids or "NVRM: Xid" in message:
            return
    if HINTS.search(message) and _add_by_rule(line, number, previous, events):
        return
    if events and events[-1].category == "aer" and _add_aer_detail(message, events):
        return
    if line.level in ("emerg", "alert", "crit", "err"):
        severity = _BAD_LEVELS.get(line.level, Severity.INFO)
        events.append(_event(line, number, "unclassified", severity, find_pci_address(message)))


def _add_by_rule(
    line: LogLine,
    number: int,
    previous: str,
    events: list[KernelEvent],
    *,
    only: frozenset[str] = frozenset(),
) -> bool:
    message = line.message
    for rule in RULES:
        if rule.hint not in message or (only and rule.category not in only):
            continue
        match = rule.pattern.search(message)
        if match is None:
            continue
        details = {name: value.strip() for name, value in match.groupdict().items() if value}
        device = find_pci_address(message)
        if not device and message[:1].isspace():
            device = find_pci_address(previous)
        disk = _DISK.search(message)
        device = device or details.get("interface", "") or (disk.group(1) if disk else "")
        events.append(_event(line, number, rule.category, rule.severity, device, details=details))
        return True
    return False


def _add_aer_detail(message: str, events: list[KernelEvent]) -> bool:
    """Add to the last AER event what the lines after it say: status, and names of the errors."""
    last = events[-1]
    told = _AER_DEVICE.search(message)
    if told:
        more = {"pci_id": told.group(1), "status_mask": told.group(2)}
        events[-1] = replace(last, details={**last.details, **more})
        return True
    bit = _AER_BIT.match(message[:300])
    if bit and (not last.device or last.device in message or "pci" not in message):
        known = last.details.get("errors", "")
        if len(known) < _LONGEST_NAMES:
            names = f"{known}, {bit.group(2)}" if known else bit.group(2)
            events[-1] = replace(last, details={**last.details, "errors": names})
        return True
    return False


def _event(  # noqa: PLR0913 - an event has these parts
    line: LogLine,
    number: int,
    category: str,
    severity: Severity,
    device: str,
    *,
    details: Mapping[str, str] | None = None,
    xid: Xid | None = None,
    sxid: Sxid | None = None,
) -> KernelEvent:
    return KernelEvent(
        category=category,
        severity=severity,
        device=device,
        message=line.message.strip(),
        line=number,
        time_text=line.time_text,
        time=line.time,
        uptime_s=line.uptime_s,
        sequence=line.sequence,
        level=line.level,
        details=details or {},
        xid=xid,
        sxid=sxid,
    )


def since(
    log: KernelLog,
    *,
    moment: datetime | None = None,
    uptime_s: float | None = None,
    sequence: int | None = None,
    zone: tzinfo = UTC,
) -> tuple[KernelEvent, ...]:
    """Events from ``moment`` or ``uptime_s`` on, or after ``sequence`` (of ``/dev/kmsg``).

    ``zone`` is taken for times printed without one (``dmesg -T``, in the node's local time). An
    event is left out only when it is known to be earlier: one without such a time stays.
    """
    return tuple(
        event
        for event in log.events
        if not _is_before(event, moment=moment, uptime_s=uptime_s, sequence=sequence, zone=zone)
    )


def _is_before(
    event: KernelEvent,
    *,
    moment: datetime | None,
    uptime_s: float | None,
    sequence: int | None,
    zone: tzinfo,
) -> bool:
    if sequence is not None and event.sequence is not None:
        return event.sequence <= sequence
    if uptime_s is not None and event.uptime_s is not None:
        return event.uptime_s < uptime_s
    if moment is not None and event.time is not None:
        time = event.time if event.time.tzinfo else event.time.replace(tzinfo=zone)
        limit = moment if moment.tzinfo else moment.replace(tzinfo=zone)
        return time < limit
    return False
