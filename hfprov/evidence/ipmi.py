"""What a BMC says over IPMI: ipmitool and FreeIPMI output.

Forms, recognised from the text: ``sel list|elist`` (also with ``-c``), ``sel get``, ``ipmi-sel``,
``sdr`` (also ``-v``), ``sensor``, ``ipmi-sensors`` (table or CSV), ``fru print``, ``lan print`` and
``lan6 print``, ``mc info`` (``bmc info``), ``chassis status``, ``-c user list``, and Supermicro's
``ipmicfg -summary``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.host_values import bad_line, failure_line, numbered_lines, unknown_form
from hfprov.evidence.ipmi_events import (
    DATE,
    Event,
    parse_event_details,
    parse_events,
    parse_freeipmi_events,
)
from hfprov.evidence.ipmi_sensor_details import is_detailed, parse_sensor_details
from hfprov.evidence.ipmi_sensors import Sensor, parse_sensors
from hfprov.evidence.text import clean, excerpt
from hfprov.regex import regex

_SEL = regex(r"\s*[0-9a-f]{1,5}(?:\s*\||,)")
_USER = regex(r"([0-9]{1,2}),([^,]*),(true|false),(true|false),(true|false),([A-Z ]+)")
_DATED = regex(rf"[|,]\s*(?:{DATE.pattern}|[Pp]re-[Ii]nit|OEM record)")
_FREEIPMI_LOG = regex(r"ID\s*[|,]\s*Date\s*[|,]\s*Time\s*[|,]")
_NO_ENTRIES = regex(r"SEL has no entries", re.IGNORECASE)


class SelFacts(Struct, frozen=True):
    """The system event log, in its order."""

    events: tuple[Event, ...]

    @property
    def severe(self) -> tuple[Event, ...]:
        """Events that mean a fault, whether asserted or over by now."""
        return tuple(event for event in self.events if event.is_severe)

    @property
    def standing(self) -> tuple[Event, ...]:
        """Severe events that no later entry of the same sensor takes back."""
        last = {(event.sensor, event.description): event for event in self.severe}
        return tuple(event for event in last.values() if event.asserted is not False)


class SensorFacts(Struct, frozen=True):
    """Sensors of the BMC."""

    sensors: tuple[Sensor, ...]

    @property
    def not_ok(self) -> tuple[Sensor, ...]:
        """Sensors in a state that is known to be bad; those that say nothing are not in it."""
        return tuple(sensor for sensor in self.sensors if sensor.is_ok is False)


class PairFacts(Struct, frozen=True):
    """``key : value`` output. A key that comes again further down has all its values."""

    kind: str
    """``lan``, ``lan6``, ``mc``, ``sel``, ``power``, ``chassis`` or ``summary``."""
    values: Mapping[str, tuple[str, ...]]

    def get(self, name: str) -> str | None:
        """The first value of ``name``; None where it is absent or empty."""
        found = self.values.get(name, ())
        return found[0] if found and found[0] else None


class User(Struct, frozen=True):
    """One account slot of the BMC."""

    id: int
    name: str
    call_in: bool
    link_auth: bool
    ipmi_messaging: bool
    privilege: str


class UserFacts(Struct, frozen=True):
    """Accounts of the BMC."""

    users: tuple[User, ...]


class FruDevice(Struct, frozen=True):
    """One field-replaceable unit: a board, a power supply."""

    description: str
    fields: Mapping[str, str]
    problem: str | None
    """Why the BMC could not read it: ``Device not present (…)``."""


class FruFacts(Struct, frozen=True):
    """``fru print``."""

    devices: tuple[FruDevice, ...]
    errors: tuple[str, ...]
    """What ipmitool complained about: the list may not be whole."""


IpmiFacts = FruFacts | SelFacts | SensorFacts | PairFacts | UserFacts


def parse(text: str) -> IpmiFacts:
    """Facts from any form."""
    text = clean(text)
    first = next((line for line in text.split("\n") if line.strip()), "")
    events = _log(text, first)
    if events is not None:
        return SelFacts(events)
    if _USER.fullmatch(first.strip()):
        return _users(text)
    failed = failure_line(first)
    if failed and "|" not in first and ("," not in first or "Could not open" in first):
        raise NotUnderstoodError(
            f"The BMC was not asked: '{failed}'.",
            hint="Load ipmi_si and ipmi_devintf, and run the tool as root.",
        )
    if "|" in first or first.count(",") >= _SENSOR_COMMAS:
        return SensorFacts(parse_sensors(text))
    if is_detailed(first):
        return SensorFacts(parse_sensor_details(text))
    if first.startswith("FRU Device Description"):
        return _fru(text)
    if ":" in first or first.strip() in _TITLES:
        return _pairs(text)
    raise unknown_form("ipmitool", text, "a listing of sensors, events or properties")


def _log(text: str, first: str) -> tuple[Event, ...] | None:
    """The event log, if the text is one."""
    if _NO_ENTRIES.search(first):
        return ()
    if first.startswith("SEL Record ID"):
        return parse_event_details(text)
    if _SEL.match(first) and _DATED.search(first):
        return parse_events(text)
    if _FREEIPMI_LOG.match(first):
        return parse_freeipmi_events(text)
    return None


_SENSOR_COMMAS = 3
_TITLES = frozenset({"Summary", "SEL Information"})
_SECRETS = frozenset({"SNMP Community String"})

_KINDS = (
    ("lan6", "IPv6 Dynamic Address 0"),
    ("lan6", "IPv6 Static Address 0"),
    ("lan", "IP Address Source"),
    ("lan", "Set in Progress"),
    ("mc", "Device ID"),
    ("chassis", "System Power"),
    ("summary", "BMC MAC Address"),
    ("power", "Instantaneous power reading"),
    ("sel", "Percent Used"),
    ("sel", "Last Add Time"),
)


def _pairs(text: str) -> PairFacts:
    values: dict[str, list[str]] = {}
    key = ""
    for number, line in numbered_lines(text):
        plain = line.strip()
        if not plain or plain in _TITLES or not plain.strip("-="):
            continue
        before, colon, after = plain.partition(":")
        if not colon:
            # Lists under a key ("Additional Device Support :") stand indented without a colon.
            if key and line[0] in " \t":
                values[key].append(plain)
                continue
            raise bad_line("ipmitool", number, line, "'key : value'")
        name, value = before.strip(), after.strip()
        if name in _SECRETS:
            value = "(not kept)"
        if name:
            key = name
            values.setdefault(key, []).append(value)
        elif key:
            values[key].append(value)
        else:
            raise bad_line("ipmitool", number, line, "'key : value'")
    for kind, name in _KINDS:
        if name in values:
            return PairFacts(kind, {key: tuple(found) for key, found in values.items()})
    raise NotUnderstoodError(
        f"These properties belong to no ipmitool command that is read: '{excerpt(text)}'."
    )


def _fru(text: str) -> FruFacts:
    blocks: list[tuple[str, dict[str, str], list[str]]] = []
    errors: list[str] = []
    for number, line in numbered_lines(text):
        plain = line.strip()
        key, colon, value = plain.partition(":")
        if not plain:
            continue
        if key.strip() == "FRU Device Description":
            blocks.append((value.strip(), {}, []))
        elif line[0] not in " \t":
            if failure_line(plain) is None:
                raise bad_line("ipmitool fru", number, line, "'FRU Device Description' or a field")
            errors.append(excerpt(plain, 160))
        elif colon:
            blocks[-1][1].setdefault(key.strip(), value.strip())
        else:
            blocks[-1][2].append(excerpt(plain, 160))
    return FruFacts(
        tuple(FruDevice(name, fields, said[0] if said else None) for name, fields, said in blocks),
        tuple(errors),
    )


def _users(text: str) -> UserFacts:
    users = []
    for number, line in numbered_lines(text):
        if not line.strip():
            continue
        match = _USER.fullmatch(line.strip())
        if match is None:
            raise bad_line("ipmitool -c user list", number, line, "six columns")
        identity, name, call_in, link_auth, messaging, privilege = match.groups()
        flags = (call_in == "true", link_auth == "true", messaging == "true")
        users.append(User(int(identity), name, *flags, privilege))
    return UserFacts(tuple(users))
