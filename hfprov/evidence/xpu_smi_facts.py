"""What xpu-smi can say: devices, checks, diagnoses, sensors, processes, samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hfprov.evidence.fields import FieldError


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU of ``discovery``; ``values`` has every line."""

    index: int
    name: str | None
    bdf: str | None
    uuid: str | None
    serial: str | None = None
    driver_version: str | None = None
    kernel_version: str | None = None
    firmware: Mapping[str, str] | None = None
    memory_total_mib: float | None = None
    ecc_enabled: bool | None = None
    pcie_generation: int | None = None
    pcie_max_width: int | None = None
    tiles: int | None = None
    values: Mapping[str, str] | None = None
    errors: tuple[FieldError, ...] = ()


@dataclass(frozen=True, slots=True)
class Check:
    """One line of health, diagnostics or precheck."""

    device: int | None
    component: str
    status: str
    """``Ok``, ``Pass``, ``Fail``, ``Warning``, ``Critical``, ``Unknown`` as printed."""
    passed: bool | None
    """None when the tool does not know."""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    device: int
    level: int
    passed: bool | None
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True)
class Sensor:
    amc: str
    name: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    command: str
    device: int
    shared_kib: int | None
    memory_kib: int | None


@dataclass(frozen=True, slots=True)
class FirmwareUpdate:
    firmware: str | None
    succeeded: bool


@dataclass(frozen=True, slots=True)
class XpuSmi:
    devices: tuple[Device, ...] = ()
    checks: tuple[Check, ...] = ()
    diagnoses: tuple[Diagnosis, ...] = ()
    sensors: tuple[Sensor, ...] = ()
    processes: tuple[Process, ...] | None = None
    samples: tuple[Mapping[str, str], ...] = ()
    """Rows of ``dump`` by column name, which carries the unit: ``GPU Power (W)``."""
    amc_versions: Mapping[int, str] | None = None
    update: FirmwareUpdate | None = None


_GOOD = frozenset({"ok", "pass", "passed"})
_BAD = frozenset({"fail", "failed", "warning", "critical", "error"})


def passed_of(status: str) -> bool | None:
    word = status.strip().lower()
    if word in _GOOD:
        return True
    return False if word in _BAD else None
