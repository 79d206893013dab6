"""NVMe drives: ``nvme list``, ``nvme smart-log`` and ``nvme id-ctrl`` of nvme-cli.

JSON of nvme-cli 1.x and 2.0 to 2.11 (flat and nested lists; numbers that are floats or texts;
``percent_used`` or ``percentage_used``; a critical warning that is a number or an object), and
their text. Source: NVM Express base specification 2.0, figure 207.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.host_values import (
    bad_line,
    json_count,
    json_value,
    mapping,
    optional_text,
    sequence,
    unknown_form,
)
from hfprov.evidence.nvme_health import NvmeHealth, parse_smart_json, parse_smart_text
from hfprov.evidence.text import clean
from hfprov.regex import regex


class Namespace(Struct, frozen=True):
    """One namespace."""

    name: str | None
    size_bytes: int | None
    used_bytes: int | None
    sector_bytes: int | None


class Drive(Struct, frozen=True):
    """One controller. None: not in this version's list."""

    name: str | None
    """``nvme0``, or the path of the namespace (flat lists): ``/dev/nvme0n1``."""
    model: str
    serial: str
    firmware: str
    address: str | None
    """PCI address, or the address of a fabric."""
    transport: str | None
    namespaces: tuple[Namespace, ...]


class NvmeListFacts(Struct, frozen=True):
    """``nvme list``. An empty list is a machine without NVMe drives."""

    drives: tuple[Drive, ...]


class NvmeControllerFacts(Struct, frozen=True):
    """``nvme id-ctrl``."""

    model: str
    serial: str
    firmware: str
    vendor_id: str
    capacity_bytes: int | None
    """None where the controller does not report it (0)."""
    warning_celsius: float | None
    critical_celsius: float | None


NvmeFacts = NvmeListFacts | NvmeControllerFacts | NvmeHealth

_KELVIN = 273.15
_HEX = regex(r"0x[0-9a-fA-F]{1,4}")


def parse(text: str) -> NvmeFacts:
    """Facts from any of the three commands."""
    text = clean(text)
    start = text.lstrip()
    if start.startswith("{") or "\n{" in text:
        return _from_json(mapping(json_value(text, "nvme"), "The nvme document"))
    if "critical_warning" in text:
        return parse_smart_text(text)
    if _LIST_HEADER.search(text):
        return NvmeListFacts(tuple(_listed(text)))
    if start.startswith(("NVME Identify Controller", "vid ")):
        return _controller_text(text)
    raise unknown_form("nvme", text, "JSON, 'Smart Log for NVME device' or 'Identify Controller'")


def _from_json(document: dict[str, Any]) -> NvmeFacts:
    if "error" in document:
        raise NotUnderstoodError(f"nvme did not answer: '{str(document['error'])[:80]}'.")
    if "critical_warning" in document:
        return parse_smart_json(document)
    if "Devices" in document:
        return NvmeListFacts(tuple(_drives(sequence(document["Devices"], "'Devices'"))))
    if "sn" in document and "mn" in document:
        return _controller(document)
    raise NotUnderstoodError(
        "This JSON document is none of 'nvme list', 'nvme smart-log' and 'nvme id-ctrl'."
    )


def _drives(devices: list[Any]) -> list[Drive]:
    drives: list[Drive] = []
    for item in devices:
        device = mapping(item, "A device")
        if "Subsystems" in device:
            for part in sequence(device["Subsystems"], "'Subsystems'"):
                subsystem = mapping(part, "A subsystem")
                shared = sequence(subsystem.get("Namespaces") or [], "'Namespaces'")
                controllers = sequence(subsystem.get("Controllers"), "'Controllers'")
                drives.extend(_drive(mapping(c, "A controller"), shared) for c in controllers)
        elif "Controllers" in device:
            shared = sequence(device.get("Namespaces") or [], "'Namespaces'")
            controllers = sequence(device["Controllers"], "'Controllers'")
            drives.extend(_drive(mapping(c, "A controller"), shared) for c in controllers)
        else:
            drives.append(_drive(device, [device]))
    return drives


