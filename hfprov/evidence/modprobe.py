"""Which kernel modules may not be loaded, who needs one, and which are loaded.

``install NAME /bin/false`` keeps a module from being loaded by any name, ``blacklist NAME`` from
being loaded for a device or file system that asks for it (modprobe.d(5)); on the kernel's command
line ``module_blacklist=`` and ``modprobe.blacklist=`` do so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NotUnderstoodError
from hfprov.evidence.system import CMDLINE, MOUNTS
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import Observation, Result, Source, complete_text, file, glob
from hfprov.regex import regex

PLACES = ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib")
"""Highest first: a file hides one of the same name in a later place."""
DIRECTORIES = tuple(glob(f"{place}/modprobe.d/*.conf") for place in PLACES)
FSTAB = file("/etc/fstab")
MOUNT_UNITS = glob("/etc/systemd/system/*.mount")
LOADED = file("/proc/modules", limit=1 << 20)
_REFUSING = regex(r"(/usr)?/bin/(true|false)\b")
MODULES_OF: Mapping[str, tuple[str, ...]] = {
    "vfat": ("vfat", "fat"),
    "msdos": ("msdos", "fat"),
    "iso9660": ("isofs",),
    "nfs4": ("nfs", "nfsv4"),
    "ext2": ("ext2", "ext4"),
    "ext3": ("ext3", "ext4"),
}
"""Modules by kind of file system, where the names differ."""


class Ban(Struct, frozen=True):
    """One line that keeps a module from being loaded."""

    module: str
    """With ``_``: modprobe does not tell ``-`` and ``_`` apart."""
    path: str
    statement: str


class Modprobe(Struct, frozen=True):
    """All bans, and the files that were read."""

    bans: tuple[Ban, ...]
    results: Mapping[str, Result]


def parse_statements(text: str) -> tuple[str, ...]:
    """Lines of a file of modprobe.d without comments and surplus blanks."""
    joined = clean(text).replace("\\\n", " ")
    lines = (" ".join(line.split()) for line in joined.splitlines())
    return tuple(line for line in lines if line and line[0] != "#")


def bans_in(text: str, path: str) -> tuple[Ban, ...]:
    """The bans of one file of modprobe.d."""
    found = []
    for statement in parse_statements(text):
        words = statement.split(" ", 2)
        refuses = words[0] == "install" and len(words) == 3 and _REFUSING.match(words[2])
        if refuses or (words[0] == "blacklist" and len(words) == 2):
            found.append(Ban(words[1].replace("-", "_"), path, statement))
    return tuple(found)


def _bans_at_boot(cmdline: str) -> tuple[Ban, ...]:
    found = re.findall(r"(?:^|\s)((?:module_blacklist|modprobe\.blacklist)=(\S+))", clean(cmdline))
    return tuple(
        Ban(name.replace("-", "_"), "the kernel's command line", statement)
        for statement, names in found
        for name in names.split(",")
    )


def _parse_modprobe(seen: Observation, _: Baseline) -> Modprobe:
    by_name: dict[str, Result] = {}
    results = {}
    bans: list[Ban] = []
    for read in DIRECTORIES:
        for result in seen.each(read):
            results[result.name] = result
            if by_name.setdefault(result.name.rpartition("/")[2], result) is result:
                # A link to /dev/null hides a file; it is not a regular file.
                text = complete_text(read, result) if result.type == "file" else ""
                bans += bans_in(text, result.name)
    return Modprobe((*bans, *_bans_at_boot(seen.text(CMDLINE))), results)


MODPROBE: Source[Modprobe] = Source(
    "bans of modules", lambda _: (*DIRECTORIES, CMDLINE), _parse_modprobe
)


class Mount(Struct, frozen=True):
    """A file system that is mounted, or will be."""

    target: str
    kind: str
    options: tuple[str, ...]
    path: str
    """Where that is said."""


def parse_mounts(text: str, path: str) -> tuple[Mount, ...]:
    """Lines of ``/proc/self/mounts`` or fstab(5). ``auto`` and ``none`` are kinds, too."""
    found = []
    for raw in clean(text).splitlines():
        fields = raw.split("#")[0].split()
        if not fields:
            continue
        if len(fields) < 4:
            raise NotUnderstoodError(f"'{excerpt(raw)}' in '{path}' is not a mount.")
        found += [
            Mount(fields[1], kind, tuple(fields[3].split(",")), path)
            for kind in fields[2].split(",")
        ]
    return tuple(found)


def _parse_mounts(seen: Observation, _: Baseline) -> tuple[Mount, ...]:
    found = list(parse_mounts(seen.text(MOUNTS), "/proc/self/mounts"))
    if seen.exists(FSTAB):
        found += parse_mounts(seen.text(FSTAB), "/etc/fstab")
    for result in seen.each(MOUNT_UNITS):
        text = complete_text(MOUNT_UNITS, result) if result.type == "file" else ""
        where = re.search(r"^\s*Where\s*=\s*(\S+)", clean(text), re.MULTILINE)
        kind = re.search(r"^\s*Type\s*=\s*(\S+)", clean(text), re.MULTILINE)
        if where and kind:
            found.append(Mount(where[1], kind[1], (), result.name))
    return tuple(found)


ALL_MOUNTS: Source[tuple[Mount, ...]] = Source(
    "mounts, now and at boot", lambda _: (MOUNTS, FSTAB, MOUNT_UNITS), _parse_mounts
)


def modules_of(mount: Mount) -> tuple[str, ...]:
    """Modules that a file system of this kind needs."""
    return MODULES_OF.get(mount.kind, (mount.kind.partition(".")[0],))


def _parse_loaded(seen: Observation, _: Baseline) -> frozenset[str]:
    found = set()
    for line in clean(seen.text(LOADED)).splitlines():
        name = line.split(" ", 1)[0]
        if not re.fullmatch(r"\w+", name):
            raise NotUnderstoodError(f"'{excerpt(line)}' is not a line of '/proc/modules'.")
        found.add(name)
    return frozenset(found)


LOADED_MODULES: Source[frozenset[str]] = Source(
    "loaded modules", lambda _: (LOADED,), _parse_loaded
)
