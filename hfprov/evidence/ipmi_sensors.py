"""Sensors of a BMC: ``ipmitool sdr``, ``sdr elist``, ``sensor``, and FreeIPMI's CSV.

ipmitool marks each sensor with two letters: ``ok``, ``ns`` (no reading), ``nc``, ``cr``, ``nr``
(non-critical, critical, non-recoverable; with ``l`` or ``u`` before them for lower or upper).
``ok`` of a discrete sensor (``0x01``) only means that it can be read; ``elist`` has event words.
"""

from __future__ import annotations

import csv
import re

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.host_values import bad_line, numbered_lines
from hfprov.evidence.text import excerpt
from hfprov.regex import regex

_VALUE = regex(r"(-?[0-9]{1,12}(?:\.[0-9]{1,6})?)(?: (.+))?")
_MARK = regex(r"ok|ns|nc|cr|nr|[lu](?:nc|cr|nr)|na", re.IGNORECASE)
_NO_READING = frozenset(
    {"", "na", "n/a", "no reading", "disabled", "not readable", "no value", "unavailable"}
)
_GOOD_STATES = frozenset(
    {
        "ok",
        "presence detected",
        "fully redundant",
        "present",
        "device present",
        "drive presence",
        "drive present",
        "power supply present",
        "device enabled",
        "s0/g0",
        "s0/g0: working",
        "transition to active",
        "transition to running",
        "enabled",
        "processor presence detected",
        "entity present",
        "transition to ok",
        "state deasserted",
        "limit not exceeded",
        "presence detected ok",
        "oem event = 0000h",
        "n/a",
        "",
    }
)
_BAD_WORDS = regex(
    r"fail|fault|lost|degraded|non-redundant|critical|non-recoverable|predictive|error|ierr|"
    r"thermal trip|absent|removed|uncorrectable|mismatch|at or (?:below|above)|out of range",
    re.IGNORECASE,
)
_DISCRETE = regex(r"0x[0-9a-f]+|[0-9a-f]+h", re.IGNORECASE)
_HEADER = regex(r"ID\s*[|,]\s*Name\s*[|,]\s*Type")
_FREEIPMI_BARS = (5, 6)
_QUOTED = regex(r"'([^']*)'")
_FREEIPMI_COLUMNS = 6
_THRESHOLDS = 6
"""Columns that FreeIPMI has before the event words with ``--output-sensor-thresholds``."""
_SENSOR_COLUMNS = 10


class Sensor(Struct, frozen=True):
    """One sensor."""

    name: str
    value: float | None
    """None for discrete sensors, and where there is no reading."""
    unit: str
    """As printed: ``degrees C``, ``RPM``, ``Watts``, ``percent``."""
    mark: str
    """ipmitool's letters in lower case (``ok``, ``ucr``), or empty (FreeIPMI)."""
    states: tuple[str, ...]
    """Event words: ``Presence detected``, ``Failure detected``."""
    is_ok: bool | None
    """None where the sensor has no reading and no state, or only words of unknown meaning."""


def parse_sensors(text: str) -> tuple[Sensor, ...]:
    """Sensors from any of the forms. Raises NotUnderstoodError for a row of another shape."""
    sensors = []
    freeipmi = False
    for number, line in numbered_lines(text):
        if not line.strip() or _HEADER.match(line):
            freeipmi = freeipmi or bool(line.strip())
            continue
        if "|" in line and (freeipmi or line.count("|") in _FREEIPMI_BARS):
            sensors.append(_freeipmi(number, line, [cell.strip() for cell in line.split("|")]))
        elif "|" in line:
            sensors.append(_ipmitool(number, line))
        else:
            sensors.append(_comma_separated(number, line))
    if not sensors:
        raise NotUnderstoodError("The BMC lists no sensor.")
    return tuple(sensors)