def _drive(item: dict[str, Any], shared: list[Any]) -> Drive:
    def text(*names: str) -> str | None:
        for name in names:
            if item.get(name) is not None:
                return optional_text(item[name], f"'{name}' of a drive")
        return None

    model, serial, firmware = text("ModelNumber"), text("SerialNumber"), text("Firmware")
    if model is None or serial is None or firmware is None:
        raise NotUnderstoodError("A drive of 'nvme list' lacks its model, serial or firmware.")
    own = sequence(item.get("Namespaces") or [], "'Namespaces'")
    return Drive(
        name=text("Controller", "DevicePath"),
        model=model,
        serial=serial,
        firmware=firmware,
        address=text("Address"),
        transport=text("Transport"),
        namespaces=tuple(_namespace(mapping(n, "A namespace")) for n in own or shared),
    )


def _namespace(item: dict[str, Any]) -> Namespace:
    def count(name: str) -> int | None:
        value = item.get(name)
        # nvme-cli 2.0 to 2.5 may print 32 bits of a size, which then is less than nothing.
        overflown = isinstance(value, int) and value < 0
        if value is None or overflown:
            return None
        return json_count(value, f"'{name}' of a namespace")

    name = item.get("DevicePath", item.get("NameSpace"))
    return Namespace(
        name=name if isinstance(name, str) else None,
        size_bytes=count("PhysicalSize"),
        used_bytes=count("UsedBytes"),
        sector_bytes=count("SectorSize"),
    )


_LIST_HEADER = regex(
    r"^Node +(?:Generic +)?SN +Model +Namespace +Usage +Format +FW Rev[ \t]*\n[- \t]+$",
    re.MULTILINE,
)
_LIST_ROW = regex(
    r"(?P<node>\S+) +(?:/dev/ng\S+ +)?(?P<serial>\S+) +(?P<model>\S.*?) +(?:0x[0-9a-f]+|[0-9]+) +"
    r"[0-9.]+ +[kKMGTPE]?B +/ +[0-9.]+ +[kKMGTPE]?B +"
    r"(?P<sector>[0-9]+) +(?P<unit>[kK]?i?B) \+ +[0-9]+ +B +(?P<firmware>\S.*?) *"
)


_LONGEST_ROW = 500


def _listed(text: str) -> list[Drive]:
    """Rows of the table; its sizes are rounded, so they are not taken for numbers of bytes."""
    header = _LIST_HEADER.search(text)
    first = text.count("\n", 0, header.end() if header else 0) + 2
    drives = []
    for number, line in enumerate(text.split("\n")[first - 1 :], start=first):
        match = _LIST_ROW.fullmatch(line) if len(line) <= _LONGEST_ROW else None
        if match is None and line.strip():
            raise bad_line("nvme list", number, line, "a row of seven columns")
        if match is not None:
            unit = 1 if match["unit"] == "B" else 1024
            node = match["node"]
            namespace = Namespace(node, None, None, int(match["sector"][:9]) * unit)
            told = (match["model"], match["serial"], match["firmware"])
            drives.append(Drive(node, *told, None, None, (namespace,)))
    return drives


def _controller_text(text: str) -> NvmeControllerFacts:
    fields: dict[str, Any] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and key.strip() and key[0] not in " \t":
            fields.setdefault(key.strip(), value.strip())
    missing = [name for name in ("vid", "sn", "mn", "fr") if name not in fields]
    if missing:
        raise NotUnderstoodError(f"'nvme id-ctrl' shows no '{missing[0]}': it is cut off.")
    if _HEX.fullmatch(fields["vid"]):
        fields["vid"] = str(int(fields["vid"], 16))
    return _controller(fields)


def _controller(item: dict[str, Any]) -> NvmeControllerFacts:
    def text(name: str) -> str:
        value = optional_text(item.get(name), f"'{name}'")
        if not value:
            raise NotUnderstoodError(f"'nvme id-ctrl' gives no '{name}'.")
        return value

    def celsius(name: str) -> float | None:
        kelvin = json_count(item.get(name, 0), f"'{name}'")
        return round(kelvin - _KELVIN, 2) if kelvin else None

    capacity = json_count(item.get("tnvmcap", 0), "'tnvmcap'")
    return NvmeControllerFacts(
        model=text("mn"),
        serial=text("sn"),
        firmware=text("fr"),
        vendor_id=f"{json_count(item.get('vid'), 'vid'):04x}",
        capacity_bytes=capacity or None,
        warning_celsius=celsius("wctemp"),
        critical_celsius=celsius("cctemp"),
    )
