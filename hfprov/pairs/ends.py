"""Ends of paths: addresses of the nodes' data interfaces, and the rails that they form. Pure."""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence import ip_link
from hfprov.evidence.ip_link import Interface, Interfaces
from hfprov.observe import Answer
from hfprov.reading import command

ADDRESSES = command("ip", "-j", "-d", "address", "show", limit=4 << 20)
ROLE = "jumbo_mtu"
"""The role that declares which interfaces carry data."""


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


def declared(baseline: Baseline) -> tuple[Sequence[str], int]:
    """The data interfaces of a host and the MTU they must have; none without the role."""
    if ROLE not in baseline.roles:
        return (), 0
    names = [str(name) for name in baseline["jumbo_mtu_interfaces"]]
    return names, int(str(baseline["jumbo_mtu_bytes"]))


def interfaces_of(answer: Answer) -> Interfaces:
    """The interfaces in an answer to :data:`ADDRESSES`; raises NoEvidenceError for none."""
    if answer.observation is None:
        raise NoEvidenceError(answer.error)
    found = ip_link.parse(answer.observation.text(ADDRESSES))
    if not isinstance(found, Interfaces):
        raise NotUnderstoodError("'ip address' did not list interfaces.")
    return found
