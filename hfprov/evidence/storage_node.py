"""Drives of a node: NVMe controllers from sysfs with their SMART logs, and SATA and SAS disks."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence import nvme, smartctl
from hfprov.evidence.memory_node import files_of
from hfprov.evidence.nic_node import Each
from hfprov.evidence.nvme_health import NvmeHealth
from hfprov.evidence.smartctl import SmartctlFacts
from hfprov.evidence.sysfs_attributes import one_line, parse_number
from hfprov.evidence.text import clean
from hfprov.reading import Observation, Result, Source, command, complete_text, glob

_NVME = "/sys/class/nvme/*"
CONTROLLERS = tuple(
    glob(f"{_NVME}/{name}", limit=256)
    for name in ("model", "serial", "firmware_rev", "state", "transport")
)
SMART_LOG = command(
    "nvme", "smart-log", "/dev/{name}", "-o", "json", timeout=5, limit=32 * 1024, each=_NVME
)
DISKS = (glob("/sys/block/sd*/removable", limit=64), glob("/sys/block/sd*/size", limit=64))
SMART = command(
    "smartctl", "-a", "-j", "/dev/{name}", timeout=5, limit=128 * 1024, each="/sys/block/sd*"
)
_SMART_CODES = tuple(range(256))
"""The exit status is a set of bits, and in the JSON too; the parser reads it there."""


class Controller(Struct, frozen=True):
    """One NVMe controller as the kernel knows it; empty texts where it does not say."""

    name: str
    model: str
    serial: str
    firmware: str
    state: str
    """``live``, ``resetting``, ``connecting``, ``dead``, …"""
    transport: str
    """``pcie``, or a fabric."""


def _parse_controllers(seen: Observation, _: Baseline) -> tuple[Controller, ...]:
    values: dict[str, dict[str, str]] = {}
    for path, content in files_of(seen, CONTROLLERS).items():
        name, what = path.split("/")[4:6]
        values.setdefault(clean(name), {})[what] = one_line(content, path)
    return tuple(
        Controller(
            name,
            model=found.get("model", ""),
            serial=found.get("serial", ""),
            firmware=found.get("firmware_rev", ""),
            state=found.get("state", ""),
            transport=found.get("transport", ""),
        )
        for name, found in sorted(values.items())
    )


NVME_CONTROLLERS: Source[tuple[Controller, ...]] = Source(
    "nvme controllers", lambda _: CONTROLLERS, _parse_controllers
)
"""Empty where the kernel knows none, which is evidence."""


def _health(result: Result) -> NvmeHealth:
    found = nvme.parse(complete_text(SMART_LOG, result))
    if not isinstance(found, NvmeHealth):
        raise NotUnderstoodError("'nvme smart-log' did not print a SMART log.")
    return found


def _parse_smart_logs(seen: Observation, _: Baseline) -> Each[NvmeHealth]:
    facts, reasons = {}, {}
    for result in seen.each(SMART_LOG):
        try:
            facts[clean(result.name)] = _health(result)
        except (NoEvidenceError, NotUnderstoodError) as error:
            reasons[clean(result.name)] = error.message
    return Each(facts, reasons)


NVME_HEALTH: Source[Each[NvmeHealth]] = Source(
    "nvme smart logs", lambda _: (SMART_LOG,), _parse_smart_logs
)


def _parse_disks(seen: Observation, _: Baseline) -> Each[SmartctlFacts]:
    """Disks that are fixed and have a medium: the virtual ones of a BMC are neither."""
    fixed: dict[str, bool] = {}
    for path, content in files_of(seen, DISKS).items():
        name, what = path.split("/")[3:5]
        number = parse_number(content, path)
        good = number == 0 if what == "removable" else number > 0
        fixed[name] = fixed.get(name, True) and good
    facts, reasons = {}, {}
    for result in seen.each(SMART):
        if not fixed.get(result.name, True):
            continue
        try:
            text = complete_text(SMART, result, codes=_SMART_CODES)
            facts[clean(result.name)] = smartctl.parse(text)
        except (NoEvidenceError, NotUnderstoodError) as error:
            reasons[clean(result.name)] = error.message
    return Each(facts, reasons)


DISK_HEALTH: Source[Each[SmartctlFacts]] = Source("disks", lambda _: (*DISKS, SMART), _parse_disks)


def models(controllers: tuple[Controller, ...]) -> Mapping[str, tuple[Controller, ...]]:
    """Controllers by model."""
    found: dict[str, tuple[Controller, ...]] = {}
    for one in controllers:
        found[one.model] = (*found.get(one.model, ()), one)
    return found
