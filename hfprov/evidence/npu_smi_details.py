"""The ``key : value`` answers of npu-smi (``-t board``, ``-t ecc`` ...) and its chip names."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.fields import (
    FieldError,
    Fields,
    integer,
    not_understood,
    numbered_lines,
    said,
)
from hfprov.regex import regex

TOOL = "npu-smi"


class Health(enum.StrEnum):
    OK = "ok"
    WARNING = "warning"
    ALARM = "alarm"
    CRITICAL = "critical"
    UNKNOWN = "unknown"


class Compatibility(enum.StrEnum):
    """Whether driver and firmware fit (dcmi_get_device_compatibility)."""

    OK = "ok"
    NOK = "nok"
    UNKNOWN = "unknown"


class Details(Struct, frozen=True):
    """One ``key : value`` answer. ``values`` has every line, typed fields what checks ask for."""

    npu: int | None
    chip: int | None
    values: Mapping[str, str]
    serial: str | None = None
    software_version: str | None = None
    firmware_version: str | None = None
    compatibility: Compatibility | None = None
    bdf: str | None = None
    health: Health | None = None
    chip_count: int | None = None
    total_count: int | None = None
    hbm_single_bit_errors: int | None = None
    hbm_double_bit_errors: int | None = None
    hbm_isolated_pages: int | None = None
    errors: tuple[FieldError, ...] = ()


class ChipName(Struct, frozen=True):
    """One row of ``npu-smi info -m``."""

    npu: int
    chip: int
    logic_id: int | None
    name: str


def health_of(text: str) -> Health:
    try:
        return Health(text.strip().lower())
    except ValueError:
        return Health.UNKNOWN


_KEY_VALUE = regex(r"\s*(?P<key>[A-Za-z][^:]{0,60}):(?P<value>.*)$")
_STARTS = ("NPU ID",)


def read_details(text: str) -> tuple[Details, ...]:
    """Answers of ``key : value`` lines; each ``NPU ID`` after the first begins the next one."""
    groups: list[dict[str, str]] = [{}]
    for number, line in numbered_lines(text, TOOL):
        if not line.strip():
            continue
        match = _KEY_VALUE.match(line)
        if match is None:
            if any(groups):
                raise not_understood(TOOL, number, line, "'key : value'")
            continue
        key = match["key"].strip()
        if key in groups[-1] and (key in _STARTS or "NPU ID" in groups[-1]):
            groups.append({})
        groups[-1][key] = match["value"].strip()
    known = [group for group in groups if group.keys() & _KNOWN_KEYS]
    return tuple(_one_detail(group) for group in known)


_KNOWN_KEYS = frozenset(
    {
        "NPU ID",
        "Total Count",
        "Chip ID",
        "Health",
        "Compatibility",
        "Software Version",
        "Chip Count",
        "DDR Capacity(MB)",
        "HBM Capacity(MB)",
    }
)
_HBM = "HBM {} Error Count"


def _one_detail(values: Mapping[str, str]) -> Details:
    read = Fields(values)
    fit = read.raw("Compatibility")
    health = read.raw("Health", "Health Status")
    compatibility = None if fit is None else _compatibility(fit)
    if compatibility is Compatibility.UNKNOWN:
        read.error("Compatibility", fit)
    return Details(
        npu=read.count("NPU ID"),
        chip=read.count("Chip ID"),
        values=dict(values),
        serial=read.text("Serial Number"),
        software_version=read.text("Software Version"),
        firmware_version=read.text("Firmware Version"),
        compatibility=compatibility,
        bdf=read.text("PCIe Bus Info"),
        health=None if health is None else health_of(health),
        chip_count=read.count("Chip Count"),
        total_count=read.count("Total Count"),
        hbm_single_bit_errors=read.count(_HBM.format("Single Bit")),
        hbm_double_bit_errors=read.count(_HBM.format("Double Bit")),
        hbm_isolated_pages=read.count("HBM Double Bit Isolated Pages Count"),
        errors=tuple(read.errors),
    )


def _compatibility(text: str) -> Compatibility:
    try:
        return Compatibility(text.strip().lower())
    except ValueError:
        return Compatibility.UNKNOWN


_NAMES_HEADER = regex(
    r"^[ \t]*NPU ID[ \t]+[^:\n]*Chip ID[ \t][^:\n]*Chip Name[ \t]*$", re.MULTILINE
)
_COLUMN_GAP = regex(r"\t+| {2,}")


def read_names(text: str) -> tuple[ChipName, ...]:
    header = _NAMES_HEADER.search(text)
    if header is None:
        return ()
    columns = _COLUMN_GAP.split(header[0].strip())
    rows = []
    for line in text[header.end() :].split("\n"):
        cells = line.split(None, len(columns) - 1)
        if not cells:
            continue
        if len(cells) != len(columns):
            raise NotUnderstoodError(f"{said(line)} is no row of '{TOOL} info -m'.")
        row = dict(zip(columns, cells, strict=True))
        logic = row.get("Chip Logic ID", "-")
        rows.append(
            ChipName(
                integer(row["NPU ID"]),
                integer(row["Chip ID"]),
                None if logic in ("-", "NA") else integer(logic),
                row["Chip Name"].strip(),
            )
        )
    return tuple(rows)
