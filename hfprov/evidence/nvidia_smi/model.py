"""What nvidia-smi can say about GPUs, the same whichever of its forms said it.

``None`` means that the tool says ``N/A``, or that this version or query does not have the field.
A field whose value is an error (``ERR!``, ``[GPU is lost]``) is ``None`` **and** listed in
:attr:`Gpu.errors`; whoever judges a GPU looks there first. A field list that is empty is empty; one
that was not reported is ``None``.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

_GIGATRANSFERS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}


class FieldError(Struct, frozen=True):
    """A field of one GPU that has an error, or something unreadable, in place of its value."""

    field: str
    """Name of the fact (``temperature.gpu_c``), or the tool's own name when it is not a fact."""
    text: str
    """What the tool printed."""


class GpuError(Struct, frozen=True):
    """A sentence about one GPU that nvidia-smi printed instead of, or beside, its report."""

    kind: str
    """``lost``, ``unreachable``, ``requires_reset`` or ``inforom_corrupted``."""
    pci_address: str
    """As ``0000:8f:00.0``; empty when the sentence names no address."""
    message: str


class Memory(Struct, frozen=True):
    total_mib: int | None = None
    reserved_mib: int | None = None
    used_mib: int | None = None
    free_mib: int | None = None
    bar1_total_mib: int | None = None
    bar1_used_mib: int | None = None
    bar1_free_mib: int | None = None


class Utilization(Struct, frozen=True):
    gpu_percent: float | None = None
    memory_percent: float | None = None
    encoder_percent: float | None = None
    decoder_percent: float | None = None


class Temperature(Struct, frozen=True):
    """Degrees Celsius; a ``tlimit`` is the distance left to a limit, so it may be negative."""

    gpu_c: float | None = None
    memory_c: float | None = None
    shutdown_c: float | None = None
    slowdown_c: float | None = None
    max_operating_c: float | None = None
    memory_max_operating_c: float | None = None
    target_c: float | None = None
    tlimit_c: float | None = None
    shutdown_tlimit_c: float | None = None
    slowdown_tlimit_c: float | None = None
    max_operating_tlimit_c: float | None = None
    memory_max_operating_tlimit_c: float | None = None


class Power(Struct, frozen=True):
    draw_w: float | None = None
    """What the version calls just "power draw"; average or instantaneous depends on the GPU."""
    draw_average_w: float | None = None
    draw_instant_w: float | None = None
    limit_w: float | None = None
    """The limit in force."""
    requested_limit_w: float | None = None
    default_limit_w: float | None = None
    min_limit_w: float | None = None
    max_limit_w: float | None = None
    memory_draw_average_w: float | None = None
    module_draw_w: float | None = None
    module_limit_w: float | None = None


class Clocks(Struct, frozen=True):
    graphics_mhz: float | None = None
    sm_mhz: float | None = None
    memory_mhz: float | None = None
    video_mhz: float | None = None
    max_graphics_mhz: float | None = None
    max_sm_mhz: float | None = None
    max_memory_mhz: float | None = None
    max_video_mhz: float | None = None
    applications_graphics_mhz: float | None = None
    applications_memory_mhz: float | None = None


class Pcie(Struct, frozen=True):
    """The GPU's PCIe link. The generation drops when idle; the width must not."""

    link_gen: int | None = None
    link_gen_max: int | None = None
    link_gen_device_max: int | None = None
    link_gen_host_max: int | None = None
    link_width: int | None = None
    link_width_max: int | None = None
    replays: int | None = None
    replay_rollovers: int | None = None

    @property
    def link_speed_gts(self) -> float | None:
        """Current speed per lane in GT/s, from the generation (PCI Express base specification)."""
        return None if self.link_gen is None else _GIGATRANSFERS.get(self.link_gen)


