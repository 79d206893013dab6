"""How large ``/dev/shm`` is now, and how large the next boot makes it.

It is a tmpfs; without a size that is half of the memory, and the kernel does not show that one;
tmpfs(5). systemd mounts it early in the boot, then with the options of a line of fstab, if there is
one; systemd-remount-fs.service(8).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NotUnderstoodError
from hfprov.evidence.host_hardware import MEMINFO, parse_memory_total
from hfprov.evidence.modprobe import FSTAB, Mount, parse_mounts
from hfprov.evidence.system import MOUNTS
from hfprov.evidence.text import excerpt
from hfprov.reading import Observation, Source
from hfprov.regex import regex

PLACE = "/dev/shm"  # noqa: S108 - looked at, not used
_UNITS = " kmgtpe"
_SIZE = regex(r"([0-9]{1,18})([kmgtpe%]?)", re.IGNORECASE)
_MIB = 1024**2


class SharedMemory(Struct, frozen=True):
    """One statement on ``/dev/shm``."""

    where: str
    """``/dev/shm`` itself, or the file that will mount it."""
    kind: str
    mib: float | None
    """None: no bound at all."""
    is_read_only: bool


class SharedMemories(Struct, frozen=True):
    """What is mounted, what fstab says, and the memory that it is a part of."""

    memory_mib: float
    live: SharedMemory | None
    """None: nothing is mounted there."""
    written: tuple[SharedMemory, ...]


def size_mib(options: Sequence[str], memory_mib: float) -> float | None:
    """MiB that a tmpfs of these options may hold; None: no bound. Raises NotUnderstoodError."""
    found: float | None = memory_mib / 2
    for option in options:
        name, _, value = option.partition("=")
        if name == "nr_blocks":
            raise NotUnderstoodError("'nr_blocks' counts pages of a size that is not known here.")
        if name != "size":
            continue
        match = _SIZE.fullmatch(value)
        if match is None:
            raise NotUnderstoodError(f"'{excerpt(option)}' is not a size of a tmpfs.")
        number, unit = int(match[1]), match[2].lower()
        if unit == "%":
            found = memory_mib * number / 100
        else:
            found = number * 1024.0 ** _UNITS.index(unit or " ") / _MIB
    return found or None


def parse_shared_memory(mounts: str, fstab: str, memory_mib: float) -> SharedMemories:
    """From ``/proc/self/mounts`` and fstab(5). Raises NotUnderstoodError."""
    # What is mounted last covers what was there before.
    live = _of(parse_mounts(mounts, "/proc/self/mounts"), memory_mib, PLACE)[-1:]
    written = _of(parse_mounts(fstab, "/etc/fstab"), memory_mib, "/etc/fstab")
    return SharedMemories(memory_mib, live[0] if live else None, written)


def _of(mounts: Sequence[Mount], memory_mib: float, where: str) -> tuple[SharedMemory, ...]:
    return tuple(
        SharedMemory(
            where,
            one.kind,
            size_mib(one.options, memory_mib) if one.kind == "tmpfs" else None,
            "ro" in one.options,
        )
        for one in mounts
        if one.target.rstrip("/") == PLACE
    )


def _parse(seen: Observation, _: Baseline) -> SharedMemories:
    memory_mib = parse_memory_total(seen.text(MEMINFO)) * 1024
    fstab = seen.text(FSTAB) if seen.exists(FSTAB) else ""
    return parse_shared_memory(seen.text(MOUNTS), fstab, memory_mib)


SHARED_MEMORY: Source[SharedMemories] = Source(
    "shared memory", lambda _: (MOUNTS, FSTAB, MEMINFO), _parse
)
