"""Who may use what every program needs: folders, devices, shells, sudo, lists of users and names.

Sources: file-hierarchy(7); null(4); passwd(5); shadow(5); sudo(8); rdma-core, kernel-boot rules for
udev; NVIDIA's driver, README, NVreg_DeviceFileMode.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError
from hfprov.evidence.text import excerpt
from hfprov.reading import Observation, Read, Result, Source, listing


class Wanted(Struct, frozen=True):
    """What others than root must be able to do at a place, and what they must not."""

    all_of: int
    """Bits of the mode that must be there."""
    none_of: int = 0
    """Bits that must not."""
    may_be_meant: bool = False
    """A site may have restricted it with an option of a driver."""


TEMPORARY = Wanted(0o1777)
DEVICE = Wanted(0o666)
READABLE = Wanted(0o444, 0o022)
# Debian gives it to the group shadow, to read.
SHADOW = Wanted(0, 0o037)
OF_A_DRIVER = Wanted(0o666, may_be_meant=True)
FOLDER = Wanted(0o555, 0o022)
SHELL = Wanted(0o555, 0o6022)
"""A shell that is somebody, whoever starts it, makes everybody this somebody."""
AS_ROOT = Wanted(0o4111, 0o022)

PLACES: Mapping[str, Wanted] = {
    # ruff: noqa: S108 - looked at, not written to
    **dict.fromkeys(("/tmp", "/var/tmp", "/dev/shm"), TEMPORARY),
    **dict.fromkeys(("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"), DEVICE),
    **dict.fromkeys(
        ("/etc/passwd", "/etc/group", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ld.so.cache"),
        READABLE,
    ),
    "/etc/shadow": SHADOW,
    **dict.fromkeys(("/", "/etc", "/usr", "/usr/bin", "/usr/sbin", "/var"), FOLDER),
    **dict.fromkeys(("/bin/sh", "/bin/bash"), SHELL),
    "/usr/bin/sudo": AS_ROOT,
    "/dev/infiniband/uverbs*": DEVICE,
    "/dev/infiniband/rdma_cm": DEVICE,
    "/dev/nvidia[0-9]*": OF_A_DRIVER,
    "/dev/nvidiactl": OF_A_DRIVER,
    "/dev/nvidia-uvm": OF_A_DRIVER,
}
"""Paths and globs; what is not there is not judged."""
_READS = {place: listing(place) for place in PLACES}


class Access(Struct, frozen=True):
    """One place as it is."""

    path: str
    mode: int
    owner: int
    wanted: Wanted

    @property
    def is_right(self) -> bool:
        right = self.mode & self.wanted.all_of == self.wanted.all_of
        return right and not self.mode & self.wanted.none_of and self.owner == 0

    @property
    def expected(self) -> str:
        words = [f"at least {self.wanted.all_of:04o}"] if self.wanted.all_of else []
        if self.wanted.none_of:
            words.append(f"none of {self.wanted.none_of:04o}")
        return f"mode with {', '.join(words)}, owner root"


def _reads(_: Baseline) -> tuple[Read, ...]:
    return tuple(_READS.values())


def _access(result: Result, wanted: Wanted) -> Access:
    if not result.ok or result.mode is None or result.uid is None:
        raise NoEvidenceError(f"'{excerpt(result.name, 200)}' could not be looked at.")
    return Access(excerpt(result.name, 200), result.mode, result.uid, wanted)


def _parse(seen: Observation, _: Baseline) -> tuple[Access, ...]:
    return tuple(
        _access(result, PLACES[place])
        for place, read in _READS.items()
        for result in seen.each(read)
        if result.status != "absent"
    )


ACCESS: Source[tuple[Access, ...]] = Source("access of users", _reads, _parse)
