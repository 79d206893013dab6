"""The front of a kernel log line: time, level, host - whichever program printed it.

Forms: ``dmesg`` (plain, ``-T``, ``-d``, ``-e``, ``--time-format iso``, ``--decode``, ``-r``),
``journalctl -k`` in ``short``, ``short-iso``, ``short-iso-precise``, ``short-full``,
``short-monotonic``, ``short-unix`` and ``json`` (pretty too), ``/dev/kmsg``, syslog files, and
lines without any front.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

from msgspec import Struct

from hfprov.regex import regex

_LEVELS = ("emerg", "alert", "crit", "err", "warn", "notice", "info", "debug")
_FACILITY = regex(r"([a-z0-9]{2,8})\s*:(emerg|alert|crit|err|warn|notice|info|debug)\s*:\s?")
_KMSG = regex(r"(\d{1,6}),(\d{1,20}),(\d{1,20}),[^;]{0,200};")
_RAW = regex(r"<(\d{1,4})>")
_DELTA = r"(?: <\s{0,12}\d{1,12}\.\d{1,9}>)?"
_BOOT = regex(r"\[\s{0,12}(\d{1,12}\.\d{1,9})" + _DELTA + r"\](?:\[\s{0,12}[TC]\d+\])? ?")
_SINCE_LAST = regex(r"\[(?:\s{0,12}\+|<\s{0,12})\d{1,12}\.\d{1,9}>?\] ?")
_MINUTE = regex(r"\[[A-Z][a-z]{2} ?\d{1,2} \d\d:\d\d\] ?")
_CTIME = regex(
    r"\[?(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) +([A-Z][a-z]{2}) +(\d{1,2}) (\d\d:\d\d:\d\d) (\d{4})"
    rf"{_DELTA}\] ?"
)
_ISO = regex(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?\s+")
_FULL = regex(
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.\d+)? (\S{1,10})\s+"
)
_SYSLOG = regex(r"(\d{1,2}月|[^\W\d_]{3,5}\.?) {1,2}(\d{1,2}) (\d\d:\d\d:\d\d)(?:\.\d+)?\s+")
_UNIX = regex(r"(1\d{9}\.\d{1,6})\s+")
_TAG = regex(r"(?:([\w.-]{1,255}) )?((?:kernel|[\w@.+/-]{1,100})(?:\[\d{1,10}\])?): ")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

_PRETTY = regex(r"\s*\{[ \t]*\n")


class LogLine(Struct, frozen=True):
    """A line, taken apart."""

    message: str
    time_text: str = ""
    """As printed."""
    time: datetime | None = None
    """With a zone where the form has one; None where the form has no date or no year."""
    uptime_s: float | None = None
    """Seconds since boot."""
    sequence: int | None = None
    """Sequence number in ``/dev/kmsg``."""
    level: str = ""
    """``emerg`` to ``debug``; empty when the form does not say."""
    source: str = ""
    """``kernel``, or the program or facility that wrote to the same log; empty if not said."""
    framed: bool = False
    """Whether the line had a front that was understood."""


def split_line(text: str) -> LogLine:
    """The parts of one line. Never fails: without a known front the whole line is the message."""
    if text.startswith("{") and text.endswith("}"):
        return _journal_json(text) or LogLine(text)
    kmsg = _KMSG.match(text)
    if kmsg:
        priority, sequence, micros = (int(part[:18]) for part in kmsg.groups())
        return LogLine(
            text[kmsg.end() :],
            time_text=kmsg.group(3),
            uptime_s=micros / 1e6,
            sequence=sequence,
            level=_LEVELS[priority % 8],
            source="kernel" if priority < len(_LEVELS) else "user",
            framed=True,
        )
    level, source, position = _level(text)
    return _timed(text, position, level, source)


def _level(text: str) -> tuple[str, str, int]:
    """Level, source and where the rest begins, of ``dmesg --decode`` and ``dmesg -r``."""
    decoded = _FACILITY.match(text)
    if decoded:
        facility = decoded.group(1)
        return decoded.group(2), "kernel" if facility == "kern" else facility, decoded.end()
    raw = _RAW.match(text)
    if raw is None:
        return "", "", 0
    priority = int(raw.group(1))
    return _LEVELS[priority % 8], "kernel" if priority < len(_LEVELS) else "user", raw.end()


def _timed(text: str, position: int, level: str, source: str) -> LogLine:
    for pattern, read in _FORMS:
        match = pattern.match(text, position)
        if match is None:
            continue
        moment, uptime = read(match)
        end = match.end()
        tag = _TAG.match(text, end)
        # dmesg prints no host and no tag: there, "ACPI Error: …" is the message itself.
        journal = not level and pattern in _JOURNAL and "," not in match.group()
        if tag is not None and (tag.group(2) == "kernel" or (journal and tag.group(1))):
            source, end = tag.group(2).partition("[")[0], tag.end()
        return LogLine(
            text[end:],
            time_text=match.group().strip(" []"),
            time=moment,
            uptime_s=uptime,
            level=level,
            source=source,
            framed=True,
        )
    return LogLine(text[position:], level=level, source=source, framed=bool(level))


def _boot(match: re.Match[str]) -> tuple[datetime | None, float | None]:
    return None, float(match.group(1))


def _untimed(_: re.Match[str]) -> tuple[datetime | None, float | None]:
    """The time since the line before (``-d``), or a minute without a year (``-e``): no moment."""
    return None, None


def _ctime(match: re.Match[str]) -> tuple[datetime | None, float | None]:
    month, day, clock, year = match.groups()
    if month not in _MONTHS:
        return None, None
    return _moment(f"{year}-{_MONTHS.index(month) + 1:02}-{int(day):02}", clock), None


def _iso(match: re.Match[str]) -> tuple[datetime | None, float | None]:
    date, clock, fraction, zone = match.groups()
    zone = "+00:00" if zone == "Z" else zone or ""
    if zone and ":" not in zone:
        zone = f"{zone[:3]}:{zone[3:]}"
    return _moment(date, f"{clock}.{(fraction or '0')[:6]:0<6}{zone}"), None


def _full(match: re.Match[str]) -> tuple[datetime | None, float | None]:
    date, clock, zone = match.groups()
    return _moment(date, clock + ("+00:00" if zone == "UTC" else "")), None


def _syslog(_match: re.Match[str]) -> tuple[datetime | None, float | None]:
    return None, None  # no year


def _unix(match: re.Match[str]) -> tuple[datetime | None, float | None]:
    return datetime.fromtimestamp(float(match.group(1)), UTC), None


_FORMS = (
    (_BOOT, _boot),
    (_SINCE_LAST, _untimed),
    (_MINUTE, _untimed),
    (_CTIME, _ctime),
    (_ISO, _iso),
    (_FULL, _full),
    (_SYSLOG, _syslog),
    (_UNIX, _unix),
)
_JOURNAL = (_ISO, _FULL, _SYSLOG, _UNIX)


def _moment(date: str, clock: str) -> datetime | None:
    try:
        return datetime.fromisoformat(f"{date}T{clock}")
    except ValueError:
        return None


def one_line_each(text: str) -> str:
    """Entries of ``journalctl -o json-pretty`` with one line each, other text as it is.

    Line breaks go behind the entry that they stood in, so that line numbers stay true.
    """
    if not _PRETTY.match(text):
        return text
    decoder, parts, at = json.JSONDecoder(), [], 0
    while (start := text.find("{", at)) >= 0:
        try:
            end = decoder.raw_decode(text, start)[1]
        except (ValueError, RecursionError):
            break
        entry = text[start:end]
        parts += [text[at:start], entry.replace("\n", " "), "\n" * entry.count("\n")]
        at = end
    return "".join(parts) + text[at:]


def _journal_json(text: str) -> LogLine | None:
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or not isinstance(entry.get("MESSAGE"), str):
        return None
    stamp, boot = _digits(entry.get("__REALTIME_TIMESTAMP")), entry.get("__MONOTONIC_TIMESTAMP")
    micros = _digits(boot)
    priority = _digits(entry.get("PRIORITY"))
    return LogLine(
        entry["MESSAGE"],
        time_text=str(stamp or ""),
        time=datetime.fromtimestamp(stamp / 1e6, UTC) if stamp and stamp < 4e15 else None,
        uptime_s=micros / 1e6 if micros is not None else None,
        level=_LEVELS[priority % 8] if priority is not None else "",
        source=str(entry.get("SYSLOG_IDENTIFIER", ""))[:100],
        framed=True,
    )


def _digits(value: object) -> int | None:
    text = str(value)[:18] if isinstance(value, (str, int)) else ""
    return int(text) if text.isascii() and text.isdigit() else None
