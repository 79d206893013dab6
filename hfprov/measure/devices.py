"""Accelerators and network cards as conditions of a measurement: firmware, modes, state. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from hfprov.checks.accelerator_health import HARMLESS_REASONS
from hfprov.evidence.accelerators.model import Accelerator
from hfprov.evidence.text import clean
from hfprov.reading import Observation, command, glob

RDMA_FIRMWARE = glob("/sys/class/infiniband/*/fw_ver", limit=128)
"""Documentation/ABI/stable/sysfs-class-infiniband."""
NIC_FIRMWARE = command("ethtool", "-i", "{name}", each="/sys/class/net/*", timeout=10)
_ETHTOOL = re.compile(r"^(driver|firmware-version): *(\S.*)$", re.MULTILINE)


def nic_firmware(seen: Observation) -> dict[str, str]:
    """Version by RDMA device and by network interface, of those that have any firmware."""
    found = {
        result.name.split("/")[4]: clean(result.text).strip()
        for result in seen.each(RDMA_FIRMWARE)
        if result.ok
    }
    for result in seen.each(NIC_FIRMWARE):
        told = dict(_ETHTOOL.findall(clean(result.text))) if result.ok else {}
        version = told.get("firmware-version", "").strip()
        if version and version != "N/A":
            found[result.name] = version[:200]
    return {name: version for name, version in found.items() if version}


def accelerator_firmware(devices: tuple[Accelerator, ...]) -> dict[str, str]:
    """Version by device and component."""
    return {
        f"{one.name} {component}": version
        for one in devices
        for component, version in sorted(one.firmware.items())
    }


def accelerator_modes(devices: tuple[Accelerator, ...]) -> dict[str, dict[str, Any]]:
    """What a device is and how it is set, by its name: what must be the same for a comparison."""
    return {
        one.name: {
            "model": one.model,
            "driver": one.driver_version,
            "partitioned": one.partitioned,
            "compute_mode": one.compute_mode,
            "persistence": one.persistence,
            "power_limit_w": one.power_limit_w,
            "ecc": one.ecc.enabled,
        }
        for one in devices
    }


def accelerator_state(devices: tuple[Accelerator, ...]) -> dict[str, dict[str, Any]]:
    """What a device is doing at this moment, by its name."""
    return {
        one.name: {
            "temperature_c": one.temperatures.core,
            "memory_temperature_c": one.temperatures.memory,
            "core_clock_mhz": one.core_clock_mhz,
            "power_w": one.power_w,
            "utilization_percent": one.utilization,
            "held_down_by": sorted(one.throttle) if one.throttle is not None else None,
            "corrected_errors": one.ecc.volatile_corrected,
            "uncorrected_errors": one.ecc.volatile_uncorrected,
            "pcie_replays": one.pcie.replays,
        }
        for one in devices
    }


_IDLE_PERCENT = 5.0
_CLOSE_C = 10.0
"""Degrees below its limit from which a device that does nothing is hot."""


def in_use(devices: tuple[Accelerator, ...]) -> str:
    """Who uses them, in a sentence; empty when nobody is told of."""
    for one in devices:
        if one.processes:
            names = ", ".join(f"{process.pid} {process.name}" for process in one.processes[:3])
            return f"{one.name} is in use ({names}): drain the node first."
    return ""


def told_of_processes(devices: tuple[Accelerator, ...]) -> bool:
    """Whether every device says which processes use it."""
    return bool(devices) and all(one.processes is not None for one in devices)


def cautions(devices: tuple[Accelerator, ...]) -> Iterator[str]:
    """What may distort a measurement of devices, in words."""
    for one in devices:
        held = sorted((one.throttle or frozenset()) - HARMLESS_REASONS)
        if held:
            yield f"{one.name}: its clocks are held down by {', '.join(held)}."
        if one.utilization is not None and one.utilization > _IDLE_PERCENT:
            yield f"{one.name}: it is {one.utilization:g} % busy, and nobody says with what."
        limit = one.temperatures.slowdown_at or one.temperatures.warn_at
        core = one.temperatures.core
        if core is not None and limit is not None and core > limit - _CLOSE_C:
            yield f"{one.name}: it has {core:g} C before it begins, and slows down at {limit:g}."
        if one.partitioned:
            yield f"{one.name}: it is partitioned, so a part of it is measured."
        if one.recovery_action not in ("", "none"):
            yield f"{one.name}: its driver asks for '{one.recovery_action}'."
