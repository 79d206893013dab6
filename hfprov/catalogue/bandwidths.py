"""What sound machines reach: ``catalogue/bandwidths.yml``."""

from __future__ import annotations

import fnmatch
from datetime import date
from functools import cache

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from hfprov.catalogue.data import catalogue
from hfprov.catalogue.skus import find_sku


class Bandwidth(BaseModel):
    """One test on machines of one kind, in the unit of the test."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    test: str = Field(min_length=1)
    sku: str = "*"
    """Pattern (fnmatch) of ``node_sku``."""
    nic_gbit: float | None = None
    """Only for machines with a card of this rate."""
    nominal: float = Field(gt=0)
    gate: float = Field(gt=0)
    """What a sound machine reaches at least."""
    source: str = Field(min_length=1)
    checked_on: date
    verified: bool


@cache
def bandwidths() -> tuple[Bandwidth, ...]:
    rows = catalogue("bandwidths.yml")["bandwidths"]
    return TypeAdapter(tuple[Bandwidth, ...]).validate_python(rows)


def bandwidth_for(test: str, sku: str) -> Bandwidth | None:
    """The row for a test on a machine; None when nobody has said what it must reach."""
    machine = find_sku(sku)
    rates = {card.gbit for card in machine.host.nics} if machine else set()
    for row in bandwidths():
        known = row.nic_gbit is None or row.nic_gbit in rates
        if machine and row.test == test and known and fnmatch.fnmatchcase(sku, row.sku):
            return row
    return None
