"""Single sysfs files: ``path -> text`` to typed values.

A sysfs file holds one value or a few words in a documented form. These functions take the text of
one file, as the probe reads it. Sources: the kernel's Documentation/ABI/testing/sysfs-bus-pci,
sysfs-class-net, sysfs-class-infiniband, sysfs-bus-pci-devices-aer_stats, sysfs-kernel-iommu_groups.
"""

from __future__ import annotations

import re

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.host_values import decimal, hexadecimal, natural, whole
from hfprov.evidence.text import clean, excerpt
from hfprov.regex import regex

_STATE = regex(r"([0-9]{1,2}): ?([A-Za-z_ <>]+)")
_RATE = regex(r"([0-9]{1,6}(?:\.[0-9]{1,3})?) Gb/sec \(([0-9]{1,2})X(?: ([A-Z0-9]+))?\)")
_COUNTER = regex(r"([A-Za-z0-9_]+) ([0-9]{1,20})")
_CHOICE = regex(r"\[([^\]\s]+)\]")
_ABSENT = ("N/A (no PMA)", "N/A")


class NumberedState(Struct, frozen=True):
    """A state that the kernel prints with its number: ``4: ACTIVE``."""

    number: int
    name: str


class RdmaRate(Struct, frozen=True):
    """``400 Gb/sec (4X NDR)``."""

    gbit_per_s: float
    lanes: int
    generation: str
    """``NDR``, ``HDR``, … ; empty for rates below DDR, which the kernel does not name."""


class AerCounters(Struct, frozen=True):
    """``aer_dev_correctable``, ``aer_dev_fatal`` or ``aer_dev_nonfatal``: errors since boot."""

    by_name: dict[str, int]
    total: int

    @property
    def raised(self) -> dict[str, int]:
        return {name: count for name, count in self.by_name.items() if count}


def one_line(text: str, what: str) -> str:
    """The single line that a sysfs file holds. ``what`` names the file in the refusal."""
    plain = clean(text).strip()
    if "\n" in plain:
        raise NotUnderstoodError(
            f"{what} should be one line, but goes on after '{excerpt(plain)}'."
        )
    return plain


def parse_number(text: str, what: str) -> int:
    """A decimal or ``0x`` number. Raises NotUnderstoodError for anything else, empty too."""
    plain = one_line(text, what)
    return hexadecimal(plain, what) if plain[:2].lower() == "0x" else whole(plain, what)


def parse_numa_node(text: str) -> int | None:
    """``/sys/…/numa_node``; None for -1, which is "the firmware did not say"."""
    node = parse_number(text, "numa_node")
    if node < -1:
        raise NotUnderstoodError(f"numa_node should be -1 or a node, but is {node}.")
    return None if node == -1 else node


def parse_counter(text: str, what: str) -> int | None:
    """A counter of a port; None where the device has no such counter (``N/A (no PMA)``)."""
    plain = one_line(text, what)
    return None if plain in _ABSENT else natural(plain, what)


def parse_state(text: str, what: str) -> NumberedState:
    """``4: ACTIVE`` or ``5: LinkUp`` of an RDMA port."""
    plain = one_line(text, what)
    match = _STATE.fullmatch(plain)
    if match is None:
        raise NotUnderstoodError(f"{what} should be like '4: ACTIVE', but is '{excerpt(plain)}'.")
    return NumberedState(int(match.group(1)), match.group(2).strip())


def parse_rdma_rate(text: str) -> RdmaRate:
    """``rate`` of an RDMA port. A down port has a rate as well: look at its state."""
    plain = one_line(text, "rate")
    match = _RATE.fullmatch(plain)
    if match is None:
        raise NotUnderstoodError(
            f"rate should be like '400 Gb/sec (4X NDR)', but is '{excerpt(plain)}'."
        )
    return RdmaRate(decimal(match.group(1), "rate"), int(match.group(2)), match.group(3) or "")


def parse_net_speed(text: str) -> int | None:
    """``/sys/class/net/X/speed`` in Mbit/s; None for a link that is down or has no speed.

    The kernel says -1 (unknown) or an empty read error; old kernels say 65535 or 4294967295.
    """
    plain = one_line(text, "speed")
    if plain in ("", "-1", "65535", "4294967295"):
        return None
    return natural(plain, "speed") or None


def parse_aer(text: str, what: str) -> AerCounters:
    """Counters by error name, with the total that the kernel adds up.

    Raises NotUnderstoodError without the TOTAL line, which is the last: the text is cut off.
    """
    by_name: dict[str, int] = {}
    total: int | None = None
    for line in clean(text).splitlines():
        if not line.strip():
            continue
        match = _COUNTER.fullmatch(line.strip())
        if match is None:
            raise NotUnderstoodError(f"{what}: '{excerpt(line)}' should be a name and a count.")
        name, count = match.group(1), int(match.group(2))
        if name.startswith("TOTAL_ERR_"):
            total = count
        elif name in by_name:
            raise NotUnderstoodError(f"{what} counts '{excerpt(name, 40)}' twice.")
        else:
            by_name[name] = count
    if total is None:
        raise NotUnderstoodError(f"{what} has no TOTAL_ERR line: it is empty or cut off.")
    return AerCounters(by_name, total)


def parse_choice(text: str, what: str) -> str:
    """The chosen word of ``always [madvise] never``; a single word stands for itself."""
    plain = one_line(text, what)
    chosen = _CHOICE.findall(plain)
    if len(chosen) == 1:
        return str(chosen[0])
    if not chosen and plain and " " not in plain and "[" not in plain:
        return plain
    raise NotUnderstoodError(f"{what}: no single choice is marked in '{excerpt(plain)}'.")


def parse_iommu_type(text: str) -> str:
    """``/sys/kernel/iommu_groups/N/type``: ``identity`` is passthrough."""
    plain = one_line(text, "type")
    known = ("DMA", "DMA-FQ", "identity", "blocked", "auto", "unmanaged", "unknown")
    if plain not in known:
        raise NotUnderstoodError(f"'{excerpt(plain, 40)}' is not a type of IOMMU group.")
    return plain


def parse_uevent(text: str, what: str = "uevent") -> dict[str, str]:
    """``KEY=value`` lines: ``PCI_SLOT_NAME=0000:84:00.0``."""
    values: dict[str, str] = {}
    for line in clean(text).splitlines():
        if not line.strip():
            continue
        key, equals, value = line.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key.strip()):
            raise NotUnderstoodError(f"{what}: '{excerpt(line)}' should be KEY=value.")
        values[key.strip()] = value.strip()
    if not values:
        raise NotUnderstoodError(f"{what} is empty.")
    return values
