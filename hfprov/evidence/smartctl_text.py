"""Counters in the text of ``smartctl -a`` and ``-x``: of NVMe, ATA and SCSI drives.

smartctl groups digits as the language of the session does (``6,726``, ``6.726``, ``6 726``).
"""

from __future__ import annotations

import re

from msgspec import Struct

from hfprov.regex import regex

_COUNT = r"([0-9][0-9,.'\u2019\u202f\u00a0]*)"
_NVME = regex(
    r"^(Temperature|Percentage Used|Power On Hours|Media and Data Integrity Errors"
    r"|Available Spare|Available Spare Threshold|ATA Error Count): +" + _COUNT,
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
_SELF_TEST = regex(
    r"^(?:# ?)? ?[0-9]{1,2} +"
    r"((?:Short|Extended|Conveyance|Selective|Vendor|Background|Foreground)\b.*)",
    re.MULTILINE,
)
"""Rows of the self-test log, the newest first."""
_SELF_TEST_FAILED = regex(
    r"Completed: (?:\S+ )?(?:failure|failed)|Failed in |segment failed|Fatal or unknown"
    r"|Unknown error|handling damage"
)
_WHOLE_TEST = regex(
    r"(?:Extended|Background long|Foreground long)\b.*Completed(?: without error| {2}|$)"
)
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
    errors_logged: bool
    """Of ATA drives."""
    self_test_failed: bool
    """A self-test found an error, and no long one has gone well since."""
    spare_is_low: bool
    """Of NVMe drives: below the drive's own threshold."""


def counters_of(text: str) -> TextCounters:
    """Counters of whichever kind of drive the text is about."""
    named = {name: _whole(value) for name, value in _NVME.findall(text) + _SCSI.findall(text)}
    table = {int(number): (when, int(raw)) for number, when, raw in _ATA.findall(text)}
    raw = {number: value for number, (_, value) in table.items()}
    uncorrected = [int(count) for count in _SCSI_ERRORS.findall(text)]
    when = {when for when, _ in table.values()}
    spare, least = named.get("Available Spare"), named.get("Available Spare Threshold")
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
        errors_logged=bool(named.get("ATA Error Count")),
        self_test_failed=_self_test_failed(text),
        spare_is_low=spare is not None and least is not None and spare < least,
    )


def _self_test_failed(text: str) -> bool:
    """As smartctl sets bit 7 of its exit status: what a later long test found mended is over."""
    for row in _SELF_TEST.findall(text):
        if _SELF_TEST_FAILED.search(row):
            return True
        if _WHOLE_TEST.match(row):
            return False
    return False


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _whole(digits: str) -> int:
    return int(re.sub(r"\D", "", digits)[:18])
