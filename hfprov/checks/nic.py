"""Data interfaces: there, up, as fast as they can be, and bonded as meant.

A declared interface may be a bond or a VLAN; then its adapters below are judged as well. What is
virtual all the way down (veth in a practice node) has no speed, module or neighbour to judge.
"""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.hardware import Expected, expected, in_container, judged_each
from hfprov.checks.registry import Facts, check, require
from hfprov.evidence.bonding import Bond
from hfprov.evidence.ethtool.failure import EthtoolFailure
from hfprov.evidence.ethtool.link import LinkSettings
from hfprov.evidence.ip_link import Interface, Interfaces
from hfprov.evidence.managed_links import LINKS
from hfprov.evidence.nic_node import (
    BOND_STATES,
    LLDP_NEIGHBOURS,
    NET_SPEEDS,
    NIC_SETTINGS,
    data_nics,
)
from hfprov.evidence.pci_devices import PCI_DEVICES
from hfprov.evidence.pcie_node import ENDPOINTS
from hfprov.evidence.rdma_node import RDMA_DEVICES
from hfprov.evidence.system import MACHINE
from hfprov.regex import regex
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

VARIABLE = "jumbo_mtu_interfaces"
_MODE = regex(r"([0-9]{1,7})base")
_MBIT = 1000
_ONE_VENDOR = 56_000
"""A mode between adapters and switches of one vendor; no standard, and 40 Gbit/s elsewhere."""
_NETWORK = 0x02
"""The PCI base class of network adapters."""


def declared(baseline: Baseline) -> tuple[str, ...]:
    """The declared data interfaces. Raises NoEvidenceError for a list that is there and empty."""
    names = data_nics(baseline)
    require(names or VARIABLE not in baseline, f"No data interface is declared in '{VARIABLE}'.")
    return names


def not_requested() -> Finding:
    """The finding on a host that has no data interfaces to declare."""
    reason = f"The host's baseline has no '{VARIABLE}'."
    return not_applicable(NotApplicable.NOT_REQUESTED, reason)


def adapters(links: Interfaces, names: tuple[str, ...]) -> tuple[str, ...]:
    """The interfaces with hardware of their own at the bottom of some interfaces, each once."""
    found: dict[str, None] = {}
    waiting, seen = list(names), set()
    while waiting:
        link = links.find(waiting.pop(0))
        if link is None or link.name in seen:
            continue
        seen.add(link.name)
        members = [one.name for one in links.interfaces if one.master == link.name]
        if members or link.kind in ("bond", "team", "bridge"):
            waiting.extend(members)
        elif link.parent and link.kind not in (None, "veth"):
            waiting.append(link.parent)
        elif link.kind is None or link.kind == "ipoib":
            found[link.name] = None
    return tuple(found)


def virtual() -> Finding:
    """The finding where the data interfaces have no adapter below them."""
    reason = "The data interfaces are virtual: there is no adapter below them."
    return not_applicable(NotApplicable.NO_SUCH_HARDWARE, reason)


