"""Intel data-centre GPUs: xpu-smi's discovery with its health and its processes."""

from __future__ import annotations

from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence import xpu_smi
from hfprov.evidence.accelerators.model import (
    Accelerator,
    DeviceError,
    Ecc,
    Process,
    Report,
    Severity,
    Vendor,
)
from hfprov.evidence.accelerators.tool_failures import failed_report
from hfprov.evidence.failures import ToolFailure
from hfprov.evidence.pcie import normal_address
from hfprov.evidence.xpu_smi_facts import Check, Device, XpuSmi
from hfprov.evidence.xpu_smi_facts import Process as XpuProcess
from hfprov.reading import Observation, command

DISCOVERY = command("xpu-smi", "discovery", "-d", "-1", timeout=30)
LIST = command("xpu-smi", "discovery", "-j", timeout=30)
HEALTH = command("xpu-smi", "health", "-d", "-1", timeout=30)
PROCESSES = command("xpu-smi", "ps", timeout=30)
READS = (DISCOVERY, LIST, HEALTH, PROCESSES)
_OWN = frozenset({"xpumd", "xpu-smi"})
"""The tool's own processes, which it lists too."""


def report(seen: Observation) -> Report:
    """What xpu-smi says of the node; ``discovery -j`` must be there, the rest completes it."""
    parts = [xpu_smi.parse(seen.text(LIST, codes=range(256)))]
    if isinstance(parts[0], ToolFailure):
        return from_facts(parts)
    for read in (DISCOVERY, HEALTH, PROCESSES):
        try:
            parts.append(xpu_smi.parse(seen.text(read)))
        except (NoEvidenceError, NotUnderstoodError):
            continue
    return from_facts(parts)


def from_facts(parts: list[XpuSmi | ToolFailure]) -> Report:
    """A report from outputs of xpu-smi about the same node; the first failure is the report."""
    known = [part for part in parts if isinstance(part, XpuSmi)]
    if not known:
        failures = [part for part in parts if isinstance(part, ToolFailure)]
        if failures:
            return failed_report(Vendor.INTEL, failures[0])
        raise NotUnderstoodError("xpu-smi said nothing.")
    devices: dict[int, Device] = {}
    for part in known:
        # Health names devices by number only; what discovery knows of them must stay.
        devices |= {one.index: one for one in part.devices if one.bdf or one.index not in devices}
    checks = [one for part in known for one in part.checks]
    checks += [one for part in known for diagnosis in part.diagnoses for one in diagnosis.checks]
    for one in checks:
        if one.device is not None and one.device not in devices:
            devices[one.device] = Device(one.device, None, None, None)
    listed = [part.processes for part in known if part.processes is not None]
    processes = [one for some in listed for one in some]
    return Report(
        Vendor.INTEL,
        tuple(
            _device(one, [c for c in checks if c.device == index], processes if listed else None)
            for index, one in sorted(devices.items())
        ),
        driver_version=next(
            (one.driver_version for one in devices.values() if one.driver_version), ""
        ),
    )


def _device(device: Device, checks: list[Check], processes: list[XpuProcess] | None) -> Accelerator:
    return Accelerator(
        Vendor.INTEL,
        normal_address(device.bdf) if device.bdf else "",
        index=device.index,
        model=device.name or "",
        serial=device.serial or "",
        uuid=device.uuid or "",
        memory_mib=int(device.memory_total_mib) if device.memory_total_mib is not None else None,
        driver_version=device.driver_version or "",
        firmware=dict(device.firmware or {}),
        ecc=Ecc(enabled=device.ecc_enabled),
        health=_health(checks),
        processes=None
        if processes is None
        else tuple(
            Process(one.pid, one.command, one.memory_kib // 1024 if one.memory_kib else None)
            for one in processes
            if one.device == device.index and one.command not in _OWN
        ),
        errors=tuple(
            DeviceError(f"{one.field} is '{one.text}'", Severity.STRANGE) for one in device.errors
        ),
    )


def _health(checks: list[Check]) -> str:
    """``ok``, or the components that are not, with the tool's word for each.

    A component that the tool calls unknown is one that the device cannot tell about.
    """
    if not checks:
        return ""
    bad = [f"{one.component}: {one.status}" for one in checks if one.passed is False]
    return "; ".join(bad) if bad else "ok"
