"""What a node has of an accelerator's driver as packages, files and services.

The names of the packages are asked for by their beginnings, so that one that was never declared is
seen too. Holds are dpkg's; on Enterprise Linux they are lines of dnf's versionlock.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.catalogue.drivers import drivers
from hfprov.errors import NoEvidenceError
from hfprov.evidence.dpkg_query import one_query
from hfprov.evidence.kernel_packages import LOCKS, Manager, parse_dpkg, parse_rpm
from hfprov.evidence.systemd import Properties
from hfprov.evidence.systemd_units import shown_units, units
from hfprov.evidence.text import clean
from hfprov.reading import Observation, Read, Result, Source, command, file

REPOSITORY_APT = "/etc/apt/sources.list.d/hfprov-accelerator.sources"
REPOSITORY_DNF = "/etc/yum.repos.d/hfprov-accelerator.repo"
REPOSITORY_KEY = "/etc/pki/rpm-gpg/RPM-GPG-KEY-hfprov-accelerator"
PIN = "/etc/apt/preferences.d/90-hfprov-accelerator.pref"
EXCLUSION = "/etc/apt/apt.conf.d/91hfprov-accelerator"
NOUVEAU = "/etc/modprobe.d/hfprov-accelerator.conf"
MODULES_LOAD = "/etc/modules-load.d/hfprov-accelerator.conf"
PERSISTENCED, FABRIC_MANAGER = "nvidia-persistenced.service", "nvidia-fabricmanager.service"
DROP_INS = {
    unit: f"/etc/systemd/system/{unit}.d/90-hfprov-accelerator.conf"
    for unit in (PERSISTENCED, FABRIC_MANAGER)
}
_PATHS = (
    *(REPOSITORY_APT, REPOSITORY_DNF, REPOSITORY_KEY, PIN, EXCLUSION, NOUVEAU, MODULES_LOAD),
    *DROP_INS.values(),
)
FILES = tuple(file(path) for path in _PATHS)


def _parse_files(seen: Observation, _: Baseline) -> Mapping[str, Result]:
    found = [seen.one(read) for read in FILES]
    return {result.name: result for result in found if result.status != "absent"}


DRIVER_FILES: Source[Mapping[str, Result]] = Source(
    "files of the driver", lambda _: FILES, _parse_files
)
"""The files of the role 'accelerator' that are there, by path."""

_DPKG_FORMAT = r"${db:Status-Abbrev}\t${Package}\t${Version}\t${Architecture}\t${Depends}\n"
_RPM_FORMAT = r"%{NAME}\t%{VERSION}-%{RELEASE}\t%{ARCH}\n"


def _declared_names(baseline: Baseline) -> tuple[str, ...]:
    words = (str(one).partition("=")[0] for one in baseline.get("accelerator_packages") or ())
    return tuple(name for name in words if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.+_-]*", name))


def _package_reads(baseline: Baseline) -> tuple[Read, Read, Read]:
    beginnings = sorted({name for one in drivers().vendors.values() for name in one.held})
    named = (one for one in _declared_names(baseline) if not one.startswith(tuple(beginnings)))
    names = (*(f"{name}*" for name in beginnings), *named)
    dpkg = one_query(command("dpkg-query", "-W", f"--showformat={_DPKG_FORMAT}", "dpkg", *names))
    rpm = command("rpm", "-qa", "--queryformat", _RPM_FORMAT, *names)
    return dpkg, rpm, LOCKS


class DriverPackage(Struct, frozen=True):
    """One package of a driver."""

    version: str
    is_held: bool
    is_whole: bool
    """Whether its installation ended."""

    @property
    def upstream(self) -> str:
        """The vendor's version, without the epoch and revision of the distribution."""
        return plain_version(self.version)

    def is_of(self, version: str) -> bool:
        """Whether it is the declared version: as a whole, or without epoch and revision."""
        whole = re.sub(r"^\d+:", "", self.version)
        return version in (self.version, whole, plain_version(self.version))


def plain_version(version: str) -> str:
    """``1:535.161.08-2~deb12u1`` is ``535.161.08`` of the vendor."""
    without_epoch = re.sub(r"^\d+:", "", version)
    return without_epoch.rpartition("-")[0] or without_epoch


def _parse_packages(seen: Observation, baseline: Baseline) -> Mapping[str, DriverPackage]:
    dpkg, rpm, locks = _package_reads(baseline)
    if seen.exists(dpkg):
        # It ends with 1 when one of the patterns matched nothing.
        found = parse_dpkg(seen.text(dpkg, codes=(0, 1)))
    elif seen.exists(rpm):
        locked = seen.text(locks) if seen.exists(locks) else ""
        found = parse_rpm(seen.text(rpm), locked)
    else:
        raise NoEvidenceError("The node has neither 'dpkg-query' nor 'rpm'.")
    return {
        name: DriverPackage(those[0].version, those[0].is_held, those[0].is_whole)
        for name, those in found.packages.items()
        if not (found.manager is Manager.DPKG and name == "dpkg")
    }


DRIVER_PACKAGES: Source[Mapping[str, DriverPackage]] = Source(
    "packages of the driver", _package_reads, _parse_packages
)
"""Installed packages of drivers by name, those that were declared by name among them."""

_UNITS = units(
    *DROP_INS, properties=("ActiveState", "SubState", "UnitFileState", "NeedDaemonReload")
)
DRIVER_UNITS: Source[Mapping[str, Properties]] = Source(
    "services of the driver", lambda _: (_UNITS,), lambda seen, _: shown_units(seen, _UNITS)[1]
)

_ASCEND = {
    part: file(f"/usr/local/Ascend/{part}/version.info", limit=4096)
    for part in ("driver", "firmware")
}


def _parse_ascend(seen: Observation, _: Baseline) -> Mapping[str, str]:
    found = {}
    for part, read in _ASCEND.items():
        if seen.exists(read):
            match = re.search(
                r"^version=(\S+)", clean(seen.text(read)), re.MULTILINE | re.IGNORECASE
            )
            found[part] = match[1] if match else ""
    return found


ASCEND_VERSIONS: Source[Mapping[str, str]] = Source(
    "ascend versions", lambda _: tuple(_ASCEND.values()), _parse_ascend
)
"""What the installers of ``driver`` and ``firmware`` wrote down; a part that is absent is left
out, and one without a version is ''."""
