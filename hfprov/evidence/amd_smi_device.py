"""From the leaves of one amd-smi device (``power.socket_power: 11 W``) to a typed GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hfprov.evidence import amd_smi_counters as counters
from hfprov.evidence import amd_smi_facts as facts
from hfprov.evidence.fields import Fields, flatten

_MIB = {"MB": 1.0, "MiB": 1.0, "GB": 1024.0, "GiB": 1024.0, "KB": 1 / 1024, "B": 1 / 1024**2}
_CELSIUS = ("°C", "C")
_WATT = ("W",)
_GT_S = ("GT/s",)


def gpu_from_tree(tree: Mapping[str, Any], index: int) -> facts.Gpu:
    """The typed GPU from nested values as amd-smi gives them."""
    return gpu_from_leaves(flatten(tree), index)


def gpu_from_leaves(leaves: Mapping[str, Any], index: int) -> facts.Gpu:
    """The typed GPU from leaves by dotted lower-case path."""
    read = Fields(leaves)
    return facts.Gpu(
        index=index,
        identity=_identity(read),
        software=_software(read),
        pcie=_pcie(read),
        limits=_limits(read),
        vram=_vram(read),
        partition=_partition(read),
        numa_node=read.count("numa.node"),
        usage=_usage(read),
        power=_power(read),
        clocks=counters.clocks(read),
        temperature=_temperature(read),
        ecc=counters.ecc(read),
        violations=counters.violations(read),
        processes=counters.processes(read),
        bad_pages=counters.bad_pages(read),
        firmware=counters.firmware(read),
        xgmi=counters.xgmi(read),
        errors=tuple(read.errors),
    )


def _any(read: Fields, *prefixes: str) -> bool:
    return any(read.has(prefix) for prefix in prefixes)


def _identity(read: Fields) -> facts.Identity:
    return facts.Identity(
        bdf=read.text("bdf", "bus.bdf"),
        uuid=read.text("uuid"),
        market_name=read.text("asic.market_name", "market_name"),
        vendor_id=read.text("asic.vendor_id", "vendor_id"),
        device_id=read.text("asic.device_id", "device_id"),
        subsystem_id=read.text("asic.subsystem_id", "subsystem_id"),
        revision_id=read.text("asic.rev_id", "rev_id"),
        serial=read.text("asic.asic_serial", "asic_serial"),
        oam_id=read.count("asic.oam_id", "oam_id"),
        compute_units=read.count("asic.num_compute_units", "num_compute_units"),
        gfx_version=read.text("asic.target_graphics_version", "target_graphics_version"),
        kfd_id=read.count("kfd_id"),
        node_id=read.count("node_id"),
        partition_id=read.count("partition_id"),
    )


def _software(read: Fields) -> facts.Software | None:
    if not _any(read, "vbios", "ifwi", "driver"):
        return None
    return facts.Software(
        vbios_name=read.text("vbios.name", "ifwi.name", "vbios.vbios_name"),
        vbios_version=read.text("vbios.version", "ifwi.version", "vbios.vbios_version"),
        vbios_part_number=read.text("vbios.part_number", "ifwi.part_number"),
        vbios_build_date=read.text("vbios.build_date", "ifwi.build_date"),
        driver_name=read.text("driver.name", "driver.driver_name"),
        driver_version=read.text("driver.version", "driver.driver_version"),
    )


def _pcie(read: Fields) -> facts.Pcie | None:
    if not _any(read, "pcie", "bus.max_pcie_width", "bus.max_pcie_speed", "max_pcie_width"):
        return None
    return facts.Pcie(
        width=read.count("pcie.width", "pcie.current_width", "pcie.current_lanes"),
        speed_gt_s=read.number("pcie.speed", "pcie.current_speed", units=_GT_S),
        max_width=read.count("bus.max_pcie_width", "bus.max_pcie_lanes", "max_pcie_width"),
        max_speed_gt_s=read.number("bus.max_pcie_speed", "max_pcie_speed", units=_GT_S),
        generation=read.text("bus.pcie_interface_version", "pcie_interface_version"),
        replay_count=read.count("pcie.replay_count"),
        replay_rollover_count=read.count("pcie.replay_roll_over_count"),
        l0_to_recovery_count=read.count("pcie.l0_to_recovery_count"),
        nak_sent_count=read.count("pcie.nak_sent_count"),
        nak_received_count=read.count("pcie.nak_received_count"),
    )


def _limits(read: Fields) -> facts.Limits | None:
    if not read.has("limit"):
        return None
    heat = {
        f"{kind}_{place}_c": read.number(f"limit.{kind}_{name}_temperature", units=_CELSIUS)
        for kind in ("slowdown", "shutdown")
        for place, name in (("edge", "edge"), ("hotspot", "hotspot"), ("memory", "vram"))
    }
    return facts.Limits(
        max_power_w=read.number("limit.max_power", "limit.ppt0.max_power_limit", units=_WATT),
        min_power_w=read.number("limit.min_power", "limit.ppt0.min_power_limit", units=_WATT),
        socket_power_w=read.number(
            "limit.socket_power", "limit.current_power", "limit.ppt0.socket_power_limit",
            units=_WATT,
        ),
        **heat,
    )  # fmt: skip


def _vram(read: Fields) -> facts.Vram | None:
    if not _any(read, "vram", "mem_usage.total_vram", "fb_usage", "vram_total", "vram_used"):
        return None
    return facts.Vram(
        type=read.text("vram.type", "vram.vram_type"),
        vendor=read.text("vram.vendor", "vram.vram_vendor"),
        total_mib=read.scaled(
            "vram.size", "vram.vram_size_mb", "mem_usage.total_vram", "fb_usage.total_vram",
            "vram_total", units=_MIB,
        ),
        used_mib=read.scaled(
            "mem_usage.used_vram", "fb_usage.used_vram", "vram_used", units=_MIB
        ),
    )  # fmt: skip


def _partition(read: Fields) -> facts.Partition | None:
    names = ("partition.compute_partition", "partition.accelerator_partition")
    if not _any(read, "partition", "compute_partition", "memory_partition"):
        return None
    return facts.Partition(
        compute=read.text(*names, "compute_partition"),
        memory=read.text("partition.memory_partition", "memory_partition"),
    )


def _usage(read: Fields) -> facts.Usage | None:
    if not _any(read, "usage.gfx_activity", "usage.gfx_usage", "usage.umc_activity"):
        return None
    return facts.Usage(
        gfx_percent=read.number("usage.gfx_activity", "usage.gfx_usage", units=("%",)),
        memory_percent=read.number("usage.umc_activity", "usage.mem_usage", units=("%",)),
        media_percent=read.number("usage.mm_activity", "usage.mm_usage", units=("%",)),
    )


def _power(read: Fields) -> facts.Power | None:
    if not read.has("power"):
        return None
    return facts.Power(
        socket_w=read.number(
            "power.socket_power", "power.current_socket_power", "power.current_power",
            "power.average_power", units=_WATT,
        ),
        gfx_voltage_mv=read.number("power.gfx_voltage", units=("mV",)),
        soc_voltage_mv=read.number("power.soc_voltage", units=("mV",)),
        memory_voltage_mv=read.number("power.mem_voltage", units=("mV",)),
        management=read.text("power.power_management"),
        throttle_status=read.text("power.throttle_status"),
    )  # fmt: skip


def _temperature(read: Fields) -> facts.Temperature | None:
    if not read.has("temperature"):
        return None
    names = (("edge_c", "edge"), ("hotspot_c", "hotspot"), ("memory_c", "mem"))
    return facts.Temperature(
        **{
            field: read.number(
                f"temperature.{name}", f"temperature.{name}_temperature", units=_CELSIUS
            )
            for field, name in names
        }
    )
