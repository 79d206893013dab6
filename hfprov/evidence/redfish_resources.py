"""A JSON object of Redfish as a :class:`~hfprov.evidence.redfish_facts.Resource`."""

from __future__ import annotations

from typing import Any

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.host_values import (
    json_count,
    mapping,
    optional_bool,
    optional_number,
    optional_text,
    real,
    sequence,
)
from hfprov.evidence.redfish_facts import Firmware, Health, MemoryModule, Reading, Resource
from hfprov.evidence.text import excerpt
from hfprov.regex import regex

_TYPE = regex(r"#?([A-Za-z0-9]+)(?:\.v[0-9_]+)?\.([A-Za-z0-9]+)")
_STORED = regex(r"(?:Previous|Available|Rollback)-|.*-Backup$")
_STANDBY = ("StandbySpare", "StandbyOffline")
_KNOWN = frozenset(
    [
        "Id",
        "Name",
        "Description",
        "Manufacturer",
        "Model",
        "PartNumber",
        "SerialNumber",
        "UUID",
        "FirmwareVersion",
        "BiosVersion",
        "Version",
        "Updateable",
        "SoftwareId",
        "ReleaseDate",
    ]
)
# Sensor values that are plain numbers or {"Reading": …} of a resource: name, unit.
_METRICS = {
    "PowerWatts": "watts",
    "EnergyJoules": "joules",
    "TemperatureCelsius": "celsius",
    "PowerOutputWatts": "watts",
    "LastPowerOutputWatts": "watts",
}
# Lists of sensors in the deprecated Thermal and Power resources: value, unit.
_LISTS = {
    "Temperatures": ("ReadingCelsius", "celsius"),
    "Fans": ("Reading", "rpm"),
    "Voltages": ("ReadingVolts", "volts"),
    "PowerSupplies": ("LastPowerOutputWatts", "watts"),
    "TemperatureReadingsCelsius": ("Reading", "celsius"),
    "FanSpeedsPercent": ("Reading", "percent"),
}


def type_name(document: dict[str, Any]) -> str:
    """``SoftwareInventory`` from ``#SoftwareInventory.v1_4_0.SoftwareInventory``."""
    raw = optional_text(document.get("@odata.type"), "'@odata.type'")
    match = _TYPE.fullmatch(raw or "")
    if match is None:
        raise NotUnderstoodError(f"'{excerpt(str(raw), 60)}' is not a type of Redfish.")
    return match.group(2)


def read_resource(document: dict[str, Any]) -> Resource:
    """Facts from one resource. Values of an unexpected kind are refused, absent ones are None."""
    kind = type_name(document)
    health = _health(document)

    def text(name: str) -> str | None:
        return optional_text(document.get(name), f"'{name}' of a {kind}")

    return Resource(
        uri=text("@odata.id"),
        type=kind,
        id=text("Id"),
        name=text("Name"),
        manufacturer=real(text("Manufacturer")),
        model=real(text("Model")),
        part_number=real(text("PartNumber")),
        serial=real(text("SerialNumber")),
        uuid=real(text("UUID")),
        firmware_version=_firmware_version(document),
        health=health,
        values=_values(document),
        firmware=_firmware(document, health) if kind == "SoftwareInventory" else None,
        memory=_memory(document) if kind == "Memory" else None,
        readings=_readings(document, kind),
    )


def _health(document: dict[str, Any]) -> Health | None:
    if document.get("Status") is None:
        return None
    status = mapping(document["Status"], "'Status'")
    conditions = []
    for item in sequence(status.get("Conditions") or [], "'Conditions'"):
        condition = mapping(item, "A condition")
        message = optional_text(condition.get("Message"), "'Message' of a condition")
        name = optional_text(condition.get("MessageId"), "'MessageId' of a condition")
        conditions.append(message or name or "a condition without a message")
    return Health(
        health=optional_text(status.get("Health"), "'Health'"),
        rollup=optional_text(status.get("HealthRollup"), "'HealthRollup'"),
        state=optional_text(status.get("State"), "'State'"),
        conditions=tuple(conditions),
    )


def _firmware_version(document: dict[str, Any]) -> str | None:
    for name in ("FirmwareVersion", "BiosVersion"):
        value = real(optional_text(document.get(name), f"'{name}'"))
        if value is not None:
            return value
    controllers = document.get("Controllers")
    if isinstance(controllers, list) and controllers and isinstance(controllers[0], dict):
        package = controllers[0].get("FirmwarePackageVersion")
        return real(optional_text(package, "'FirmwarePackageVersion'"))
    return None


