"""Variables of communication libraries, by how far they may be set: ``comm_variables.yml``."""

from __future__ import annotations

import re
from datetime import date
from enum import StrEnum
from functools import cache

from pydantic import BaseModel, ConfigDict, Field, field_validator

from hfprov.catalogue.data import catalogue


class Category(StrEnum):
    """What it means that a variable is set on a node; see the head of the file."""

    SYSTEM = "system"
    LAUNCHER = "launcher"
    DEBUG = "debug"
    UNSET = "unset"


class Variable(BaseModel):
    """One row: variables of one kind."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    match: str
    """A regular expression for the whole name."""
    category: Category
    advice: str = Field(min_length=1)
    source: str
    """A key of :attr:`Variables.sources`."""

    @field_validator("match")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"'{pattern}' is no regular expression: {error}.") from error
        return pattern

    def covers(self, name: str) -> bool:
        return re.fullmatch(self.match, name) is not None


class Variables(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sources: dict[str, str]
    checked_on: date
    variables: tuple[Variable, ...]

    def find(self, name: str) -> Variable | None:
        return next((one for one in self.variables if one.covers(name)), None)


@cache
def comm_variables() -> Variables:
    """The catalogue. A mistake in it is a bug, and raises."""
    return Variables.model_validate(catalogue("comm_variables.yml"))