def _ipmitool(number: int, line: str) -> Sensor:
    cells = [cell.strip() for cell in line.split("|")]
    if len(cells) == len(("name", "value", "mark")):
        name, value, mark = cells
        return sensor_of(number, line, name, value, mark, ())
    if len(cells) == len(("name", "number", "mark", "entity", "reading")):
        # sdr elist: name | 0Eh | ok | 3.1 | reading or event words
        name, _, mark, _, reading = cells
        if _VALUE.fullmatch(reading) or reading.lower() in _NO_READING:
            return sensor_of(number, line, name, reading, mark, ())
        states = tuple(part.strip() for part in reading.split(",") if part.strip())
        return sensor_of(number, line, name, "", mark, states)
    if len(cells) == _SENSOR_COLUMNS:
        # sensor: name | value | unit | status | six thresholds
        name, value, unit, mark = cells[:4]
        if unit == "discrete":
            mark = "ok" if _DISCRETE.fullmatch(mark) else mark
            return sensor_of(number, line, name, value, mark, ())
        full = value if value.lower() in _NO_READING else f"{value} {unit}"
        return sensor_of(number, line, name, full, mark, ())
    raise bad_line("ipmitool", number, line, "3, 5 or 10 columns")


def sensor_of(
    number: int, line: str, name: str, value: str, mark: str, states: tuple[str, ...]
) -> Sensor:
    """A sensor from a reading with its unit, ipmitool's letters, and event words.

    Raises NotUnderstoodError, with the line and its number, for letters or a reading that are none.
    """
    if not _MARK.fullmatch(mark):
        raise bad_line("ipmitool", number, line, "a status such as 'ok' or 'ucr'")
    match = _VALUE.fullmatch(value)
    silent = value.lower() in _NO_READING
    if match is None and not silent and not _DISCRETE.fullmatch(value):
        raise bad_line("ipmitool", number, line, "a reading with its unit")
    lower = mark.lower()
    known = None if lower in ("ns", "na") else lower == "ok"
    if known and states:
        known = _states_ok(states)
    elif known and match is None:
        known = None  # "ok" of a discrete sensor only says that it can be read
    return Sensor(
        name=name,
        value=float(match.group(1)) if match else None,
        unit=(match.group(2) or "") if match else "",
        mark=lower,
        states=states,
        is_ok=known,
    )


def _states_ok(states: tuple[str, ...]) -> bool | None:
    """False if a word sounds bad, True if all are known to be good, None if nobody knows."""
    plain = [state.lower() for state in states]
    if any(word not in _GOOD_STATES and _BAD_WORDS.search(word) for word in plain):
        return False
    return True if all(word in _GOOD_STATES for word in plain) else None


def _comma_separated(number: int, line: str) -> Sensor:
    """FreeIPMI ``ipmi-sensors --comma-separated-output``, or ``ipmitool -c sdr``."""
    try:
        cells = next(csv.reader([line]))
    except (csv.Error, StopIteration) as error:
        raise bad_line("ipmi-sensors", number, line, f"columns ({error})") from None
    if len(cells) == len(("name", "value", "unit", "mark")):
        name, value, unit, mark = (cell.strip() for cell in cells)
        return sensor_of(number, line, name, f"{value} {unit}".strip(), mark, ())
    return _freeipmi(number, line, cells)


def _freeipmi(number: int, line: str, cells: list[str]) -> Sensor:
    """ID, name, type, maybe FreeIPMI's own judgement, reading, units, event words in quotes."""
    if len(cells) < _FREEIPMI_COLUMNS:
        raise bad_line("ipmi-sensors", number, line, "the columns ID, name, type, …, event")
    if len(cells) - _THRESHOLDS >= _FREEIPMI_COLUMNS:
        cells = [*cells[: -1 - _THRESHOLDS], cells[-1]]
    name, value, unit, event = cells[1], cells[-3], cells[-2], cells[-1]
    states = tuple(state.strip() for state in _QUOTED.findall(event))
    if not states and event.strip() not in ("N/A", "Unknown"):
        raise bad_line("ipmi-sensors", number, line, "an event in quotes, or N/A")
    match = _VALUE.fullmatch(value.strip())
    if match is None and value.strip() != "N/A":
        raise NotUnderstoodError(
            f"The reading of sensor '{excerpt(name, 40)}' should be a number or N/A, but is "
            f"'{excerpt(value, 40)}'."
        )
    return Sensor(
        name=name.strip(),
        value=float(match.group(1)) if match else None,
        unit="" if unit.strip() == "N/A" else unit.strip(),
        mark="",
        states=states,
        is_ok=_judged(cells[3].strip(), states),
    )


def _judged(state: str, states: tuple[str, ...]) -> bool | None:
    """What FreeIPMI says (``--output-sensor-state``), unless the event words sound bad."""
    known = _states_ok(states) if states else None
    if state in ("Warning", "Critical"):
        return False
    return True if state == "Nominal" and known is None else known
