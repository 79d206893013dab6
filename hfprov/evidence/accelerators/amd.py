"""AMD GPUs: amd-smi's documents put together per GPU, or rocm-smi's where there is no amd-smi."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence import amd_smi, rocm_smi
from hfprov.evidence.accelerators.amd_memory import ecc_of, repair_of, total
from hfprov.evidence.accelerators.model import (
    Accelerator,
    DeviceError,
    Ecc,
    Interconnect,
    PcieLink,
    Process,
    Report,
    Severity,
    Temperatures,
    Vendor,
)
from hfprov.evidence.accelerators.tool_failures import failed_report
from hfprov.evidence.amd_smi_facts import AmdSmi, Gpu, PortState
from hfprov.evidence.failures import ToolFailure
from hfprov.evidence.fields import FieldError
from hfprov.evidence.pcie import GENERATIONS, normal_address
from hfprov.evidence.rocm_smi_card import Card
from hfprov.reading import Observation, Read, command

_MIB = 1024 * 1024
FALSE_COUNT = 1_048_560
"""What a suspended GPU adds to its memory error counters each time it is asked (0xffff0): noise."""


def _amd(*words: str) -> Read:
    return command("amd-smi", *words, "--json", timeout=30, limit=4 << 20)


STATIC, METRIC = _amd("static"), _amd("metric")
MORE = (_amd("firmware"), _amd("bad-pages"), _amd("process"), _amd("list"), _amd("xgmi"))
ROCM_SMI = command("rocm-smi", "-a", "--json", timeout=30, limit=2 << 20)
READS = (STATIC, METRIC, *MORE, ROCM_SMI)
_MARKERS = ("err", "fail", "lost", "timeout", "unknown")


def report(seen: Observation) -> Report:
    """What amd-smi (else rocm-smi) says of the node.

    ``static`` and ``metric`` must be there; the other subcommands are not in every release.
    """
    try:
        documents = [_document(seen, STATIC), _document(seen, METRIC)]
    except (NoEvidenceError, NotUnderstoodError):
        if seen.exists(ROCM_SMI):
            return from_facts(rocm_smi.parse(seen.text(ROCM_SMI)))
        raise
    for read in MORE:
        try:
            documents.append(_document(seen, read))
        except (NoEvidenceError, NotUnderstoodError):
            continue
    for document in documents[:2]:
        if isinstance(document, ToolFailure):
            return failed_report(Vendor.AMD, document)
    return from_documents([one for one in documents if isinstance(one, AmdSmi)])


def _document(seen: Observation, read: Read) -> AmdSmi | ToolFailure:
    result = seen.one(read)
    text = seen.text(read, codes=range(256))
    return amd_smi.parse(text if text.strip() else result.stderr)


def from_documents(documents: Iterable[AmdSmi]) -> Report:
    """A report from several documents of amd-smi about the same node."""
    merged: dict[int, Gpu] = {}
    driver, incomplete = "", ""
    for document in documents:
        for gpu in document.gpus:
            merged[gpu.index] = _merged(merged[gpu.index], gpu) if gpu.index in merged else gpu
        if document.versions and document.versions.driver:
            driver = driver or document.versions.driver
        if not document.complete:
            incomplete = "Parts of a document of amd-smi were left out."
    devices = tuple(_accelerator(gpu) for _, gpu in sorted(merged.items()))
    versions = (one.driver_version for one in devices if one.driver_version)
    return Report(
        Vendor.AMD, devices, driver_version=driver or next(versions, ""), incomplete=incomplete
    )


def _merged(one: Gpu, other: Gpu) -> Gpu:
    """Two documents' facts of one GPU: what the first does not say is taken from the second."""
    changes: dict[str, Any] = {}
    for name, mine in asdict(one).items():
        theirs = getattr(other, name)
        if name == "errors":
            changes["errors"] = (*mine, *theirs)
        elif mine is None:
            changes[name] = theirs
        elif isinstance(mine, Struct) and type(mine) is type(theirs):
            changes[name] = _filled(mine, theirs)
    return replace(one, **changes)


