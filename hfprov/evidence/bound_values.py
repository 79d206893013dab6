"""What bounds CPUs and memory, as systemd and the kernel write it; systemd.resource-control(5)."""

from __future__ import annotations

import math
import re
from enum import StrEnum

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.cpulist import parse_cpulist
from hfprov.evidence.limits import amount
from hfprov.evidence.text import excerpt
from hfprov.regex import regex


class Kind(StrEnum):
    """What is bounded."""

    CPUS = "CPUs"
    NODES = "NUMA nodes"
    QUOTA = "time of CPUs"
    MEMORY = "memory"
    POLICY = "policy of memory"


OF_SETTING = {
    "CPUAffinity": Kind.CPUS,
    "NUMAPolicy": Kind.POLICY,
    "AllowedCPUs": Kind.CPUS,
    "AllowedMemoryNodes": Kind.NODES,
    "CPUQuota": Kind.QUOTA,
    "MemoryMax": Kind.MEMORY,
    "MemoryHigh": Kind.MEMORY,
    "MemoryLimit": Kind.MEMORY,
}
"""Settings of systemd; the last one is for older control groups."""


class Whole(Struct, frozen=True):
    """What the node has for work."""

    cpus: frozenset[int]
    """Running ones that the kernel's command line does not keep free."""
    nodes: frozenset[int]
    """NUMA nodes with memory; none where the kernel does not tell."""
    memory: float
    """Bytes."""


Amount = frozenset[int] | float | str
"""Numbers of CPUs or of NUMA nodes; a number of CPUs, or of bytes; the name of a policy."""


def numbers(text: str) -> frozenset[int]:
    """A list of CPUs or nodes as systemd or the kernel writes it. Raises NotUnderstoodError.

    >>> sorted(numbers("0-2 5"))
    [0, 1, 2, 5]
    """
    return frozenset(parse_cpulist(",".join(text.replace(",", " ").split())))


_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_SIZE = regex(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)([KMGTPE]?)B?")
_PERCENT = regex(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)%")


def time_per_second(text: str) -> float:
    """Seconds, of ``CPUQuotaPerSecUSec``: so many CPUs. Raises NotUnderstoodError.

    >>> time_per_second("1min 4s 500ms")
    64.5
    """
    if text == "infinity":
        return math.inf
    total = 0.0
    for word in text.split() or [""]:
        part = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(us|ms|s|min|h)", word)
        if part is None:
            raise NotUnderstoodError(f"'{excerpt(text)}' is not a time.")
        total += float(part[1]) * _UNITS[part[2]]
    return total


def of_setting(key: str, value: str, whole: Whole) -> Amount:
    """What a value of :data:`OF_SETTING` in a file stands for. Raises NotUnderstoodError."""
    kind, percent = OF_SETTING[key], _PERCENT.fullmatch(value)
    if kind is Kind.POLICY:
        return value
    if kind in (Kind.CPUS, Kind.NODES):
        # Of the node whose memory is used: never all CPUs of a machine with several.
        return frozenset() if value == "numa" else numbers(value)
    if kind is Kind.QUOTA:
        if percent is None:
            raise NotUnderstoodError(f"'{excerpt(value)}' is not a percentage.")
        return float(percent[1]) / 100
    if percent is not None:
        return whole.memory * float(percent[1]) / 100
    if size := _SIZE.fullmatch(value):
        return float(size[1]) * 1024.0 ** " KMGTPE".index(size[2] or " ")
    return amount(value)
