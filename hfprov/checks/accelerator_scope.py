"""Which accelerators a node has to have, has on its bus, and shows through its drivers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from weakref import WeakKeyDictionary

from hfprov.baseline import Baseline
from hfprov.catalogue.accelerators import Model, accelerators
from hfprov.catalogue.skus import NONE, Sku, find_sku, skus
from hfprov.checks.registry import Facts
from hfprov.errors import NoEvidenceError
from hfprov.evidence.accelerators.adapters import ACCELERATORS, ADAPTERS, Heard
from hfprov.evidence.accelerators.model import Accelerator, Report, Vendor
from hfprov.evidence.pci_devices import PCI_DEVICES, PciDevice
from hfprov.evidence.system import MACHINE, Machine
from hfprov.verdict import Finding, NotApplicable, badness, not_applicable, unknown

SOURCES = (PCI_DEVICES, ACCELERATORS, MACHINE)

_VGA, _3D, _DISPLAY, _PROCESSING = 0x0300, 0x0302, 0x0380, 0x1200
"""Class and subclass of display controllers and processing accelerators (PCI code and ID list)."""
_BY_PCI_VENDOR = {one.pci_vendor: one.vendor for one in ADAPTERS}
_EVERY_DISPLAY = frozenset({Vendor.NVIDIA})
"""Vendors whose graphics adapters count too; those of others may be part of the CPU or BMC."""
_NOT_PROCESSORS = frozenset({Vendor.INTEL})
"""Vendors whose other accelerators compress and encrypt; only what the catalogue has counts."""


def vendor_of(device: PciDevice) -> Vendor | None:
    """The vendor of an accelerator on the bus; None for every other PCI function."""
    return None if device.virtual else _vendor_of(device.pci_id, device.kind)


@lru_cache(maxsize=4096)
def _vendor_of(pci_id: str, kind: int) -> Vendor | None:
    vendor = _BY_PCI_VENDOR.get(pci_id[:4])
    if vendor is None or accelerators().find(pci_id) is not None:
        return vendor
    if kind in (_3D, _DISPLAY, _PROCESSING) and vendor not in _NOT_PROCESSORS:
        return vendor
    return vendor if kind == _VGA and vendor in _EVERY_DISPLAY else None


@dataclass(frozen=True, slots=True)
class Node:
    """The accelerators of one node, from every side."""

    declared: str
    """``node_sku``: a name, ``none``, or empty when nobody said."""
    sku: Sku | None
    expected: int | None
    """How many there must be; None when nobody said."""
    bus: tuple[PciDevice, ...]
    switches: int
    heard: Heard
    machine: Machine

    @property
    def devices(self) -> tuple[Accelerator, ...]:
        return self.heard.devices

    @property
    def vendors(self) -> tuple[Vendor, ...]:
        """Vendors that must be heard of: those on the bus, of the SKU, and of reported devices."""
        found = {vendor_of(device) for device in self.bus}
        found |= {one.vendor for one in self.devices}
        if self.sku is not None:
            model = accelerators().by_id(self.sku.accelerator)
            found.add(Vendor(model.vendor) if model else None)
        return tuple(vendor for vendor in Vendor if vendor in found)

    @property
    def without(self) -> Finding | None:
        """The finding for a node on which there is nothing to judge; None where there is."""
        if self.vendors:
            return None
        reason = "No accelerator is declared and none was found."
        return not_applicable(NotApplicable.NO_SUCH_HARDWARE, reason)

    def report(self, vendor: Vendor) -> Report | None:
        return self.heard.reports.get(vendor)

    def unheard(self) -> Iterator[Finding]:
        """One ``unknown`` for each vendor that tells nothing, or not all, of its devices."""
        for vendor in self.vendors:
            report = self.report(vendor)
            if report is None:
                tool = next(one.tool for one in ADAPTERS if one.vendor is vendor)
                reason = self.heard.silent.get(vendor, f"'{tool}' is not installed.")
                yield unknown(vendor.value, reason=reason)
            elif report.failure is not None:
                yield unknown(vendor.value, reason=f"Nothing is known: {report.message}")
            elif not report.devices:
                yield unknown(vendor.value, reason="Its tool reports no device.")
            elif report.incomplete:
                yield unknown(vendor.value, reason=f"The report is not whole: {report.incomplete}")
            for lost in report.lost if report else ():
                yield unknown(lost.pci_address or vendor.value, reason=lost.text)


_LOOKED: WeakKeyDictionary[Facts, Node] = WeakKeyDictionary()
"""The node that facts are of, while they are judged: thirty checks ask for it."""


def look(facts: Facts, baseline: Baseline) -> Node:
    """What is declared and what is there. Raises NoEvidenceError for a SKU that nobody knows."""
    found = _LOOKED.get(facts)
    if found is None:
        found = _LOOKED[facts] = _look(facts, baseline)
    return found


def _look(facts: Facts, baseline: Baseline) -> Node:
    declared = str(baseline.get("node_sku") or "")
    sku = find_sku(declared) if declared not in ("", NONE) else None
    if declared not in ("", NONE) and sku is None:
        known = ", ".join(f"'{one.id}'" for one in skus().skus)
        raise NoEvidenceError(f"The catalogue has no SKU '{declared}'. It has {known}.")
    expected = 0 if declared == NONE else sku.count if sku else None
    override = baseline.get("node_accelerator_count")
    machine = facts.get(MACHINE)
    # The bus that a container sees is its host's.
    devices = () if machine is Machine.CONTAINER else tuple(facts.get(PCI_DEVICES).values())
    return Node(
        declared,
        sku,
        expected if override is None else int(override),
        tuple(one for one in devices if vendor_of(one) is not None),
        sum(accelerators().is_switch(one.pci_id) for one in devices),
        facts.get(ACCELERATORS),
        machine,
    )


def model_of(device: Accelerator) -> Model | None:
    """The catalogue's row of a device; None for a model that it does not have."""
    return accelerators().find(device.pci_id, device.model)


def worst_of_each(findings: Iterable[Finding]) -> Iterator[Finding]:
    """One finding per subject, the worst: a device may be named by the bus and by two tools."""
    kept: dict[str, Finding] = {}
    for finding in findings:
        known = kept.get(finding.subject)
        if known is None or badness(finding.outcome) > badness(known.outcome):
            kept[finding.subject] = finding
    yield from kept.values()


JudgeDevice = Callable[[Accelerator, Model | None], Iterator[Finding]]


def of_each_device(facts: Facts, baseline: Baseline, judge: JudgeDevice) -> Iterator[Finding]:
    """The findings of ``judge`` for every device, and ``unknown`` for what nobody tells about."""
    node = look(facts, baseline)
    if node.without is not None:
        yield node.without
        return
    yield from worst_of_each(_all_of(node, judge))


def _all_of(node: Node, judge: JudgeDevice) -> Iterator[Finding]:
    yield from node.unheard()
    for device in node.devices:
        yield from judge(device, model_of(device))


def untold(device: Accelerator, model: Model | None, what: str, *, expected: bool) -> Finding:
    """For a fact that the tool does not tell: unknown where such a device must have it."""
    if expected:
        name = model.model if model else "such a device"
        return unknown(device.name, reason=f"Its {what} is not reported, and {name} has it.")
    reason = f"This device does not report its {what}."
    return not_applicable(NotApplicable.NO_SUCH_HARDWARE, reason, device.name)
