"""What a data interface sends to its own networks leaves by it: routes, and rules that choose them.

A packet is followed as the kernel does: the rules in their order, in each table the longest prefix,
ip-rule(8) and ip-route(8). Rules for some packets only (by mark, port or user) are passed over.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

from hfprov.baseline import Baseline
from hfprov.checks.mtu_address import carriers
from hfprov.checks.nic import VARIABLE, declared, not_requested
from hfprov.checks.registry import Facts, check
from hfprov.errors import NotUnderstoodError
from hfprov.evidence.ip_link import Interface, Interfaces
from hfprov.evidence.ip_rules import IP_RULES, PolicyRule
from hfprov.evidence.local_addresses import LOCAL_ADDRESSES, LocalAddress
from hfprov.evidence.managed_links import IPV4_ROUTES, LINKS, Route
from hfprov.evidence.text import excerpt
from hfprov.verdict import Finding, Impact, NotApplicable, failed, not_applicable, passed

_EVERYTHING = IPv4Network("0.0.0.0/0")
_NOWHERE = ("blackhole", "unreachable", "prohibit")
_LOCAL = "local"
_OTHERS = ("broadcast", "multicast", "anycast", "nat")
_MOST = 8
"""Findings of one network; a table may lead a thousand single addresses elsewhere."""


@dataclass(frozen=True, slots=True)
class Way:
    """Where the packets to a network go, as far as one step of the search says."""

    network: IPv4Network
    observed: str
    is_right: bool


@dataclass(frozen=True, slots=True)
class Routing:
    """What the kernel goes by, in order."""

    rules: tuple[PolicyRule, ...]
    tables: Mapping[str, tuple[tuple[IPv4Network, Route], ...]]


def _network(destination: str) -> IPv4Network:
    if destination == "default":
        return _EVERYTHING
    try:
        return IPv4Network(destination)
    except ValueError:
        said = f"'{excerpt(destination)}' of 'ip route' is no network."
        raise NotUnderstoodError(said) from None


def routing(rules: tuple[PolicyRule, ...], routes: tuple[Route, ...]) -> Routing:
    """Raises NotUnderstoodError."""
    tables: dict[str, list[tuple[IPv4Network, Route]]] = {}
    for route in routes:
        tables.setdefault(route.table, []).append((_network(route.destination), route))
    return Routing(rules, {table: tuple(found) for table, found in tables.items()})


@check(
    "nic.routes",
    reads=[LINKS, LOCAL_ADDRESSES, IPV4_ROUTES, IP_RULES],
    impact=Impact.MANUAL,
    judges=[VARIABLE],
)
def routes(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Nothing leads what is meant for a data network elsewhere, or nowhere."""
    names = declared(baseline)
    if not names:
        yield not_requested()
        return
    links = facts.get(LINKS)
    now = routing(facts.get(IP_RULES), facts.get(IPV4_ROUTES))
    for name in names:
        link = links.find(name)
        if link is None:
            reason = "There is no interface of this name."
            yield failed(name, observed="absent", expected="routes", reason=reason)
        else:
            yield from _judged(name, link, links, facts.get(LOCAL_ADDRESSES), now)


def _judged(
    name: str, link: Interface, links: Interfaces, local: frozenset[LocalAddress], now: Routing
) -> Iterator[Finding]:
    if link.link_type == "ether" and "NOARP" in link.flags:
        reason = "It neither asks for addresses of others nor answers for its own ('arp off')."
        yield failed(f"{name} ARP", observed="off", expected="on", reason=reason)
    above, _ = carriers(link, links)
    masters = [
        links.find(one.master) for one in links.interfaces if one.name in above and one.master
    ]
    if any(one and one.kind == "vrf" for one in masters):
        yield not_applicable(NotApplicable.NOT_REQUESTED, "A VRF routes by rules of its own.", name)
        return
    found = own_networks(above, local, now)
    if not found:
        reason = "It has no IPv4 network that other nodes could be in."
        yield not_applicable(NotApplicable.NOT_REQUESTED, reason, name)
    guests = _guests(links, local)
    for address, network in sorted(found.items()):
        subject = f"{name} {network}"
        allowed = above | guests | _in_network(network, now)
        wrong = [way for way in ways(now, address, network, allowed) if not way.is_right]
        for way in wrong[:_MOST]:
            part = "" if way.network == network else f" to {way.network}"
            reason = "What is sent to nodes of this network does not leave by the data interface."
            expected = f"by '{link.name}'"
            yield failed(
                f"{subject}{part}", observed=way.observed, expected=expected, reason=reason
            )
        if not wrong:
            yield passed(subject, observed=f"by '{link.name}'", expected=f"by '{link.name}'")


