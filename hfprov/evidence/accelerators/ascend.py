"""Huawei Ascend NPUs: the table of npu-smi with the details of each card."""

from __future__ import annotations

from collections.abc import Iterable

from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence import npu_smi
from hfprov.evidence.accelerators.model import (
    Accelerator,
    DeviceError,
    Ecc,
    MemoryRepair,
    Process,
    Report,
    Severity,
    Temperatures,
    Vendor,
)
from hfprov.evidence.accelerators.tool_failures import failed_report
from hfprov.evidence.failures import ToolFailure
from hfprov.evidence.npu_smi_details import Compatibility, Details
from hfprov.evidence.pcie import normal_address
from hfprov.reading import Observation, command, complete_text

INFO = command("npu-smi", "info", timeout=30)
# The device files carry the cards' numbers; npu-smi wants them bare.
_NUMBER = 'exec npu-smi info -t "$1" -i "${2#davinci}"'
DETAILS = tuple(
    command("sh", "-c", _NUMBER, "sh", topic, "{name}", each="/dev/davinci[0-9]*", timeout=15)
    for topic in ("board", "ecc", "health")
)
READS = (INFO, *DETAILS)
_ISOLATED_PAGES_LIMIT = 64
"""Pages isolated in HBM over which a card is sent in; our judgement, to be replaced by Huawei's."""


def report(seen: Observation) -> Report:
    """What npu-smi says of the node. Details that cannot be read leave their facts open."""
    details: list[Details] = []
    for read in DETAILS:
        for result in seen.results.get(read.id, ()):
            try:
                facts = npu_smi.parse(complete_text(read, result))
            except (NoEvidenceError, NotUnderstoodError):
                continue
            if isinstance(facts, npu_smi.NpuSmi):
                details += facts.details
    return from_facts(npu_smi.parse(seen.text(INFO, codes=range(256))), details)


def from_facts(facts: object, details: list[Details] | None = None) -> Report:
    """A report from npu-smi's table, from its detailed answers alone, or from its failure."""
    if isinstance(facts, ToolFailure):
        return failed_report(Vendor.ASCEND, facts)
    if not isinstance(facts, npu_smi.NpuSmi):
        raise NotUnderstoodError(f"This output shows no NPUs ({type(facts).__name__}).")
    all_details = [*facts.details, *(details or [])]
    if facts.chips:
        devices = tuple(_chip(chip, facts, all_details) for chip in facts.chips)
    else:
        numbers = dict.fromkeys(one.npu for one in all_details if one.npu is not None)
        devices = tuple(_from_details(number, all_details) for number in numbers)
    return Report(
        Vendor.ASCEND,
        devices,
        driver_version=facts.driver_version or "",
        incomplete=""
        if facts.complete
        else "The table of npu-smi has no end: chips may be missing.",
    )


def _chip(chip: npu_smi.Chip, facts: npu_smi.NpuSmi, details: list[Details]) -> Accelerator:
    mine = [one for one in details if one.npu == chip.npu]
    total = chip.hbm_total_mib or chip.memory_total_mib
    used = chip.hbm_used_mib if chip.hbm_total_mib else chip.memory_used_mib
    return Accelerator(
        Vendor.ASCEND,
        _address(chip.bdf),
        index=chip.device if chip.device is not None else chip.npu,
        model=chip.name,
        serial=_first(one.serial for one in mine),
        memory_mib=total,
        memory_used_mib=used,
        utilization=chip.aicore_percent,
        driver_version=facts.driver_version or "",
        firmware=_firmware(mine),
        firmware_faults=_firmware_faults(mine),
        ecc=_ecc(mine),
        repair=_repair(mine),
        temperatures=Temperatures(core=chip.temperature_c),
        power_w=chip.power_w,
        health=chip.health_text,
        processes=_processes(chip, facts),
        errors=tuple(
            DeviceError(f"{one.field} is '{one.text}'", Severity.STRANGE)
            for one in (*chip.errors, *(error for each in mine for error in each.errors))
        ),
    )


def _from_details(number: int, details: list[Details]) -> Accelerator:
    mine = [one for one in details if one.npu == number]
    healths = [one.health.value for one in mine if one.health is not None]
    return Accelerator(
        Vendor.ASCEND,
        _address(next((one.bdf for one in mine if one.bdf), None)),
        index=number,
        serial=_first(one.serial for one in mine),
        driver_version=_first(one.software_version for one in mine),
        firmware=_firmware(mine),
        firmware_faults=_firmware_faults(mine),
        ecc=_ecc(mine),
        repair=_repair(mine),
        health=healths[0] if healths else "",
    )


def _address(bdf: str | None) -> str:
    return normal_address(bdf) if bdf else ""


def _first(values: Iterable[str | None]) -> str:
    return next((value for value in values if value), "")


def _firmware(mine: list[Details]) -> dict[str, str]:
    version = _first(one.firmware_version for one in mine)
    return {"firmware": version} if version else {}


def _firmware_faults(mine: list[Details]) -> tuple[str, ...]:
    words = {Compatibility.NOK: "npu-smi says that firmware and driver do not fit (NOK)"}
    return tuple(words[one.compatibility] for one in mine if one.compatibility in words)


def _ecc(mine: list[Details]) -> Ecc:
    singles = [one.hbm_single_bit_errors for one in mine if one.hbm_single_bit_errors is not None]
    doubles = [one.hbm_double_bit_errors for one in mine if one.hbm_double_bit_errors is not None]
    return Ecc(
        volatile_corrected=sum(singles) if singles else None,
        volatile_uncorrected=sum(doubles) if doubles else None,
    )


def _repair(mine: list[Details]) -> MemoryRepair:
    pages = [one.hbm_isolated_pages for one in mine if one.hbm_isolated_pages is not None]
    if not pages:
        return MemoryRepair()
    return MemoryRepair(
        "pages", max(pages), pending=False, failed=max(pages) > _ISOLATED_PAGES_LIMIT
    )


def _processes(chip: npu_smi.Chip, facts: npu_smi.NpuSmi) -> tuple[Process, ...] | None:
    if facts.processes is None:
        return None
    return tuple(
        Process(one.pid, one.name, one.memory_mib)
        for one in facts.processes
        if (one.npu, one.chip) == (chip.npu, chip.chip)
    )
