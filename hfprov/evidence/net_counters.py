"""Counters of NICs and RDMA ports over time: what rose, how fast, and what kind of trouble it is.

Two samples of the same counters (``ethtool -S``, sysfs, ``rdma statistic``) give differences. A
counter that went down was reset (driver reload, firmware reset): what happened in between is not
known, and is never called zero. What a counter means is data: ``catalogue/nic_counters.yml``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Literal

from msgspec import Struct
from pydantic import BaseModel, ConfigDict

from hfprov.catalogue.data import catalogue
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.net_lines import hexadecimal
from hfprov.evidence.text import clean, excerpt


class Family(StrEnum):
    """What a rising counter tells."""

    ERROR = "error"
    DISCARD = "discard"
    PAUSE = "pause"
    RETRANSMIT = "retransmit"
    ECN = "ecn"
    LINK = "link"
    CORRECTED = "corrected"
    TRAFFIC = "traffic"
    OTHER = "other"


class _Row(BaseModel):
    """One row of the catalogue."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pattern: str
    family: Family
    source: str
    note: str = ""
    bits: int = 64
    at_limit: Literal["wraps", "saturates"] = "wraps"


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    sources: dict[str, str]
    checked_on: object
    counters: list[_Row]


class Meaning(Struct, frozen=True):
    """What the catalogue says of a counter; ``source`` is the document it was taken from."""

    family: Family
    source: str
    note: str = ""
    bits: int = 64
    saturates: bool = False


class Change(Struct, frozen=True):
    """One counter in two samples.

    ``increase`` is None when it is not known: the counter was reset, or stood at its largest value
    in the first sample already.
    """

    name: str
    before: int
    after: int
    increase: int | None
    reset: bool
    meaning: Meaning


class Changes(Struct, frozen=True):
    """Every counter that is in both samples, and the names that are in one only."""

    changes: tuple[Change, ...]
    seconds: float
    appeared: tuple[str, ...] = ()
    vanished: tuple[str, ...] = ()

    def rose(self, *families: Family) -> tuple[Change, ...]:
        """Changes of some families (all, when none is named) that rose, the largest first."""
        found = [
            change
            for change in self.changes
            if change.increase and (not families or change.meaning.family in families)
        ]
        return tuple(sorted(found, key=lambda change: -(change.increase or 0)))

    @property
    def unknown(self) -> tuple[Change, ...]:
        """Changes whose increase is not known. While there are any, silence proves nothing."""
        return tuple(change for change in self.changes if change.increase is None)


@lru_cache(maxsize=1)
def _catalogue() -> tuple[tuple[tuple[re.Pattern[str], Meaning], ...], str]:
    """Patterns in their order, with the date on which they were checked."""
    data = _File.model_validate(catalogue("nic_counters.yml"))
    rows = tuple(
        (
            re.compile(row.pattern.replace("{n}", "[0-9]+")),
            Meaning(
                row.family,
                data.sources[row.source],
                row.note,
                row.bits,
                saturates=row.at_limit == "saturates",
            ),
        )
        for row in data.counters
    )
    return rows, str(data.checked_on)


_UNKNOWN = Meaning(Family.OTHER, "not in the catalogue")


@lru_cache(maxsize=8192)
def meaning_of(name: str) -> Meaning:
    """What a counter means, by its name. ``other`` when the catalogue does not know it."""
    for pattern, meaning in _catalogue()[0]:
        if pattern.fullmatch(name):
            return meaning
    return _UNKNOWN


def parse(text: str) -> int | None:
    """The content of one counter's file in sysfs; None for ``N/A (no PMA)`` and the like.

    Raises NotUnderstoodError for anything else that is no number.
    """
    value = clean(text).strip()
    if value.startswith("N/A"):
        return None
    if not value:
        raise NotUnderstoodError("The file of the counter is empty.")
    number = hexadecimal(value, "The counter")
    if number < 0:
        raise NotUnderstoodError(f"The counter '{excerpt(value)}' is negative.")
    return number


def changes(before: Mapping[str, int], after: Mapping[str, int], seconds: float) -> Changes:
    """What happened between two samples that were taken ``seconds`` apart.

    Raises NoEvidenceError when the samples have no counter in common, or no time between them.
    """
    if not seconds > 0:
        raise NoEvidenceError(f"The two samples are {seconds} seconds apart; that proves nothing.")
    common = [name for name in before if name in after]
    if not common:
        raise NoEvidenceError("The two samples have no counter in common.")
    return Changes(
        tuple(_change(name, before[name], after[name]) for name in common),
        seconds,
        appeared=tuple(name for name in after if name not in before),
        vanished=tuple(name for name in before if name not in after),
    )


def _change(name: str, before: int, after: int) -> Change:
    meaning = meaning_of(name)
    limit = 2**meaning.bits
    if meaning.saturates and after == before == limit - 1:
        return Change(name, before, after, None, reset=False, meaning=meaning)
    if after >= before:
        return Change(name, before, after, after - before, reset=False, meaning=meaning)
    # Only a counter that was near its end can have wrapped; any other one was reset.
    if not meaning.saturates and before < limit and before >= limit * 3 // 4 and after < limit // 4:
        return Change(name, before, after, after + limit - before, reset=False, meaning=meaning)
    return Change(name, before, after, None, reset=True, meaning=meaning)
