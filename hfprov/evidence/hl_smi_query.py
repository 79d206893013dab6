"""What hl-smi says about an AIP, and its two forms made for programs: ``-q`` and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.fields import FieldError, Fields, not_understood, numbered_lines
from hfprov.regex import regex

TOOL = "hl-smi"
MIB = {"MiB": 1.0, "Mib": 1.0, "MB": 1.0, "GiB": 1024.0, "GB": 1024.0}


class Aip(Struct, frozen=True):
    """One accelerator. None: not available, or not in this form of the output."""

    index: int | None
    name: str | None = None
    bdf: str | None = None
    uuid: str | None = None
    serial: str | None = None
    module_id: int | None = None
    firmware_version: str | None = None
    """SPI firmware, from ``-q``."""
    temperature_c: float | None = None
    power_w: float | None = None
    power_cap_w: float | None = None
    memory_used_mib: int | None = None
    memory_total_mib: int | None = None
    utilisation_percent: float | None = None
    uncorrectable_ecc: int | None = None
    pcie_generation: str | None = None
    pcie_max_generation: str | None = None
    pcie_width: str | None = None
    pcie_max_width: str | None = None
    values: Mapping[str, str] | None = None
    """Every line of ``-q`` or column of CSV, by name."""
    errors: tuple[FieldError, ...] = ()


class Process(Struct, frozen=True):
    index: int
    pid: int
    name: str


class Port(Struct, frozen=True):
    number: int
    up: bool


class HlSmi(Struct, frozen=True):
    version: str | None = None
    """Version of the tool with its firmware (``hl-1.16.0-fw-50.1.2.0``)."""
    driver_version: str | None = None
    nic_driver_version: str | None = None
    aips: tuple[Aip, ...] = ()
    processes: tuple[Process, ...] | None = None
    ports: tuple[Port, ...] = ()
    complete: bool = True
    """False when the output does not reach its end, or has fewer AIPs than it announces."""


def whole_mib(value: float | None) -> int | None:
    return None if value is None else int(value)


QUERY_DEVICE = regex(r"^\[(?P<index>\d{1,4})\] AIP.*?(?P<bdf>[0-9a-f]{4}:\S+)?\s*$", re.MULTILINE)
_QUERY_LINE = regex(r"(?P<indent>[ \t]*)(?P<key>[^:\s][^:]{0,80}?)[ \t]*(?::[ \t]*(?P<value>.*))?$")
_DEEPEST = 12


def from_query(text: str) -> HlSmi:
    """``hl-smi -q``: indented ``key : value`` lines under one heading per AIP."""
    header: dict[str, str] = {}
    found: list[tuple[re.Match[str], dict[str, str]]] = []
    stack: list[tuple[int, str]] = []
    for _, line in numbered_lines(text.expandtabs(8), TOOL):
        if not line.strip() or line.startswith("="):
            continue
        if heading := QUERY_DEVICE.match(line):
            found.append((heading, {}))
            stack.clear()
            continue
        match = _QUERY_LINE.match(line)
        if match is None:
            continue
        values = found[-1][1] if found else header
        _query_line(values, stack, match)
    if not found:
        return HlSmi(driver_version=header.get("driver version"), complete=False)
    aips = tuple(_query_aip(heading, values) for heading, values in found)
    announced = header.get("attached aips", "")
    sizes = [len(values) for _, values in found]
    whole = announced == str(len(aips)) and min(sizes) == max(sizes)
    return HlSmi(driver_version=header.get("driver version"), aips=aips, complete=whole)


def _query_line(values: dict[str, str], stack: list[tuple[int, str]], match: re.Match[str]) -> None:
    indent = len(match["indent"])
    while stack and stack[-1][0] >= indent:
        stack.pop()
    if len(stack) >= _DEEPEST:
        raise NotUnderstoodError(f"The text of '{TOOL}' is nested more than {_DEEPEST} deep.")
    path = f"{stack[-1][1]}." if stack else ""
    path += match["key"].strip().lower()
    if match["value"] is None or not match["value"].strip():
        stack.append((indent, path))
    else:
        values.setdefault(path, match["value"].strip())


def _query_aip(heading: re.Match[str], values: dict[str, str]) -> Aip:
    read = Fields(values)
    generation = "bus.link info.pcie generation"
    width = "bus.link info.link width"
    return Aip(
        index=int(heading["index"]),
        name=read.text("product name"),
        bdf=heading["bdf"] or read.text("bus.bus id"),
        uuid=read.text("aip uuid", "uuid"),
        serial=read.text("serial number"),
        module_id=read.count("module id"),
        firmware_version=read.text("firmware [spi] version"),
        temperature_c=read.number(
            "temperature.aip temperature", "temperature.aip.current temp",
            "temperature.current temp", units=("C",),
        ),
        power_w=read.number("power readings.power draw", "power.power draw", units=("W",)),
        power_cap_w=read.number("power readings.power limit", "power.power limit", units=("W",)),
        memory_used_mib=whole_mib(
            read.scaled("memory usage.used", "memory.used", "fb memory usage.used", units=MIB)
        ),
        memory_total_mib=whole_mib(
            read.scaled("memory usage.total", "memory.total", "fb memory usage.total", units=MIB)
        ),
        pcie_generation=read.text(f"{generation}.current"),
        pcie_max_generation=read.text(f"{generation}.max"),
        pcie_width=read.text(f"{width}.current"),
        pcie_max_width=read.text(f"{width}.max"),
        values=values,
        errors=tuple(read.errors),
    )  # fmt: skip


CSV_HEADER = regex(
    r"(?:index|module_id|bus_id|uuid|name|timestamp|driver_version|temperature|memory|utilization"
    r"|power|clocks|ecc|stats|serial|state|link|fw)[a-z_.]*(?: \[[^\]]*\])? *(?:,|$)",
    re.MULTILINE,
)
_CSV_UNIT = regex(r" *\[[^\]]*\]$")


def from_csv(text: str) -> HlSmi:
    try:
        rows = [row for row in csv.reader(io.StringIO(text.strip()), strict=True) if row]
    except csv.Error as error:
        raise NotUnderstoodError(f"The CSV of '{TOOL}' is not valid: {error}.") from error
    names = [_CSV_UNIT.sub("", name.strip()) for name in rows[0]]
    aips = []
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(names):
            raise not_understood(TOOL, number, ",".join(row), f"{len(names)} columns")
        aips.append(_csv_aip(dict(zip(names, (cell.strip() for cell in row), strict=True))))
    if not aips:
        raise NotUnderstoodError(f"The CSV of '{TOOL}' has a header and no rows.")
    return HlSmi(driver_version=(aips[0].values or {}).get("driver_version"), aips=tuple(aips))


def _csv_aip(values: dict[str, str]) -> Aip:
    read = Fields(values)
    return Aip(
        index=read.count("index"),
        name=read.text("name"),
        bdf=read.text("bus_id"),
        uuid=read.text("uuid"),
        serial=read.text("serial"),
        module_id=read.count("module_id"),
        temperature_c=read.number("temperature.aip", units=("C",)),
        power_w=read.number("power.draw", units=("W",)),
        memory_used_mib=whole_mib(read.scaled("memory.used", units=MIB)),
        memory_total_mib=whole_mib(read.scaled("memory.total", units=MIB)),
        utilisation_percent=read.number("utilization.aip", units=("%",)),
        uncorrectable_ecc=read.count("ecc.errors.uncorrected.aggregate.total"),
        pcie_generation=read.text("pcie.link.gen.current"),
        pcie_width=read.text("pcie.link.width.current"),
        values=values,
        errors=tuple(read.errors),
    )