def _guests(links: Interfaces, local: Iterable[LocalAddress]) -> set[str]:
    """The node's ends of cables into containers, which may have addresses of a data network."""
    holders = {one.device for one in local if one.is_global}
    return {one.name for one in links.interfaces if one.kind == "veth"} - holders


def _broadcasts(now: Routing) -> Iterator[tuple[IPv4Address, Route]]:
    for network, route in now.tables.get(_LOCAL, ()):
        if route.kind == "broadcast":
            yield network.network_address, route


def own_networks(
    devices: set[str], local: Iterable[LocalAddress], now: Routing
) -> dict[IPv4Address, IPv4Network]:
    """The network of each of their addresses, one address for each network.

    The kernel keeps a broadcast address for each, even where somebody took away its route: the
    network is the smallest one that ends with it.
    """
    found: dict[IPv4Network, IPv4Address] = {}
    for one in sorted((one for one in local if one.is_global), key=lambda one: str(one.ip)):
        if one.device not in devices or not isinstance(one.ip, IPv4Address):
            continue
        ends = [end for end, route in _broadcasts(now) if one.device in route.devices]
        fitting = [network for end in ends if (network := _ending_with(end, one.ip)) is not None]
        if fitting:
            found.setdefault(max(fitting, key=lambda network: network.prefixlen), one.ip)
    return {address: network for network, address in found.items()}


def _ending_with(end: IPv4Address, address: IPv4Address) -> IPv4Network | None:
    for length in range(30, 7, -1):
        network = IPv4Network((address, length), strict=False)
        if end in network:
            return network if network.broadcast_address == end else None
    return None


def _in_network(network: IPv4Network, now: Routing) -> set[str]:
    """Interfaces that are in this network with an address of their own: rails may share one."""
    return {
        name
        for end, route in _broadcasts(now)
        if end == network.broadcast_address
        for name in route.devices
    }


def ways(
    now: Routing, source: IPv4Address, network: IPv4Network, allowed: set[str]
) -> Iterator[Way]:
    """Where packets from an address of the node to a network of it go, until all is decided."""
    at_least = -1
    for rule in now.rules:
        scope = _scope(rule, source, network)
        if scope is None or rule.priority < at_least or rule.action == "nop":
            continue
        if rule.goto is not None:
            at_least = rule.goto if scope == network else at_least
            continue
        if rule.action in _NOWHERE:
            yield Way(scope, f"{rule.action}, rule {rule.priority}", is_right=False)
            decided = True
        else:
            decided = yield from _in_table(now, rule, scope, allowed)
        if decided and scope == network:
            return
    yield Way(network, "no route", is_right=False)


def _scope(rule: PolicyRule, source: IPv4Address, network: IPv4Network) -> IPv4Network | None:
    """The part of a network that a rule holds for; None for no part."""
    overlaps = rule.destination.overlaps(network)
    matches = not rule.is_narrow and source in rule.source and overlaps
    if rule.inverted:
        # Of what it leaves out in the middle of the network, the rest is not followed.
        return network if not matches else None
    if not matches:
        return None
    return network if rule.destination.prefixlen <= network.prefixlen else rule.destination


def _in_table(
    now: Routing, rule: PolicyRule, scope: IPv4Network, allowed: set[str]
) -> Generator[Way, None, bool]:
    """Ways by the routes of a rule's table; returns whether one of them leads all of the scope."""
    covering: list[tuple[IPv4Network, Route]] = []
    for network, route in now.tables.get(rule.table, ()):
        if network.prefixlen <= rule.suppressed_length or route.kind in _OTHERS:
            continue
        if network.supernet_of(scope):
            covering.append((network, route))
        elif network.subnet_of(scope) and route.kind != "throw":
            yield _way(network, route, rule, allowed)
    if not covering:
        return False
    _, route = min(covering, key=lambda one: (-one[0].prefixlen, one[1].metric))
    if route.kind == "throw":
        return False
    yield _way(scope, route, rule, allowed)
    return True


def _way(network: IPv4Network, route: Route, rule: PolicyRule, allowed: set[str]) -> Way:
    where = "" if rule.table == "main" else f", table {rule.table}"
    if route.kind in _NOWHERE:
        return Way(network, f"{route.kind}{where}", is_right=False)
    by = " and ".join(f"'{name}'" for name in route.devices) or "no interface"
    is_right = bool(route.devices) and allowed.issuperset(route.devices)
    words = f"the node itself ({by})" if route.kind == _LOCAL else f"by {by}"
    return Way(network, f"{words}{where}", is_right=is_right)
