"""Models of accelerators: ``catalogue/accelerators.yml``."""

from __future__ import annotations

from datetime import date
from functools import cache
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hfprov.catalogue.data import catalogue

PciId = Annotated[str, Field(pattern=r"^[0-9a-f]{4}:[0-9a-f]{4}$")]


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    checked_on: date
    verified: bool


class Slot(BaseModel):
    """The PCIe link that a model has in a full slot."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    gen: int = Field(ge=1, le=7)
    width: int


class Links(BaseModel):
    """The links of one accelerator to others."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: str
    links: int = Field(gt=0)
    gbytes_s: float = Field(gt=0)
    """GB/s per link and direction, as the vendor's tool shows it."""
    needed: bool
    """Whether it must have them: a bridge between two cards is sold apart."""


class Model(_Row):
    """One model of accelerator."""

    id: str
    vendor: str
    model: str
    pci: tuple[PciId, ...] = Field(min_length=1)
    names: tuple[str, ...] = ()
    memory_gib: float
    ecc: bool
    formats: tuple[str, ...]
    """Number formats that it computes with natively, e.g. ``bf16``, ``fp8``."""
    pcie: Slot
    interconnect: Links | None = None
    max_retired_pages: int | None = None


class Switch(_Row):
    """A bridge that joins accelerators, as it shows on the bus."""

    pci: PciId
    model: str
    vendor: str


class Accelerators(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sources: dict[str, str]
    accelerators: tuple[Model, ...]
    switches: tuple[Switch, ...]

    @model_validator(mode="after")
    def _unambiguous(self) -> Accelerators:
        for key in ("pci", "names"):
            seen: dict[str, str] = {}
            for one in self.accelerators:
                for value in getattr(one, key):
                    if value in seen:
                        raise ValueError(f"'{value}' is '{seen[value]}' and '{one.id}'.")
                    seen[value] = one.id
        return self

    def by_id(self, name: str) -> Model | None:
        return next((one for one in self.accelerators if one.id == name), None)

    def find(self, pci_id: str, name: str = "") -> Model | None:
        """The model with this PCI id; by the tool's name for it where there is no id."""
        if pci_id:
            return _by_pci(self).get(pci_id)
        return next((one for one in self.accelerators if name in one.names), None)

    def is_switch(self, pci_id: str) -> bool:
        return any(one.pci == pci_id for one in self.switches)


@cache
def accelerators() -> Accelerators:
    return Accelerators.model_validate(catalogue("accelerators.yml"))


def _by_pci(whole: Accelerators) -> dict[str, Model]:
    return (
        _index() if whole is accelerators() else {p: m for m in whole.accelerators for p in m.pci}
    )


@cache
def _index() -> dict[str, Model]:
    return {pci: one for one in accelerators().accelerators for pci in one.pci}
