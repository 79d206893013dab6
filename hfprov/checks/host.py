"""The machine around it all: firmware, power supplies, and what the BMC has seen."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from hfprov.baseline import Baseline
from hfprov.checks.hardware import not_bare_metal
from hfprov.checks.registry import Facts, check
from hfprov.evidence.bmc_node import BMC_EVENTS, BMC_SENSORS
from hfprov.evidence.dmidecode import DmidecodeFacts, PowerSupply
from hfprov.evidence.ipmi import SelFacts, SensorFacts
from hfprov.evidence.ipmi_events import Event
from hfprov.evidence.ipmi_sensors import Sensor
from hfprov.evidence.memory_node import FIRMWARE_TABLE
from hfprov.evidence.system import MACHINE
from hfprov.verdict import (
    Finding,
    Impact,
    NotApplicable,
    failed,
    not_applicable,
    passed,
    unknown,
    warned,
)

RECENT_DAYS = 30
"""Older events are worth a look; the log is cleared by a person, never by hfprov."""
_DAY = 86_400.0
_FIRMWARE, _BMC, _POWER = "the firmware", "the BMC", "the power supplies"


@check("host.bios", reads=[MACHINE, FIRMWARE_TABLE], impact=Impact.MANUAL)
def bios(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """Which firmware the machine has; whether it is the right one is told by its siblings."""
    yield not_bare_metal(facts, _FIRMWARE) or judge_bios(facts.get(FIRMWARE_TABLE))


def judge_bios(table: DmidecodeFacts) -> Finding:
    found = table.bios
    if found is None or found.version is None:
        return unknown(reason="The firmware's table does not tell the version of the BIOS.")
    words = [found.vendor, found.version, f"of {found.release_date}" if found.release_date else ""]
    return passed(observed=" ".join(word for word in words if word), expected="a version")


@check("host.power", reads=[MACHINE, FIRMWARE_TABLE], impact=Impact.MANUAL)
def power(facts: Facts, _: Baseline) -> Iterator[Finding]:
    if elsewhere := not_bare_metal(facts, _POWER):
        yield elsewhere
        return
    yield from judge_power(facts.get(FIRMWARE_TABLE))


def judge_power(table: DmidecodeFacts) -> Iterator[Finding]:
    """Power supplies as the firmware found them at boot; the BMC's sensors are newer."""
    supplies = table.power_supplies
    if not supplies:
        reason = "The firmware describes no power supply; the BMC's sensors may."
        yield not_applicable(NotApplicable.NO_SUCH_HARDWARE, reason)
    for number, supply in enumerate(supplies, start=1):
        yield _supply(supply.location or supply.name or f"supply {number}", supply)


def _supply(name: str, supply: PowerSupply) -> Finding:
    observed = supply.status or "no status"
    if not supply.present:
        reason = "The bay is empty: the machine has one supply less to fall back on."
        return warned(name, observed=observed, expected="Present, OK", reason=reason)
    if supply.plugged is False:
        reason = "It gets no power: a cable, a fuse, or a feed that is off."
        return failed(name, observed="not plugged", expected="plugged", reason=reason)
    if "critical" in observed.lower():
        reason = "The power supply reports a fault."
        return failed(name, observed=observed, expected="Present, OK", reason=reason)
    return passed(name, observed=observed, expected="Present, OK")


@check("host.bmc_events", reads=[MACHINE, BMC_EVENTS], impact=Impact.MANUAL)
def bmc_events(facts: Facts, _: Baseline) -> Iterator[Finding]:
    if elsewhere := not_bare_metal(facts, _BMC):
        yield elsewhere
        return
    log = facts.get(BMC_EVENTS)
    yield from judge_events(log.events, log.now)


def judge_events(log: SelFacts, now: float) -> Iterator[Finding]:
    """Severe events that nothing takes back fail while they are recent (``now``: epoch seconds).

    Severe ones that are over, and old ones, are worth a warning: memory that failed once will
    again.
    """
    standing = {(one.sensor, one.description): one for one in log.standing}
    over = {(one.sensor, one.description): one for one in log.severe}
    expected = "no severe event"
    for (sensor, words), event in over.items():
        subject = f"{sensor}: {words}"
        age = _age_days(event, now)
        date = event.date or "at an unknown time"
        if (sensor, words) in standing and (age is None or age <= RECENT_DAYS):
            reason = f"The BMC logged it ({date}), and nothing that takes it back."
            yield failed(subject, observed="asserted", expected=expected, reason=reason)
        elif (sensor, words) in standing:
            reason = f"The BMC logged it long ago ({date}); clear the log when it is repaired."
            yield warned(subject, observed="asserted", expected=expected, reason=reason)
        else:
            reason = f"The BMC logged it, and that it is over ({date}). It may come back."
            yield warned(subject, observed="over", expected=expected, reason=reason)
    if not over:
        yield passed(observed="no severe event", expected=expected)


def _age_days(event: Event, now: float) -> float | None:
    """Days since an event; None where it has no date that can be read. BMC clocks are often off."""
    try:
        date = datetime.strptime(event.date, "%m/%d/%Y").replace(tzinfo=UTC)
    except ValueError:
        return None
    return (now - date.timestamp()) / _DAY if now else None


@check("host.bmc_sensors", reads=[MACHINE, BMC_SENSORS], impact=Impact.MANUAL)
def bmc_sensors(facts: Facts, _: Baseline) -> Iterator[Finding]:
    if elsewhere := not_bare_metal(facts, _BMC):
        yield elsewhere
        return
    yield from judge_sensors(facts.get(BMC_SENSORS))


def judge_sensors(found: SensorFacts) -> Iterator[Finding]:
    """Sensors in a state that is known to be bad; several of one name are one finding."""
    bad: dict[str, list[Sensor]] = {}
    for sensor in found.not_ok:
        bad.setdefault(sensor.name, []).append(sensor)
    for name, sensors in bad.items():
        words = [word for sensor in sensors for word in sensor.states or (sensor.mark,)]
        mild = all(_is_mild(sensor) for sensor in sensors)
        reason = "The BMC reports it as out of order."
        judged = warned if mild else failed
        yield judged(name, observed=", ".join(words), expected="ok", reason=reason)
    good = sum(1 for sensor in found.sensors if sensor.is_ok)
    if not bad and not good:
        yield unknown(reason="No sensor of the BMC says anything of its state.")
    elif not bad:
        yield passed(observed="no sensor in a bad state", expected="no sensor in a bad state")


def _is_mild(sensor: Sensor) -> bool:
    """A threshold that is no danger yet: ipmitool's ``unc`` and ``lnc``."""
    words = " ".join(sensor.states).lower()
    return sensor.mark in ("nc", "unc", "lnc") or (
        "non-critical" in words and "fail" not in words and "lost" not in words
    )
