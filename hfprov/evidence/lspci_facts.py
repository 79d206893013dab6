"""What lspci can say about a machine."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from hfprov.evidence.pcie import Link


class Form(StrEnum):
    """The kinds of output that lspci has."""

    LIST = "list"
    """One line for each device: no option, ``-n``, ``-nn``, ``-D``, ``-mm``."""
    VERBOSE = "verbose"
    """A block for each device: ``-k``, ``-v``, ``-vv``, ``-vvv``."""
    MACHINE = "machine"
    """``Tag: value`` blocks: ``-vmm``, with ``-n``, ``-nn`` or ``-k``."""
    TREE = "tree"
    """``-t``, ``-tv``, ``-tnn``."""
    ADDRESSES = "addresses"
    """Addresses alone, cut out by a script."""
    EXCERPT = "excerpt"
    """Capability lines alone, cut out by a script."""


class Express(Struct, frozen=True):
    """The PCI Express capability of a device."""

    capable: Link | None
    """LnkCap: what the device can do. None where it has no link (integrated endpoint)."""
    status: Link | None
    """LnkSta: what was negotiated."""
    speed_mark: str
    """What lspci says of the negotiated speed: ``ok``, ``downgraded``, … or empty (old lspci)."""
    width_mark: str
    max_payload_capable_bytes: int | None
    max_payload_bytes: int | None
    max_read_request_bytes: int | None
    device_status: tuple[str, ...]
    """Error flags that are set in DevSta: ``CorrErr``, ``NonFatalErr``, ``FatalErr``,
    ``UnsupReq``; they stay set since the last clearing."""

    @property
    def is_downgraded(self) -> bool | None:
        """Whether the link runs below what the device can do; None where that is not shown."""
        if "downgraded" in (self.speed_mark, self.width_mark):
            return True
        if self.capable is None or self.status is None:
            return None
        if None in (self.status.speed_gts, self.status.width):
            return None
        if None in (self.capable.speed_gts, self.capable.width):
            return None
        return self.status != self.capable


class ErrorReporting(Struct, frozen=True):
    """Advanced Error Reporting: errors whose status bit is set since it was last cleared."""

    uncorrectable: tuple[str, ...]
    """UESta: ``DLP``, ``TLP``, ``CmpltTO``, …"""
    correctable: tuple[str, ...]
    """CESta: ``RxErr``, ``BadTLP``, ``Timeout``, …"""
    root: tuple[str, ...]
    """RootSta of a root port: ``CERcvd``, ``UERcvd``, …"""


class PciDevice(Struct, frozen=True):
    """One function of a PCI device. None is "not in this form of output"."""

    address: str
    """With domain, in lower case: ``0000:19:00.0``."""
    description: str
    """Vendor and device name as printed, without class, numbers and revision."""
    class_name: str | None
    class_id: str | None
    """Four hexadecimal digits: ``0302`` is a 3D controller."""
    vendor_id: str | None
    device_id: str | None
    subsystem: str | None
    subsystem_vendor_id: str | None
    subsystem_device_id: str | None
    revision: str | None
    driver: str | None
    """The kernel driver in use; None where none is bound or the form does not show drivers."""
    modules: tuple[str, ...]
    numa_node: int | None
    iommu_group: int | None
    physical_slot: str | None
    express: Express | None
    access_control: tuple[str, ...] | None
    """Flags that are set in ACSCtl: ``SrcValid``, ``ReqRedir``, …; None without ACS capability."""
    errors: ErrorReporting | None
    lane_errors: tuple[int, ...]
    """Lanes with an error in LaneErrStat."""
    problems: tuple[str, ...]
    """Lines that say that the device cannot be read or does not work (``access denied``,
    ``rev ff``, ``!!! Unknown header type 7f``)."""


class LspciFacts(Struct, frozen=True):
    """One output of lspci."""

    form: Form
    devices: tuple[PciDevice, ...]
    excerpts: tuple[Express, ...]
    """Capability readings without the address of their device (form EXCERPT)."""
    warnings: tuple[str, ...]
    """Lines of lspci or its libraries beside the listing."""
    complete: bool
    """Whether the last block or line is closed. False: what the last device lacks may have been
    cut off."""
