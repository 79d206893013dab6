"""Whether the machine around the accelerators is what was bought, and enough for them."""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.catalogue.accelerators import Model, accelerators
from hfprov.catalogue.skus import Sku
from hfprov.checks.accelerator_scope import SOURCES, Node, look, of_each_device
from hfprov.checks.registry import Facts, check
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.accelerators.model import Accelerator
from hfprov.evidence.host_hardware import DIMMS, MEMORY_GIB, SOCKETS
from hfprov.evidence.pci_devices import PCI_DEVICES
from hfprov.evidence.system import Machine
from hfprov.reading import Source
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

KERNEL_SHARE = 0.94
"""What the kernel shows of the memory that is installed; the rest is firmware's and its own."""
_NVME = 0x0108
_NETWORK = (0x0200, 0x0207)
_DATA_NIC_VENDORS = frozenset({"15b3", "14e4", "1dd8"})
"""Vendors of the NICs that carry data between such machines: Mellanox, Broadcom, Pensando."""


@check("accelerator.host_parts", reads=[*SOURCES, MEMORY_GIB, SOCKETS, DIMMS], impact=Impact.MANUAL)
def host_parts(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Sockets, memory, drives and network cards of the SKU are there."""
    node = look(facts, baseline)
    if node.sku is None:
        yield node.without or not_applicable(NotApplicable.NOT_REQUESTED, "No SKU is declared.")
        return
    if node.machine is not Machine.BARE_METAL:
        why = NotApplicable.CONTAINER
        if node.machine is Machine.VIRTUAL:
            why = NotApplicable.VIRTUAL_MACHINE
        yield not_applicable(why, "The machine's parts do not show from here.")
        return
    found = list(_parts(node.sku, facts))
    yield from found
    if not found:
        reason = f"The catalogue says nothing of what '{node.sku.id}' has beside accelerators."
        yield not_applicable(NotApplicable.NOT_REQUESTED, reason)


def _parts(sku: Sku, facts: Facts) -> Iterator[Finding]:
    host = sku.host
    if host.sockets is not None:
        yield _number("sockets", SOCKETS, host.sockets, facts)
    if host.dimms is not None:
        yield _number("memory modules", DIMMS, host.dimms, facts)
    if host.ram_gib is not None:
        yield _memory(host.ram_gib, facts)
    devices = facts.get(PCI_DEVICES).values()
    if host.nvme is not None:
        nvme = sum(one.kind == _NVME and not one.virtual for one in devices)
        yield _enough("NVMe drives", nvme, host.nvme)
    if host.nics:
        ports = [
            one
            for one in devices
            if one.kind in _NETWORK and one.vendor in _DATA_NIC_VENDORS and not one.virtual
        ]
        yield _enough("data network ports", len(ports), sum(one.count for one in host.nics))


def _number(subject: str, source: Source[int], wanted: int, facts: Facts) -> Finding:
    try:
        return _enough(subject, facts.get(source), wanted)
    except (NoEvidenceError, NotUnderstoodError) as error:
        return unknown(subject, reason=error.message, expected=str(wanted))


def _enough(subject: str, found: int, wanted: int) -> Finding:
    if found >= wanted:
        return passed(subject, observed=str(found), expected=f"at least {wanted}")
    reason = "Something that was bought is missing."
    return failed(subject, observed=str(found), expected=f"at least {wanted}", reason=reason)


def _memory(wanted: int, facts: Facts) -> Finding:
    try:
        found = facts.get(MEMORY_GIB)
    except (NoEvidenceError, NotUnderstoodError) as error:
        return unknown("memory", reason=error.message)
    observed, expected = f"{found:.0f} GiB", f"{wanted} GiB"
    if found >= wanted * KERNEL_SHARE:
        return passed("memory", observed=observed, expected=expected)
    reason = "Memory is missing: a module is not seated, or was switched off after errors."
    return failed("memory", observed=observed, expected=expected, reason=reason)


@check(
    "accelerator.host_memory",
    reads=[*SOURCES, MEMORY_GIB],
    impact=Impact.MANUAL,
    judges=["node_host_memory_ratio"],
)
def host_memory(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The host has memory enough for what its accelerators hold, and half as much again."""
    node = look(facts, baseline)
    if node.without is not None:
        yield node.without
        return
    ratio = float(baseline.get("node_host_memory_ratio", 1.5))
    total = _accelerator_gib(node)
    if not total:
        yield unknown(reason="The accelerators' memory is not known.")
        return
    found = facts.get(MEMORY_GIB)
    observed = f"{found:.0f} GiB for {total:.0f} GiB of accelerator memory"
    expected = f"at least {ratio:g} times as much"
    if found >= total * ratio * KERNEL_SHARE:
        yield passed(observed=observed, expected=expected)
    else:
        reason = "Data for the accelerators, and their checkpoints, do not fit beside each other."
        yield warned("", observed=observed, expected=expected, reason=reason)


def _accelerator_gib(node: Node) -> float:
    """Memory of all accelerators: as reported, else as the catalogue has it."""
    reported = [one.memory_mib for one in node.devices if one.memory_mib]
    if node.devices and len(reported) == len(node.devices):
        return sum(reported) / 1024
    models = [accelerators().find(one.pci_id) for one in node.bus]
    known = [one.memory_gib for one in models if one is not None]
    return sum(known) if models and len(known) == len(models) else 0.0


@check(
    "accelerator.formats",
    reads=SOURCES,
    impact=Impact.MANUAL,
    judges=["node_required_formats"],
)
def formats(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Every model computes with the number formats that are asked for."""
    wanted = [str(one).lower() for one in baseline.get("node_required_formats") or ()]
    if not wanted:
        reason = "No number format is asked for ('node_required_formats')."
        yield not_applicable(NotApplicable.NOT_REQUESTED, reason)
        return

    def judge(device: Accelerator, model: Model | None) -> Iterator[Finding]:
        expected = ", ".join(wanted)
        if model is None:
            reason = f"The catalogue does not have '{device.model or device.pci_id}'."
            yield unknown(device.name, reason=reason, expected=expected)
            return
        observed = ", ".join(model.formats)
        missing = [one for one in wanted if one not in model.formats]
        if missing:
            reason = f"{model.model} does not compute with {', '.join(missing)}."
            yield failed(device.name, observed=observed, expected=expected, reason=reason)
        else:
            yield passed(device.name, observed=observed, expected=expected)

    yield from of_each_device(facts, baseline, judge)
