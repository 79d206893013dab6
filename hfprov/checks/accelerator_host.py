"""Whether the machine around the accelerators is what was bought, and enough for them."""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.catalogue.accelerators import Model, accelerators
from hfprov.checks.accelerator_scope import SOURCES, Node, look, of_each_device
from hfprov.checks.registry import Facts, check
from hfprov.evidence.accelerators.model import Accelerator
from hfprov.evidence.host_hardware import MEMORY_GIB, SOCKETS
from hfprov.evidence.system import Machine
from hfprov.verdict import (
    Finding,
    Impact,
    NotApplicable,
    compared,
    failed,
    not_applicable,
    passed,
    unknown,
    warned,
)

KERNEL_SHARE = 0.94
"""What the kernel shows of the memory that is installed; the rest is firmware's and its own."""


@check("accelerator.sockets", reads=[*SOURCES, SOCKETS], impact=Impact.MANUAL)
def sockets(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Every processor of the SKU is there: half of the accelerators' links hang on each."""
    node = look(facts, baseline)
    if node.sku is None:
        yield node.without or not_applicable(NotApplicable.NOT_REQUESTED, "No SKU is declared.")
    elif node.machine is not Machine.BARE_METAL:
        virtual = node.machine is Machine.VIRTUAL
        why = NotApplicable.VIRTUAL_MACHINE if virtual else NotApplicable.CONTAINER
        yield not_applicable(why, "The machine's processors do not show from here.")
    elif node.sku.host.sockets is None:
        reason = f"The catalogue does not say how many processors '{node.sku.id}' has."
        yield not_applicable(NotApplicable.NOT_REQUESTED, reason)
    else:
        wanted, found = node.sku.host.sockets, facts.get(SOCKETS)
        yield compared(
            "",
            observed=f"{found} sockets",
            expected=f"{wanted} sockets",
            reason="A processor that was bought does not show.",
        )


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
