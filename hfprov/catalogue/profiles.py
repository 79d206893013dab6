"""Certification profiles: ``catalogue/profiles.yml``."""

from __future__ import annotations

from functools import cache
from importlib import resources

import yaml
from pydantic import BaseModel, ConfigDict, Field

from hfprov.errors import UsageError


class Profile(BaseModel):
    """What must have been proven before a node gets a certificate, and how long it holds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    require: tuple[str, ...] = Field(min_length=1)
    """Patterns (fnmatch) of check ids. Each must match a check that was judged."""
    validity_hours: float = Field(gt=0)


@cache
def profiles() -> dict[str, Profile]:
    text = resources.files("hfprov.catalogue").joinpath("profiles.yml").read_text("utf-8")
    return {name: Profile.model_validate(one) for name, one in yaml.safe_load(text).items()}


def find_profile(name: str) -> Profile:
    """The profile called ``name``. Raises UsageError with the names that exist."""
    try:
        return profiles()[name]
    except KeyError:
        known = ", ".join(f"'{one}'" for one in profiles())
        raise UsageError(
            f"There is no certification profile '{name}'.", hint=f"Known: {known}."
        ) from None
