"""The kernel driver of each vendor: loaded, installed for the running kernel, and its libraries."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError
from hfprov.evidence.accelerators.adapters import ADAPTERS, Adapter
from hfprov.evidence.accelerators.model import Vendor
from hfprov.evidence.modinfo import module_field
from hfprov.evidence.text import clean
from hfprov.reading import Observation, Read, Source, file, listing
from hfprov.regex import regex

PROC_VERSION = file("/proc/driver/nvidia/version", limit=4096)
LICENSE = module_field("license", "nvidia")
LIBRARIES = (
    listing("/usr/lib/*/libnvidia-ml.so.[0-9]*", most=64),
    listing("/usr/lib64/libnvidia-ml.so.[0-9]*", most=64),
)
_PROC_VERSION = regex(r"(?:Kernel Module|Module for \S+)(?: for \S+)?\s+([0-9]+\.[0-9.]+)")
_LIBRARY = regex(r".*/libnvidia-ml\.so\.([0-9]+\.[0-9.]+)")


def _loaded(module: str) -> Read:
    return file(f"/sys/module/{module}/initstate", limit=64)


def _version(module: str) -> Read:
    return file(f"/sys/module/{module}/version", limit=256)


def _installed(module: str) -> Read:
    return module_field("version", module)


class Driver(Struct, frozen=True):
    """One vendor's kernel driver. A version is empty when the driver has none, or it is unknown."""

    module: str
    loaded: bool
    version: str = ""
    """Of the loaded module."""
    installed: bool | None = None
    """Whether there is a module for the running kernel; None when modinfo cannot say."""
    installed_version: str = ""
    libraries: tuple[str, ...] = ()
    """Versions of the user-space library that are installed."""
    open_module: bool | None = None
    """NVIDIA: whether the installed module is the open one; None when not known."""


def _reads(_: Baseline) -> tuple[Read, ...]:
    per_module = [
        read(module)
        for one in ADAPTERS
        for module in one.modules
        for read in (_loaded, _version, _installed)
    ]
    return (*per_module, PROC_VERSION, LICENSE, *LIBRARIES)


def _parse(seen: Observation, _: Baseline) -> Mapping[Vendor, Driver]:
    found = {}
    for one in ADAPTERS:
        drivers = [_driver(module, seen) for module in one.modules]
        loaded = next((driver for driver in drivers if driver.loaded), None)
        installed = next((driver for driver in drivers if driver.installed), None)
        found[one.vendor] = _completed(one, loaded or installed or drivers[0], seen)
    return found


DRIVERS: Source[Mapping[Vendor, Driver]] = Source("accelerator drivers", _reads, _parse)
"""One entry per vendor, loaded or not."""


def _driver(module: str, seen: Observation) -> Driver:
    present = seen.exists(_loaded(module))
    listed, version = _modinfo(module, seen)
    return Driver(
        module,
        loaded=present,
        version=_text(_version(module), seen) if present else "",
        installed=listed,
        installed_version=version,
    )


def _modinfo(module: str, seen: Observation) -> tuple[bool | None, str]:
    """Whether modinfo finds the module, and its version. Modules of the kernel have none."""
    result = seen.one(_installed(module))
    if not result.ok:
        return None, ""
    return result.code == 0, _first_line(result.text) if result.code == 0 else ""


def _completed(one: Adapter, driver: Driver, seen: Observation) -> Driver:
    if one.vendor is not Vendor.NVIDIA:
        return driver
    proc = _PROC_VERSION.search(_text(PROC_VERSION, seen))
    libraries = sorted(
        {
            match.group(1)
            for read in LIBRARIES
            for result in seen.each(read)
            if (match := _LIBRARY.fullmatch(result.name))
        }
    )
    license_result = seen.one(LICENSE)
    says = clean(license_result.text).strip() if license_result.code == 0 else ""
    return Driver(
        driver.module,
        driver.loaded,
        version=driver.version or (proc.group(1) if proc else ""),
        installed=driver.installed,
        installed_version=driver.installed_version,
        libraries=tuple(libraries),
        open_module="MIT" in says if says else None,
    )


def _text(read: Read, seen: Observation) -> str:
    try:
        return clean(seen.text(read)).strip()
    except NoEvidenceError:
        return ""


def _first_line(text: str) -> str:
    return clean(text).strip().split("\n", 1)[0][:60]
