"""Counters in the text of ``smartctl -a`` and ``-x``: of NVMe, ATA and SCSI drives.

smartctl groups digits as the language of the session does (``6,726``, ``6.726``, ``6 726``).
"""

from __future__ import annotations

import re

from msgspec import Struct

from hfprov.regex import regex

_COUNT = r"([0-9][0-9,.'\u2019\u202f\u00a0]*)"
_NVME = regex(
    r"^(Temperature|Percentage Used|Power On Hours|Media and Data Integrity Errors): +" + _COUNT,
    re.MULTILINE,
)
_SCSI = regex(
    r"^(Current Drive Temperature|Elements in grown defect list"
    r"|Accumulated power on time, hours:minutes)[: ] *" + _COUNT,
    re.MULTILINE,
)
_SCSI_ERRORS = regex(r"^(?:read|write|verify): +(?:[0-9.]+ +){6}([0-9]+) *$", re.MULTILINE)
"""Rows of the error counter log; the last of seven columns counts what stayed uncorrected."""
_ATA = regex(
    r"^ *([0-9]{1,3}) [A-Za-z][\w/-]* +(?:0x[0-9a-f]{4}|[A-Z-]{6}) +[0-9]{3} +[0-9]{3} +[0-9-]{3}"
    r" +(?:(?:Pre-fail|Old_age) +(?:Always|Offline) +)?(\S+) +([0-9]+)",
    re.MULTILINE,
)
"""Number, when failed, and raw value of an attribute, in the long and the brief table."""
_NEVER_FAILED = "-"
_FAILING = ("FAILING_NOW", "NOW")


class TextCounters(Struct, frozen=True):
    """What the text says beside the verdict. None: it does not say."""

    temperature_celsius: int | None
    power_on_hours: int | None
    reallocated_sectors: int | None
    pending_sectors: int | None
    media_errors: int | None
    used_percent: int | None
    failing_now: bool
    """An ATA attribute is at or below its threshold."""
    failed_in_the_past: bool


def counters_of(text: str) -> TextCounters:
    """Counters of whichever kind of drive the text is about."""
    named = {name: _whole(value) for name, value in _NVME.findall(text) + _SCSI.findall(text)}
    table = {int(number): (when, int(raw)) for number, when, raw in _ATA.findall(text)}
    raw = {number: value for number, (_, value) in table.items()}
    uncorrected = [int(count) for count in _SCSI_ERRORS.findall(text)]
    when = {when for when, _ in table.values()}
    return TextCounters(
        temperature_celsius=_first(
            named.get("Temperature"),
            named.get("Current Drive Temperature"),
            raw.get(194),
            raw.get(190),
        ),
        power_on_hours=_first(
            named.get("Power On Hours"),
            named.get("Accumulated power on time, hours:minutes"),
            raw.get(9),
        ),
        reallocated_sectors=_first(raw.get(5), named.get("Elements in grown defect list")),
        pending_sectors=raw.get(197),
        media_errors=_first(
            named.get("Media and Data Integrity Errors"), sum(uncorrected) if uncorrected else None
        ),
        used_percent=named.get("Percentage Used"),
        failing_now=any(word in _FAILING for word in when),
        failed_in_the_past=any(word not in (*_FAILING, _NEVER_FAILED) for word in when),
    )


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _whole(digits: str) -> int:
    return int(re.sub(r"\D", "", digits)[:18])
