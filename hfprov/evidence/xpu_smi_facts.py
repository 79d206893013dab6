"""What xpu-smi can say: devices, checks, diagnoses, sensors, processes, samples."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from hfprov.evidence.fields import FieldError


class Device(Struct, frozen=True):
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


class Check(Struct, frozen=True):
    """One line of health, diagnostics or precheck."""

    device: int | None
    component: str
    status: str
    """``Ok``, ``Pass``, ``Fail``, ``Warning``, ``Critical``, ``Unknown`` as printed."""
    passed: bool | None
    """None when the tool does not know."""
    message: str = ""


class Diagnosis(Struct, frozen=True):
    device: int
    level: int
    passed: bool | None
    checks: tuple[Check, ...]


class Sensor(Struct, frozen=True):
    amc: str
    name: str
    value: float
    unit: str


class Process(Struct, frozen=True):
    pid: int
    command: str
    device: int
    shared_kib: int | None
    memory_kib: int | None


class FirmwareUpdate(Struct, frozen=True):
    firmware: str | None
    succeeded: bool


class XpuSmi(Struct, frozen=True):
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
