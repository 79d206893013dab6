"""Data interfaces in the modes in which kernel and driver leave them: nobody debugs on them.

What the kernel sets by itself for a bridge or a bond is not shown among an interface's flags.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hfprov.baseline import Baseline
from hfprov.checks.nic import VARIABLE, adapters, declared, not_requested
from hfprov.checks.registry import Facts, check
from hfprov.evidence.ethtool.settings import Feature
from hfprov.evidence.ip_link import Interface, Interfaces
from hfprov.evidence.local_addresses import LOCAL_ADDRESSES
from hfprov.evidence.managed_links import LINKS
from hfprov.evidence.offload_files import OFFLOAD_LINES
from hfprov.evidence.unwritable import OFFLOADS
from hfprov.verdict import (
    Finding,
    Impact,
    NotApplicable,
    failed,
    not_applicable,
    passed,
    unknown,
    warned,
)

_FULL = 65_536
"""Bytes that the kernel hands over at once unless told otherwise: GSO_LEGACY_MAX_SIZE."""
_SHORTEST = 100
"""Packets. Drivers have 1000 for Ethernet, 256 for InfiniBand."""
_PACKETS = ("pfifo", "pfifo_fast", "bfifo")
"""Queueing disciplines whose length is the interface's."""
_SHARERS = ("macvlan", "macvtap", "ipvlan", "ipvtap")
_SWITCHES = ("bridge", "openvswitch")
_AS_LEFT = "as the driver leaves it"


