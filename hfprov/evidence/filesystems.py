"""How full file systems are, and whether they may be written: ``df`` and the mounts of a process.

A file system without a free inode takes no new file, however much room it has; df(1), df -i.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NotUnderstoodError
from hfprov.evidence.system import MOUNTS
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import Observation, Read, Result, Source, command
from hfprov.regex import regex

_ON_DISK = ("/", "/var", "/tmp", "/boot")  # noqa: S108 - asked about, not used
SHARED = "/dev/shm"  # noqa: S108 - as above
_PLACES = (*_ON_DISK, "/run", SHARED)
_OPTIONS = ("-k", "--output=size,avail,itotal,iavail,target")
_HEADING = ["1K-blocks", "Avail", "Inodes", "IFree", "Mounted", "on"]
_WHOLE = r"([0-9]{1,20})"
_COUNT = r"([0-9]{1,20}|-)"
_LINE = regex(rf"\s*{_WHOLE}\s+{_WHOLE}\s+{_COUNT}\s+{_COUNT}\s+(.+)")
_LINE_OF_OLD = regex(rf"\S+\s+{_WHOLE}\s+[0-9]+\s+{_WHOLE}\s+\S+\s+(.+)")


@dataclass(frozen=True, slots=True)
class _DiskFree(Read):
    """Room and inodes in one ``df``; evidence of earlier versions has that of disks alone."""

    def answered_by(self, results: Mapping[str, tuple[Result, ...]]) -> tuple[Result, ...] | None:
        found = results.get(command("df", *_OPTIONS, *_ON_DISK).id)
        return found or results.get(command("df", "-P", "-k", *_ON_DISK).id)


_ASKED = command("df", *_OPTIONS, *_PLACES)
DISK_FREE = _DiskFree(_ASKED.id, _ASKED.request)


class Room(Struct, frozen=True):
    """How much of a file system is free: KiB, and inodes where their number is bounded."""

    size_kib: int
    available_kib: int
    inodes: int = 0
    """0: the file system makes inodes as it needs them (btrfs, vfat), or df was not asked."""
    inodes_available: int = 0


class FileSystem(Struct, frozen=True):
    """One mounted file system."""

    mount: str
    room: Room
    read_only: bool

    @property
    def used_percent(self) -> float:
        return _used_percent(self.room.available_kib, self.room.size_kib)

    @property
    def inodes_used_percent(self) -> float | None:
        """None where their number is not bounded, or not known."""
        if not self.room.inodes:
            return None
        return _used_percent(self.room.inodes_available, self.room.inodes)


def _used_percent(available: int, size: int) -> float:
    return 100.0 * (1 - available / size) if size else 100.0


def parse_df(text: str) -> dict[str, Room]:
    """Room by mount, each once: ``df -k --output=size,avail,itotal,iavail,target`` or ``df -P``."""
    heading, *lines = clean(text).splitlines() or [""]
    of_old = heading.startswith("Filesystem")
    if not of_old and heading.split() != _HEADING:
        raise NotUnderstoodError("The output of 'df' has no heading.")
    found = {}
    for line in lines:
        fields = (_LINE_OF_OLD if of_old else _LINE).fullmatch(line)
        if fields is None:
            raise NotUnderstoodError(f"'{excerpt(line)}' is not a line of 'df'.")
        *numbers, mount = fields.groups()
        found[mount] = Room(*(0 if one == "-" else int(one) for one in numbers))
    return found


def _parse(seen: Observation, _: Baseline) -> tuple[FileSystem, ...]:
    # df exits 1 when one of the paths does not exist, and prints the others.
    rooms = parse_df(seen.text(DISK_FREE, codes=(0, 1)))
    options: dict[str, list[str]] = {}
    for line in clean(seen.text(MOUNTS)).splitlines():
        fields = line.split()
        if len(fields) >= 4:
            options[fields[1]] = fields[3].split(",")
    if "/" not in rooms or "/" not in options:
        raise NotUnderstoodError("The root file system is missing from 'df' or from the mounts.")
    return tuple(
        FileSystem(mount, room, "ro" in options.get(mount, ())) for mount, room in rooms.items()
    )


FILESYSTEMS: Source[tuple[FileSystem, ...]] = Source(
    "filesystems", lambda _: (DISK_FREE, MOUNTS), _parse
)