def _values(document: dict[str, Any]) -> dict[str, str | float | bool]:
    values: dict[str, str | float | bool] = {}
    sources: list[dict[str, Any]] = [document]
    for name in ("MemorySummary", "ProcessorSummary", "Attributes"):
        nested = document.get(name)
        if isinstance(nested, dict):
            prefix = "" if name == "Attributes" else f"{name}."
            sources.append({f"{prefix}{key}": value for key, value in nested.items()})
            status = nested.get("Status")
            if isinstance(status, dict):
                sources.append({f"{prefix}Status.{key}": value for key, value in status.items()})
    for source in sources:
        for key, value in source.items():
            if key in _KNOWN or "@" in key:
                continue
            if isinstance(value, (str, bool)):
                values[key] = value
            elif isinstance(value, (int, float)):
                values[key] = optional_number(value, f"'{excerpt(key, 40)}'") or 0.0
    return values


def _firmware(document: dict[str, Any], health: Health | None) -> Firmware:
    if "Version" not in document:
        raise NotUnderstoodError("A SoftwareInventory has no 'Version': it is not whole.")
    name = optional_text(document.get("Id"), "'Id'") or ""
    return Firmware(
        version=real(optional_text(document["Version"], "'Version'")),
        updateable=optional_bool(document.get("Updateable"), "'Updateable'"),
        software_id=real(optional_text(document.get("SoftwareId"), "'SoftwareId'")),
        release_date=real(optional_text(document.get("ReleaseDate"), "'ReleaseDate'")),
        running=not _STORED.match(name) and (health is None or health.state not in _STANDBY),
    )


def _memory(document: dict[str, Any]) -> MemoryModule:
    def count(name: str) -> int | None:
        value = document.get(name)
        return None if value is None else json_count(value, f"'{name}' of a Memory")

    oem = document.get("Oem")
    nvidia = oem.get("Nvidia") if isinstance(oem, dict) else None
    nvidia = nvidia if isinstance(nvidia, dict) else {}
    speed = count("OperatingSpeedMhz")
    return MemoryModule(
        capacity_mib=count("CapacityMiB"),
        device_type=real(optional_text(document.get("MemoryDeviceType"), "'MemoryDeviceType'")),
        speed_mhz=count("OperatingSpeedMHz") if speed is None else speed,
        error_correction=optional_text(document.get("ErrorCorrection"), "'ErrorCorrection'"),
        locator=optional_text(document.get("DeviceLocator"), "'DeviceLocator'"),
        row_remapping_failed=optional_bool(
            nvidia.get("RowRemappingFailed"), "'RowRemappingFailed'"
        ),
        row_remapping_pending=optional_bool(
            nvidia.get("RowRemappingPending"), "'RowRemappingPending'"
        ),
    )


def _readings(document: dict[str, Any], kind: str) -> tuple[Reading, ...]:
    readings: list[Reading] = []
    own = _health(document) or Health(None, None, None, ())
    for name, unit in _METRICS.items():
        if name in document:
            readings.append(Reading(name, _reading(document[name], "Reading"), unit, own))
    if kind == "Fan" and isinstance(document.get("SpeedPercent"), dict):
        speed = document["SpeedPercent"]
        label = optional_text(document.get("Name"), "'Name'") or "Fan"
        for key, unit in (("SpeedRPM", "rpm"), ("Reading", "percent")):
            if key in speed:
                readings.append(Reading(label, _reading(speed, key), unit, own))
    if kind == "Sensor":
        label = optional_text(document.get("Name"), "'Name'") or "Sensor"
        units = optional_text(document.get("ReadingUnits"), "'ReadingUnits'") or ""
        names = {"Cel": "celsius", "RPM": "rpm", "W": "watts", "V": "volts", "%": "percent"}
        readings.append(Reading(label, _reading(document, "Reading"), names.get(units, units), own))
    for name, (key, unit) in _LISTS.items():
        if isinstance(document.get(name), list):
            readings.extend(_listed(item, key, unit) for item in document[name])
    return tuple(readings)


def _listed(item: Any, key: str, unit: str) -> Reading:
    entry = mapping(item, "A sensor")
    label = entry.get("Name") or entry.get("DeviceName") or entry.get("FanName") or ""
    units = optional_text(entry.get("ReadingUnits"), "'ReadingUnits'")
    if key == "Reading" and unit == "rpm" and units == "Percent":
        unit = "percent"
    return Reading(
        name=optional_text(label, "The name of a sensor") or "",
        value=_reading(entry, key),
        unit=unit,
        health=_health(entry) or Health(None, None, None, ()),
    )


def _reading(value: Any, key: str) -> float | None:
    """A number, or the number inside ``{"Reading": …}``."""
    if isinstance(value, dict):
        value = value.get(key)
    return optional_number(value, f"'{key}' of a sensor")
