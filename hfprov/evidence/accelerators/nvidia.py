"""NVIDIA GPUs: from any form of nvidia-smi's report to vendor-neutral facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.accelerators.model import (
    Accelerator,
    DeviceError,
    Ecc,
    Failure,
    Interconnect,
    LostDevice,
    MemoryRepair,
    PcieLink,
    Process,
    Report,
    Severity,
    Temperatures,
    Vendor,
)
from hfprov.evidence.nvidia_smi import model as smi
from hfprov.evidence.nvidia_smi.forms import parse
from hfprov.evidence.nvidia_smi.nvlink import NvlinkGpu, NvlinkStatus
from hfprov.evidence.nvidia_smi.values import is_error
from hfprov.reading import Observation, command

QUERY_XML = command("nvidia-smi", "-q", "-x", timeout=30, limit=4 << 20)
QUERY_TEXT = command("nvidia-smi", "-q", timeout=30, limit=4 << 20)
NVLINK = command("nvidia-smi", "nvlink", "-s", timeout=20)
READS = (QUERY_XML, QUERY_TEXT, NVLINK)

_COSMETIC = ("accounting_mode", "addressing_mode", "c2c_mode", "display_", "fan_speed_target")
"""Settings that older drivers cannot read on some boards, and that no sound GPU depends on."""
_FAILURES = {
    "no_devices": Failure.NO_DEVICES,
    "version_mismatch": Failure.MISMATCH,
    "driver_not_loaded": Failure.DRIVER,
    "tool_missing": Failure.MISSING,
    "nvml_missing": Failure.MISSING,
    "gpu_lost": Failure.DEVICE,
    "gpu_unreachable": Failure.DEVICE,
    "requires_reset": Failure.DEVICE,
    "nvml_unknown_error": Failure.DEVICE,
}
CODES = range(256)
"""nvidia-smi puts what went wrong into its exit code and still reports the GPUs that answer."""


def report(seen: Observation) -> Report:
    """What nvidia-smi says of the node: from the XML, or from the text where that is not usable.

    Raises NoEvidenceError when it did not answer, NotUnderstoodError when neither can be read.
    """
    try:
        found = from_facts(parse(without_clocks(_said(seen, xml=True))))
    except NotUnderstoodError as error:
        try:
            found = from_facts(parse(_said(seen, xml=False)))
        except (NoEvidenceError, NotUnderstoodError):
            raise error from None
    return with_nvlink(found, seen)


def _said(seen: Observation, *, xml: bool) -> str:
    read = QUERY_XML if xml else QUERY_TEXT
    result = seen.one(read)
    text = seen.text(read, codes=CODES)
    return text if text.strip() else result.stderr


_CLOCKS, _CLOCKS_END = "<supported_clocks>", "</supported_clocks>"


def without_clocks(text: str) -> str:
    """The XML without its lists of clocks, which are half of it and say nothing of health.

    A list without an end stays, so that a report that was cut off still shows that it was.
    """
    head, *parts = text.split(_CLOCKS)
    kept = [head]
    for part in parts:
        _, end, rest = part.partition(_CLOCKS_END)
        kept.append(rest if end else f"{_CLOCKS}{part}")
    return "".join(kept)


def with_nvlink(found: Report, seen: Observation) -> Report:
    """The report with the NVLinks of each GPU, where nvidia-smi tells them."""
    try:
        links = parse(seen.text(NVLINK, codes=CODES))
    except (NoEvidenceError, NotUnderstoodError):
        return found
    if not isinstance(links, NvlinkStatus) or links.incomplete:
        return found
    by_uuid = {gpu.uuid: gpu for gpu in links.gpus if gpu.uuid}
    by_index = {gpu.index: gpu for gpu in links.gpus}
    devices = tuple(
        replace(device, interconnect=_interconnect(said))
        if (said := by_uuid.get(device.uuid) or by_index.get(device.index or 0)) is not None
        else device
        for device in found.devices
    )
    return replace(found, devices=devices)


def from_nvlink(status: NvlinkStatus) -> Report:
    """A report that only knows NVLinks; for judging that output by itself."""
    devices = tuple(
        Accelerator(
            Vendor.NVIDIA,
            "",
            index=gpu.index,
            model=gpu.name,
            uuid=gpu.uuid,
            interconnect=_interconnect(gpu),
        )
        for gpu in status.gpus
    )
    return Report(Vendor.NVIDIA, devices, incomplete=status.incomplete)


def _interconnect(gpu: NvlinkGpu) -> Interconnect:
    """The links; how many are up is open where the tool does not say it of each of them."""
    speeds = tuple(link.speed_gbytes_s for link in gpu.links if link.speed_gbytes_s)
    told = not gpu.incomplete and (gpu.links or "inactive" in gpu.note.lower())
    if not told:
        return Interconnect("NVLink", note=gpu.note or gpu.incomplete)
    return Interconnect("NVLink", gpu.active, len(gpu.links), speeds, gpu.note)


def from_facts(facts: object) -> Report:
    """A report from whatever form of nvidia-smi's output was read.

    Raises NotUnderstoodError for a form that does not show GPUs.
    """
    if isinstance(facts, smi.NvidiaSmiFailure):
        lost = tuple(LostDevice(one.pci_address, one.message) for one in facts.errors)
        if not lost and facts.pci_address:
            lost = (LostDevice(facts.pci_address, facts.message),)
        kind = _FAILURES.get(facts.kind, Failure.OTHER)
        return Report(Vendor.NVIDIA, failure=kind, message=facts.message, lost=lost)
    if isinstance(facts, NvlinkStatus):
        return from_nvlink(facts)
    if not isinstance(facts, smi.GpuReport):
        raise NotUnderstoodError(
            f"This output of nvidia-smi shows no GPUs ({type(facts).__name__})."
        )
    corrupted = {one.pci_address for one in facts.errors if one.kind == "inforom_corrupted"}
    return Report(
        Vendor.NVIDIA,
        tuple(
            _accelerator(gpu, facts, corrupted=gpu.pci_address in corrupted) for gpu in facts.gpus
        ),
        attached=facts.attached_gpus,
        driver_version=facts.driver_version or _first(gpu.driver_version for gpu in facts.gpus),
        cuda_version=facts.cuda_version,
        lost=tuple(
            LostDevice(one.pci_address, one.message)
            for one in facts.errors
            if one.kind != "inforom_corrupted"
        ),
        incomplete=facts.incomplete,
    )


def _first(values: Iterable[str | None]) -> str:
    return next((value for value in values if value), "")


def _accelerator(gpu: smi.Gpu, facts: smi.GpuReport, *, corrupted: bool) -> Accelerator:
    return Accelerator(
        Vendor.NVIDIA,
        gpu.pci_address or "",
        index=gpu.index,
        pci_id=_pci_id(gpu.pci_device_id),
        model=gpu.name or "",
        serial=gpu.serial or "",
        uuid=gpu.uuid or "",
        memory_mib=gpu.memory.total_mib,
        memory_used_mib=gpu.memory.used_mib,
        utilization=gpu.utilization.gpu_percent,
        driver_version=gpu.driver_version or facts.driver_version,
        firmware=_firmware(gpu),
        firmware_faults=_firmware_faults(gpu, corrupted=corrupted),
        pcie=_pcie(gpu),
        ecc=_ecc(gpu),
        repair=_repair(gpu),
        temperatures=_temperatures(gpu.temperature),
        power_w=gpu.power.draw_instant_w or gpu.power.draw_w or gpu.power.draw_average_w,
        power_limit_w=gpu.power.limit_w,
        power_default_w=gpu.power.default_limit_w,
        core_clock_mhz=gpu.clocks.sm_mhz or gpu.clocks.graphics_mhz,
        throttle=gpu.event_reasons,
        persistence=gpu.persistence_mode,
        compute_mode=gpu.compute_mode or "",
        partitioned=gpu.mig_mode_current,
        recovery_action=_recovery(gpu),
        fabric=", ".join(part for part in (gpu.fabric.state, gpu.fabric.status) if part),
        processes=_processes(gpu),
        errors=tuple(_error(one) for one in gpu.errors),
    )


def _pci_id(text: str | None) -> str:
    """``233010DE`` (device and vendor) as ``10de:2330``."""
    plain = (text or "").lower().removeprefix("0x")
    return f"{plain[4:]}:{plain[:4]}" if len(plain) == 8 and plain.isalnum() else ""


def _firmware(gpu: smi.Gpu) -> Mapping[str, str]:
    parts = {
        "vbios": gpu.vbios_version,
        "gsp": gpu.gsp_firmware_version,
        "inforom image": gpu.inforom.image,
        "inforom oem": gpu.inforom.oem,
        "inforom ecc": gpu.inforom.ecc,
        "inforom power": gpu.inforom.power,
    }
    return {name: value for name, value in parts.items() if value}


def _firmware_faults(gpu: smi.Gpu, *, corrupted: bool) -> tuple[str, ...]:
    faults = ["nvidia-smi says that the InfoROM is corrupted"] if corrupted else []
    if gpu.inforom.checksum and gpu.inforom.checksum.lower() != "valid":
        faults.append(f"the InfoROM's checksum is '{gpu.inforom.checksum}'")
    return tuple(faults)


def _pcie(gpu: smi.Gpu) -> PcieLink:
    link = gpu.pcie
    return PcieLink(
        link.link_gen,
        link.link_gen_max,
        link.link_width,
        link.link_width_max,
        link.replays,
        link.replay_rollovers,
    )


def _ecc(gpu: smi.Gpu) -> Ecc:
    reasons = []
    if gpu.ecc.sram_threshold_exceeded:
        reasons.append("its SRAM has more uncorrectable errors than the vendor allows")
    if gpu.ecc.unrepairable_memory:
        reasons.append("it says that its memory cannot be repaired")
    return Ecc(
        gpu.ecc.mode_current,
        gpu.ecc.mode_pending,
        gpu.ecc.volatile.correctable,
        gpu.ecc.volatile.uncorrectable,
        gpu.ecc.aggregate.correctable,
        gpu.ecc.aggregate.uncorrectable,
        "; ".join(reasons),
    )


def _repair(gpu: smi.Gpu) -> MemoryRepair:
    rows, pages = gpu.remapped_rows, gpu.retired_pages
    waiting = gpu.ecc.channel_repair_pending or gpu.ecc.tpc_repair_pending
    if rows.pending is not None or rows.failure is not None:
        pending = bool(rows.pending) or bool(waiting)
        return MemoryRepair(
            "rows", _total(rows.correctable, rows.uncorrectable), pending, rows.failure
        )
    if pages.pending is not None or pages.single_bit is not None or pages.double_bit is not None:
        return MemoryRepair("pages", _total(pages.single_bit, pages.double_bit), pages.pending)
    return MemoryRepair("rows", pending=True) if waiting else MemoryRepair()


def _total(*counts: int | None) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _temperatures(found: smi.Temperature) -> Temperatures:
    return Temperatures(
        core=found.gpu_c,
        memory=found.memory_c,
        warn_at=found.max_operating_c,
        slowdown_at=found.slowdown_c,
        memory_limit=found.memory_max_operating_c,
        margin=found.tlimit_c,
        slowdown_margin=found.slowdown_tlimit_c,
    )


def _recovery(gpu: smi.Gpu) -> str:
    if gpu.recovery_action:
        return gpu.recovery_action.strip().lower()
    if gpu.reset_required:
        return "reset"
    if gpu.drain_and_reset_recommended:
        return "drain and reset"
    return "none" if gpu.reset_required is False else ""


def _processes(gpu: smi.Gpu) -> tuple[Process, ...] | None:
    if gpu.processes is None:
        return None
    return tuple(
        Process(one.pid, one.name, one.used_memory_mib, mps="M" in one.type or "mps" in one.name)
        for one in gpu.processes
    )


def _error(error: smi.FieldError) -> DeviceError:
    text = f"{error.field} is '{error.text}'"
    if error.field.startswith(_COSMETIC):
        return DeviceError(text, Severity.COSMETIC)
    bracketed = error.text.startswith("[")
    known = is_error(error.text, brackets=bracketed)
    return DeviceError(text, Severity.FATAL if known else Severity.STRANGE)