class EccCounters(Struct, frozen=True):
    """ECC errors since the last driver load (volatile) or in the GPU's life (aggregate).

    Pascal to Turing report single and double bits per unit with a total; Ampere and later report
    SRAM and DRAM; the CSV form has both.
    """

    correctable_total: int | None = None
    uncorrectable_total: int | None = None
    sram_correctable: int | None = None
    sram_uncorrectable: int | None = None
    sram_uncorrectable_parity: int | None = None
    sram_uncorrectable_secded: int | None = None
    dram_correctable: int | None = None
    dram_uncorrectable: int | None = None
    device_memory_correctable: int | None = None
    device_memory_uncorrectable: int | None = None
    register_file_correctable: int | None = None
    register_file_uncorrectable: int | None = None
    l1_cache_correctable: int | None = None
    l1_cache_uncorrectable: int | None = None
    l2_cache_correctable: int | None = None
    l2_cache_uncorrectable: int | None = None
    texture_correctable: int | None = None
    texture_uncorrectable: int | None = None
    texture_shared_correctable: int | None = None
    texture_shared_uncorrectable: int | None = None
    cbu_correctable: int | None = None
    cbu_uncorrectable: int | None = None

    @property
    def correctable(self) -> int | None:
        """All corrected errors; None when nothing was reported."""
        return self._all("correctable")

    @property
    def uncorrectable(self) -> int | None:
        """All uncorrected errors; None when nothing was reported. The worst of what is said."""
        return self._all("uncorrectable")

    def _all(self, kind: str) -> int | None:
        sram = getattr(self, f"sram_{kind}")
        if kind == "uncorrectable":
            sram = _worst(
                sram, _sum(self.sram_uncorrectable_parity, self.sram_uncorrectable_secded)
            )
        units = ("register_file", "l1_cache", "l2_cache", "texture", "texture_shared", "cbu")
        dram = _worst(getattr(self, f"dram_{kind}"), getattr(self, f"device_memory_{kind}"))
        chip = _worst(sram, _sum(*(getattr(self, f"{unit}_{kind}") for unit in units)))
        return _worst(getattr(self, f"{kind}_total"), _sum(dram, chip))


def _sum(*counts: int | None) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _worst(*counts: int | None) -> int | None:
    return max((count for count in counts if count is not None), default=None)


class Ecc(Struct, frozen=True):
    mode_current: bool | None = None
    mode_pending: bool | None = None
    volatile: EccCounters = field(default_factory=EccCounters)
    aggregate: EccCounters = field(default_factory=EccCounters)
    sram_threshold_exceeded: bool | None = None
    aggregate_sram_l2: int | None = None
    aggregate_sram_sm: int | None = None
    aggregate_sram_microcontroller: int | None = None
    aggregate_sram_pcie: int | None = None
    aggregate_sram_other: int | None = None
    channel_repair_pending: bool | None = None
    tpc_repair_pending: bool | None = None
    unrepairable_memory: bool | None = None


class RetiredPages(Struct, frozen=True):
    """Page retirement (Volta and older)."""

    single_bit: int | None = None
    double_bit: int | None = None
    pending: bool | None = None


class RemappedRows(Struct, frozen=True):
    """Row remapping (Ampere and newer). Not reported while MIG is enabled."""

    correctable: int | None = None
    correctable_inactive: int | None = None
    uncorrectable: int | None = None
    uncorrectable_inactive: int | None = None
    pending: bool | None = None
    failure: bool | None = None
    banks_max: int | None = None
    banks_high: int | None = None
    banks_partial: int | None = None
    banks_low: int | None = None
    banks_none: int | None = None


class Fabric(Struct, frozen=True):
    """NVSwitch fabric: ``state`` is ``Completed`` and ``status`` ``Success`` when it works."""

    state: str | None = None
    status: str | None = None
    clique_id: str | None = None
    cluster_uuid: str | None = None
    health_summary: str | None = None
    health_bandwidth: str | None = None
    route_recovery_in_progress: str | None = None
    route_unhealthy: str | None = None
    access_timeout_recovery: str | None = None
    incorrect_configuration: str | None = None
    partition_assigned: str | None = None


class Inforom(Struct, frozen=True):
    image: str | None = None
    oem: str | None = None
    ecc: str | None = None
    power: str | None = None
    checksum: str | None = None
    """``valid``, or what else the tool says of the checksum."""


class GpuProcess(Struct, frozen=True):
    pid: int | None
    type: str = ""
    """``C`` compute, ``G`` graphics, ``C+G``, ``M+C`` (MPS); empty when the form does not say."""
    name: str = ""
    used_memory_mib: int | None = None
    gpu_instance_id: int | None = None
    compute_instance_id: int | None = None
    gpu_index: int | None = None
    gpu_uuid: str = ""
    gpu_pci_address: str = ""


class MigDevice(Struct, frozen=True):
    index: int | None = None
    gpu_instance_id: int | None = None
    compute_instance_id: int | None = None
    uuid: str = ""
    profile: str = ""
    memory_total_mib: int | None = None
    memory_used_mib: int | None = None
    volatile_sram_uncorrectable: int | None = None
    gpu_index: int | None = None


