"""Sensors at length: ``ipmitool -v sdr``, ``sensor get`` and ``sdr type``, a block for each one.

A block begins with ``Sensor ID``. Sensors with thresholds have a reading and a status in words
(``ok``, ``Upper Critical``); discrete ones list their states in brackets under ``States Asserted``.
"""

from __future__ import annotations

import re

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.host_values import bad_line, numbered_lines
from hfprov.evidence.ipmi_sensors import Sensor, sensor_of
from hfprov.evidence.text import excerpt
from hfprov.regex import regex

_FIRST = regex(r"Sensor ID\s*:\s*(.*?)\s*\((0x[0-9a-f]{1,2})\)\s*", re.IGNORECASE)
_READING = regex(r"(-?[0-9]{1,12}(?:\.[0-9]{1,6})?) \(\+/- [0-9.]{1,12}\) (.+)")
_STATE = regex(r"\[(.+)\]")
_MARKS = {
    "ok": "ok",
    "lower non-critical": "lnc",
    "lower critical": "lcr",
    "lower non-recoverable": "lnr",
    "upper non-critical": "unc",
    "upper critical": "ucr",
    "upper non-recoverable": "unr",
}
_NO_STATUS = frozenset({"disabled", "no reading", "not available", "unknown", "not readable", "ns"})
_ANALOG, _DISCRETE = "Sensor Type (Analog)", "Sensor Type (Discrete)"


def is_detailed(first: str) -> bool:
    """Whether the first line that is not empty begins such a block."""
    return _FIRST.fullmatch(first.strip()) is not None


def parse_sensor_details(text: str) -> tuple[Sensor, ...]:
    """Sensors of all blocks. Raises NotUnderstoodError for a block that is cut off."""
    blocks: list[tuple[int, str, dict[str, list[str]]]] = []
    key = ""
    for number, line in numbered_lines(text):
        plain = line.strip()
        if not plain:
            continue
        if first := _FIRST.fullmatch(plain):
            blocks.append((number, first.group(1), {}))
            continue
        if not blocks:
            raise bad_line("ipmitool", number, line, "'Sensor ID : name (0x…)' first")
        fields = blocks[-1][2]
        name, colon, value = plain.partition(":")
        if plain.startswith("[") and key:
            fields[key].append(plain)
        elif colon:
            key = name.strip()
            fields.setdefault(key, []).append(value.strip())
        else:
            raise bad_line("ipmitool", number, line, "'key : value' or '[a state]'")
    return tuple(_sensor(*block) for block in blocks)


def _sensor(number: int, name: str, fields: dict[str, list[str]]) -> Sensor:
    states = tuple(
        match.group(1)
        for line in fields.get("States Asserted", [])
        if (match := _STATE.fullmatch(line))
    )
    if _ANALOG in fields:
        reading, status = _one(name, fields, "Sensor Reading"), _one(name, fields, "Status").lower()
        mark = "ns" if status in _NO_STATUS else _MARKS.get(status, status)
        match = _READING.fullmatch(reading)
        value = f"{match.group(1)} {match.group(2)}" if match else reading
        return sensor_of(number, f"Status: {status}", name, value, mark, states)
    if _DISCRETE in fields:
        return sensor_of(number, name, name, "", "ok", states)
    raise NotUnderstoodError(f"The sensor '{excerpt(name, 40)}' shows no type: it is cut off.")


def _one(name: str, fields: dict[str, list[str]], key: str) -> str:
    if not fields.get(key):
        raise NotUnderstoodError(f"The sensor '{excerpt(name, 40)}' shows no '{key}': cut off.")
    return fields[key][0]
