"""The data interfaces have addresses, of their own alone, and will have the same after a reboot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address

from hfprov.baseline import Baseline
from hfprov.checks.mtu import data_interfaces
from hfprov.checks.mtu_persistent import applied_file
from hfprov.checks.registry import Facts, check
from hfprov.evidence.ifupdown import IFUPDOWN, Option
from hfprov.evidence.ip_link import Interface, Interfaces
from hfprov.evidence.local_addresses import (
    LOCAL_ADDRESSES,
    IpAddress,
    LocalAddress,
    is_global,
    parse_address,
)
from hfprov.evidence.managed_links import LINKS
from hfprov.evidence.networkd import APPLIED, NETWORKS, Network
from hfprov.regex import regex
from hfprov.verdict import (
    Finding,
    Impact,
    NotApplicable,
    failed,
    not_applicable,
    passed,
    warned,
)

ROLE = "jumbo_mtu"
_BUNDLES = ("bond", "team")
"""What sends by its members, with an address of its own or in turn as a part of something else."""
_ON_TOP = ("vlan", "macvlan", "ipvlan", "macvtap", "ipvtap", "ipoib")
_EXPECTED = "an address"


def _absent(name: str) -> Finding:
    reason = "There is no interface of this name."
    return failed(name, observed="absent", expected=_EXPECTED, reason=reason)


@check(
    "mtu.address",
    reads=[LINKS, LOCAL_ADDRESSES],
    role=ROLE,
    impact=Impact.MANUAL,
    judges=["jumbo_mtu_interfaces"],
)
def address(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Each has an address that leads beyond the link, which no other interface has as well."""
    links, addresses = facts.get(LINKS), facts.get(LOCAL_ADDRESSES)
    for name in data_interfaces(baseline):
        link = links.find(name)
        if link is None:
            yield _absent(name)
            continue
        yield _addressed(name, link, links, addresses)
        yield from _twice(name, link, addresses)


def _addressed(
    name: str, link: Interface, links: Interfaces, addresses: frozenset[LocalAddress]
) -> Finding:
    reached, port_of = carriers(link, links)
    holders = {one.device for one in addresses if one.is_global}
    if link.name in holders:
        return passed(name, observed="an address of its own", expected=_EXPECTED)
    if above := sorted(holders & reached):
        return passed(name, observed=f"an address on '{above[0]}'", expected=_EXPECTED)
    if port_of:
        return passed(name, observed=f"a port of '{port_of}'", expected=_EXPECTED)
    reason = "RoCE's GIDs and every TCP connection need one."
    if link.link_type == "infiniband":
        reason = "IPoIB and connections by addresses (rdma_cm) need one; plain InfiniBand does not."
        return warned(name, observed="none", expected=_EXPECTED, reason=reason)
    if link.flags and "UP" not in link.flags:
        reason = f"The interface is set down, so that none is in effect. {reason}"
    own = any(one.device == link.name for one in addresses)
    observed = "link-local only" if own else "none"
    return failed(name, observed=observed, expected=_EXPECTED, reason=reason)


def carriers(link: Interface, links: Interfaces) -> tuple[set[str], str]:
    """All interfaces whose packets leave by this one, and what one of them is a mere port of."""
    reached: set[str] = set()
    port_of, waiting = "", [link]
    while waiting:
        one = waiting.pop()
        if one.name in reached:
            continue
        reached.add(one.name)
        waiting += [up for up in links.interfaces if up.parent == one.name and up.kind in _ON_TOP]
        master = links.find(one.master) if one.master else None
        if master and master.kind in _BUNDLES:
            waiting.append(master)
        elif one.master and (master is None or master.kind != "vrf"):
            # A bridge may have no address: those behind it have theirs.
            port_of = one.master
    return reached, port_of


def _twice(name: str, link: Interface, addresses: frozenset[LocalAddress]) -> Iterator[Finding]:
    mine = {(one.ip, one.table) for one in addresses if one.device == link.name and one.is_global}
    for one in sorted(addresses, key=lambda other: (other.device, str(other.ip))):
        # The loopback may lend its address to interfaces that have none.
        if (one.ip, one.table) in mine and one.device not in (link.name, "lo"):
            reason = f"'{one.device}' has it as well: by which of both packets go is chance."
            subject, expected = f"{name} {one.ip}", "on one interface"
            yield failed(subject, observed=f"on '{one.device}'", expected=expected, reason=reason)


