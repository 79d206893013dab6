"""An accelerator and what a vendor's tool says of a node's accelerators, whoever made them.

``None`` means "the tool does not say", never "nothing is wrong". Every adapter fills what its tool
knows; checks judge these facts only, so that a new vendor is one adapter and rows of the catalogue.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field


class Vendor(StrEnum):
    NVIDIA = "nvidia"
    AMD = "amd"
    ASCEND = "ascend"
    GAUDI = "gaudi"
    INTEL = "intel"


class Severity(StrEnum):
    """How much an error that a tool prints in place of a value says about the device."""

    FATAL = "fatal"
    """The device does not answer, or not for a value that every sound device has."""
    COSMETIC = "cosmetic"
    """A setting that says nothing of the device's health could not be read."""
    STRANGE = "strange"
    """A value that this version cannot read: nobody knows what it means."""


class DeviceError(Struct, frozen=True):
    """An error that the tool reports about one device."""

    text: str
    severity: Severity = Severity.FATAL


class PcieLink(Struct, frozen=True):
    """The link to the host. The generation may drop when idle; the width must not."""

    gen: int | None = None
    gen_max: int | None = None
    """The lower of what device and slot can do."""
    width: int | None = None
    width_max: int | None = None
    replays: int | None = None
    """Packets sent again since the driver was loaded."""
    replay_rollovers: int | None = None


class Ecc(Struct, frozen=True):
    """Memory errors: volatile since the last reset or driver load, aggregate in its life."""

    enabled: bool | None = None
    pending: bool | None = None
    """What the mode is after the next reset."""
    volatile_corrected: int | None = None
    volatile_uncorrected: int | None = None
    aggregate_corrected: int | None = None
    aggregate_uncorrected: int | None = None
    unrepairable: str = ""
    """Why the memory cannot be repaired any more, in words; empty when nothing says so."""


class MemoryRepair(Struct, frozen=True):
    """Rows that were remapped, or pages that were retired, because of memory errors."""

    kind: str = ""
    """``rows`` or ``pages``; empty when the device reports neither."""
    done: int | None = None
    pending: bool | None = None
    """A repair waits for the next reset."""
    failed: bool | None = None
    """A repair was tried and failed: the device is at its end."""


class Temperatures(Struct, frozen=True):
    """Degrees Celsius. ``margin`` counts down to the throttling point, where that is all we get."""

    core: float | None = None
    memory: float | None = None
    warn_at: float | None = None
    """The highest temperature of normal operation."""
    slowdown_at: float | None = None
    memory_limit: float | None = None
    margin: float | None = None
    slowdown_margin: float | None = None


class Interconnect(Struct, frozen=True):
    """Links between accelerators: NVLink, xGMI, HCCS, Gaudi's ports, Xe Link."""

    kind: str
    active: int | None = None
    total: int | None = None
    gbytes_s: tuple[float, ...] = ()
    """Speed per direction of each active link, where the tool says it."""
    note: str = ""


class Process(Struct, frozen=True):
    """A process that uses the accelerator."""

    pid: int | None
    name: str = ""
    memory_mib: int | None = None
    mps: bool = False


class Accelerator(Struct, frozen=True):
    """One accelerator as its vendor's tool shows it."""

    vendor: Vendor
    pci_address: str
    """As in sysfs, ``0000:8f:00.0``; empty when the form of the output has none."""
    index: int | None = None
    pci_id: str = ""
    """``10de:2330``."""
    model: str = ""
    serial: str = ""
    uuid: str = ""
    memory_mib: int | None = None
    memory_used_mib: int | None = None
    utilization: float | None = None
    """Percent."""
    driver_version: str = ""
    firmware: Mapping[str, str] = field(default_factory=dict)
    """Version by component: ``vbios``, ``inforom``, ``gsp``, …"""
    firmware_faults: tuple[str, ...] = ()
    pcie: PcieLink = PcieLink()
    ecc: Ecc = Ecc()
    repair: MemoryRepair = MemoryRepair()
    temperatures: Temperatures = Temperatures()
    power_w: float | None = None
    power_limit_w: float | None = None
    power_default_w: float | None = None
    core_clock_mhz: float | None = None
    throttle: frozenset[str] | None = None
    """Reasons that hold clocks down now, in NVIDIA's or AMD's words; None when not reported."""
    persistence: bool | None = None
    compute_mode: str = ""
    partitioned: bool | None = None
    """MIG, or a compute partition other than the whole device."""
    health: str = ""
    """What the tool itself says of the device's health; empty when it says nothing."""
    recovery_action: str = ""
    """What the driver asks for (``none`` when nothing); empty when it does not tell."""
    fabric: str = ""
    """State of the NVSwitch fabric for this device, e.g. ``Completed, Success``."""
    interconnect: Interconnect | None = None
    processes: tuple[Process, ...] | None = None
    errors: tuple[DeviceError, ...] = ()

    @property
    def name(self) -> str:
        """How findings name it: by PCI address, where it has one, which is found in the machine."""
        if self.pci_address:
            return self.pci_address
        return f"{self.vendor.value} {self.index}" if self.index is not None else self.vendor.value

    @property
    def loaded(self) -> bool | None:
        """Whether it works at this moment, so that an idle link's lower speed is no excuse."""
        return None if self.utilization is None else self.utilization > 0


class Failure(StrEnum):
    """Why a vendor's tool could report nothing."""

    MISSING = "missing"
    """The tool is not installed."""
    DRIVER = "driver"
    """It says that the driver is not loaded."""
    MISMATCH = "mismatch"
    """It says that driver and libraries are of different versions."""
    NO_DEVICES = "no_devices"
    DEVICE = "device"
    """It says that a device is lost or does not answer."""
    OTHER = "other"


class LostDevice(Struct, frozen=True):
    """A sentence of the tool about one device that it could not report on."""

    pci_address: str
    text: str


class Report(Struct, frozen=True):
    """What one vendor's tool says of the whole node."""

    vendor: Vendor
    devices: tuple[Accelerator, ...] = ()
    attached: int | None = None
    """How many devices the driver says it has, where the tool says that apart."""
    driver_version: str = ""
    cuda_version: str = ""
    lost: tuple[LostDevice, ...] = ()
    failure: Failure | None = None
    message: str = ""
    """The tool's own words for the failure."""
    incomplete: str = ""
    """Why this is not the whole report; empty when nothing says so."""
