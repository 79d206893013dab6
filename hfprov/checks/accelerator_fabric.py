"""How accelerators reach each other and the network: links, fabric, NICs."""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.catalogue.accelerators import Model
from hfprov.checks.accelerator_scope import SOURCES, look, of_each_device, untold
from hfprov.checks.registry import Facts, check
from hfprov.evidence.accelerators.driver import DRIVERS
from hfprov.evidence.accelerators.model import Accelerator, Interconnect, Vendor
from hfprov.evidence.nvidia_node import (
    DIRECT_PATH,
    DISTANCE,
    FABRIC_MANAGER,
    TOPOLOGY,
    FabricManager,
    nearest_nic,
)
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

_ERRORS = frozenset({"nvswitch_fatal", "critical", "error"})
SPEED_TOLERANCE = 0.01
"""Tools round a link's speed."""


@check("accelerator.interconnect", reads=SOURCES, impact=Impact.MANUAL)
def interconnect(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Every link between accelerators is up, and as fast as the model's."""

    def judge(device: Accelerator, model: Model | None) -> Iterator[Finding]:
        links = model.interconnect if model else None
        found = device.interconnect
        if found is None:
            wanted = links is not None and links.needed and not device.partitioned
            yield untold(device, model, "links to other accelerators", expected=wanted)
        else:
            yield _linked(device, model, found)

    yield from of_each_device(facts, baseline, judge)


def _linked(device: Accelerator, model: Model | None, found: Interconnect) -> Finding:
    """All links that the model has, or none where they are sold apart (a bridge between cards)."""
    links = model.interconnect if model else None
    wanted = links.links if links else found.total
    observed = f"{found.active} of {found.total} {found.kind} links up"
    expected = f"{wanted} up" + (f" at {links.gbytes_s:g} GB/s" if links else "")
    if found.active is None or wanted is None:
        reason = f"It does not tell how many links are up. {found.note}".strip()
        return unknown(device.name, reason=reason)
    if not found.active and (why := _may_be_unlinked(device, model, found)):
        return not_applicable(NotApplicable.NO_SUCH_HARDWARE, why, device.name)
    if found.active < wanted:
        reason = f"Links between accelerators are down. {found.note}".strip()
        return failed(device.name, observed=observed, expected=expected, reason=reason)
    slow = [one for one in found.gbytes_s if links and one < links.gbytes_s * (1 - SPEED_TOLERANCE)]
    if slow:
        observed = f"{len(slow)} links at {min(slow):g} GB/s"
        reason = "Links between accelerators are slower than the model's."
        return failed(device.name, observed=observed, expected=expected, reason=reason)
    return passed(device.name, observed=observed, expected=expected)


def _may_be_unlinked(device: Accelerator, model: Model | None, found: Interconnect) -> str:
    """Why it is right that no link is up; empty when it is not."""
    links = model.interconnect if model else None
    if device.partitioned:
        return "A partitioned device does not use its links."
    if links is not None:
        return "" if links.needed else "No bridge joins this card to another."
    return "" if found.total else "This device has no such links."


@check("accelerator.fabric_manager", reads=[*SOURCES, FABRIC_MANAGER, DRIVERS], impact=Impact.DRAIN)
def fabric_manager(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Where NVSwitches join the GPUs, their manager runs, is the driver's, and has set them up."""
    node = look(facts, baseline)
    if node.without is not None or Vendor.NVIDIA not in node.vendors:
        reason = "There are no NVSwitches."
        yield node.without or not_applicable(NotApplicable.NO_SUCH_HARDWARE, reason)
        return
    needed = node.switches > 0 or (node.sku is not None and node.sku.fabric_manager)
    if not needed:
        reason = "Neither the bus nor the SKU has NVSwitches."
        yield not_applicable(NotApplicable.NO_SUCH_HARDWARE, reason)
        return
    driver = facts.get(DRIVERS)[Vendor.NVIDIA].version
    yield _managed(facts.get(FABRIC_MANAGER), driver)
    yield from node.unheard()
    for device in node.devices:
        if device.fabric:
            yield _joined(device)


def _managed(found: FabricManager, driver: str) -> Finding:
    """Whether the service is there, runs, is of the driver's version, and what its log says."""
    expected = f"running, version {driver or 'of the driver'}"
    observed = f"{found.state}, version {found.version or 'unknown'}"
    fault = _fault(found, driver)
    if fault:
        observed = observed if found.installed else "not installed"
        return failed("service", observed=observed, expected=expected, reason=fault)
    events = found.run.events if found.run else ()
    errors = [one for one in events if one.kind in _ERRORS]
    noted = errors or [one for one in events if one.kind == "nvswitch_non_fatal"]
    if noted:
        observed = f"{len(noted)} errors in its log, the last: {noted[-1].message}"
        say, reason = failed, "It reports errors since its last start."
        if not errors:
            say, reason = warned, "NVSwitches had errors that did not stop them, since its start."
        return say("service", observed=observed, expected="no errors", reason=reason)
    if not found.version or not driver:
        return unknown("service", reason="Its version or the driver's is not known.")
    return passed("service", observed=observed, expected=expected)


def _fault(found: FabricManager, driver: str) -> str:
    if not found.installed:
        return "Without it no program can use more than one GPU, and many none at all."
    if not found.active:
        return "Without it the NVSwitches are not set up."
    if found.version and driver and found.version != driver:
        return "It must be of exactly the driver's version."
    return ""


def _joined(device: Accelerator) -> Finding:
    if device.fabric.lower() in ("completed, success", "completed", "n/a"):
        return passed(device.name, observed=device.fabric, expected="Completed, Success")
    reason = "The GPU has not joined the NVSwitch fabric."
    expected = "Completed, Success"
    return failed(device.name, observed=device.fabric, expected=expected, reason=reason)


@check("accelerator.nic_distance", reads=[*SOURCES, TOPOLOGY, DIRECT_PATH], impact=Impact.MANUAL)
def nic_distance(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Every GPU has a NIC behind the same PCIe switch."""
    node = look(facts, baseline)
    if Vendor.NVIDIA not in node.vendors or not facts.get(DIRECT_PATH).rdma_devices:
        reason = "There are no NVIDIA GPUs with RDMA devices beside them."
        yield not_applicable(NotApplicable.NO_SUCH_HARDWARE, reason)
        return
    found = nearest_nic(facts.get(TOPOLOGY))
    if not found:
        yield unknown(reason="The topology matrix has no GPU.")
    for name, (nic, relation) in found.items():
        expected = "PIX or PXB"
        if not nic:
            yield unknown(name, reason="The topology matrix shows no NIC for it.")
        elif DISTANCE[relation] <= DISTANCE["PXB"]:
            yield passed(name, observed=f"{relation} to {nic}", expected=expected)
        else:
            reason = "Data between its memory and the network goes through the CPU."
            observed = f"{relation} to {nic}"
            yield warned(name, observed=observed, expected=expected, reason=reason)


@check("accelerator.direct_rdma", reads=[*SOURCES, DIRECT_PATH, DRIVERS], impact=Impact.NONE)
def direct_rdma(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """NICs can reach GPU memory: by DMA-BUF with the open module, else by nvidia-peermem."""
    node = look(facts, baseline)
    found = facts.get(DIRECT_PATH)
    if Vendor.NVIDIA not in node.vendors or not found.rdma_devices:
        reason = "There are no NVIDIA GPUs with RDMA devices beside them."
        yield not_applicable(NotApplicable.NO_SUCH_HARDWARE, reason)
        return
    driver = facts.get(DRIVERS)[Vendor.NVIDIA]
    expected = "nvidia-peermem loaded, or the open kernel module"
    if found.peermem:
        yield passed(observed="nvidia-peermem loaded", expected=expected)
    elif driver.open_module:
        yield passed(observed="open kernel module (DMA-BUF)", expected=expected)
    elif driver.open_module is None:
        yield unknown(reason="nvidia-peermem is not loaded; whether the module is the open one is "
                      "not known.")  # fmt: skip
    else:
        observed = "closed kernel module, nvidia-peermem not loaded"
        reason = "Data between GPU and network is copied through the host's memory."
        yield failed("", observed=observed, expected=expected, reason=reason)