def _filled(mine: Struct, theirs: Struct) -> Struct:
    missing = {
        name: getattr(theirs, name) for name, value in asdict(mine).items() if value in (None, ())
    }
    return replace(mine, **missing)


def from_facts(facts: object) -> Report:
    """A report from one document of amd-smi or rocm-smi, or from its failure."""
    if isinstance(facts, ToolFailure):
        return failed_report(Vendor.AMD, facts)
    if isinstance(facts, AmdSmi):
        return from_documents([facts])
    if isinstance(facts, rocm_smi.RocmSmi):
        return Report(
            Vendor.AMD,
            tuple(_card(card, facts) for card in facts.cards),
            driver_version=facts.driver_version or "",
            incomplete="" if facts.complete else "The end of rocm-smi's output is missing.",
        )
    raise NotUnderstoodError(f"This output shows no AMD GPUs ({type(facts).__name__}).")


def _accelerator(gpu: Gpu) -> Accelerator:
    software, usage, power, vram = gpu.software, gpu.usage, gpu.power, gpu.vram
    return Accelerator(
        Vendor.AMD,
        _address(gpu.identity.bdf),
        index=gpu.index,
        pci_id=_pci_id(gpu.identity.vendor_id, gpu.identity.device_id),
        model=gpu.identity.market_name or "",
        serial=gpu.identity.serial or "",
        uuid=gpu.identity.uuid or "",
        memory_mib=_whole(vram.total_mib) if vram else None,
        memory_used_mib=_whole(vram.used_mib) if vram else None,
        utilization=usage.gfx_percent if usage else None,
        driver_version=(software.driver_version or "") if software else "",
        firmware=_firmware(gpu),
        pcie=_pcie(gpu),
        ecc=ecc_of(gpu),
        repair=repair_of(gpu),
        temperatures=_temperatures(gpu),
        power_w=power.socket_w if power else None,
        power_limit_w=gpu.limits.socket_power_w if gpu.limits else None,
        throttle=_throttle(gpu),
        partitioned=_partitioned(gpu.partition.compute if gpu.partition else None),
        interconnect=_xgmi(gpu),
        processes=_processes(gpu),
        errors=tuple(_error(one) for one in gpu.errors),
    )


def _address(bdf: str | None) -> str:
    try:
        return normal_address(bdf) if bdf else ""
    except NotUnderstoodError:
        return ""


def _pci_id(vendor: str | None, device: str | None) -> str:
    if not vendor or not device:
        return ""
    return f"{vendor.lower().removeprefix('0x')[:4]}:{device.lower().removeprefix('0x')[:4]}"


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _firmware(gpu: Gpu) -> Mapping[str, str]:
    found = {one.name.lower(): one.version for one in gpu.firmware or () if one.version}
    if gpu.software and gpu.software.vbios_version:
        found["vbios"] = gpu.software.vbios_version
    elif gpu.software and gpu.software.vbios_part_number:
        found["vbios"] = gpu.software.vbios_part_number
    return found


def _pcie(gpu: Gpu) -> PcieLink:
    link = gpu.pcie
    if link is None:
        return PcieLink()
    return PcieLink(
        _generation(link.speed_gt_s),
        _generation(link.max_speed_gt_s),
        link.width,
        link.max_width,
        link.replay_count,
        link.replay_rollover_count,
    )


def _generation(speed: float | None) -> int | None:
    return None if speed is None else GENERATIONS.get(speed)


def _temperatures(gpu: Gpu) -> Temperatures:
    now, limits = gpu.temperature, gpu.limits
    return Temperatures(
        core=(now.hotspot_c if now.hotspot_c is not None else now.edge_c) if now else None,
        memory=now.memory_c if now else None,
        slowdown_at=limits.slowdown_hotspot_c if limits else None,
        memory_limit=limits.slowdown_memory_c if limits else None,
    )