@check("nic.modes", reads=[LINKS, LOCAL_ADDRESSES], impact=Impact.MANUAL, judges=[VARIABLE])
def modes(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """No data interface takes in what is for others, or is kept short, by somebody's hand."""
    names = declared(baseline)
    if not names:
        yield not_requested()
        return
    links = facts.get(LINKS)
    for name in dict.fromkeys((*names, *adapters(links, names))):
        link = links.find(name)
        if link is None or not link.flags:
            yield unknown(name, reason="'ip link' did not tell its modes.", expected=_AS_LEFT)
            continue
        found = [
            warned(f"{name} {subject}", observed=observed, expected=expected, reason=reason)
            for subject, observed, expected, reason in _odd(link, links)
        ]
        found += _port(name, link, links, facts)
        yield from found
        if not found:
            yield passed(name, observed=_AS_LEFT, expected=_AS_LEFT)


def _port(name: str, link: Interface, links: Interfaces, facts: Facts) -> Iterator[Finding]:
    master = links.find(link.master) if link.master else None
    own = [one for one in facts.get(LOCAL_ADDRESSES) if one.device == link.name and one.is_global]
    if own and master is not None and master.kind in _SWITCHES:
        observed, expected = f"a port of '{master.name}'", "no port of a switch"
        reason = "What arrives goes through the switch: its own addresses do not hear of it."
        yield failed(f"{name} master", observed=observed, expected=expected, reason=reason)


def _odd(link: Interface, links: Interfaces) -> Iterator[tuple[str, str, str, str]]:
    """Part, what is observed and expected, and why that matters."""
    if "PROMISC" in link.flags or _is_listened_to(link, links):
        reason = "Every frame that passes costs the CPUs time: a sniffer, or a test left behind."
        yield "promiscuous", "on", "off", reason
    if "ALLMULTI" in link.flags:
        yield "allmulticast", "on", "off", "It takes in every multicast of the network."
    if link.link_type == "ether" and "MULTICAST" not in link.flags:
        reason = "Neither neighbours of IPv6 nor anything else that is sent to groups is heard."
        yield "multicast", "off", "on", reason
    if _has_other_address(link):
        reason = "Switches and other nodes may know it by another one, or know two that have this."
        yield "address", str(link.hardware_address), str(link.permanent_address), reason
    most = min(_FULL, link.tso_max_bytes or _FULL)
    if link.gso_max_bytes is not None and link.gso_max_bytes < most and link.tso_max_bytes:
        reason = "The CPU cuts what it sends into small parts: TCP is far from the link's speed."
        yield "gso_max_size", f"{link.gso_max_bytes}", f"at least {most}", reason
    length = link.tx_queue_length
    if length is not None and 0 < length < _SHORTEST and link.qdisc in _PACKETS:
        reason = "A burst does not fit into the queue, and the rest of it is dropped."
        yield "txqueuelen", f"{length}", f"at least {_SHORTEST}", reason


def _is_listened_to(link: Interface, links: Interfaces) -> bool:
    """Whether something takes in frames for others that is no interface above this one."""
    above = [one for one in links.interfaces if one.parent == link.name]
    shared = link.master is not None or any(one.kind in _SHARERS for one in above)
    return bool(link.promiscuity) and not shared


def _has_other_address(link: Interface) -> bool:
    # Members of a bond or team have its address; that of InfiniBand holds the number of a queue.
    return (
        link.kind is None
        and link.link_type == "ether"
        and link.master is None
        and link.permanent_address is not None
        and link.permanent_address != link.hardware_address
    )


_CUTS = "The CPU cuts data into packets: TCP is far from the link's speed."
_SUMS = "The CPU adds up every packet that goes out, and cuts data into packets."
_SINGLY = "Each packet goes through the whole kernel by itself."
_WANTED = {
    "rx-checksumming": "The CPU adds up every packet that comes in.",
    "tx-checksum-ip-generic": _SUMS,
    "tx-checksum-ipv4": _SUMS,
    "tx-checksum-ipv6": _SUMS,
    "tx-scatter-gather": "Everything that is sent is copied once more, and cut by the CPU.",
    "tx-tcp-segmentation": _CUTS,
    "tx-tcp6-segmentation": _CUTS,
    "generic-segmentation-offload": _SINGLY,
    "generic-receive-offload": _SINGLY,
}
"""Single ones: of a sum (``tx-checksumming``) ethtool does not say what cannot be changed."""
_OF_HARDWARE = ("generic-receive-offload",)
"""What interfaces without hardware may have off from the start, as veth does."""


@check("nic.offloads", reads=[LINKS, OFFLOADS], impact=Impact.MANUAL, judges=[VARIABLE])
def offloads(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Nobody has switched off what the adapters of data interfaces do in place of the CPUs."""
    names = declared(baseline)
    if not names:
        yield not_requested()
        return
    links, told = facts.get(LINKS), facts.get(OFFLOADS)
    if told is None:
        reason = "ethtool is not installed, or too old to tell of all interfaces at once."
        yield not_applicable(NotApplicable.NOT_REQUESTED, reason)
        return
    for name in dict.fromkeys((*names, *adapters(links, names))):
        link = links.find(name)
        if link is None:
            reason = "There is no interface of this name."
            yield failed(name, observed="absent", expected="offloads on", reason=reason)
        elif link.name not in told:
            yield unknown(name, reason="'ethtool -k' did not tell of it.", expected="offloads on")
        else:
            yield from _switched_off(name, link, told[link.name])


def _switched_off(name: str, link: Interface, told: Mapping[str, Feature]) -> Iterator[Finding]:
    wanted = {one for one in _WANTED if link.kind is None or one not in _OF_HARDWARE}
    known = [one for one in wanted if one in told]
    if not known:
        yield unknown(name, reason="'ethtool -k' told of no offload.", expected="offloads on")
        return
    off = [one for one in _WANTED if one in known and is_off(told[one])]
    for one in off:
        yield warned(f"{name} {one}", observed="off", expected="on", reason=_WANTED[one])
    if not off:
        yield passed(name, observed="on, where the driver has them", expected="offloads on")


def is_off(feature: Feature) -> bool:
    """Whether somebody could switch it on, and has not asked for that."""
    return not (feature.active or feature.fixed or feature.requested)


@check("nic.offloads.files", reads=[OFFLOAD_LINES], impact=Impact.MANUAL, judges=[VARIABLE])
def offloads_at_boot(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """No script, rule or file of the network switches them off at the next boot."""
    names, expected = declared(baseline), "no line that switches them off"
    if not names:
        yield not_requested()
        return
    found = [one for one in facts.get(OFFLOAD_LINES) if not one.device or one.device in names]
    for one in found:
        reason = "It holds for a data interface, or may: TCP is slow from the next boot on."
        observed = f"{', '.join(one.names)} off"
        yield warned(one.where, observed=observed, expected=expected, reason=reason)
    if not found:
        yield passed(observed="none", expected=expected)
