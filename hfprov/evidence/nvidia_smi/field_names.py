"""Which field of which form is which fact: one row per fact, with the names of every form.

Names of the XML form have underscores and slashes, of ``-q`` spaces and slashes, of the CSV form
dots; they are compared without case. Where drivers renamed a field, all its names are here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hfprov.evidence.nvidia_smi.values import Kind

T, F, N = Kind.TEXT, Kind.FLAG, Kind.COUNT

_ROWS: tuple[tuple[str, Kind, str], ...] = (
    ("index", N, "index|gpu_index"),
    ("pci_address", Kind.PCI, "pci/pci_bus_id|pci/bus id|pci.bus_id|gpu_bus_id"),
    ("uuid", T, "uuid|gpu uuid|gpu_uuid"),
    ("serial", T, "serial|serial number|gpu_serial"),
    ("minor_number", N, "minor_number|minor number"),
    ("name", T, "product_name|product name|name|gpu_name"),
    ("brand", T, "product_brand|product brand"),
    ("architecture", T, "product_architecture|product architecture"),
    ("driver_version", T, "driver_version|kmd_version"),
    ("vbios_version", T, "vbios_version|vbios version"),
    ("gsp_firmware_version", T, "gsp_firmware_version|gsp firmware version"),
    ("board_part_number", T, "board_part_number|board part number"),
    ("gpu_part_number", T, "gpu_part_number|gpu part number"),
    ("pci_device_id", Kind.HEX, "pci/pci_device_id|pci/device id|pci.device_id"),
    ("pci_subsystem_id", Kind.HEX, "pci/pci_sub_system_id|pci/sub system id|pci.sub_device_id"),
    (
        "module_id",
        N,
        "gpu_module_id|module id|platforminfo/module_id|platform info/module id|platform.module_id",
    ),
    ("compute_capability", T, "compute_cap"),
    ("persistence_mode", F, "persistence_mode|persistence mode"),
    ("compute_mode", T, "compute_mode|compute mode"),
    ("mig_mode_current", F, "mig_mode/current_mig|mig mode/current|mig.mode.current"),
    ("mig_mode_pending", F, "mig_mode/pending_mig|mig mode/pending|mig.mode.pending"),
    ("display_active", F, "display_active|display active"),
    ("display_attached", F, "display_attached|display attached"),
    ("addressing_mode", T, "addressing_mode|addressing mode"),
    ("accounting_mode", F, "accounting_mode|accounting mode|accounting.mode"),
    (
        "virtualization_mode",
        T,
        "gpu_virtualization_mode/virtualization_mode|gpu virtualization mode/virtualization mode",
    ),
    ("driver_model", T, "driver_model/current_dm|driver model/current|driver_model.current"),
    ("c2c_mode", T, "c2c_mode|gpu c2c mode|c2c.mode"),
    ("recovery_action", T, "gpu_recovery_action|gpu recovery action"),
    ("reset_required", F, "gpu_reset_status/reset_required|gpu reset status/reset required"),
    (
        "drain_and_reset_recommended",
        F,
        "gpu_reset_status/drain_and_reset_recommended|gpu reset status/drain and reset recommended",
    ),
    ("performance_state", T, "performance_state|performance state|pstate"),
    ("fan_percent", Kind.PERCENT, "fan_speed|fan speed|fan.speed"),
    ("inforom.image", T, "inforom_version/img_version|inforom version/image version|inforom.img"),
    ("inforom.image", T, "inforom.image"),
    ("inforom.oem", T, "inforom_version/oem_object|inforom version/oem object|inforom.oem"),
    ("inforom.ecc", T, "inforom_version/ecc_object|inforom version/ecc object|inforom.ecc"),
    ("inforom.power", T, "inforom_version/pwr_object|inforom version/power management object"),
    ("inforom.power", T, "inforom.pwr|inforom.power"),
    ("inforom.checksum", T, "inforom.checksum_validation"),
    ("memory.total_mib", Kind.MIB, "fb_memory_usage/total|fb memory usage/total|memory.total"),
    ("memory.reserved_mib", Kind.MIB, "fb_memory_usage/reserved|fb memory usage/reserved"),
    ("memory.reserved_mib", Kind.MIB, "memory.reserved"),
    ("memory.used_mib", Kind.MIB, "fb_memory_usage/used|fb memory usage/used|memory.used"),
    ("memory.free_mib", Kind.MIB, "fb_memory_usage/free|fb memory usage/free|memory.free"),
    ("memory.bar1_total_mib", Kind.MIB, "bar1_memory_usage/total|bar1 memory usage/total"),
    ("memory.bar1_used_mib", Kind.MIB, "bar1_memory_usage/used|bar1 memory usage/used"),
    ("memory.bar1_free_mib", Kind.MIB, "bar1_memory_usage/free|bar1 memory usage/free"),
    ("utilization.gpu_percent", Kind.PERCENT, "utilization/gpu_util|utilization/gpu"),
    ("utilization.gpu_percent", Kind.PERCENT, "utilization.gpu"),
    ("utilization.memory_percent", Kind.PERCENT, "utilization/memory_util|utilization/memory"),
    ("utilization.memory_percent", Kind.PERCENT, "utilization.memory"),
    ("utilization.encoder_percent", Kind.PERCENT, "utilization/encoder_util|utilization/encoder"),
    ("utilization.encoder_percent", Kind.PERCENT, "utilization.encoder"),
    ("utilization.decoder_percent", Kind.PERCENT, "utilization/decoder_util|utilization/decoder"),
    ("utilization.decoder_percent", Kind.PERCENT, "utilization.decoder"),
    ("temperature.gpu_c", Kind.CELSIUS, "temperature/gpu_temp|temperature/gpu current temp"),
    ("temperature.gpu_c", Kind.CELSIUS, "temperature.gpu"),
    ("temperature.memory_c", Kind.CELSIUS, "temperature/memory_temp|temperature.memory"),
    ("temperature.memory_c", Kind.CELSIUS, "temperature/memory current temp"),
    ("temperature.shutdown_c", Kind.CELSIUS, "temperature/gpu_temp_max_threshold"),
    ("temperature.shutdown_c", Kind.CELSIUS, "temperature/gpu shutdown temp"),
    ("temperature.slowdown_c", Kind.CELSIUS, "temperature/gpu_temp_slow_threshold"),
    ("temperature.slowdown_c", Kind.CELSIUS, "temperature/gpu slowdown temp"),
    ("temperature.max_operating_c", Kind.CELSIUS, "temperature/gpu_temp_max_gpu_threshold"),
    ("temperature.max_operating_c", Kind.CELSIUS, "temperature/gpu max operating temp"),
    ("temperature.memory_max_operating_c", Kind.CELSIUS, "temperature/gpu_temp_max_mem_threshold"),
    ("temperature.memory_max_operating_c", Kind.CELSIUS, "temperature/memory max operating temp"),
    ("temperature.target_c", Kind.CELSIUS, "temperature/gpu_target_temperature"),
    ("temperature.target_c", Kind.CELSIUS, "temperature/gpu target temperature"),
    ("temperature.target_c", Kind.CELSIUS, "temperature/gpu target temperature specification"),
    ("temperature.tlimit_c", Kind.CELSIUS, "temperature/gpu_temp_tlimit|temperature.gpu.tlimit"),
    ("temperature.tlimit_c", Kind.CELSIUS, "temperature/gpu t.limit temp"),
    ("temperature.tlimit_c", Kind.CELSIUS, "temperature/gpu current t.limit temp"),
    (
        "temperature.shutdown_tlimit_c",
        Kind.CELSIUS,
        "temperature/gpu_temp_max_tlimit_threshold|temperature/gpu shutdown t.limit temp",
    ),
    (
        "temperature.slowdown_tlimit_c",
        Kind.CELSIUS,
        "temperature/gpu_temp_slow_tlimit_threshold|temperature/gpu slowdown t.limit temp",
    ),
    (
        "temperature.max_operating_tlimit_c",
        Kind.CELSIUS,
        "temperature/gpu_temp_max_gpu_tlimit_threshold|temperature/gpu max operating t.limit temp",
    ),
    (
        "temperature.memory_max_operating_tlimit_c",
        Kind.CELSIUS,
        (
            "temperature/gpu_temp_max_mem_tlimit_threshold"
            "|temperature/memory max operating t.limit temp"
        ),
    ),
    ("power.memory_draw_average_w", Kind.WATT, "gpu_memory_power_readings/average_power_draw"),
    ("power.memory_draw_average_w", Kind.WATT, "gpu memory power readings/average power draw"),
    ("power.module_draw_w", Kind.WATT, "module_power_readings/power_draw|module.power.draw"),
    ("power.module_draw_w", Kind.WATT, "module_power_readings/average_power_draw"),
    ("power.module_draw_w", Kind.WATT, "module power readings/power draw"),
    ("power.module_draw_w", Kind.WATT, "module power readings/average power draw"),
    ("power.module_draw_w", Kind.WATT, "module.power.draw.average"),
    ("power.module_limit_w", Kind.WATT, "module_power_readings/current_power_limit"),
    ("power.module_limit_w", Kind.WATT, "module power readings/current power limit"),
    ("power.module_limit_w", Kind.WATT, "module.enforced.power.limit"),
    ("clocks.graphics_mhz", Kind.MHZ, "clocks/graphics_clock|clocks/graphics|clocks.gr"),
    ("clocks.graphics_mhz", Kind.MHZ, "clocks.current.graphics"),
    ("clocks.sm_mhz", Kind.MHZ, "clocks/sm_clock|clocks/sm|clocks.current.sm|clocks.sm"),
    ("clocks.memory_mhz", Kind.MHZ, "clocks/mem_clock|clocks/memory|clocks.mem"),
    ("clocks.memory_mhz", Kind.MHZ, "clocks.current.memory"),
    ("clocks.video_mhz", Kind.MHZ, "clocks/video_clock|clocks/video|clocks.video"),
    ("clocks.video_mhz", Kind.MHZ, "clocks.current.video"),
    ("clocks.max_graphics_mhz", Kind.MHZ, "max_clocks/graphics_clock|max clocks/graphics"),
    ("clocks.max_graphics_mhz", Kind.MHZ, "clocks.max.graphics|clocks.max.gr"),
    ("clocks.max_sm_mhz", Kind.MHZ, "max_clocks/sm_clock|max clocks/sm|clocks.max.sm"),
    ("clocks.max_memory_mhz", Kind.MHZ, "max_clocks/mem_clock|max clocks/memory"),
    ("clocks.max_memory_mhz", Kind.MHZ, "clocks.max.memory|clocks.max.mem"),
    ("clocks.max_video_mhz", Kind.MHZ, "max_clocks/video_clock|max clocks/video"),
    (
        "clocks.applications_graphics_mhz",
        Kind.MHZ,
        (
            "applications_clocks/graphics_clock|applications clocks/graphics"
            "|clocks.applications.graphics|clocks.applications.gr"
        ),
    ),
    (
        "clocks.applications_memory_mhz",
        Kind.MHZ,
        (
            "applications_clocks/mem_clock|applications clocks/memory"
            "|clocks.applications.memory|clocks.applications.mem"
        ),
    ),
    ("pcie.replays", N, "pci/replay_counter|pci/replays since reset"),
    ("pcie.replay_rollovers", N, "pci/replay_rollover_counter|pci/replay number rollovers"),
    ("ecc.mode_current", F, "ecc_mode/current_ecc|ecc mode/current|ecc.mode.current"),
    ("ecc.mode_pending", F, "ecc_mode/pending_ecc|ecc mode/pending|ecc.mode.pending"),
    (
        "ecc.sram_threshold_exceeded",
        F,
        (
            "ecc_errors/aggregate/sram_threshold_exceeded"
            "|ecc errors/aggregate/sram threshold exceeded"
            "|ecc.errors.uncorrected.aggregate.sram.thresholdexceeded"
        ),
    ),
    ("retired_pages.single_bit", N, "retired_pages/multiple_single_bit_retirement/retired_count"),
    ("retired_pages.single_bit", N, "retired pages/single bit ecc|retired_pages.sbe"),
    ("retired_pages.single_bit", N, "retired_pages.single_bit_ecc.count"),
    ("retired_pages.double_bit", N, "retired_pages/double_bit_retirement/retired_count"),
    ("retired_pages.double_bit", N, "retired pages/double bit ecc|retired_pages.dbe"),
    ("retired_pages.double_bit", N, "retired_pages.double_bit.count"),
    ("retired_pages.pending", F, "retired_pages/pending_blacklist|retired pages/pending"),
    ("retired_pages.pending", F, "retired_pages/pending_retirement|retired_pages.pending"),
    ("retired_pages.pending", F, "retired pages/pending page blacklist"),
    ("retired_pages.pending", F, "retired pages/pending page retirement"),
    ("fabric.clique_id", T, "fabric/cliqueid|fabric.cliqueid"),
    ("fabric.cluster_uuid", T, "fabric/clusteruuid|fabric.clusteruuid"),
    ("fabric.health_summary", T, "fabric/health/summary|fabric.health.summary"),
    ("fabric.health_bandwidth", T, "fabric/health/bandwidth|fabric.health.bandwidth"),
)


def _families() -> Iterator[tuple[str, Kind, str]]:
    """Rows whose names follow a pattern in every form."""
    for state in ("state", "status"):
        yield f"fabric.{state}", T, f"fabric/{state}|fabric.{state}"
    for health in (
        "route_recovery_in_progress",
        "route_unhealthy",
        "access_timeout_recovery",
        "incorrect_configuration",
        "partition_assigned",
    ):
        spaced = health.replace("_", " ")
        names = f"fabric/health/{health}|fabric/health/{spaced}|fabric.health.{health}"
        yield f"fabric.{health}", T, names
    yield from _ecc_families()
    yield from _remap_families()
    yield from _power_families()
    for fact, xml, text, csv in (
        ("link_gen", "current_link_gen", "current", "current"),
        ("link_gen_max", "max_link_gen", "max", "max"),
        ("link_gen_device_max", "max_device_link_gen", "device max", "gpumax"),
        ("link_gen_host_max", "max_host_link_gen", "host max", "hostmax"),
    ):
        names = (
            f"pci/pci_gpu_link_info/pcie_gen/{xml}|pci/gpu link info/pcie generation/{text}"
            f"|pcie.link.gen.{csv}"
        )
        yield f"pcie.{fact}", N, names
    for fact, which in (("link_width", "current"), ("link_width_max", "max")):
        names = (
            f"pci/pci_gpu_link_info/link_widths/{which}_link_width"
            f"|pci/gpu link info/link width/{which}|pcie.link.width.{which}"
        )
        yield f"pcie.{fact}", Kind.LANES, names


def _ecc_families() -> Iterator[tuple[str, Kind, str]]:
    for when in ("volatile", "aggregate"):
        xml, text = f"ecc_errors/{when}/", f"ecc errors/{when}/"
        for unit in ("sram", "dram"):
            for fact, csv in (("correctable", "corrected"), ("uncorrectable", "uncorrected")):
                names = f"{xml}{unit}_{fact}|{text}{unit} {fact}|ecc.errors.{csv}.{when}.{unit}"
                yield f"ecc.{when}.{unit}_{fact}", N, names
        for fact, spoken in (("parity", "parity"), ("secded", "sec-ded")):
            names = (
                f"{xml}sram_uncorrectable_{fact}|{text}sram uncorrectable {spoken}"
                f"|ecc.errors.uncorrected.{when}.sram.{fact}"
            )
            yield f"ecc.{when}.sram_uncorrectable_{fact}", N, names
        for bits, fact, csv in (
            ("single", "correctable", "corrected"),
            ("double", "uncorrectable", "uncorrected"),
        ):
            for unit, xml_unit, text_unit, csv_unit in (
                ("device_memory_{}", "device_memory", "device memory", "device_memory"),
                ("register_file_{}", "register_file", "register file", "register_file"),
                ("l1_cache_{}", "l1_cache", "l1 cache", "l1_cache"),
                ("l2_cache_{}", "l2_cache", "l2 cache", "l2_cache"),
                ("texture_{}", "texture_memory", "texture memory", "texture_memory"),
                ("texture_shared_{}", "texture_shm", "texture shared", "texture_shm"),
                ("cbu_{}", "cbu", "cbu", "cbu"),
                ("{}_total", "total", "total", "total"),
            ):
                names = (
                    f"{xml}{bits}_bit/{xml_unit}|{text}{bits} bit/{text_unit}"
                    f"|ecc.errors.{csv}.{when}.{csv_unit}"
                )
                yield f"ecc.{when}.{unit.format(fact)}", N, names
    for source, csv in (
        ("l2", "l2"),
        ("sm", "sm"),
        ("microcontroller", "mcu"),
        ("pcie", "pcie"),
        ("other", "other"),
    ):
        names = (
            f"ecc_errors/aggregate_uncorrectable_sram_sources/sram_{source}"
            f"|ecc errors/aggregate uncorrectable sram sources/sram {source}"
            f"|ecc.errors.uncorrected.aggregate.sram.{csv}"
        )
        yield f"ecc.aggregate_sram_{source}", N, names
    for flag in ("channel_repair_pending", "tpc_repair_pending", "unrepairable_memory"):
        yield f"ecc.{flag}", F, f"ecc_errors/{flag}|ecc errors/{flag.replace('_', ' ')}"


def _remap_families() -> Iterator[tuple[str, Kind, str]]:
    for fact, xml, text, old in (
        ("correctable", "corr", "correctable error", "sbe"),
        ("uncorrectable", "unc", "uncorrectable error", "dbe"),
    ):
        names = f"remapped_rows/remapped_row_{xml}|remapped rows/{text}|remapped_rows.{fact}"
        yield f"remapped_rows.{fact}", N, f"{names}|remapped_rows.{old}"
        names = (
            f"remapped_rows/remapped_row_{xml}_inactive|remapped rows/{text} inactive"
            f"|remapped rows/inactive {text}|remapped_rows.{fact}_inactive"
        )
        yield f"remapped_rows.{fact}_inactive", N, names
    names = "remapped_rows/remapped_row_{0}|remapped rows/{1}|remapped_rows.{0}"
    yield "remapped_rows.pending", F, names.format("pending", "pending")
    yield "remapped_rows.failure", F, names.format("failure", "remapping failure occurred")
    for level in ("max", "high", "partial", "low", "none"):
        names = (
            f"remapped_rows/row_remapper_histogram/row_remapper_histogram_{level}"
            f"|remapped rows/bank remap availability histogram/{level}"
            f"|remapped_rows.histogram.{level}"
        )
        yield f"remapped_rows.banks_{level}", Kind.BANKS, names


def _power_families() -> Iterator[tuple[str, Kind, str]]:
    for fact, xml, text, csv in (
        ("draw_w", "power_draw", "power draw", "power.draw"),
        ("draw_average_w", "average_power_draw", "average power draw", "power.draw.average"),
        ("draw_instant_w", "instant_power_draw", "instantaneous power draw", "power.draw.instant"),
        ("limit_w", "current_power_limit", "current power limit", "enforced.power.limit"),
        ("limit_w", "enforced_power_limit", "enforced power limit", "gpu.power.current_limit"),
        ("requested_limit_w", "requested_power_limit", "requested power limit", "power.limit"),
        ("requested_limit_w", "power_limit", "power limit", "gpu.power.requested_limit"),
        ("default_limit_w", "default_power_limit", "default power limit", "power.default_limit"),
        ("min_limit_w", "min_power_limit", "min power limit", "power.min_limit"),
        ("max_limit_w", "max_power_limit", "max power limit", "power.max_limit"),
    ):
        ceiling = "gpu power readings/gpu ceiling power limit"
        names = (
            f"power_readings/{xml}|gpu_power_readings/{xml}|power readings/{text}"
            f"|gpu power readings/{text}|{ceiling}/{text}|{csv}|gpu.{csv}"
            f"|gpu_power_readings/gpu_ceiling_power_limit/{xml}"
        )
        yield f"power.{fact}", Kind.WATT, names


FIELDS: Mapping[str, tuple[str, Kind]] = {
    name.lower(): (fact, kind)
    for fact, kind, names in (*_ROWS, *_families())
    for name in names.split("|")
}
"""The fact and its kind for each name that any form uses."""

FACTS: frozenset[str] = frozenset(fact for fact, _ in FIELDS.values())