@check("nic.link", reads=[LINKS], impact=Impact.MANUAL, judges=[VARIABLE])
def link(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Each declared data interface exists, is set up and has a carrier."""
    names = declared(baseline)
    if not names:
        yield not_requested()
    for name in names:
        yield judge_interface(name, facts.get(LINKS).find(name))


_SHAPERS = ("cbq", "hfsc", "htb", "netem", "tbf")
"""Queueing disciplines that hold frames back, or lose them on purpose; tc(8)."""


@check("nic.shaping", reads=[LINKS], impact=Impact.MANUAL, judges=[VARIABLE])
def shaping(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Nothing holds back what a data interface sends: a test's shaper is easily left behind."""
    names = declared(baseline)
    if not names:
        yield not_requested()
    for name in names:
        found, expected = facts.get(LINKS).find(name), "no shaper"
        if found is None or not found.qdisc:
            yield unknown(name, reason="'ip link' did not tell its queueing.", expected=expected)
        elif found.qdisc in _SHAPERS:
            reason = "It delays, drops or slows down what is sent."
            yield failed(name, observed=found.qdisc, expected=expected, reason=reason)
        else:
            yield passed(name, observed=found.qdisc, expected=expected)


def judge_interface(name: str, found: Interface | None) -> Finding:
    expectation = "up, with a carrier"
    if found is None:
        reason = "There is no interface of this name: the adapter is gone, or named otherwise."
        return failed(name, observed="absent", expected=expectation, reason=reason)
    if not found.flags:
        return unknown(name, reason="'ip link' did not tell its state.", expected=expectation)
    if "UP" not in found.flags:
        reason = "It was taken down, or nothing brought it up."
        return failed(name, observed="down", expected=expectation, reason=reason)
    if not found.is_up:
        reason = "No carrier: a cable, a module, the switch port, or the interface below."
        return failed(name, observed="up, no carrier", expected=expectation, reason=reason)
    if found.operstate not in ("UP", "UNKNOWN", None):
        reason = "It has a carrier, but passes no data yet: it waits for a negotiation or a key."
        return failed(name, observed=found.operstate, expected=expectation, reason=reason)
    return passed(name, observed="up", expected=expectation)


@check(
    "nic.count",
    reads=[MACHINE, PCI_DEVICES, NET_SPEEDS, ENDPOINTS, RDMA_DEVICES],
    impact=Impact.MANUAL,
    judges=["node_nics", "node_nic_gbps"],
)
def count(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """As many cards with a port of the speed that data needs as the node was bought with."""
    wanted = _cards(baseline)
    if elsewhere := in_container(facts, "the network adapters"):
        yield elsewhere
    elif wanted is None:
        reason = "Nobody has declared how many adapters there must be ('node_nics', a SKU)."
        yield not_applicable(NotApplicable.NOT_REQUESTED, reason)
    else:
        yield _counted(facts, *wanted)


def _cards(baseline: Baseline) -> tuple[Expected, int] | None:
    """How many cards, and the Gbit/s of their ports (0: any)."""
    number = expected(
        baseline, "node_nics", lambda host: sum(one.count for one in host.nics) or None
    )
    speed = expected(
        baseline, "node_nic_gbps", lambda host: min((int(n.gbit) for n in host.nics), default=None)
    )
    return None if number is None else (number, speed.count if speed else 0)


def _counted(facts: Facts, wanted: Expected, gbps: int) -> Finding:
    speeds, devices = facts.get(NET_SPEEDS).facts, facts.get(PCI_DEVICES)
    known = {name: (mbps or 0) / _MBIT for name, mbps in speeds.items()}
    for port in facts.get(RDMA_DEVICES).ports:
        if port.rate and port.state and port.state.name == "ACTIVE":
            known[port.device] = max(known.get(port.device, 0), port.rate.gbit_per_s)
    fast = {
        address.rpartition(".")[0]
        for address, one in facts.get(ENDPOINTS).items()
        if address in devices
        and devices[address].pci_class >> 16 == _NETWORK
        and not devices[address].virtual
        and max(known.get(name, 0) for name in one.names) >= gbps
    }
    kind = f"cards with a port at {gbps} Gbit/s" if gbps else "cards"
    observed, expectation = f"{len(fast)} {kind}", f"{wanted.count} {kind}, {wanted.origin}"
    if len(fast) < wanted.count:
        reason = "Adapters are missing from the bus, down, or slower than they should be."
        return failed("", observed=observed, expected=expectation, reason=reason)
    return passed(observed=observed, expected=expectation)


@check(
    "nic.speed",
    reads=[LINKS, NET_SPEEDS, NIC_SETTINGS],
    impact=Impact.MANUAL,
    judges=[VARIABLE, "node_nic_gbps"],
)
def speed(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """What was negotiated, of what is declared or else of what the adapter can do."""
    names = declared(baseline)
    below = adapters(facts.get(LINKS), names)
    wanted = expected(
        baseline, "node_nic_gbps", lambda host: min((int(n.gbit) for n in host.nics), default=None)
    )
    speeds, settings = facts.get(NET_SPEEDS), facts.get(NIC_SETTINGS)
    yield from judged_each(
        below, lambda name: judge_speed(name, speeds.of(name), settings.facts.get(name), wanted)
    )
    if not below:
        yield virtual() if names else not_requested()


def judge_speed(
    name: str,
    mbps: int | None,
    settings: LinkSettings | EthtoolFailure | None,
    wanted: Expected | None,
) -> Finding:
    """``mbps`` as the kernel tells it; ``settings`` are ethtool's, None where it could not say."""
    if isinstance(settings, EthtoolFailure):
        settings = None
    if mbps is None:
        return _no_speed(name, settings)
    able = capability(settings) if settings else None
    target = wanted.count * _MBIT if wanted else able
    if target is None:
        reason = "Neither ethtool nor 'node_nic_gbps' says what the adapter should reach."
        return unknown(name, reason=reason)
    observed = f"{mbps / _MBIT:g} Gbit/s"
    expectation = f"{target / _MBIT:g} Gbit/s" + (f", {wanted.origin}" if wanted else "")
    if settings is not None and settings.duplex == "half":
        observed += ", half duplex"
        reason = "The link is half duplex: the two ends did not agree."
    elif mbps >= target:
        return passed(name, observed=observed, expected=expectation)
    elif wanted is None:
        reason = "The link is slower than the adapter: the cable, the module, or the switch port."
        return warned(name, observed=observed, expected=expectation, reason=reason)
    else:
        reason = "The link is slower than the node was bought with."
    return failed(name, observed=observed, expected=expectation, reason=reason)


def _no_speed(name: str, settings: LinkSettings | None) -> Finding:
    if settings is None or settings.link_detected is not False:
        return unknown(name, reason="The kernel tells no speed, and ethtool no reason.")
    detail = f" ({settings.link_detail})" if settings.link_detail else ""
    reason = f"There is no link{detail}."
    return failed(name, observed="no link", expected="a link", reason=reason)


def capability(settings: LinkSettings) -> int | None:
    """The fastest mode that the adapter supports, in Mbit/s; None where it does not say."""
    modes = (_MODE.match(mode) for mode in settings.supported.link_modes)
    speeds = {int(mode[1]) for mode in modes if mode} - {_ONE_VENDOR}
    return max(speeds, default=None)


@check("nic.bonds", reads=[LINKS, BOND_STATES], impact=Impact.MANUAL)
def bonds(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """Every bond of the node has all of its members, and they fit together."""
    states = facts.get(BOND_STATES)
    names = {one.name for one in facts.get(LINKS).interfaces if one.kind == "bond"} | set(
        states.names
    )
    if not names:
        yield not_applicable(NotApplicable.NO_SUCH_HARDWARE, "The node has no bond.")
    yield from judged_each(sorted(names), lambda name: judge_bond(name, states.of(name)))


def judge_bond(name: str, bond: Bond) -> Finding:
    members = ", ".join(f"{one.name} {'up' if one.up else 'down'}" for one in bond.members)
    observed, expectation = f"{bond.mode.value}: {members or 'no member'}", "all members at work"
    problems = list(bond.problems) if bond.up else ["The bond is down.", *bond.problems]
    problems += [
        f"LACP of '{one.name}' does not settle."
        for one in bond.members
        if one.actor_churned or one.partner_churned
    ]
    if problems:
        return failed(name, observed=observed, expected=expectation, reason=" ".join(problems))
    return passed(name, observed=observed, expected=expectation)


@check("nic.neighbours", reads=[LINKS, LLDP_NEIGHBOURS], impact=Impact.MANUAL, judges=[VARIABLE])
def neighbours(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Each adapter hears a switch. Silence is no proof of a wrong cable: not all switches speak."""
    names = declared(baseline)
    below = adapters(facts.get(LINKS), names)
    if not below:
        yield virtual() if names else not_requested()
        return
    heard = facts.get(LLDP_NEIGHBOURS)
    if heard is None:
        yield not_applicable(NotApplicable.NOT_REQUESTED, "lldpd is not installed on the node.")
        return
    for name in below:
        found = [
            f"{one.chassis_name or one.chassis_id} {one.port_id or one.port_description}"
            for one in heard.of(name)
        ]
        if found:
            yield passed(name, observed=", ".join(found), expected="a neighbour")
        else:
            reason = "No switch is heard on it, so that nobody knows where its cable ends."
            yield warned(name, observed="none", expected="a neighbour", reason=reason)