class Gpu(Struct, frozen=True):
    """One GPU as one report shows it."""

    index: int | None = None
    """As CUDA_DEVICE_ORDER=PCI_BUS_ID counts; the XML and -q forms have the order only."""
    pci_address: str | None = None
    """As in sysfs: ``0000:8f:00.0``."""
    uuid: str | None = None
    serial: str | None = None
    minor_number: int | None = None
    name: str | None = None
    """The table form shortens long names with ``...``."""
    brand: str | None = None
    architecture: str | None = None
    driver_version: str | None = None
    vbios_version: str | None = None
    gsp_firmware_version: str | None = None
    board_part_number: str | None = None
    gpu_part_number: str | None = None
    pci_device_id: str | None = None
    """Device and vendor, as ``233010DE``."""
    pci_subsystem_id: str | None = None
    module_id: int | None = None
    compute_capability: str | None = None
    persistence_mode: bool | None = None
    compute_mode: str | None = None
    mig_mode_current: bool | None = None
    mig_mode_pending: bool | None = None
    display_active: bool | None = None
    display_attached: bool | None = None
    addressing_mode: str | None = None
    accounting_mode: bool | None = None
    virtualization_mode: str | None = None
    driver_model: str | None = None
    c2c_mode: str | None = None
    recovery_action: str | None = None
    """``None`` (the word) when there is nothing to do; see NVML's recovery actions."""
    reset_required: bool | None = None
    drain_and_reset_recommended: bool | None = None
    performance_state: str | None = None
    fan_percent: float | None = None
    event_reasons: frozenset[str] | None = None
    """Clocks event (formerly throttle) reasons that are active, by the CSV form's names."""
    inforom: Inforom = field(default_factory=Inforom)
    memory: Memory = field(default_factory=Memory)
    utilization: Utilization = field(default_factory=Utilization)
    temperature: Temperature = field(default_factory=Temperature)
    power: Power = field(default_factory=Power)
    clocks: Clocks = field(default_factory=Clocks)
    pcie: Pcie = field(default_factory=Pcie)
    ecc: Ecc = field(default_factory=Ecc)
    retired_pages: RetiredPages = field(default_factory=RetiredPages)
    remapped_rows: RemappedRows = field(default_factory=RemappedRows)
    fabric: Fabric = field(default_factory=Fabric)
    processes: tuple[GpuProcess, ...] | None = None
    mig_devices: tuple[MigDevice, ...] | None = None
    errors: tuple[FieldError, ...] = ()
    unknown_fields: Mapping[str, str] = field(default_factory=dict)
    """What the tool said that this parser has no fact for, by the tool's own names."""


class GpuReport(Struct, frozen=True):
    """A report on all GPUs of a node: ``-q -x``, ``-q``, ``--query-gpu`` CSV or the plain table."""

    form: str
    """``xml``, ``text``, ``csv`` or ``table``."""
    gpus: tuple[Gpu, ...]
    timestamp: str = ""
    driver_version: str = ""
    cuda_version: str = ""
    attached_gpus: int | None = None
    """How many GPUs the driver says it has; None in forms that do not say."""
    errors: tuple[GpuError, ...] = ()
    """Sentences about single GPUs, printed beside the report. Such a GPU may be in ``gpus`` too."""
    notices: tuple[str, ...] = ()
    """Other lines around the report, which no rule here knows."""
    incomplete: str = ""
    """Why this is not the whole report; empty when nothing says that it was cut off."""


class GpuSeries(Struct, frozen=True):
    """A ``--query-gpu`` CSV that repeats (``-l``): one Gpu per line, in the order of the lines."""

    samples: tuple[Gpu, ...]
    timestamps: tuple[str, ...]
    errors: tuple[GpuError, ...] = ()
    notices: tuple[str, ...] = ()
    incomplete: str = ""


class NvidiaSmiFailure(Struct, frozen=True):
    """nvidia-smi ran and said that it cannot report. This is evidence, not a parsing problem."""

    kind: str
    """``no_devices``, ``version_mismatch``, ``driver_not_loaded``, ``nvml_unknown_error``,
    ``nvml_missing``, ``permission``, ``gpu_lost``, ``gpu_unreachable``, ``requires_reset``,
    ``not_supported``, ``invalid_query`` or ``other``."""
    message: str
    pci_address: str = ""
    errors: tuple[GpuError, ...] = ()
