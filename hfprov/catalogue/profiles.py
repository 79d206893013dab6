"""Certification profiles: ``catalogue/profiles.yml``, or a file of the site's own."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from datetime import date
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from hfprov.catalogue.data import catalogue
from hfprov.catalogue.skus import NONE
from hfprov.errors import UsageError
from hfprov.words import plural

_FORBID = ConfigDict(extra="forbid", frozen=True)


class Diagnosis(BaseModel):
    """The vendor's own diagnosis (``hfprov diagnose``) that must have passed."""

    model_config = _FORBID

    level: int = Field(ge=1, le=4)
    """At least this thorough."""
    max_age_hours: float = Field(gt=0)
    same_boot: bool = True
    """Whether it must have run in the boot that is observed now."""


class ContainerSmoke(BaseModel):
    """The smoke test in containers (``hfprov container-smoke``) that must have passed."""

    model_config = _FORBID

    max_age_hours: float = Field(gt=0)
    same_boot: bool = True
    """Whether it must have run in the boot that is observed now."""
    together: bool = True
    """Whether the hosts certified together must have found each other in one run of it."""


class Gate(BaseModel):
    """What a measured value must reach on machines of some SKUs."""

    model_config = _FORBID

    sku: Annotated[str, Field(min_length=1)]
    """Pattern (fnmatch) of ``node_sku``; the first gate that matches is the one that counts."""
    at_least: float | None = None
    at_most: float | None = None
    source: Annotated[str, Field(min_length=1)]
    checked_on: date

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.at_least is None and self.at_most is None:
            raise ValueError("A gate needs 'at_least' or 'at_most'.")
        return self

    def holds(self, value: float) -> bool:
        above = self.at_least is None or value >= self.at_least
        return above and (self.at_most is None or value <= self.at_most)

    @property
    def words(self) -> str:
        parts = []
        if self.at_least is not None:
            parts.append(f"at least {self.at_least:g}")
        if self.at_most is not None:
            parts.append(f"at most {self.at_most:g}")
        return " and ".join(parts)


class Required(BaseModel):
    """A measurement that must be in the record, fresh, and within its gate."""

    model_config = _FORBID

    test: Annotated[str, Field(min_length=1)]
    parameters: Mapping[str, Any] = {}
    """Parameters that the measurement must have been made with, among others."""
    unit: Annotated[str, Field(min_length=1)]
    max_age_hours: float = Field(gt=0)
    min_samples: int = Field(default=1, ge=1)
    same_boot: bool = False
    only_with_accelerators: bool = True
    """Whether a node that is declared to have none is exempt."""
    gates: tuple[Gate, ...] = Field(min_length=1)

    def gate_for(self, sku: str) -> Gate | None:
        return next((one for one in self.gates if fnmatch.fnmatchcase(sku, one.sku)), None)


class Profile(BaseModel):
    """What must have been proven before a node gets a certificate, and how long it holds."""

    model_config = _FORBID

    title: str
    require: tuple[str, ...] = Field(min_length=1)
    """Patterns (fnmatch) of check ids. Each must match a check that has passed."""
    require_with_accelerators: tuple[str, ...] = ()
    """The same, except on nodes that are declared to have no accelerators."""
    observed_within_minutes: float = Field(default=60, gt=0)
    """How old the observation may be that a certificate rests on."""
    diagnosis: Diagnosis | None = None
    container_smoke: ContainerSmoke | None = None
    """Required of hosts that are declared to have a container runtime."""
    measurements: tuple[Required, ...] = ()
    uniform: bool = False
    """Whether all hosts certified together must be alike for the command to succeed."""
    validity_hours: float = Field(gt=0)

    def required(self, sku: str) -> tuple[str, ...]:
        """The patterns that apply to a node of this SKU."""
        return self.require if sku == NONE else self.require + self.require_with_accelerators


_PROFILES = TypeAdapter(dict[str, Profile])


@cache
def profiles() -> dict[str, Profile]:
    return _PROFILES.validate_python(catalogue("profiles.yml"))


def load_profiles(path: Path) -> dict[str, Profile]:
    """The profiles in a file of the site's. Raises UsageError with every problem of the file."""
    try:
        content = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"'{path}' cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"'{path}' is not YAML: {' '.join(str(error).split())}.") from error
    try:
        return _PROFILES.validate_python(content)
    except ValidationError as error:
        lines = [f"  {'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        raise UsageError(
            f"'{path}' has {plural(len(lines), 'problem')}:\n" + "\n".join(lines),
            hint="No host was contacted.",
        ) from error


def find_profile(name: str, path: Path | None = None) -> Profile:
    """The profile called ``name``: of the site's file, else a shipped one.

    Raises UsageError with the names that exist.
    """
    found = profiles() | (load_profiles(path) if path else {})
    try:
        return found[name]
    except KeyError:
        known = ", ".join(f"'{one}'" for one in found)
        raise UsageError(
            f"There is no certification profile '{name}'.", hint=f"Known: {known}."
        ) from None
