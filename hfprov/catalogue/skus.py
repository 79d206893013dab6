"""Machines as they are bought: ``catalogue/skus.yml``."""

from __future__ import annotations

from datetime import date
from functools import cache

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hfprov.catalogue.accelerators import accelerators
from hfprov.catalogue.data import catalogue

NONE = "none"
"""The name that stands for a machine without accelerators."""


class Nics(BaseModel):
    """Cards of one kind that carry data."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    count: int = Field(gt=0)
    gbit: float = Field(gt=0)


class Host(BaseModel):
    """What is in the machine beside the accelerators; None is not judged."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sockets: int | None = None
    ram_gib: int | None = None
    dimms: int | None = None
    nvme: int | None = None
    nics: tuple[Nics, ...] = ()


class Sku(BaseModel):
    """One kind of machine."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    title: str
    accelerator: str
    count: int = Field(gt=0)
    switches: int = 0
    fabric_manager: bool = False
    host: Host = Host()
    source: str
    checked_on: date
    verified: bool

    @model_validator(mode="after")
    def _known(self) -> Sku:
        if accelerators().by_id(self.accelerator) is None:
            raise ValueError(f"'{self.id}' has an accelerator '{self.accelerator}' that is no row.")
        if self.id == NONE:
            raise ValueError(f"'{NONE}' is not the name of a machine.")
        return self


class Skus(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sources: dict[str, str]
    skus: tuple[Sku, ...]


@cache
def skus() -> Skus:
    return Skus.model_validate(catalogue("skus.yml"))


def find_sku(name: str) -> Sku | None:
    return next((one for one in skus().skus if one.id == name), None)
