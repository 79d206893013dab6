"""Drive health: ``smartctl -a -j`` (JSON) and the text of ``smartctl -H``/``-a``.

Written from the documentation of smartmontools 7 (smartctl(8), json keys of smartctl.cpp). The exit
status of smartctl is a set of bits that is also in the JSON; bits 0 and 1 mean that the drive was
not asked: that is never good health. Bit 2 is set as well when only one log of many could not be
read (as of drives behind RAID controllers): it is a finding beside health and counters, and without
counters there is no answer.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.host_values import (
    json_count,
    json_value,
    mapping,
    optional_bool,
    optional_text,
    sequence,
    unknown_form,
)
from hfprov.evidence.smartctl_text import counters_of
from hfprov.evidence.text import clean, excerpt
from hfprov.regex import regex

EXIT_BITS = (
    "command line did not parse",
    "device did not open",
    "a command to the device failed",
    "the health check says: failing",
    "prefail attributes are below their threshold",
    "attributes were below their threshold in the past",
    "the error log has entries",
    "the self-test log has errors",
)
"""Meaning of the bits of the exit status, from bit 0 (smartctl(8), "EXIT STATUS")."""

SPARE_IS_LOW = "the spare blocks are fewer than the drive's own threshold"
"""Of NVMe drives; some report it and still say that they passed."""
_NOT_ASKED = 0b011
_COMMAND_FAILED = 0b100
_COUNTERS = (
    "ata_smart_attributes",
    "nvme_smart_health_information_log",
    "scsi_error_counter_log",
)
_HEALTH = regex(
    r"SMART (?:overall-health self-assessment test result|Health Status): *(.+)", re.IGNORECASE
)
_LACKING = regex(r"SMART support is: +Unavailable.*")
_FIELD = regex(
    r"(Device Model|Model Number|Product|Serial [Nn]umber|Firmware Version|Revision): *(.+)"
)


class SmartctlFacts(Struct, frozen=True):
    """Health of one drive. None: this kind of drive does not say."""

    device: str | None
    model: str | None
    serial: str | None
    firmware: str | None
    passed: bool
    """What the drive says of itself. False is certain; True is not much."""
    findings: tuple[str, ...]
    """Meaning of the exit bits 2 to 7 that are set, or what the text says of them; spare blocks."""
    temperature_celsius: float | None
    power_on_hours: int | None
    reallocated_sectors: int | None
    """ATA's attribute 5; of SCSI (SAS) drives the list of grown defects."""
    pending_sectors: int | None
    media_errors: int | None
    """NVMe's media errors; of SCSI drives what reading, writing, verifying could not correct."""
    used_percent: int | None
    """NVMe only."""


def parse(text: str) -> SmartctlFacts:
    """Facts from smartctl. Raises NotUnderstoodError when the drive was not asked."""
    text = clean(text)
    if text.lstrip().startswith("{"):
        return _from_json(mapping(json_value(text, "smartctl"), "The smartctl document"))
    return _from_text(text)


def _from_json(document: dict[str, Any]) -> SmartctlFacts:
    about = mapping(document.get("smartctl"), "'smartctl'")
    status = json_count(about.get("exit_status"), "'exit_status'")
    if status & _NOT_ASKED or "smart_status" not in document:
        said = _messages(about) or "; ".join(_bits(status, 0)) or "there is no 'smart_status'"
        raise NotUnderstoodError(f"smartctl did not ask the drive: {said}.")
    health = mapping(document["smart_status"], "'smart_status'")
    passed = optional_bool(health.get("passed"), "'passed'")
    if passed is None:
        raise NotUnderstoodError("'smart_status' does not say whether the drive passed.")
    nvme = document.get("nvme_smart_health_information_log")
    nvme = nvme if isinstance(nvme, dict) else {}
    device = document.get("device")
    if status & _COMMAND_FAILED and not any(document.get(name) for name in _COUNTERS):
        said = _messages(about) or EXIT_BITS[2]
        raise NotUnderstoodError(f"smartctl got no counters from the drive: {said}.")
    return SmartctlFacts(
        device=optional_text(device.get("name"), "'name'") if isinstance(device, dict) else None,
        model=_text(document, "model_name", "scsi_model_name"),
        serial=optional_text(document.get("serial_number"), "'serial_number'"),
        firmware=_text(document, "firmware_version", "scsi_revision", "revision"),
        passed=passed,
        findings=(*_bits(status, 2), *_spare(nvme)),
        temperature_celsius=_nested(document, "temperature", "current"),
        power_on_hours=_nested(document, "power_on_time", "hours"),
        reallocated_sectors=_attribute(document, 5, "scsi_grown_defect_list"),
        pending_sectors=_attribute(document, 197),
        media_errors=_maybe(nvme, "media_errors") if nvme else _uncorrected(document),
        used_percent=_maybe(nvme, "percentage_used"),
    )


