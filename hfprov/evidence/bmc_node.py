"""What the BMC says over IPMI: the newest events of its log, and its sensors.

A BMC answers slowly (tens of milliseconds for each record), so that both have a deadline.
"""

from __future__ import annotations

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence import ipmi
from hfprov.evidence.ipmi import SelFacts, SensorFacts
from hfprov.evidence.text import clean
from hfprov.reading import Observation, Source, command, listing

_DEVICES = "/dev/ipmi*"
DEVICE = listing(_DEVICES)
EVENTS = command(
    *("ipmitool", "sel", "elist", "last", "200"), timeout=10, limit=256 * 1024, needs=_DEVICES
)
SENSORS = command("ipmitool", "sdr", "elist", timeout=15, limit=256 * 1024, needs=_DEVICES)


class EventLog(Struct, frozen=True):
    """The newest events, and the node's clock when they were read (seconds since 1970)."""

    events: SelFacts
    now: float


def _need_device(seen: Observation) -> None:
    if not seen.each(DEVICE):
        raise NoEvidenceError(
            "There is no '/dev/ipmi0': the kernel does not talk to a BMC.",
            hint="Load 'ipmi_si' and 'ipmi_devintf', if the machine has a BMC.",
        )


def _parse_events(seen: Observation, _: Baseline) -> EventLog:
    _need_device(seen)
    text = seen.text(EVENTS)
    # ipmitool says "SEL has no entries" on standard error, and succeeds.
    found = ipmi.parse(text if clean(text).strip() else seen.one(EVENTS).stderr)
    if not isinstance(found, SelFacts):
        raise NotUnderstoodError("'ipmitool sel elist' did not list events.")
    return EventLog(found, seen.now)


def _parse_sensors(seen: Observation, _: Baseline) -> SensorFacts:
    _need_device(seen)
    found = ipmi.parse(seen.text(SENSORS))
    if not isinstance(found, SensorFacts):
        raise NotUnderstoodError("'ipmitool sdr elist' did not list sensors.")
    return found


BMC_EVENTS: Source[EventLog] = Source("bmc events", lambda _: (DEVICE, EVENTS), _parse_events)
BMC_SENSORS: Source[SensorFacts] = Source(
    "bmc sensors", lambda _: (DEVICE, SENSORS), _parse_sensors
)
