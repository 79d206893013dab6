"""What amd-smi can say about one GPU, whichever subcommand and output format said it.

Every form of the tool's output is brought to the same leaves (``power.socket_power``) before this
module reads them, so a rename between releases is one more spelling here. A group is None when the
document does not have it; a value is None when the tool says ``N/A`` or its release has no such
field; anything else that is not a value is in ``errors``.

Names per release: ROCm/amdsmi CHANGELOG.md and ``amdsmi_cli/amdsmi_commands.py``.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from msgspec import Struct

from hfprov.evidence.fields import FieldError


class Identity(Struct, frozen=True):
    """Which GPU this is."""

    bdf: str | None = None
    uuid: str | None = None
    market_name: str | None = None
    vendor_id: str | None = None
    device_id: str | None = None
    subsystem_id: str | None = None
    revision_id: str | None = None
    serial: str | None = None
    oam_id: int | None = None
    compute_units: int | None = None
    gfx_version: str | None = None
    kfd_id: int | None = None
    node_id: int | None = None
    partition_id: int | None = None


class Software(Struct, frozen=True):
    """The VBIOS (IFWI since ROCm 7) and the kernel driver."""

    vbios_name: str | None = None
    vbios_version: str | None = None
    vbios_part_number: str | None = None
    vbios_build_date: str | None = None
    driver_name: str | None = None
    driver_version: str | None = None


class Pcie(Struct, frozen=True):
    """The link now (``metric``) and at most (``static``)."""

    width: int | None = None
    speed_gt_s: float | None = None
    max_width: int | None = None
    max_speed_gt_s: float | None = None
    generation: str | None = None
    replay_count: int | None = None
    replay_rollover_count: int | None = None
    l0_to_recovery_count: int | None = None
    nak_sent_count: int | None = None
    nak_received_count: int | None = None


class Limits(Struct, frozen=True):
    max_power_w: float | None = None
    min_power_w: float | None = None
    socket_power_w: float | None = None
    slowdown_edge_c: float | None = None
    slowdown_hotspot_c: float | None = None
    slowdown_memory_c: float | None = None
    shutdown_edge_c: float | None = None
    shutdown_hotspot_c: float | None = None
    shutdown_memory_c: float | None = None


class Vram(Struct, frozen=True):
    type: str | None = None
    vendor: str | None = None
    total_mib: float | None = None
    """amd-smi writes ``MB`` for units of 1024 * 1024 bytes."""
    used_mib: float | None = None


class Partition(Struct, frozen=True):
    compute: str | None = None
    """``SPX``, ``CPX`` ...; called accelerator partition since ROCm 6.4."""
    memory: str | None = None


class Usage(Struct, frozen=True):
    gfx_percent: float | None = None
    memory_percent: float | None = None
    media_percent: float | None = None


class Power(Struct, frozen=True):
    socket_w: float | None = None
    gfx_voltage_mv: float | None = None
    soc_voltage_mv: float | None = None
    memory_voltage_mv: float | None = None
    management: str | None = None
    throttle_status: str | None = None
    """``UNTHROTTLED`` or ``THROTTLED``; ``N/A`` since MI300, see :class:`Violations`."""


class Clock(Struct, frozen=True):
    name: str
    mhz: float | None = None
    min_mhz: float | None = None
    max_mhz: float | None = None
    locked: bool | None = None
    deep_sleep: bool | None = None


class Temperature(Struct, frozen=True):
    edge_c: float | None = None
    hotspot_c: float | None = None
    memory_c: float | None = None


class EccBlock(Struct, frozen=True):
    name: str
    correctable: int | None = None
    uncorrectable: int | None = None
    deferred: int | None = None
    state: str | None = None
    """``ENABLED`` or ``DISABLED`` (``static``)."""


class Ecc(Struct, frozen=True):
    correctable: int | None = None
    uncorrectable: int | None = None
    deferred: int | None = None
    cache_correctable: int | None = None
    cache_uncorrectable: int | None = None
    too_many_bad_pages: bool | None = None
    """More pages were retired than the board allows (``bad_page_threshold_exceeded``)."""
    blocks: tuple[EccBlock, ...] = ()


class Violation(Struct, frozen=True):
    """One reason to throttle: how often so far, whether now, and for how much of the time."""

    name: str
    accumulated: int | None = None
    active: bool | None = None
    activity_percent: float | None = None


class Process(Struct, frozen=True):
    pid: int | None
    name: str | None
    vram_bytes: float | None = None


class PageState(enum.StrEnum):
    RETIRED = "retired"
    PENDING = "pending"
    UNRESERVABLE = "un_res"


class BadPage(Struct, frozen=True):
    state: PageState
    address: str | None


class BadPages(Struct, frozen=True):
    """Bad memory pages. ``available`` is False when the tool says ``N/A`` instead of a list."""

    available: bool
    pages: tuple[BadPage, ...] = ()


class Firmware(Struct, frozen=True):
    name: str
    version: str | None


class PortState(enum.StrEnum):
    UP = "up"
    DOWN = "down"
    DISABLED = "disabled"
    UNKNOWN = "unknown"


class Xgmi(Struct, frozen=True):
    bit_rate_gbit_s: float | None = None
    max_bandwidth_gbit_s: float | None = None
    link_type: str | None = None
    ports: tuple[PortState, ...] | None = None
    """State of each xGMI port; None when the release does not print it."""


class Gpu(Struct, frozen=True):
    index: int
    identity: Identity = Identity()
    software: Software | None = None
    pcie: Pcie | None = None
    limits: Limits | None = None
    vram: Vram | None = None
    partition: Partition | None = None
    numa_node: int | None = None
    usage: Usage | None = None
    power: Power | None = None
    clocks: tuple[Clock, ...] | None = None
    temperature: Temperature | None = None
    ecc: Ecc | None = None
    violations: tuple[Violation, ...] | None = None
    processes: tuple[Process, ...] | None = None
    """None: not asked. Empty: the tool says that nothing runs."""
    bad_pages: BadPages | None = None
    firmware: tuple[Firmware, ...] | None = None
    xgmi: Xgmi | None = None
    errors: tuple[FieldError, ...] = ()


class Link(Struct, frozen=True):
    """How one GPU reaches another."""

    source_bdf: str
    target_bdf: str
    type: str | None = None
    """``XGMI``, ``PCIE`` or ``SELF``."""
    hops: int | None = None
    weight: int | None = None
    enabled: bool | None = None
    min_bandwidth_mbs: float | None = None
    max_bandwidth_mbs: float | None = None
    coherent: bool | None = None
    dma: bool | None = None
    bidirectional: bool | None = None
    atomics: str | None = None


class Versions(Struct, frozen=True):
    tool: str | None = None
    library: str | None = None
    rocm: str | None = None
    driver: str | None = None


class AmdSmi(Struct, frozen=True):
    """One document of amd-smi. ``complete`` is False when parts of it were visibly left out."""

    gpus: tuple[Gpu, ...] = ()
    links: tuple[Link, ...] = ()
    versions: Versions | None = None
    cpus: tuple[Mapping[str, object], ...] = ()
    """Leaves of each CPU socket as printed (ESMI)."""
    notes: tuple[str, ...] = ()
    """Warnings that the tool printed around its answer."""
    complete: bool = True
