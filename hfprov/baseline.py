"""The declared baseline of one host: its resolved role variables, each with where it comes from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Value:
    """One resolved variable: its value, and the file (and line, where known) that set it."""

    value: Any
    origin: str
    """E.g. ``inventories/rack/group_vars/all.yml:4`` or ``roles/limits/defaults/main.yml:9``."""
    secret: bool = False
    """It was encrypted, or made from something that was: never printed, never recorded."""

    def __repr__(self) -> str:
        shown = "(secret)" if self.secret else repr(self.value)
        return f"Value({shown}, origin={self.origin!r})"


@dataclass(frozen=True, slots=True)
class Baseline:
    """What one host must be. A mapping from variable to value; complete for the roles it names."""

    host: str
    roles: tuple[str, ...]
    """Roles that apply to this host, in the order in which the playbook runs them."""
    values: Mapping[str, Value] = field(default_factory=dict)

    def __getitem__(self, variable: str) -> Any:
        return self.values[variable].value

    def get(self, variable: str, default: Any = None) -> Any:
        found = self.values.get(variable)
        return default if found is None else found.value

    def __contains__(self, variable: object) -> bool:
        return variable in self.values

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)

    @property
    def digest(self) -> str:
        """SHA-256 of roles and values, not of origins: two files that say the same are the same.

        A secret counts as "there is one": from a digest of its value it could be guessed.
        """
        values = {
            name: "(secret)" if one.secret else one.value for name, one in self.values.items()
        }
        plain = {"roles": self.roles, "values": values}
        return hashlib.sha256(json.dumps(plain, sort_keys=True, default=str).encode()).hexdigest()
