"""What goes with what: ``catalogue/compatibility.yml``, and how a node is held against it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from functools import cache
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hfprov.catalogue.data import catalogue
from hfprov.catalogue.versions import in_range
from hfprov.errors import NotUnderstoodError


class Status(StrEnum):
    CERTIFIED = "certified"
    TOLERATED = "tolerated"
    FORBIDDEN = "forbidden"


Condition = str | bool | tuple[str, ...]


class Row(BaseModel):
    """One row of the matrix. See the head of the file for its keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    title: str
    status: Status
    about: Literal["driver", "hardware", "software"] = "driver"
    """Only a row about the driver says that a node's driver is known at all."""
    when: dict[str, Condition] = Field(min_length=1)
    require: dict[str, Condition] = {}
    order: tuple[str, ...] = ()
    reboot: Literal["none", "service", "os", "power_cycle"]
    source: str
    checked_on: date
    eol: date | None = None

    @model_validator(mode="after")
    def _names(self) -> Row:
        for key, wanted in (*self.when.items(), *self.require.items()):
            if key not in _KEYS and not key.startswith("firmware."):
                raise ValueError(f"'{self.id}' has the unknown condition '{key}'.")
            if key in _VERSIONS and not isinstance(wanted, str):
                raise ValueError(f"'{key}' of '{self.id}' is not a range of versions.")
        return self


_VERSIONS = frozenset({"kernel", "driver", "fabric_manager", "cuda"})
_KEYS = _VERSIONS | {"vendor", "accelerator", "os", "kernel_flavour", "open_module"}


class Matrix(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sources: dict[str, str]
    rows: tuple[Row, ...]


@cache
def compatibility() -> Matrix:
    return Matrix.model_validate(catalogue("compatibility.yml"))


@dataclass(frozen=True, slots=True)
class Installed:
    """What a node has, by the matrix's keys. An empty value is one that is not known."""

    versions: Mapping[str, str]
    """``driver``, ``kernel``, ``fabric_manager``, ``cuda``."""
    words: Mapping[str, str]
    """``vendor``, ``os``, ``kernel_flavour``."""
    accelerators: frozenset[str] = frozenset()
    open_module: bool | None = None
    firmware: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Match:
    """A row that applies to a node, and what of it does not hold."""

    row: Row
    violated: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    """Requirements on which the node tells nothing."""


def matches(matrix: Matrix, have: Installed) -> Iterator[Match]:
    """The rows that apply to a node. A condition on what is not known does not hold."""
    for row in matrix.rows:
        if not all(_holds(key, wanted, have) for key, wanted in row.when.items()):
            continue
        held = {key: _holds(key, wanted, have) for key, wanted in row.require.items()}
        yield Match(
            row,
            tuple(f"{key} {row.require[key]}" for key, holds in held.items() if holds is False),
            tuple(f"{key} {row.require[key]}" for key, holds in held.items() if holds is None),
        )


def _holds(key: str, wanted: Condition, have: Installed) -> bool | None:
    """Whether a condition holds; None when the node does not tell."""
    if key == "accelerator":
        listed = wanted if isinstance(wanted, tuple) else (str(wanted),)
        return not have.accelerators.isdisjoint(listed)
    if key == "open_module":
        return None if have.open_module is None else have.open_module is wanted
    if key in _VERSIONS or key.startswith("firmware."):
        version = have.versions.get(key) or have.firmware.get(key.removeprefix("firmware."), "")
        return _in_range(version, str(wanted), have.versions)
    word = have.words.get(key, "")
    if not word:
        return None
    allowed = (wanted,) if isinstance(wanted, (str, bool)) else wanted
    return any(_same(word, str(one)) for one in allowed)


def _in_range(version: str, wanted: str, others: Mapping[str, str]) -> bool | None:
    if not version:
        return None
    try:
        return in_range(version, wanted, others)
    except (NotUnderstoodError, ValueError):
        return None


def _same(word: str, wanted: str) -> bool:
    """Equal, or a part of it (``ubuntu 22.04`` of ``ubuntu 22.04.5``); ``!`` in front means not."""
    if wanted.startswith("!"):
        return wanted[1:] not in word
    return word == wanted or word.startswith(f"{wanted}.") or (wanted[:1] == "-" and wanted in word)
