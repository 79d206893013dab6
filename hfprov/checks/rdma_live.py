"""RDMA devices as they are now: there, as fast as declared, with the declared RoCE settings.

Devices are found by PCI address or GUID. What a container sees of them is its host's. What
:mod:`hfprov.checks.rdma_port` says of every port, declared or not, is not said again here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hfprov.baseline import Baseline
from hfprov.checks.hardware import in_container, judged_each
from hfprov.checks.rdma import LEAVE, ROLE, THE_KERNEL
from hfprov.checks.rdma_boot import PCI, QOS, ROCE, ROCE_TYPES, dscp_priorities, numbers
from hfprov.checks.registry import Facts, check
from hfprov.errors import NoEvidenceError
from hfprov.evidence.rdma_node import RDMA_DEVICES
from hfprov.evidence.rdma_qos import PRIORITIES, Priorities
from hfprov.evidence.rdma_settings import (
    ACCESS_CONTROL,
    DEVICE_CONTROL,
    ECN_STATES,
    GID_TABLE,
    IDENTITIES,
    MANAGER,
    REGISTERS,
    VERBS,
    Identity,
    declared_addresses,
    plain_guid,
    select_gid,
)
from hfprov.evidence.system import MACHINE
from hfprov.verdict import (
    Finding,
    Impact,
    NotApplicable,
    compared,
    failed,
    not_applicable,
    passed,
)

DEVICES, INTERFACES, SOFT = "rdma_devices", "rdma_interfaces", "rdma_rxe_interfaces"


def _left(facts: Facts, baseline: Baseline, variable: str) -> Finding | None:
    """The finding on what nobody declared, or what is a container's host's; or None."""
    if not baseline[variable] or baseline[variable] == LEAVE:
        return not_applicable(NotApplicable.NOT_REQUESTED, f"'{variable}' declares nothing.")
    return in_container(facts, THE_KERNEL)


def _find(found: tuple[Identity, ...], declared: Mapping[str, object]) -> Identity | None:
    pci, guid = str(declared.get("pci") or ""), plain_guid(str(declared.get("guid") or ""))
    if not pci and not guid:
        raise NoEvidenceError(f"An entry of '{DEVICES}' has neither 'pci' nor 'guid'.")
    return next(
        (one for one in found if (pci and one.pci == pci) or (guid and one.guid == guid)), None
    )


def _subject(declared: Mapping[str, object]) -> str:
    return str(declared.get("pci") or declared.get("guid") or "an entry without identity")


@check(
    "rdma.devices",
    reads=[MACHINE, IDENTITIES],
    role=ROLE,
    impact=Impact.MANUAL,
    judges=[DEVICES],
)
def devices(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Each declared device is there, whatever it is called."""
    if left := _left(facts, baseline, DEVICES):
        yield left
        return
    found = facts.get(IDENTITIES)
    for declared in baseline[DEVICES]:
        one, subject = _find(found, declared), _subject(declared)
        if one:
            yield passed(subject, observed=one.name, expected="an RDMA device")
        else:
            others = ", ".join(f"{o.name} ({o.pci or o.guid})" for o in found) or "none"
            reason = f"No RDMA device has this identity. There are: {others[:200]}."
            yield failed(subject, observed="absent", expected="an RDMA device", reason=reason)