@dataclass(frozen=True, slots=True)
class Written:
    """Addresses that files give an interface."""

    places: dict[IpAddress, str]
    """Where each is written."""
    has_others: bool
    """Whether it may be given more IPv4 addresses: by DHCP, or by commands."""


@check(
    "mtu.address.files",
    reads=[LINKS, LOCAL_ADDRESSES, APPLIED, NETWORKS, IFUPDOWN],
    role=ROLE,
    impact=Impact.MANUAL,
    judges=["jumbo_mtu_interfaces"],
)
def address_files(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The addresses in effect are those that the files of networkd or ifupdown give."""
    for name in data_interfaces(baseline):
        link = facts.get(LINKS).find(name)
        if link is None:
            yield _absent(name)
            continue
        written = _written(facts, link)
        if written is None:
            reason = "Neither networkd nor ifupdown configures it."
            yield not_applicable(NotApplicable.NOT_REQUESTED, reason, name)
            continue
        mine = (one for one in facts.get(LOCAL_ADDRESSES) if one.device == link.name)
        found = list(_differences(name, written, {one.ip for one in mine if one.is_global}))
        yield from found
        if not found:
            yield passed(name, observed="as written", expected="as written")


def _differences(name: str, written: Written, live: set[IpAddress]) -> Iterator[Finding]:
    for ip, where in written.places.items():
        if ip not in live:
            reason = "The interface does not have the address that its file gives."
            subject = f"{name} {where}"
            yield failed(subject, observed="not in effect", expected=str(ip), reason=reason)
    # IPv6 addresses come by routers' advertisements, too.
    strange = sorted(str(ip) for ip in live - set(written.places) if isinstance(ip, IPv4Address))
    # One beside those that are written may be a service's that moves from node to node.
    judged = warned if live & set(written.places) else failed
    for one in () if written.has_others else strange:
        reason = "No file gives this address: it is gone after the next boot."
        observed, expected = "until the next boot", "written in a file"
        yield judged(f"{name} {one}", observed=observed, expected=expected, reason=reason)


def _written(facts: Facts, link: Interface) -> Written | None:
    """None where neither of the two configures it."""
    applied = applied_file(facts, link)
    network = facts.get(NETWORKS).find(applied) if applied else None
    # ifupdown writes a second address as one of 'eth1:1'.
    stanzas = [
        one for one in facts.get(IFUPDOWN).stanzas if one.name.partition(":")[0] == link.name
    ]
    if network is None and not stanzas:
        return None
    places: dict[IpAddress, str] = {}
    has_others = False
    if network:
        places, has_others = _of_networkd(network)
    for stanza in stanzas:
        for option in stanza.options:
            if option.key == "address" and stanza.method == "static":
                places[parse_address(option.value)] = option.where
        if stanza.family == "inet":
            has_others = has_others or stanza.method not in ("static", "manual", "loopback")
        has_others = has_others or any(map(_may_add, stanza.options))
    return Written({ip: where for ip, where in places.items() if is_global(ip)}, has_others)


_DHCP_OFF = ("", "no", "false", "off", "0", "n", "f", "none", "ipv6", "v6")


def _of_networkd(network: Network) -> tuple[dict[IpAddress, str], bool]:
    places: dict[IpAddress, str] = {}
    has_others = False
    for one in network.settings:
        if (one.section, one.key) == ("Network", "DHCP"):
            has_others = one.value.lower() not in _DHCP_OFF
        elif one.key == "Address" and one.section in ("Network", "Address"):
            if one.value:
                places[parse_address(one.value)] = one.where
            elif one.section == "Network":
                places.clear()
    # 0.0.0.0/24 asks for any address that is free in a pool; systemd.network(5), Address=.
    return places, has_others or any(ip.is_unspecified for ip in places)


_HARMLESS = regex(r"(/usr)?(/s?bin/)?ip (-[46] )?(link|route|rule|neigh) ")


def _may_add(option: Option) -> bool:
    """Whether a command of ifupdown may give the interface an address."""
    starts = option.key in ("pre-up", "up", "post-up")
    return starts and not _HARMLESS.match(option.value)