def _text(document: dict[str, Any], *names: str) -> str | None:
    """The first of the keys that is there; SCSI drives have their own."""
    for name in names:
        if name in document:
            return optional_text(document[name], f"'{name}'")
    return None


def _uncorrected(document: dict[str, Any]) -> int | None:
    """Errors that a SCSI drive could not correct, over all kinds of access that it counts."""
    log = document.get("scsi_error_counter_log")
    if not isinstance(log, dict):
        return None
    kinds = [mapping(kind, "A kind of 'scsi_error_counter_log'") for kind in log.values()]
    counts = [_maybe(kind, "total_uncorrected_errors") for kind in kinds]
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _messages(about: dict[str, Any]) -> str:
    messages = about.get("messages")
    if not isinstance(messages, list):
        return ""
    texts = [item.get("string") for item in messages if isinstance(item, dict)]
    return "; ".join(f"'{excerpt(text)}'" for text in texts if isinstance(text, str))


def _bits(status: int, first: int) -> list[str]:
    return [meaning for bit, meaning in enumerate(EXIT_BITS) if bit >= first and status >> bit & 1]


def _spare(nvme: dict[str, Any]) -> list[str]:
    left, least = _maybe(nvme, "available_spare"), _maybe(nvme, "available_spare_threshold")
    return [SPARE_IS_LOW] if left is not None and least is not None and left < least else []


def _maybe(item: dict[str, Any], name: str) -> int | None:
    return json_count(item[name], f"'{name}'") if name in item else None


def _nested(document: dict[str, Any], name: str, key: str) -> int | None:
    nested = document.get(name)
    return _maybe(nested, key) if isinstance(nested, dict) else None


def _attribute(document: dict[str, Any], number: int, scsi: str | None = None) -> int | None:
    """The raw value of an ATA attribute, or the value of a SCSI drive's key."""
    attributes = document.get("ata_smart_attributes")
    if not isinstance(attributes, dict):
        return None if scsi is None else _maybe(document, scsi)
    for item in sequence(attributes.get("table") or [], "'table'"):
        entry = mapping(item, "An attribute")
        if entry.get("id") == number:
            return _nested(entry, "raw", "value")
    return None


def _from_text(text: str) -> SmartctlFacts:
    match = _HEALTH.search(text)
    if match is None and (lacking := _LACKING.search(text)):
        raise NotUnderstoodError(
            f"smartctl did not ask the drive: '{excerpt(lacking.group())}'.",
            hint="Behind a RAID controller, name the drive: 'smartctl -a -d megaraid,N /dev/sdX'.",
        )
    if match is None:
        raise unknown_form("smartctl", text, "'SMART overall-health self-assessment test result'")
    verdict = match.group(1).strip()
    # SCSI drives that are failing answer with words ("FAILURE PREDICTION THRESHOLD EXCEEDED").
    if not re.match(r"PASSED$|OK$|FAILED|[A-Z]{3,} [A-Z]", verdict):
        raise NotUnderstoodError(f"The health '{excerpt(verdict, 40)}' is not understood.")
    fields = {key.lower(): value.strip() for key, value in _FIELD.findall(text)}
    counters = counters_of(text)
    seen = (
        counters.failing_now,
        counters.failed_in_the_past,
        counters.errors_logged,
        counters.self_test_failed,
        counters.spare_is_low,
    )
    return SmartctlFacts(
        device=None,
        model=fields.get("device model") or fields.get("model number") or fields.get("product"),
        serial=fields.get("serial number"),
        firmware=fields.get("firmware version") or fields.get("revision"),
        passed=verdict in ("PASSED", "OK"),
        findings=tuple(
            said for said, is_so in zip((*EXIT_BITS[4:], SPARE_IS_LOW), seen, strict=True) if is_so
        ),
        temperature_celsius=counters.temperature_celsius,
        power_on_hours=counters.power_on_hours,
        reallocated_sectors=counters.reallocated_sectors,
        pending_sectors=counters.pending_sectors,
        media_errors=counters.media_errors,
        used_percent=counters.used_percent,
    )
