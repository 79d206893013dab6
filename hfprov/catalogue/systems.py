"""Operating systems and kernel series that hfprov knows: ``catalogue/os_support.yml``."""

from __future__ import annotations

from datetime import date
from functools import cache
from typing import Literal

from pydantic import BaseModel, ConfigDict

from hfprov.catalogue.data import catalogue


class System(BaseModel):
    """One operating system release, and how far hfprov is proven on it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    version: str
    level: Literal["tested", "implemented"]
    kernel: str
    """The series of the distribution's own long-term kernel, e.g. ``6.1``."""
    lts_until: date
    source: str
    checked_on: date

    def matches(self, os_id: str, version: str) -> bool:
        """Whether an os-release says this system; ``9`` stands for every ``9.x``."""
        return self.id == os_id and (
            version == self.version or version.startswith(self.version + ".")
        )


class LongTerm(BaseModel):
    """A kernel series that kernel.org maintains until a date."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    series: str
    until: date


class Systems(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    systems: tuple[System, ...]
    kernel_org_longterm: tuple[LongTerm, ...]
    kernel_org_source: dict[str, str | date]

    def find(self, os_id: str, version: str) -> System | None:
        return next((one for one in self.systems if one.matches(os_id, version)), None)

    def long_term(self, series: str) -> LongTerm | None:
        return next((one for one in self.kernel_org_longterm if one.series == series), None)


@cache
def systems() -> Systems:
    return Systems.model_validate(catalogue("os_support.yml"))
