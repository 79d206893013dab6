"""How accelerators reach the host: at full width and speed, without errors."""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.catalogue.accelerators import Model, accelerators
from hfprov.checks.accelerator_scope import SOURCES, Node, look, of_each_device, untold
from hfprov.checks.registry import Facts, check
from hfprov.evidence.accelerators.model import Accelerator
from hfprov.evidence.pci_devices import AER, PCI_DEVICES, AerCounts, PciDevice
from hfprov.evidence.system import Machine
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

_BRIDGE = 0x0604
_BENIGN = frozenset({"UnsupReq"})
"""Counted while firmware and kernel probe for what is not there."""


def _in_machine(node: Node) -> Finding | None:
    """Why the node's own PCIe links cannot be judged, if they cannot."""
    if node.without is not None:
        return node.without
    if node.machine is Machine.CONTAINER:
        return not_applicable(NotApplicable.CONTAINER, "The bus belongs to the container's host.")
    if node.machine is Machine.VIRTUAL:
        reason = "What a virtual machine shows of a PCIe link is made up."
        return not_applicable(NotApplicable.VIRTUAL_MACHINE, reason)
    return None


@check(
    "accelerator.pcie_width",
    reads=SOURCES,
    impact=Impact.MANUAL,
    judges=["node_accelerator_pcie_width"],
)
def pcie_width(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Every lane is in use. Unlike the speed, the width does not change when a device idles."""
    node = look(facts, baseline)
    if (why := _in_machine(node)) is not None:
        yield why
        return
    told = {one.pci_address: one.pcie for one in node.devices if one.pci_address}
    declared = baseline.get("node_accelerator_pcie_width")
    for device in node.bus:
        mine = told.get(device.address)
        width = device.link.width if device.link else mine.width if mine else None
        most = device.link_max.width if device.link_max else mine.width_max if mine else None
        model = accelerators().find(device.pci_id)
        yield _width(device.address, width, model, most, declared)
    on_bus = {one.address for one in node.bus}
    for one in node.devices:
        if one.pci_address not in on_bus:
            model = accelerators().find(one.pci_id, one.model)
            yield _width(one.name, one.pcie.width, model, one.pcie.width_max, declared)


def _width(
    name: str, width: int | None, model: Model | None, most: int | None, declared: object
) -> Finding:
    wanted = int(str(declared)) if declared else model.pcie.width if model else None
    if width is None:
        return unknown(name, reason="It does not tell how many lanes its link has.")
    if wanted is None and most is None:
        return unknown(name, reason="Nobody knows how many lanes its link must have.")
    observed, expected = f"x{width}", f"x{wanted or most}"
    if wanted is not None and width < wanted:
        reason = "Lanes are missing: the slot, a riser, a cable or the device's contacts."
        return failed(name, observed=observed, expected=expected, reason=reason)
    if wanted is None and most is not None and width < most:
        reason = "The device could use more lanes, and the catalogue does not have this model."
        return warned(name, observed=observed, expected=expected, reason=reason)
    return passed(name, observed=observed, expected=expected)


@check("accelerator.pcie_speed", reads=SOURCES, impact=Impact.MANUAL)
def pcie_speed(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The link can be, and under load is, as fast as the model's. Idle links may slow down."""
    node = look(facts, baseline)
    if (why := _in_machine(node)) is not None:
        yield why
        return
    told = {one.pci_address: one for one in node.devices}
    for device in node.bus:
        one = told.get(device.address)
        link = device.link
        gen = link.generation if link else one.pcie.gen if one else None
        gen_max = device.link_max.generation if device.link_max else None
        if one is not None and one.pcie.gen_max is not None:
            gen_max = one.pcie.gen_max  # it knows the slot's limit too
        model = accelerators().find(device.pci_id)
        yield _speed(device.address, gen, gen_max, model, loaded=bool(one and one.loaded))
    on_bus = {one.address for one in node.bus}
    for one in node.devices:
        if one.pci_address not in on_bus:
            model = accelerators().find(one.pci_id, one.model)
            pcie = one.pcie
            yield _speed(one.name, pcie.gen, pcie.gen_max, model, loaded=bool(one.loaded))


def _speed(
    name: str, gen: int | None, gen_max: int | None, model: Model | None, *, loaded: bool
) -> Finding:
    wanted = model.pcie.gen if model else gen_max
    if gen is None:
        return unknown(name, reason="It does not tell how fast its link is.")
    if wanted is None:
        return unknown(name, reason="Nobody knows how fast its link must be.")
    observed, expected = f"generation {gen}", f"generation {wanted}"
    if gen >= wanted:
        return passed(name, observed=observed, expected=expected)
    if gen_max is not None and gen_max < wanted:
        reason = f"The slot or the firmware allows generation {gen_max} at most."
        return failed(name, observed=observed, expected=expected, reason=reason)
    if loaded:
        reason = "The link is slow although the device is at work."
        return failed(name, observed=observed, expected=expected, reason=reason)
    reason = "The link is slow; idle devices slow it down, so look again under load."
    return warned(name, observed=observed, expected=expected, reason=reason)


@check(
    "accelerator.pcie_replays",
    reads=SOURCES,
    impact=Impact.MANUAL,
    judges=["node_accelerator_max_pcie_replays"],
)
def pcie_replays(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Few packets had to be sent again."""
    most = int(baseline.get("node_accelerator_max_pcie_replays", 100))

    def judge(device: Accelerator, _: Model | None) -> Iterator[Finding]:
        replays, rollovers = device.pcie.replays, device.pcie.replay_rollovers
        observed = f"{replays} replays"
        if replays is None:
            yield untold(device, None, "count of replays", expected=False)
        elif rollovers:
            observed = f"{observed}, {rollovers} rollovers"
            reason = "Packets had to be sent again so often that the link was retrained."
            yield failed(device.name, observed=observed, expected="0 rollovers", reason=reason)
        elif replays > most:
            expected = f"at most {most}"
            reason = "Packets get lost on the link and are sent again; see whether it grows."
            yield warned(device.name, observed=observed, expected=expected, reason=reason)
        else:
            yield passed(device.name, observed=observed, expected=f"at most {most}")

    yield from of_each_device(facts, baseline, judge)


@check("accelerator.aer", reads=[*SOURCES, AER], impact=Impact.MANUAL)
def aer(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """No uncorrectable PCIe error since boot, at the accelerators and at the bridges above."""
    node = look(facts, baseline)
    if (why := _in_machine(node)) is not None:
        yield why
        return
    counts, devices = facts.get(AER), facts.get(PCI_DEVICES)
    mine = {one.address for one in node.bus}
    if not mine:
        yield unknown(reason="The accelerators are not on the bus that the kernel shows.")
    silent = sorted(mine - counts.keys())
    for address in silent:
        reason = "The kernel does not count PCIe errors of this device (AER)."
        yield not_applicable(NotApplicable.NO_SUCH_HARDWARE, reason, address)
    for address, counted in sorted(counts.items()):
        if address in mine or _joins(devices.get(address)):
            yield from _aer(counted, required=address in mine)


def _joins(device: PciDevice | None) -> bool:
    """Whether it is a bridge on the way to a device."""
    if device is None:
        return False
    return device.kind == _BRIDGE or accelerators().is_switch(device.pci_id)


def _aer(counted: AerCounts, *, required: bool) -> Iterator[Finding]:
    expected = "no uncorrectable error"
    serious = {name: count for name, count in counted.nonfatal.items() if name not in _BENIGN}
    bad = {**serious, **counted.fatal}
    shown = ", ".join(f"{name} {count}" for name, count in sorted(bad.items())[:4])
    if bad:
        reason = "Its PCIe link had errors that the hardware could not correct, since boot."
        yield failed(counted.address, observed=shown, expected=expected, reason=reason)
    elif required:
        corrected = sum(counted.correctable.values())
        observed = f"{expected}, {corrected} corrected" if corrected else expected
        yield passed(counted.address, observed=observed, expected=expected)