@check(
    "rdma.ports",
    reads=[MACHINE, IDENTITIES, RDMA_DEVICES, VERBS],
    role=ROLE,
    impact=Impact.MANUAL,
    judges=[DEVICES],
)
def ports(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Ports of declared devices: active, and of the declared rate, MTU and kind."""
    if left := _left(facts, baseline, DEVICES):
        yield left
        return
    for declared in baseline[DEVICES]:
        one = _find(facts.get(IDENTITIES), declared)
        subject = _subject(declared)
        if one is None:
            reason = "The device is not there, so it has no port."
            yield failed(subject, observed="absent", expected="an active port", reason=reason)
        else:
            yield from _judge_ports(facts, one.name, subject, declared)


def _judge_ports(
    facts: Facts, device: str, subject: str, declared: Mapping[str, object]
) -> Iterator[Finding]:
    seen = [port for port in facts.get(RDMA_DEVICES).ports if port.device == device]
    if not seen:
        raise NoEvidenceError(f"Nothing was read of the ports of '{device}'.")
    for port in seen:
        where = f"{subject} port {port.port}"
        observed = port.state.name if port.state else "unknown"
        reason = "The port carries no data; rdma_port.state says more."
        yield compared(f"{where} state", observed=observed, expected="ACTIVE", reason=reason)
        if rate := declared.get("rate_gbit_per_s"):
            observed = f"{port.rate.gbit_per_s:g}" if port.rate else "unknown"
            reason = "The link runs at another rate (Gbit/s) than declared."
            expected = f"{float(str(rate)):g}"
            yield compared(f"{where} rate", observed=observed, expected=expected, reason=reason)
        if layer := declared.get("link_layer"):
            reason = "The port is of the other kind; its firmware may be set so."
            observed = port.link_layer or "unknown"
            yield compared(
                f"{where} link layer", observed=observed, expected=str(layer), reason=reason
            )
        if size := declared.get("active_mtu_bytes"):
            reason = "RoCE takes the largest size that fits the interface's MTU; see mtu.live."
            observed = _active_mtu(facts, device, port.port)
            yield compared(f"{where} MTU", observed=observed, expected=str(size), reason=reason)


def _active_mtu(facts: Facts, device: str, number: int) -> str:
    for one in facts.get(VERBS):
        for port in one.ports:
            if (one.name, port.number) == (device, number):
                return str(port.active_mtu_bytes)
    return "not told by 'ibv_devinfo'"


@check(
    "rdma.gids", reads=[MACHINE, GID_TABLE], role=ROLE, impact=Impact.MANUAL, judges=[INTERFACES]
)
def gids(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Each interface has a GID that programs can choose by type: RoCE v2 with IPv4."""
    if left := _left(facts, baseline, INTERFACES):
        yield left
        return
    table = facts.get(GID_TABLE)
    expected = "a GID of RoCE v2 with IPv4"
    for name in map(str, baseline[INTERFACES]):
        if chosen := select_gid(table, name):
            where = f"{chosen.device}/{chosen.port} index {chosen.index}, {chosen.gid}"
            yield passed(name, observed=where, expected=expected)
            continue
        kinds = sorted({gid.kind for gid in table if gid.interface == name})
        reason = (
            f"It has only GIDs of {', '.join(kinds)}, or none with IPv4: has it an address?"
            if kinds
            else "No RDMA device has this interface."
        )
        yield failed(name, observed="none", expected=expected, reason=reason)


@check(
    "rdma.roce",
    reads=[MACHINE, GID_TABLE, MANAGER],
    role=ROLE,
    impact=Impact.NONE,
    judges=[INTERFACES, *ROCE],
)
def roce(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """What connections of rdma_cm use by default on these interfaces, now."""
    mode, tos = (str(baseline[name]) for name in ROCE)
    left = _left(facts, baseline, INTERFACES)
    if left or (mode, tos) == (LEAVE, LEAVE):
        reason = f"'{ROCE[0]}' and '{ROCE[1]}' are '{LEAVE}'."
        yield left or not_applicable(NotApplicable.NOT_REQUESTED, reason)
        return
    set_ones, table = facts.get(MANAGER), facts.get(GID_TABLE)
    for name in map(str, baseline[INTERFACES]):
        mine = sorted({(gid.device, gid.port) for gid in table if gid.interface == name})
        if not mine:
            reason = "No RDMA device has this interface."
            yield failed(name, observed="none", expected="an RDMA device", reason=reason)
        for device, port in mine:
            now = set_ones.get((device, port))
            for what, value, wanted in (
                ("mode", now.mode if now else None, ROCE_TYPES.get(mode, "")),
                ("type of service", now.tos if now else None, "" if tos == LEAVE else tos),
            ):
                if wanted:
                    reason = "It was not set since the device appeared, or by somebody else."
                    yield compared(
                        f"{name} {what}",
                        observed="not set" if value is None else value,
                        expected=wanted,
                        reason=reason,
                    )


@check(
    "rdma.qos",
    reads=[MACHINE, PRIORITIES, ECN_STATES],
    role=ROLE,
    impact=Impact.DRAIN,
    judges=[INTERFACES, *QOS],
)
def qos(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Trust, priorities, flow control and congestion notification of these interfaces, now."""
    ecn = numbers(baseline, "rdma_ecn_priorities")
    left = _left(facts, baseline, INTERFACES)
    if left or (baseline["rdma_qos_tool"] == LEAVE and not ecn):
        reason = f"'rdma_qos_tool' is '{LEAVE}'."
        yield left or not_applicable(NotApplicable.NOT_REQUESTED, reason)
        return
    names = [str(name) for name in baseline[INTERFACES]]
    if baseline["rdma_qos_tool"] != LEAVE:
        found = facts.get(PRIORITIES)
        for name in names:
            yield from judge_priorities(name, found[name], baseline)
    states = facts.get(ECN_STATES) if ecn else {}
    for name in names:
        for priority in ecn:
            sides = [states.get((name, side, priority), "-") for side in ("roce_np", "roce_rp")]
            reason = "The adapter does not notify, or does not heed, congestion ('-': no switch)."
            yield compared(
                f"{name} ECN {priority}", observed=" ".join(sides), expected="1 1", reason=reason
            )


def judge_priorities(name: str, now: Priorities, baseline: Baseline) -> Iterator[Finding]:
    """One interface against the declaration."""
    wanted = dscp_priorities(baseline)
    trust = "dscp" if wanted else "pcp"
    reason = "Frames are put into priorities by something else than the switch goes by."
    yield compared(f"{name} trust", observed=now.trust, expected=trust, reason=reason)
    # mlnx_qos has a priority for each DSCP, dcb only for those that were set.
    every = baseline["rdma_qos_tool"] == "dcb"
    mine = {one: now.dscp[one] for one in sorted(now.dscp) if every or one in wanted}
    reason = "Marked frames go into another priority than declared."
    yield compared(f"{name} DSCP", observed=_pairs(mine), expected=_pairs(wanted), reason=reason)
    reason = "Flow control is not on for exactly the declared priorities; ask for the switch's."
    pfc = numbers(baseline, "rdma_pfc_priorities")
    yield compared(f"{name} PFC", observed=_listed(now.pfc), expected=_listed(pfc), reason=reason)


def _pairs(found: Mapping[int, int]) -> str:
    return ", ".join(f"{dscp}:{priority}" for dscp, priority in found.items()) or "none"


def _listed(found: tuple[int, ...] | list[int]) -> str:
    return ", ".join(map(str, found)) or "none"


@check("rdma.rxe", reads=[MACHINE, IDENTITIES], role=ROLE, impact=Impact.NONE, judges=[SOFT])
def rxe(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Each declared interface has its soft-RoCE device."""
    if left := _left(facts, baseline, SOFT):
        yield left
        return
    found = {one.parent: one.name for one in facts.get(IDENTITIES) if one.parent}
    for name in map(str, baseline[SOFT]):
        if name in found:
            yield passed(name, observed=found[name], expected="a soft-RoCE device")
        else:
            reason = "The unit did not run, or the kernel has no module 'rdma_rxe'."
            yield failed(name, observed="none", expected="a soft-RoCE device", reason=reason)


@check(
    "rdma.pci",
    reads=[MACHINE, REGISTERS],
    role=ROLE,
    impact=Impact.DRAIN,
    judges=[DEVICES, *PCI],
)
def pci(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Read requests, relaxed ordering and access control: reported, and judged where declared."""
    addresses, bridges = declared_addresses(baseline), list(baseline[PCI[2]])
    elsewhere = in_container(facts, THE_KERNEL)
    if elsewhere or not (addresses or bridges):
        reason = "Neither a device is declared by 'pci' nor a bridge in 'rdma_acs_off_bridges'."
        yield elsewhere or not_applicable(NotApplicable.NOT_REQUESTED, reason)
        return
    yield from judged_each(addresses, lambda one: _judge_device(one, facts, baseline))
    for bridge in map(str, bridges):
        control = facts.get(REGISTERS).get((bridge, ACCESS_CONTROL))
        observed = "unknown" if control is None else ("on" if control & 0xC else "off")
        reason = "The bridge redirects requests or completions: data takes the way round."
        yield compared(f"{bridge} redirect", observed=observed, expected="off", reason=reason)


def _judge_device(address: str, facts: Facts, baseline: Baseline) -> Finding:
    size, ordering = (str(baseline[name]) for name in PCI[:2])
    control = facts.get(REGISTERS)[address, DEVICE_CONTROL]
    now = str(128 << ((control >> 12) & 7)), "enabled" if control & 0x10 else "disabled"
    wanted = tuple(
        one if declared == LEAVE else declared
        for one, declared in zip(now, (size, ordering), strict=True)
    )
    words = "read requests of {} bytes, relaxed ordering {}"
    if (size, ordering) == (LEAVE, LEAVE):
        reason = f"It has {words.format(*now)}; nothing else is declared."
        return not_applicable(NotApplicable.NOT_REQUESTED, reason, address)
    reason = "The device was reset or rebooted since it was set, or somebody else set it."
    return compared(
        address, observed=words.format(*now), expected=words.format(*wanted), reason=reason
    )
