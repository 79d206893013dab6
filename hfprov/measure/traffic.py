"""What goes over a node's network interfaces, and whether bigger frames could help it. Pure.

Cost is paid per packet. Bigger frames help traffic whose packets are as big as the MTU allows, and
no other: requests of a few hundred bytes stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence import interrupts
from hfprov.evidence.net_counters import Family, changes
from hfprov.evidence.text import clean
from hfprov.reading import Observation, Read, command, file, glob

_STATISTICS = glob("/sys/class/net/*/statistics/*", limit=64, most=4096)
_MTU = glob("/sys/class/net/*/mtu", limit=64)
_SNMP = file("/proc/net/snmp", limit=64 * 1024)
_INTERRUPTS = file("/proc/interrupts", limit=8 << 20)
_DRIVER = command("ethtool", "-S", "{name}", each="/sys/class/net/*", timeout=10)
_STANDARD_MTU = 1500
_FULL = 0.75
"""Share of the MTU from which packets count as full: bulk traffic has acknowledgements in it."""
_BUSY = 20_000
"""Packets per second from which their number costs something worth having; about 1 % of a core."""
_PARTS = re.compile(r"/sys/class/net/([^/]{1,64})/(?:statistics/)?([a-z0-9_]{1,64})")
_DRIVER_LINE = re.compile(r"^ *([^:\n]{1,128}): *([0-9]{1,20})$", re.MULTILINE)

TRAFFIC_READS: tuple[Read, ...] = (_STATISTICS, _MTU, _SNMP, _INTERRUPTS, _DRIVER)


@dataclass(frozen=True, slots=True)
class Counters:
    """All counters of one moment."""

    at: float
    """The node's own clock, seconds since 1970."""
    interfaces: Mapping[str, Mapping[str, int]]
    """By interface: the kernel's counters, and the driver's by their own names."""
    mtu: Mapping[str, int]
    retransmitted: int | None
    """TCP segments of the whole node that were sent again."""
    interrupts: Mapping[int, int]
    """By CPU: interrupts of all kinds."""


def counters(seen: Observation) -> Counters:
    """The counters of an observation of :data:`TRAFFIC_READS`. Raises NoEvidenceError."""
    found: dict[str, dict[str, int]] = {}
    for result in seen.each(_STATISTICS):
        match = _PARTS.fullmatch(result.name)
        if result.ok and match and result.text.strip().isdigit():
            found.setdefault(match[1], {})[match[2]] = int(result.text)
    for result in seen.each(_DRIVER):
        if result.ok and result.name in found:
            for name, value in _DRIVER_LINE.findall(clean(result.text)):
                found[result.name].setdefault(name.strip(), int(value))
    if not found:
        raise NoEvidenceError("The node shows no counters of network interfaces.")
    mtu = {
        match[1]: int(result.text)
        for result in seen.each(_MTU)
        if result.ok and (match := _PARTS.fullmatch(result.name)) and result.text.strip().isdigit()
    }
    return Counters(seen.now, found, mtu, _retransmitted(seen), _interrupts(seen))


def _retransmitted(seen: Observation) -> int | None:
    rows = [line.split() for line in clean(seen.one(_SNMP).text).splitlines()]
    tcp = [row for row in rows if row[:1] == ["Tcp:"]]
    if len(tcp) != 2 or "RetransSegs" not in tcp[0]:  # noqa: PLR2004 - names, and values
        return None
    at = tcp[0].index("RetransSegs")
    return int(tcp[1][at]) if at < len(tcp[1]) and tcp[1][at].isdigit() else None


def _interrupts(seen: Observation) -> dict[int, int]:
    try:
        found = interrupts.parse(seen.text(_INTERRUPTS))
    except (NoEvidenceError, NotUnderstoodError):
        return {}
    totals = dict.fromkeys(found.cpus, 0)
    for one in found.interrupts:
        for cpu, count in zip(found.cpus, one.counts, strict=False):
            totals[cpu] += count
    return totals


