"""Ends of paths: addresses of the nodes' data interfaces, and the rails that they form. Pure."""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hfprov.evidence.ip_link import Interface, Interfaces
from hfprov.pairs.schedule import covering_rounds, rounds

WHOLE_RACK = 64
"""Up to so many hosts of a rail every pair is tested."""
PARTNERS = 12
"""In a larger rail each host is tested against so many others."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address of one data interface."""

    host: str
    interface: str
    address: str
    network: str
    """The network of the address, e.g. ``10.1.0.0/24``."""
    wanted: int
    """The MTU that is declared, in bytes."""
    live: int | None
    """The MTU that the interface has."""

    @property
    def family(self) -> int:
        """4 or 6."""
        return ipaddress.ip_address(self.address).version


@dataclass(frozen=True, slots=True)
class Rail:
    """Ends that can reach each other: of one network, or the same interface of each node."""

    name: str
    ends: tuple[Endpoint, ...]
    """One per host, in the order of the inventory."""


@dataclass(frozen=True, slots=True)
class Path:
    """From one end to another of the same rail."""

    source: Endpoint
    target: Endpoint

    @property
    def bytes(self) -> int:
        """The largest packet that both ends are declared to carry."""
        return min(self.source.wanted, self.target.wanted)


def endpoints(
    host: str, names: Sequence[str], wanted: int, found: Interfaces
) -> tuple[list[Endpoint], dict[str, str]]:
    """The ends of a host, and by interface why it has none. Link-local addresses are no ends."""
    ends: list[Endpoint] = []
    without: dict[str, str] = {}
    for name in names:
        link = found.find(name)
        if link is None:
            without[name] = "There is no interface of this name."
            continue
        mine = list(_of_interface(host, link, wanted))
        if not mine:
            without[name] = "It has no address that others could reach."
        ends += mine
    return ends, without


def _of_interface(host: str, link: Interface, wanted: int) -> Iterator[Endpoint]:
    seen: set[int] = set()
    for one in link.addresses:
        try:
            address = ipaddress.ip_interface(f"{one.address}/{one.prefix_length}")
        except ValueError:
            continue  # a peer's form, or none that others could use
        if address.ip.is_link_local or address.ip.is_loopback or address.version in seen:
            continue
        seen.add(address.version)
        yield Endpoint(
            host, link.name, str(address.ip), str(address.network), wanted, link.mtu_bytes
        )


def rails(ends: Iterable[Endpoint]) -> tuple[list[Rail], list[Endpoint]]:
    """Group ends into rails; second, ends that have nobody to be tested against.

    Ends of one network belong together. Where every node has a network of its own, as in routed
    fabrics, the same interface of each node makes a rail.
    """
    by_network: dict[str, dict[str, Endpoint]] = defaultdict(dict)
    left: list[Endpoint] = []
    for end in ends:
        if end.host in by_network[end.network]:
            left.append(end)  # a second interface of the host in the same network
        else:
            by_network[end.network][end.host] = end
    found: list[Rail] = []
    for network, members in by_network.items():
        if len(members) > 1:
            found.append(Rail(network, tuple(members.values())))
        else:
            left += members.values()
    by_interface: dict[tuple[str, int], dict[str, Endpoint]] = defaultdict(dict)
    for end in left:
        by_interface[end.interface, end.family].setdefault(end.host, end)
    alone: list[Endpoint] = []
    for (interface, family), members in by_interface.items():
        if len(members) > 1:
            found.append(Rail(f"{interface} IPv{family}", tuple(members.values())))
        else:
            alone += members.values()
    placed = {end for rail in found for end in rail.ends}
    alone += [end for end in left if end not in placed and end not in alone]
    return found, alone


def paths(rail: Rail) -> list[Path]:
    """What is tested in a rail, both ways: every pair of a rack, a covering sample of a fleet."""
    by_host: Mapping[str, Endpoint] = {end.host: end for end in rail.ends}
    hosts = list(by_host)
    chosen = rounds(hosts) if len(hosts) <= WHOLE_RACK else covering_rounds(hosts, PARTNERS)
    found = []
    for one in chosen:
        for a, b in one:
            found += [Path(by_host[a], by_host[b]), Path(by_host[b], by_host[a])]
    return found
