"""Addresses in effect: the kernel's routes of type ``local``, of which each address has one.

An address has none while its interface is set down, and an IPv6 address none before the kernel
has found out that nobody else has it; ip-route(8), ip-address(8).
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_interface

from msgspec import Struct

from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.managed_links import ROUTES, Route
from hfprov.evidence.text import excerpt
from hfprov.reading import Source

IpAddress = IPv4Address | IPv6Address


class LocalAddress(Struct, frozen=True):
    """One address that the node answers to."""

    ip: IpAddress
    device: str
    table: str
    """``local``, or the number of a VRF's table."""

    @property
    def is_global(self) -> bool:
        """Whether it leads beyond the link; 169.254.0.0/16 and fe80::/10 do not."""
        return is_global(self.ip)


def is_global(ip: IpAddress) -> bool:
    return not (ip.is_link_local or ip.is_loopback or ip.is_multicast or ip.is_unspecified)


def parse_address(text: str) -> IpAddress:
    """An address, with or without the length of its prefix. Raises NotUnderstoodError."""
    try:
        return ip_address(text.partition("/")[0].strip())
    except ValueError:
        raise NotUnderstoodError(f"'{excerpt(text)}' is no address.") from None


def addresses_of(routes: Iterable[Route]) -> frozenset[LocalAddress]:
    """The addresses of all interfaces.

    Raises NotUnderstoodError; and NoEvidenceError without any: the loopback has one at least.
    """
    found = set()
    for route in routes:
        if route.kind != "local":
            continue
        try:
            interface = ip_interface(route.destination)
        except ValueError:
            said = f"'{excerpt(route.destination)}' of 'ip route' is no address of the node."
            raise NotUnderstoodError(said) from None
        # A whole network that the node answers for, as 127.0.0.0/8, is no address.
        if interface.network.prefixlen == interface.max_prefixlen:
            found |= {LocalAddress(interface.ip, name, route.table) for name in route.devices}
    if not found:
        raise NoEvidenceError("'ip route' tells of no address, not even of the loopback's.")
    return frozenset(found)


LOCAL_ADDRESSES: Source[frozenset[LocalAddress]] = Source(
    "addresses in effect",
    ROUTES.reads,
    lambda seen, baseline: addresses_of(ROUTES.parse(seen, baseline)),
)
