"""One card of rocm-smi: the facts, and how its keys (renamed between releases) are read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from hfprov.evidence.fields import FieldError, Fields, integer
from hfprov.regex import regex


class RasBlock(Struct, frozen=True):
    """Error counts of one hardware block. Suspended consumer GPUs show false counts."""

    name: str
    status: str
    correctable: int | None
    uncorrectable: int | None


class BadPage(Struct, frozen=True):
    """A page of memory that is not used any more, or will not be."""

    address: str
    status: str
    """``reserved``, ``pending`` or ``unreservable``."""


class Card(Struct, frozen=True):
    """One GPU. ``None``: not available, or not part of what was asked."""

    index: int
    name: str | None = None
    device_id: str | None = None
    unique_id: str | None = None
    serial: str | None = None
    sku: str | None = None
    gfx_version: str | None = None
    vbios_version: str | None = None
    bdf: str | None = None
    numa_node: int | None = None
    edge_c: float | None = None
    junction_c: float | None = None
    memory_c: float | None = None
    average_power_w: float | None = None
    max_power_w: float | None = None
    gfx_percent: float | None = None
    memory_percent: float | None = None
    vram_total_bytes: int | None = None
    vram_used_bytes: int | None = None
    gfx_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    pcie_speed_gt_s: float | None = None
    pcie_width: int | None = None
    pcie_replay_count: int | None = None
    performance_level: str | None = None
    compute_partition: str | None = None
    memory_partition: str | None = None
    firmware: Mapping[str, str] | None = None
    ras: tuple[RasBlock, ...] = ()
    bad_pages: tuple[BadPage, ...] = ()
    errors: tuple[FieldError, ...] = ()


_PCIE = regex(r"\(?([0-9]{1,4}(?:\.[0-9]{1,4})?) ?GT/s x([0-9]{1,3})")
_PAREN_MHZ = regex(r"\(?([0-9]{1,9}) ?mhz\)?$", re.IGNORECASE)


def card_from_keys(index: int, raw: Mapping[str, Any], ras: tuple[RasBlock, ...] = ()) -> Card:
    read = Fields({str(name).lower().rstrip(":"): value for name, value in raw.items()})
    speed, width = _pcie(read)
    firmware = {
        name.removesuffix(" firmware version"): str(value)
        for name, value in read.values.items()
        if name.endswith(" firmware version")
    }
    return Card(
        index=index,
        name=read.text("device name", "card series"),
        device_id=read.text("device id", "gpu id"),
        unique_id=read.text("unique id"),
        serial=read.text("serial number"),
        sku=read.text("card sku"),
        gfx_version=read.text("gfx version"),
        vbios_version=read.text("vbios version"),
        bdf=read.text("pci bus"),
        numa_node=read.count("(topology) numa node"),
        edge_c=read.number("temperature (sensor edge) (c)"),
        junction_c=read.number("temperature (sensor junction) (c)"),
        memory_c=read.number("temperature (sensor memory) (c)"),
        average_power_w=read.number(
            "average graphics package power (w)", "current socket graphics package power (w)"
        ),
        max_power_w=read.number("max graphics package power (w)"),
        gfx_percent=read.number("gpu use (%)", units=("%",)),
        memory_percent=read.number(
            "gpu memory use (%)", "gpu memory allocated (vram%)", units=("%",)
        ),
        vram_total_bytes=read.count("vram total memory (b)"),
        vram_used_bytes=read.count("vram total used memory (b)"),
        gfx_clock_mhz=_mhz(read, "sclk clock speed"),
        memory_clock_mhz=_mhz(read, "mclk clock speed"),
        pcie_speed_gt_s=speed,
        pcie_width=width,
        pcie_replay_count=read.count("pcie replay count"),
        performance_level=read.text("performance level"),
        compute_partition=read.text("compute partition"),
        memory_partition=read.text("memory partition"),
        firmware=firmware or None,
        ras=ras,
        errors=tuple(read.errors),
    )


def _pcie(read: Fields) -> tuple[float | None, int | None]:
    text = read.text("pcie clock level", "pcie link speed")
    if text is None:
        return None, None
    match = _PCIE.search(text)
    if match is None:
        read.error("pcie clock level", text)
        return None, None
    return float(match[1]), int(match[2])


def _mhz(read: Fields, name: str) -> float | None:
    text = read.text(name)
    if text is None:
        return None
    match = _PAREN_MHZ.match(text)
    if match is None:
        read.error(name, text)
        return None
    return float(match[1])


def _hexadecimal(text: str) -> str | None:
    return text if text.startswith("0x") else None


def card_from_concise(cells: Mapping[str, str], *, junction: bool) -> Card:
    """A row of the concise table; ``junction``: its temperature is that of the hottest spot."""
    read = Fields({name: cell for name, cell in cells.items() if cell != "Unsupported"})
    partitions = [
        None if part in ("", "N/A") else part for part in (read.text("Partitions") or "").split(",")
    ]
    model, _, _ = (read.text("[Model : Revision]") or "").strip("[]").partition(" : ")
    celsius = read.number("Temp (DieEdge)", "Temp (Junction)", "Temp", units=("°C", "C", "c"))
    return Card(
        index=integer(cells.get("GPU", cells.get("Device", ""))),
        device_id=(read.text("IDs") or "").partition(",")[0] or _hexadecimal(model),
        edge_c=None if junction else celsius,
        junction_c=celsius if junction else None,
        average_power_w=read.number("AvgPwr", "Power", "SocPwr", units=("W",)),
        max_power_w=read.number("PwrCap", units=("W",)),
        gfx_percent=read.number("GPU%", units=("%",)),
        memory_percent=read.number("VRAM%", units=("%",)),
        gfx_clock_mhz=read.number("SCLK", units=("Mhz", "MHz")),
        memory_clock_mhz=read.number("MCLK", units=("Mhz", "MHz")),
        performance_level=read.text("Perf"),
        memory_partition=partitions[0],
        compute_partition=partitions[1] if len(partitions) > 1 else None,
        errors=tuple(read.errors),
    )