def _throttle(gpu: Gpu) -> frozenset[str] | None:
    """Violations that are active. MI300 and later do not report a throttle status any more."""
    if gpu.violations is not None and any(one.active is not None for one in gpu.violations):
        return frozenset(one.name for one in gpu.violations if one.active)
    if gpu.violations is not None:
        known = [one for one in gpu.violations if one.activity_percent is not None]
        return frozenset(one.name for one in known if one.activity_percent) if known else None
    status = gpu.power.throttle_status if gpu.power else None
    if status is None:
        return None
    return frozenset() if status.upper() == "UNTHROTTLED" else frozenset({status.lower()})


def _partitioned(compute: str | None) -> bool | None:
    return None if compute is None else compute.upper() != "SPX"


def _xgmi(gpu: Gpu) -> Interconnect | None:
    if gpu.xgmi is None or gpu.xgmi.ports is None:
        return None
    ports = [port for port in gpu.xgmi.ports if port is not PortState.DISABLED]
    return Interconnect("xGMI", sum(port is PortState.UP for port in ports), len(ports))


def _processes(gpu: Gpu) -> tuple[Process, ...] | None:
    if gpu.processes is None:
        return None
    return tuple(
        Process(one.pid, one.name or "", _whole(one.vram_bytes / _MIB) if one.vram_bytes else None)
        for one in gpu.processes
    )


def _error(error: FieldError) -> DeviceError:
    told = any(word in error.text.lower() for word in _MARKERS)
    severity = Severity.FATAL if told else Severity.STRANGE
    return DeviceError(f"{error.field} is '{error.text}'", severity)


def _card(card: Card, facts: rocm_smi.RocmSmi) -> Accelerator:
    """A card of rocm-smi, which prints less. RAS counts of a disabled block are not counts."""
    counted = [one for one in card.ras if one.status == "ENABLED"]
    blocks = [one for one in counted if not false_count(one.uncorrectable)]
    noise = [one for one in counted if false_count(one.uncorrectable)]
    return Accelerator(
        Vendor.AMD,
        _address(card.bdf),
        index=card.index,
        pci_id=_pci_id("1002", card.device_id),
        model=card.name or "",
        serial=card.serial or "",
        uuid=card.unique_id or "",
        memory_mib=card.vram_total_bytes // _MIB if card.vram_total_bytes is not None else None,
        memory_used_mib=card.vram_used_bytes // _MIB if card.vram_used_bytes is not None else None,
        utilization=card.gfx_percent,
        driver_version=facts.driver_version or "",
        firmware={**(card.firmware or {}), **_named("vbios", card.vbios_version)},
        pcie=PcieLink(
            gen=_generation(card.pcie_speed_gt_s),
            width=card.pcie_width,
            replays=card.pcie_replay_count,
        ),
        ecc=Ecc(
            volatile_corrected=total(*(one.correctable for one in blocks)),
            volatile_uncorrected=total(*(one.uncorrectable for one in blocks)),
        ),
        temperatures=Temperatures(
            core=card.junction_c if card.junction_c is not None else card.edge_c,
            memory=card.memory_c,
        ),
        power_w=card.average_power_w,
        power_limit_w=card.max_power_w,
        core_clock_mhz=card.gfx_clock_mhz,
        partitioned=_partitioned(card.compute_partition),
        errors=(
            *(_error(one) for one in card.errors),
            *(
                DeviceError(
                    f"block {one.name} counts {one.uncorrectable}, as a suspended GPU does",
                    Severity.STRANGE,
                )
                for one in noise
            ),
        ),
    )


def false_count(count: int | None) -> bool:
    """Whether a count of errors is what a suspended GPU reads as, and no count at all."""
    return bool(count) and count is not None and count % FALSE_COUNT == 0


def _named(name: str, value: str | None) -> dict[str, str]:
    return {name: value} if value else {}
