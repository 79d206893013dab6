"""What accelerators' drivers are called: ``catalogue/driver_packages.yml``; and which one fits."""

from __future__ import annotations

from datetime import date
from functools import cache

from pydantic import BaseModel, ConfigDict, model_validator

from hfprov.catalogue.compatibility import Matrix, compatibility
from hfprov.catalogue.data import catalogue


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    checked_on: date


class VendorDriver(_Row):
    """What belongs to one vendor's driver. See the head of the file for the lists."""

    modules: tuple[str, ...]
    builds: tuple[str, ...]
    held: tuple[str, ...]
    others: tuple[str, ...]
    same: tuple[str, ...]

    def owns(self, package: str) -> bool:
        """Whether a package belongs to the driver, so that nothing may update it by itself."""
        return package.startswith(self.held) and not package.startswith(self.others)

    def moves_with_driver(self, package: str) -> bool:
        """Whether a package must be of exactly the driver's version."""
        return package.startswith(self.same) and self.owns(package)


class Distribution(_Row):
    """Names of packages in one release of a distribution."""

    os: str
    """``ID VERSION`` as in os-release(5); ``el 9`` for all that are like it."""
    nvidia_proprietary: tuple[str, ...]
    nvidia_open: tuple[str, ...]
    fabric_manager: tuple[str, ...]
    amd: tuple[str, ...]
    gaudi: tuple[str, ...]


class Drivers(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sources: dict[str, str]
    vendors: dict[str, VendorDriver]
    distributions: tuple[Distribution, ...]

    @model_validator(mode="after")
    def _sources(self) -> Drivers:
        for row in (*self.vendors.values(), *self.distributions):
            if row.source not in self.sources:
                raise ValueError(f"The source '{row.source}' is not in the list of sources.")
        return self

    def distribution(self, os_id: str, version: str) -> Distribution | None:
        """The names of a node's distribution; None for one that is not known."""
        major = version.partition(".")[0]
        names = {f"{os_id} {version}", f"{os_id} {major}"}
        if os_id in _LIKE_EL:
            names.add(f"el {major}")
        return next((one for one in self.distributions if one.os in names), None)


_LIKE_EL = frozenset({"rhel", "rocky", "almalinux", "centos", "ol"})


@cache
def drivers() -> Drivers:
    return Drivers.model_validate(catalogue("driver_packages.yml"))


OPEN_FROM_BRANCH = 560
"""From this branch on NVIDIA's packages install the open module unless told otherwise
(driver installation guide, kernel modules)."""


def module_flavour(accelerator: str, matrix: Matrix | None = None) -> str:
    """``open`` or ``proprietary`` where a model works with that module alone, else ``either``."""
    for row in (matrix or compatibility()).rows:
        models = row.when.get("accelerator", ())
        listed = models if isinstance(models, tuple) else (models,)
        needed = row.require.get("open_module")
        if accelerator in listed and isinstance(needed, bool):
            return "open" if needed else "proprietary"
    return "either"
