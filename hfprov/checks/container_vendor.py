"""Whose accelerators containers shall have, and how each vendor's devices get into them."""

from __future__ import annotations

from collections.abc import Mapping

from hfprov.baseline import Baseline
from hfprov.checks.accelerator_scope import vendor_of
from hfprov.checks.hardware import in_container
from hfprov.checks.registry import Facts
from hfprov.evidence.pci_devices import PCI_DEVICES

VENDOR = "container_runtime_vendor"
CDI_DEVICE: Mapping[str, str] = {"nvidia": "nvidia.com/gpu=all", "amd": "amd.com/gpu=all"}
"""All accelerators of a vendor whose toolkit writes CDI specifications."""
CDI_FILE: Mapping[str, str] = {"nvidia": "/etc/cdi/nvidia.yaml", "amd": "/etc/cdi/amd.json"}
RUNTIMES: Mapping[str, str] = {
    "ascend": "/usr/local/Ascend/Ascend-Docker-Runtime/ascend-docker-runtime",
    "habana": "/usr/bin/habana-container-runtime",
}
"""Low-level runtimes of the vendors without CDI, by the name under which they are set up."""
_NAMES = {"gaudi": "habana"}
"""The role's name of a vendor where it is not the catalogue's."""


def vendor_for(facts: Facts, baseline: Baseline) -> str:
    """The declared vendor, or the one on the bus; empty for nobody.

    Reads MACHINE and PCI_DEVICES.
    """
    declared = str(baseline[VENDOR])
    if declared != "auto":
        return "" if declared == "none" else declared
    if in_container(facts, "the accelerators"):
        return ""
    vendors = {vendor_of(device) for device in facts.get(PCI_DEVICES).values()} - {None}
    names = [_NAMES.get(str(one), str(one)) for one in vendors]
    return next((one for one in (*CDI_FILE, *RUNTIMES) if one in names), "")
