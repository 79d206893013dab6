"""What a data interface sends to its own networks of IPv6 leaves by it, too.

By the routes of the main table; rules that choose another one are not asked for, as RoCE and
most clusters with IPv6 have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import IPv6Address, IPv6Network

from hfprov.baseline import Baseline
from hfprov.checks.mtu_address import carriers
from hfprov.checks.nic import VARIABLE, declared, not_requested
from hfprov.checks.registry import Facts, check
from hfprov.errors import NotUnderstoodError
from hfprov.evidence.ip_link import Interface, Interfaces
from hfprov.evidence.local_addresses import LOCAL_ADDRESSES, LocalAddress
from hfprov.evidence.managed_links import IPV6_ROUTES, LINKS, Route
from hfprov.evidence.text import excerpt
from hfprov.verdict import Finding, Impact, NotApplicable, failed, not_applicable, passed

_NOWHERE = ("blackhole", "unreachable", "prohibit")
_OTHERS = ("multicast", "anycast", "throw")
_TABLES = ("main", "local")
_HOST = 128
_MOST = 8

Routes = tuple[tuple[IPv6Network, Route], ...]


@check(
    "nic.routes.ipv6",
    reads=[LINKS, LOCAL_ADDRESSES, IPV6_ROUTES],
    impact=Impact.MANUAL,
    judges=[VARIABLE],
)
def routes(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """No route of IPv6 leads a part of a data network elsewhere, or nowhere."""
    names = declared(baseline)
    if not names:
        yield not_requested()
        return
    links, found = facts.get(LINKS), tuple(_by_network(facts.get(IPV6_ROUTES)))
    for name in names:
        link = links.find(name)
        if link is None:
            reason = "There is no interface of this name."
            yield failed(name, observed="absent", expected="routes", reason=reason)
        else:
            yield from _judged(name, link, links, facts.get(LOCAL_ADDRESSES), found)


def _by_network(routes_told: tuple[Route, ...]) -> Iterator[tuple[IPv6Network, Route]]:
    for one in routes_told:
        if one.table not in _TABLES or one.kind in _OTHERS or one.destination == "default":
            continue
        try:
            yield IPv6Network(one.destination), one
        except ValueError:
            said = f"'{excerpt(one.destination)}' of 'ip -6 route' is no network."
            raise NotUnderstoodError(said) from None


def _judged(
    name: str,
    link: Interface,
    links: Interfaces,
    local: frozenset[LocalAddress],
    told: Routes,
) -> Iterator[Finding]:
    devices, _ = carriers(link, links)
    networks = sorted(own_networks(devices, local, told))
    if not networks:
        reason = "It has no IPv6 network that other nodes could be in."
        yield not_applicable(NotApplicable.NOT_REQUESTED, reason, name)
    holders = {one.device for one in local if one.is_global}
    guests = {one.name for one in links.interfaces if one.kind == "veth"} - holders
    for network in networks:
        allowed = devices | guests | _members(network, local, told)
        wrong = [(part, one) for part, one in _ways(network, told) if not _is_right(one, allowed)]
        expected = f"by '{link.name}'"
        for part, one in wrong[:_MOST]:
            subject = f"{name} {network}" + ("" if part == network else f" to {part}")
            by = " and ".join(f"'{device}'" for device in one.devices) or "no interface"
            observed = one.kind if one.kind in _NOWHERE else f"by {by}"
            reason = "What is sent to nodes of this network does not leave by the data interface."
            yield failed(subject, observed=observed, expected=expected, reason=reason)
        if not wrong:
            yield passed(f"{name} {network}", observed=expected, expected=expected)


def own_networks(
    devices: set[str], local: Iterable[LocalAddress], told: Routes
) -> set[IPv6Network]:
    """Networks with a route by one of the devices, in which one of them has an address."""
    mine = [
        one.ip
        for one in local
        if one.is_global and one.device in devices and isinstance(one.ip, IPv6Address)
    ]
    return {
        network
        for network, one in told
        if not one.kind
        and network.prefixlen < _HOST
        and not devices.isdisjoint(one.devices)
        and any(address in network for address in mine)
    }


def _members(network: IPv6Network, local: Iterable[LocalAddress], told: Routes) -> set[str]:
    """Interfaces with an address in the network and a route to it: rails may share one."""
    led = {name for one, route in told if one == network for name in route.devices}
    return {one.device for one in local if one.ip in network} & led


def _ways(network: IPv6Network, told: Routes) -> Iterator[tuple[IPv6Network, Route]]:
    """The route that holds for each part of the network that has one of its own."""
    best: dict[IPv6Network, Route] = {}
    for part, one in told:
        if part.subnet_of(network) and (part not in best or one.metric < best[part].metric):
            best[part] = one
    yield from sorted(best.items())


def _is_right(route: Route, allowed: set[str]) -> bool:
    # Those that lead nowhere have the loopback, or no interface.
    return bool(route.devices) and allowed.issuperset(route.devices)
