"""Network adapters of a node: speed, capability, counters, modules, neighbours, bonds, firmware.

ethtool is asked about every interface that is a PCI function, members of bonds included; what has
no hardware (veth, bridges) costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence import bonding, devlink, lldp
from hfprov.evidence.bonding import Bond
from hfprov.evidence.devlink import DeviceInfo
from hfprov.evidence.ethtool import dispatch
from hfprov.evidence.ethtool.failure import EthtoolFailure
from hfprov.evidence.ethtool.link import LinkSettings
from hfprov.evidence.ethtool.statistics import Statistics
from hfprov.evidence.ethtool.transceiver import Transceiver
from hfprov.evidence.lldp import Neighbours
from hfprov.evidence.sysfs_attributes import parse_net_speed
from hfprov.evidence.text import clean
from hfprov.reading import Observation, Read, Result, Source, command, complete_text, glob

T = TypeVar("T")

_PCI_NETS = "/sys/bus/pci/devices/*/net/*"
_MOST = 64
_FAILED = (1, 75, 76, 77, 81, 92, 95)
"""Exit codes of ethtool with a sentence that says why: 1, and the errno of older versions."""
SETTINGS = command("ethtool", "{name}", timeout=5, limit=32 * 1024, each=_PCI_NETS, most=_MOST)
MODULE = command("ethtool", "-m", "{name}", timeout=5, limit=64 * 1024, each=_PCI_NETS, most=_MOST)
# Single queues have thousands of lines; what they lost stays, their traffic and zeros go.
_QUEUE = "(\\[[0-9]+\\]|ch[0-9]|[rt]x(_queue)?[-_]?[0-9])"
_TRAFFIC = "(: 0$|packets|bytes|pkts|csum|cache|cqe|poll|arm|events|wake|nop)"
_SUMS = f"ethtool -S \"$1\" | grep -vE '^ *{_QUEUE}.*{_TRAFFIC}'"
STATISTICS = command(
    "sh", "-c", _SUMS, "sh", "{name}", timeout=5, limit=128 * 1024, each=_PCI_NETS, most=_MOST
)
SPEEDS = glob("/sys/class/net/*/speed", limit=64)
BONDS = glob("/proc/net/bonding/*", limit=64 * 1024)
LLDP = command("lldpctl", "-f", "json", timeout=5)
DEVLINK = command("devlink", "-j", "dev", "info", timeout=5)


def data_nics(baseline: Baseline) -> tuple[str, ...]:
    """Names of the declared data interfaces, in their order; empty where none are declared."""
    names = baseline.get("jumbo_mtu_interfaces") or ()
    return tuple(dict.fromkeys(str(name) for name in names))


class Each(Struct, Generic[T], frozen=True):
    """Facts by interface, and why there are none of some.

    So one adapter whose module does not answer leaves the others judged.
    """

    facts: Mapping[str, T]
    reasons: Mapping[str, str]

    def of(self, name: str) -> T:
        """Raises NoEvidenceError with the reason when nothing is known of an interface."""
        if name in self.facts:
            return self.facts[name]
        raise NoEvidenceError(self.reasons.get(name, f"Nothing was observed of '{name}'."))

    @property
    def names(self) -> tuple[str, ...]:
        """Of all that was asked, answered or not."""
        return (*self.facts, *self.reasons)


def _by_name(
    seen: Observation,
    read: Read,
    name_of: Callable[[Result], str],
    parse: Callable[[Result], T],
) -> Each[T]:
    facts: dict[str, T] = {}
    reasons: dict[str, str] = {}
    for result in seen.each(read):
        name = clean(name_of(result))
        try:
            facts[name] = parse(result)
        except (NoEvidenceError, NotUnderstoodError) as error:
            reasons[name] = error.message
    return Each(facts, reasons)


def _speed(result: Result) -> int | None:
    # The kernel refuses the read (EINVAL) for an interface that is down.
    return None if result.status == "error" else parse_net_speed(complete_text(SPEEDS, result))


NET_SPEEDS: Source[Each[int | None]] = Source(
    "speeds of interfaces",
    lambda _: (SPEEDS,),
    lambda seen, _: _by_name(seen, SPEEDS, lambda result: result.name.split("/")[4], _speed),
)
"""Mbit/s; None for a link that is down or has no speed."""


def _ethtool(read: Read, kind: type[T]) -> Callable[[Result], T | EthtoolFailure]:
    def parse(result: Result) -> T | EthtoolFailure:
        text = complete_text(read, result, codes=(0, *_FAILED))
        # ethtool complains on stderr; an answer with a complaint beside it keeps both.
        found = dispatch.parse(text if text.strip() else result.stderr)
        if not isinstance(found, (kind, EthtoolFailure)):
            raise NotUnderstoodError(f"'{read}' did not answer what was asked of '{result.name}'.")
        return found

    return parse


def _ethtool_source(name: str, read: Read, kind: type[T]) -> Source[Each[T | EthtoolFailure]]:
    return Source(
        name,
        lambda _: (read,),
        lambda seen, _: _by_name(seen, read, lambda result: result.name, _ethtool(read, kind)),
    )


NIC_SETTINGS = _ethtool_source("settings of adapters", SETTINGS, LinkSettings)
NIC_MODULES = _ethtool_source("modules of adapters", MODULE, Transceiver)
NIC_STATISTICS = _ethtool_source("counters of adapters", STATISTICS, Statistics)


def _bonds(result: Result) -> Bond:
    found = bonding.parse(complete_text(BONDS, result))
    if len(found) != 1:
        raise NotUnderstoodError(f"'{result.name}' describes {len(found)} bonds.")
    return found[0]


BOND_STATES: Source[Each[Bond]] = Source(
    "bonds",
    lambda _: (BONDS,),
    lambda seen, _: _by_name(seen, BONDS, lambda result: result.name.rsplit("/", 1)[-1], _bonds),
)


def _parse_lldp(seen: Observation, _: Baseline) -> Neighbours | None:
    if seen.one(LLDP).status == "absent":
        return None
    return lldp.parse(seen.text(LLDP))


LLDP_NEIGHBOURS: Source[Neighbours | None] = Source("lldp", lambda _: (LLDP,), _parse_lldp)
"""None where lldpd is not installed."""


def _parse_devlink(seen: Observation, _: Baseline) -> tuple[DeviceInfo, ...]:
    text = seen.text(DEVLINK)
    if not clean(text).strip():
        return ()
    found = devlink.parse(text).info
    if found is None:
        raise NotUnderstoodError("'devlink dev info' did not tell versions.")
    return found


DEVLINK_INFO: Source[tuple[DeviceInfo, ...]] = Source(
    "devlink", lambda _: (DEVLINK,), _parse_devlink
)
