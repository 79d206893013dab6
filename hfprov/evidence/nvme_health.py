"""The SMART log of an NVMe drive, from ``nvme smart-log`` as JSON or text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.host_values import json_count, natural
from hfprov.evidence.text import excerpt
from hfprov.regex import regex

WARNINGS = (
    "available_spare",
    "temp_threshold",
    "reliability_degraded",
    "read_only",
    "volatile_memory_backup_failed",
    "persistent_memory_read_only",
)
"""Names of the bits of the critical warning, from bit 0."""

_OBJECT_KEYS = (
    "available_spare",
    "temp_threshold",
    "reliability_degraded",
    "ro",
    "vmbu_failed",
    "pmr_ro",
)
_NUMBER = regex(r"([0-9][0-9,.' \u2019\u202f\u00a0]*)(?:%|°?[CFK]\b.*|Celsius.*|\(.*|minutes?)?")
_KELVIN = 273.15
_MAX_WARNING = 255


class NvmeHealth(Struct, frozen=True):
    """Health of one drive."""

    warnings: tuple[str, ...]
    """Bits of the critical warning that are set; empty is "the drive reports no warning"."""
    temperature_celsius: float
    spare_percent: int
    spare_threshold_percent: int
    used_percent: int
    """Endurance used; may exceed 100."""
    media_errors: int
    error_log_entries: int
    """Counts refused commands as well: not a fault by itself."""
    power_on_hours: int
    unsafe_shutdowns: int
    warning_temperature_minutes: int
    critical_temperature_minutes: int

    @property
    def is_ok(self) -> bool:
        """No critical warning, no media error, and enough spare blocks."""
        return (
            not self.warnings
            and self.media_errors == 0
            and self.spare_percent > self.spare_threshold_percent
        )


_ALIASES = {
    "available_spare": "avail_spare",
    "available_spare_threshold": "spare_thresh",
    "percentage_used": "percent_used",
    "warning_temperature_time": "warning_temp_time",
    "critical_composite_temperature_time": "critical_comp_time",
}


def parse_smart_json(document: Mapping[str, Any]) -> NvmeHealth:
    """The JSON of ``nvme smart-log``. Raises NotUnderstoodError where a value is missing."""
    named = {_ALIASES.get(key, key): value for key, value in document.items()}

    def count(name: str) -> int:
        if name not in named:
            raise NotUnderstoodError(f"The SMART log has no '{name}'.")
        return json_count(named[name], f"'{name}' of the SMART log")

    return _health(_json_warnings(named["critical_warning"]), count, kelvin=True)


def _json_warnings(value: Any) -> tuple[str, ...]:
    if not isinstance(value, dict):
        return _bits(json_count(value, "'critical_warning'"))
    bits = json_count(value.get("value", 0), "'critical_warning.value'")
    found = set(_bits(bits))
    known = False
    for key, name in zip(_OBJECT_KEYS, WARNINGS, strict=True):
        if key in value:
            known = True
            if json_count(value[key], f"'critical_warning.{key}'"):
                found.add(name)
    if not known and "value" not in value:
        raise NotUnderstoodError("'critical_warning' says nothing that is known.")
    return tuple(name for name in (*WARNINGS, "unknown") if name in found)


def _bits(value: int) -> tuple[str, ...]:
    if value > _MAX_WARNING:
        raise NotUnderstoodError(f"'critical_warning' should be a byte, but is {value}.")
    names = [name for bit, name in enumerate(WARNINGS) if value >> bit & 1]
    return tuple(names + ["unknown"] * bool(value >> len(WARNINGS)))


def _health(warnings: tuple[str, ...], count: Any, *, kelvin: bool) -> NvmeHealth:
    temperature = count("temperature")
    return NvmeHealth(
        warnings=warnings,
        temperature_celsius=round(temperature - _KELVIN, 2) if kelvin else float(temperature),
        spare_percent=count("avail_spare"),
        spare_threshold_percent=count("spare_thresh"),
        used_percent=count("percent_used"),
        media_errors=count("media_errors"),
        error_log_entries=count("num_err_log_entries"),
        power_on_hours=count("power_on_hours"),
        unsafe_shutdowns=count("unsafe_shutdowns"),
        warning_temperature_minutes=count("warning_temp_time"),
        critical_temperature_minutes=count("critical_comp_time"),
    )


_TEXT_NAMES = {
    "available_spare": "avail_spare",
    "available_spare_threshold": "spare_thresh",
    "percentage_used": "percent_used",
    "warning temperature time": "warning_temp_time",
    "critical composite temperature time": "critical_comp_time",
}


def parse_smart_text(text: str) -> NvmeHealth:
    """The text of ``nvme smart-log``: ``name : value`` with thousands separators and units."""
    named: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and key.strip() and not key.startswith((" ", "\t")):
            name = key.strip().lower()
            named.setdefault(_TEXT_NAMES.get(name, name), value.strip())

    def count(name: str) -> int:
        if name not in named:
            raise NotUnderstoodError(f"The SMART log has no '{name}': it is cut off.")
        match = _NUMBER.fullmatch(named[name])
        if match is None:
            said = excerpt(named[name], 40)
            raise NotUnderstoodError(f"'{name}' of the SMART log is no number: '{said}'.")
        return natural(re.sub(r"[^0-9]", "", match.group(1)), f"'{name}' of the SMART log")

    if "°F" in named.get("temperature", ""):
        raise NotUnderstoodError("The temperature of the SMART log should be in Celsius.")
    raw = named.get("critical_warning", "")
    bits = (
        int(raw, 16) if re.fullmatch(r"0x[0-9a-f]{1,2}", raw) else natural(raw, "critical_warning")
    )
    return _health(_bits(bits), count, kelvin=False)
