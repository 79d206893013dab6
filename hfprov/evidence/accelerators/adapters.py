"""The vendors: what to read on a node, and which adapter understands it. One row per vendor."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.accelerators import amd, ascend, gaudi, intel, nvidia
from hfprov.evidence.accelerators.model import Accelerator, Report, Vendor
from hfprov.reading import Observation, Read, Source


class Adapter(Struct, frozen=True):
    """One vendor's tool and driver."""

    vendor: Vendor
    tool: str
    reads: tuple[Read, ...]
    present: tuple[Read, ...]
    """The reads that show whether one of the vendor's tools is there at all."""
    report: Callable[[Observation], Report]
    modules: tuple[str, ...]
    """Kernel modules that may drive it, the usual one first."""
    pci_vendor: str


ADAPTERS: tuple[Adapter, ...] = (
    Adapter(
        Vendor.NVIDIA,
        "nvidia-smi",
        nvidia.READS,
        (nvidia.QUERY_XML,),
        nvidia.report,
        ("nvidia",),
        "10de",
    ),
    Adapter(
        Vendor.AMD,
        "amd-smi",
        amd.READS,
        (amd.STATIC, amd.ROCM_SMI),
        amd.report,
        ("amdgpu",),
        "1002",
    ),
    Adapter(
        Vendor.ASCEND,
        "npu-smi",
        ascend.READS,
        (ascend.INFO,),
        ascend.report,
        ("drv_davinci_intf_host", "drv_davinci_intf", "ascend_drv_davinci_intf_host"),
        "19e5",
    ),
    Adapter(
        Vendor.GAUDI, "hl-smi", gaudi.READS, (gaudi.TABLE,), gaudi.report, ("habanalabs",), "1da3"
    ),
    Adapter(
        Vendor.INTEL, "xpu-smi", intel.READS, (intel.LIST,), intel.report, ("i915", "xe"), "8086"
    ),
)


def adapter(vendor: Vendor) -> Adapter:
    return next(one for one in ADAPTERS if one.vendor is vendor)


class Heard(Struct, frozen=True):
    """What was heard from the vendors' tools of one node, and from which nothing, and why."""

    reports: Mapping[Vendor, Report]
    silent: Mapping[Vendor, str]
    """Reasons of the tools that are there but could not be understood, or did not answer."""

    @property
    def devices(self) -> tuple[Accelerator, ...]:
        return tuple(one for report in self.reports.values() for one in report.devices)

    @property
    def vendors(self) -> frozenset[Vendor]:
        """Vendors whose tool is installed, whatever it says."""
        return frozenset((*self.reports, *self.silent))


def _parse(seen: Observation, _: Baseline) -> Heard:
    reports: dict[Vendor, Report] = {}
    silent: dict[Vendor, str] = {}
    for one in ADAPTERS:
        if not _installed(one, seen):
            continue
        try:
            reports[one.vendor] = one.report(seen)
        except (NoEvidenceError, NotUnderstoodError) as error:
            silent[one.vendor] = error.message
    return Heard(reports, silent)


def _installed(one: Adapter, seen: Observation) -> bool:
    """Whether any of the vendor's tools is there. Whatever is not known to be absent, is."""
    return any(seen.one(read).status != "absent" for read in one.present)


ACCELERATORS: Source[Heard] = Source(
    "accelerators",
    lambda _: tuple(read for one in ADAPTERS for read in one.reads),
    _parse,
)