@dataclass(frozen=True, slots=True)
class Flow:
    """One interface over some seconds. Rates are per second."""

    interface: str
    mtu: int | None
    received_packets: float
    received_bytes: float
    sent_packets: float
    sent_bytes: float
    trouble: Mapping[str, int]
    """Drops, errors and pauses that were counted meanwhile."""

    @property
    def packets(self) -> float:
        return self.received_packets + self.sent_packets

    @property
    def mean_bytes(self) -> float:
        """Bytes per packet, both ways; 0 without packets."""
        return (self.received_bytes + self.sent_bytes) / self.packets if self.packets else 0.0


@dataclass(frozen=True, slots=True)
class Traffic:
    """What went over a node's interfaces."""

    seconds: float
    flows: tuple[Flow, ...]
    retransmitted: int | None
    interrupts: Mapping[int, float]
    """By CPU, per second."""


def between(before: Counters, after: Counters) -> Traffic:
    """Rates from two moments. Raises NotUnderstoodError when the clock stood still or went back."""
    seconds = after.at - before.at
    if seconds <= 0:
        raise NotUnderstoodError("The node's clock did not move on between both looks.")
    flows = tuple(
        _flow(name, before.interfaces[name], now, after.mtu.get(name), seconds)
        for name, now in sorted(after.interfaces.items())
        if name != "lo" and name in before.interfaces
    )
    known = before.retransmitted is not None and after.retransmitted is not None
    return Traffic(
        seconds,
        flows,
        (after.retransmitted or 0) - (before.retransmitted or 0) if known else None,
        {
            cpu: (count - before.interrupts[cpu]) / seconds
            for cpu, count in after.interrupts.items()
            if cpu in before.interrupts
        },
    )


_TROUBLE = (Family.ERROR, Family.DISCARD, Family.PAUSE, Family.RETRANSMIT)


def _flow(
    name: str, then: Mapping[str, int], now: Mapping[str, int], mtu: int | None, seconds: float
) -> Flow:
    def rate(counter: str) -> float:
        return max(0, now.get(counter, 0) - then.get(counter, 0)) / seconds

    risen = changes(then, now, seconds).rose(*_TROUBLE)
    return Flow(
        name,
        mtu,
        rate("rx_packets"),
        rate("rx_bytes"),
        rate("tx_packets"),
        rate("tx_bytes"),
        {one.name: one.increase for one in risen if one.increase},
    )


def advice(flow: Flow) -> str:
    """Whether bigger frames could help this traffic, in words."""
    if flow.mtu is None or not flow.packets:
        return "Nothing went over it: nothing can be said."
    mean = f"{flow.mean_bytes:.0f} bytes per packet on average"
    if flow.mean_bytes < _FULL * min(flow.mtu, _STANDARD_MTU):
        # Acknowledgements halve the mean of traffic one way; each way is looked at by itself.
        fuller = max(_mean_of_ways(flow))
        if fuller < _FULL * min(flow.mtu, _STANDARD_MTU):
            return f"{mean}: the packets are small by themselves; bigger frames would not help."
    if flow.mtu > _STANDARD_MTU:
        return f"{mean}: it uses the bigger frames that it has."
    if flow.packets < _BUSY:
        return f"{mean}: full packets, but few; bigger frames would save little."
    return (
        f"{mean} at {flow.packets:.0f} packets/s: bigger frames could help. Measure it with "
        "'hfprov trial jumbo_mtu'."
    )


def _mean_of_ways(flow: Flow) -> Iterator[float]:
    yield flow.received_bytes / flow.received_packets if flow.received_packets else 0.0
    yield flow.sent_bytes / flow.sent_packets if flow.sent_packets else 0.0


def busiest(flows: Sequence[Flow]) -> list[Flow]:
    """Interfaces by what goes over them, the busiest first."""
    return sorted(flows, key=lambda one: -(one.received_bytes + one.sent_bytes))
