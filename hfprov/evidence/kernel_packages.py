"""Packages of kernels and headers: what is installed, held, and which kernel is the declared one.

On Debian and Ubuntu a package without a kernel in it (``linux-image-amd64``) depends on the one
that has it: the release is read there, and never guessed from a version. On Enterprise Linux
``kernel-core`` is installed several times, each with its version in the release.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.dpkg_query import one_query
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import Observation, Source, command, file, glob

_FORMAT = r"${db:Status-Abbrev}\t${Package}\t${Version}\t${Architecture}\t${Depends}\n"
DPKG = one_query(command("dpkg-query", "-W", f"--showformat={_FORMAT}", "dpkg", "linux-*"))
RPM = command(
    *("rpm", "-q", "--queryformat", r"%{NAME}\t%{VERSION}-%{RELEASE}\t%{ARCH}\n"),
    *("kernel-core", "kernel", "kernel-devel", "kernel-modules", "kernel-modules-core"),
)
PREFERENCES = (glob("/etc/apt/preferences.d/*"), file("/etc/apt/preferences"))
LOCKS = file("/etc/dnf/plugins/versionlock.list")
JOURNAL = glob("/var/lib/dpkg/updates/[0-9]*", limit=1)
_FIELDS = 5
_BROKEN = frozenset("HUF")


class Manager(StrEnum):
    """The family of packages."""

    DPKG = "dpkg"
    RPM = "rpm"


class Package(Struct, frozen=True):
    """One package that is there, whole or not."""

    name: str
    version: str
    is_held: bool
    is_whole: bool
    """Whether its installation ended."""
    depends: str
    """dpkg's field, as it stands."""

    def release(self, prefix: str) -> str | None:
        """The release of the kernel that it depends on: ``6.1.0-42-amd64``."""
        found = re.findall(
            rf"(?:^|[,|]\s*){re.escape(prefix)}(?:unsigned-)?(\d[^\s,(|]*)", self.depends
        )
        return found[0] if found else None


class KernelPackages(Struct, frozen=True):
    """All of them."""

    manager: Manager
    architecture: str
    """dpkg's name of it, ``amd64``; rpm's, ``x86_64``."""
    packages: Mapping[str, tuple[Package, ...]]
    """By name; rpm installs several of one name."""
    is_interrupted: bool
    """dpkg was killed, and has to be told to go on before anything else."""

    def get(self, name: str) -> Package | None:
        return next(iter(self.packages.get(name, ())), None)

    def releases(self) -> tuple[str, ...]:
        """Kernels that are installed as packages."""
        if self.manager is Manager.RPM:
            return tuple(
                f"{one.version}.{self.architecture}" for one in self.packages.get("kernel-core", ())
            )
        found = (re.fullmatch(r"linux-image-(?:unsigned-)?(\d.*)", name) for name in self.packages)
        # Debian's packages of debugging symbols have no kernel.
        return tuple(match[1] for match in found if match and not match[1].endswith("-dbg"))


def parse_dpkg(text: str, *, interrupted: bool = False) -> KernelPackages:
    """From ``dpkg-query``. Packages of which only configuration is left are not there.

    Raises NotUnderstoodError for a line of another form, and when not even dpkg is listed.
    """
    found: dict[str, tuple[Package, ...]] = {}
    architecture = ""
    for line in clean(text).splitlines():
        fields = line.split("\t")
        if len(fields) != _FIELDS or len(fields[0]) < len("ii"):
            raise NotUnderstoodError(f"'{excerpt(line)}' is not a line of 'dpkg-query'.")
        codes, name, version, its_architecture, depends = fields
        if name == "dpkg":
            architecture = its_architecture
        elif codes[1] not in "nc":
            whole = codes[1] not in _BROKEN and codes[2:3] != "R"
            found[name] = (Package(name, version, codes[0] == "h", whole, depends),)
    if not architecture:
        raise NotUnderstoodError("'dpkg-query' does not list dpkg itself.")
    return KernelPackages(Manager.DPKG, architecture, found, interrupted)


def parse_rpm(text: str, locks: str) -> KernelPackages:
    """From ``rpm -q`` and the file of dnf's versionlock. Raises NotUnderstoodError."""
    found: dict[str, tuple[Package, ...]] = {}
    architecture = ""
    for line in clean(text).splitlines():
        if re.fullmatch(r"package \S+ is not installed", line.strip()):
            continue
        fields = line.split("\t")
        if len(fields) != len(("name", "version", "architecture")):
            raise NotUnderstoodError(f"'{excerpt(line)}' is not a line of 'rpm -q'.")
        name, version, its_architecture = fields
        architecture = architecture or its_architecture
        held = is_locked(name, version, locks)
        one = Package(name, version, held, is_whole=True, depends="")
        found[name] = (*found.get(name, ()), one)
    return KernelPackages(Manager.RPM, architecture, found, is_interrupted=False)


def is_locked(name: str, version: str, locks: str) -> bool:
    """Whether dnf's versionlock keeps a package at a version (without its epoch)."""
    entry = re.compile(rf"{re.escape(name)}-(?:\d+:)?{re.escape(version)}(?:\.\S+)?")
    return any(entry.fullmatch(line.strip()) for line in clean(locks).splitlines())


def _parse_packages(seen: Observation, _: Baseline) -> KernelPackages:
    if seen.exists(DPKG):
        # 1: some pattern matched nothing.
        journal = any(one.status != "absent" for one in seen.each(JOURNAL))
        return parse_dpkg(seen.text(DPKG, codes=(0, 1)), interrupted=journal)
    if not seen.exists(RPM):
        raise NoEvidenceError("The node has neither 'dpkg-query' nor 'rpm'.")
    locks = seen.text(LOCKS) if seen.exists(LOCKS) else ""
    # The exit code is the number of names that are not installed.
    return parse_rpm(seen.text(RPM, codes=range(6)), locks)


KERNEL_PACKAGES: Source[KernelPackages] = Source(
    "packages of kernels", lambda _: (DPKG, RPM, LOCKS, JOURNAL), _parse_packages
)
