"""What keeps packets small although the interface has the declared MTU: routes, IPv6, a bond."""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.mtu import VARIABLES, data_interfaces
from hfprov.checks.mtu_persistent import applied_file
from hfprov.checks.registry import Facts, check
from hfprov.evidence.ifupdown import IFUPDOWN
from hfprov.evidence.ip_link import Interface, Interfaces
from hfprov.evidence.managed_links import IPV6_MTUS, LINKS, ROUTES, Route
from hfprov.evidence.network_profiles import NETPLAN_FILES, PROFILES, definitions_of
from hfprov.evidence.networkd import APPLIED, NETWORKS, size
from hfprov.evidence.sysctl_files import FILES
from hfprov.verdict import Finding, Impact, failed, passed

ROLE = "jumbo_mtu"
_ABOVE = ("bond", "bridge", "team")
"""What sends by its members with an MTU of its own."""


def _absent(name: str) -> Finding:
    reason = "There is no interface of this name."
    return failed(name, observed="absent", expected="as large as declared", reason=reason)


@check(
    "mtu.narrowed",
    reads=[LINKS, ROUTES, IPV6_MTUS],
    role=ROLE,
    impact=Impact.MANUAL,
    judges=VARIABLES,
)
def narrowed(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """No route, IPv6 setting or bond above has a smaller MTU than the data interface now."""
    wanted, links = int(baseline["jumbo_mtu_bytes"]), facts.get(LINKS)
    for name in data_interfaces(baseline):
        link = links.find(name)
        if link is None:
            yield _absent(name)
            continue
        found = [
            *_above(link, links, wanted),
            *_by_routes(link, facts.get(ROUTES), wanted),
            *_by_ipv6(link, facts.get(IPV6_MTUS).get(name), wanted),
        ]
        yield from found
        if not found:
            yield passed(name, observed="nothing", expected="nothing smaller")


def _above(link: Interface, links: Interfaces, wanted: int) -> Iterator[Finding]:
    master = links.find(link.master) if link.master else None
    if master and master.kind in _ABOVE and (master.mtu_bytes or wanted) < wanted:
        reason = f"It sends by '{link.name}', and no larger packets than this."
        yield failed(
            f"{link.name} {master.name}",
            observed=str(master.mtu_bytes),
            expected=f"at least {wanted}",
            reason=reason,
        )


def _by_routes(link: Interface, routes: tuple[Route, ...], wanted: int) -> Iterator[Finding]:
    names = {link.name, link.master}
    for route in routes:
        if names & set(route.devices) and wanted > (route.mtu_bytes or wanted):
            table = "" if route.table == "main" else f" of table {route.table}"
            reason = "To this destination packets stay small, whatever the interface can do."
            yield failed(
                f"{link.name} route {route.destination}{table}",
                observed=f"mtu {route.mtu_bytes}",
                expected=f"none, or at least {wanted}",
                reason=reason,
            )


def _by_ipv6(link: Interface, mtu: int | None, wanted: int) -> Iterator[Finding]:
    # Where the interface's is too small itself, 'mtu.live' says so.
    if mtu is not None and mtu < min(wanted, link.mtu_bytes or wanted):
        reason = "IPv6 has an MTU of its own here: of a router's advertisement, or set by hand."
        expected = f"at least {wanted}"
        yield failed(f"{link.name} IPv6", observed=str(mtu), expected=expected, reason=reason)


@check(
    "mtu.narrowed.files",
    reads=[LINKS, APPLIED, NETWORKS, IFUPDOWN, NETPLAN_FILES, PROFILES, FILES],
    role=ROLE,
    impact=Impact.MANUAL,
    judges=VARIABLES,
)
def narrowed_files(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """No file gives a route of a data interface, or its IPv6, a smaller MTU at the next boot."""
    wanted = int(baseline["jumbo_mtu_bytes"])
    for name in data_interfaces(baseline):
        link = facts.get(LINKS).find(name)
        if link is None:
            yield _absent(name)
            continue
        found = [one for one in _written(facts, link) if one[1] < wanted]
        for where, mtu, what in found:
            reason = f"{what} would have packets stay small after the next boot."
            expected = f"none, or at least {wanted}"
            yield failed(f"{name} {where}", observed=str(mtu), expected=expected, reason=reason)
        if not found:
            yield passed(name, observed="nothing", expected="nothing smaller")


_ROUTE, _IPV6 = "This route's MTU", "This MTU of IPv6"
Written = Iterator[tuple[str, int, str]]
"""Where an MTU beside the interface's is written, its bytes, and what it is."""


def _written(facts: Facts, link: Interface) -> Written:
    applied = applied_file(facts, link)
    network = facts.get(NETWORKS).find(applied) if applied else None
    if network:
        for one in network.values("Route", "MTUBytes"):
            if one.value:
                yield one.where, size(one.value), _ROUTE
        last = network.values("Network", "IPv6MTUBytes")[-1:]
        if last and last[0].value:
            yield last[0].where, size(last[0].value), _IPV6
    for stanza in facts.get(IFUPDOWN).of(link.name):
        for option in stanza.options:
            yield from ((option.where, mtu, _ROUTE) for mtu in option.route_mtus)
    for file, definition in definitions_of(link, facts.get(NETPLAN_FILES)):
        yield from ((file.path, mtu, _ROUTE) for mtu in definition.route_mtus)
        if definition.ipv6_mtu_bytes is not None:
            yield file.path, definition.ipv6_mtu_bytes, _IPV6
    profile = facts.get(PROFILES).get(link.name)
    if profile:
        yield from ((f"connection {profile.uuid}", mtu, _ROUTE) for mtu in profile.route_mtus)
    yield from _kernel_settings(facts, link)


def _kernel_settings(facts: Facts, link: Interface) -> Written:
    files = facts.get(FILES)
    of_name = [one for one in files.at_boot if one.name == f"net.ipv6.conf.{link.name}.mtu"]
    later = [one for one in files.later if one.name == f"net.ipv6.conf.{link.name}.mtu"]
    for one in (*of_name[-1:], *later):
        if one.value.isascii() and one.value.isdigit():
            yield one.where, int(one.value[:9]), _IPV6
