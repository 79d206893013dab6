"""What a Redfish resource of a BMC says, in one shape for all vendors."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class Health(Struct, frozen=True):
    """The ``Status`` of a resource. None: the BMC does not say (an absent part, an old BMC)."""

    health: str | None
    """``OK``, ``Warning`` or ``Critical``, of the part itself."""
    rollup: str | None
    """The worst of the part and everything in it."""
    state: str | None
    """``Enabled``, ``Absent``, ``StandbyOffline``, …"""
    conditions: tuple[str, ...]
    """Messages of the conditions that lie behind the health."""

    @property
    def is_ok(self) -> bool | None:
        """Whether nothing is wrong; None where the BMC does not say."""
        said = [value for value in (self.health, self.rollup) if value is not None]
        return all(value == "OK" for value in said) if said else None

    @property
    def is_absent(self) -> bool:
        return self.state == "Absent"


class Firmware(Struct, frozen=True):
    """A SoftwareInventory resource."""

    version: str | None
    updateable: bool | None
    software_id: str | None
    release_date: str | None
    running: bool
    """False for images that are only stored: Dell's ``Previous-`` and ``Available-``, backup
    images in standby."""


class MemoryModule(Struct, frozen=True):
    """A Memory resource: a DIMM, or the memory of an accelerator."""

    capacity_mib: int | None
    device_type: str | None
    """``DDR4``, ``DDR5``, ``HBM``; None for an empty slot."""
    speed_mhz: int | None
    """OperatingSpeedMhz: data rate, what others call MT/s."""
    error_correction: str | None
    locator: str | None
    row_remapping_failed: bool | None
    row_remapping_pending: bool | None


class Reading(Struct, frozen=True):
    """A sensor value inside a resource."""

    name: str
    value: float | None
    """None where the sensor has no value now."""
    unit: str
    """``celsius``, ``rpm``, ``percent``, ``watts``, ``joules``, ``volts``."""
    health: Health


class LogEntry(Struct, frozen=True):
    """One entry of a log service."""

    id: str
    created: str | None
    severity: str | None
    message: str
    message_id: str | None
    resolved: bool | None


class Resource(Struct, frozen=True):
    """One resource, whatever its type. None: the BMC gives no value, or the schema has none."""

    uri: str | None
    type: str
    """The last part of ``@odata.type`` without version: ``SoftwareInventory``."""
    id: str | None
    name: str | None
    manufacturer: str | None
    model: str | None
    part_number: str | None
    serial: str | None
    uuid: str | None
    firmware_version: str | None
    """FirmwareVersion, BiosVersion or FirmwarePackageVersion of the part."""
    health: Health | None
    """None where the resource has no Status."""
    values: Mapping[str, str | float | bool]
    """Other plain values of the resource, by their Redfish name: ``PowerState``,
    ``PowerCapacityWatts``, ``ProcessorType``, ``LinkStatus``, BIOS attributes, …"""
    firmware: Firmware | None
    memory: MemoryModule | None
    readings: tuple[Reading, ...]


class RedfishFacts(Struct, frozen=True):
    """A document of a BMC: a resource, or a collection."""

    resource: Resource
    members: tuple[Resource, ...]
    """Members that are spelled out in the collection (``$expand``)."""
    member_uris: tuple[str, ...]
    entries: tuple[LogEntry, ...]
    """Members of a log."""
    announced: int | None
    """``Members@odata.count``; None for a single resource."""
    complete: bool
    """False where fewer members are there than announced, or another page follows."""
