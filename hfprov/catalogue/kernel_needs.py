"""Kernel settings that jobs need and no role declares: ``kernel_needs.yml``."""

from __future__ import annotations

from datetime import date
from enum import StrEnum
from functools import cache

from pydantic import BaseModel, ConfigDict, Field

from hfprov.catalogue.data import catalogue
from hfprov.regex import regex

NAMES = (
    *("vm.overcommit_memory", "vm.panic_on_oom", "kernel.shmmax", "user.max_user_namespaces"),
    *("net.core.somaxconn", "net.ipv4.ip_local_port_range", "net.ipv4.neigh.default.gc_thresh3"),
    *("net.ipv4.tcp_window_scaling", "net.ipv4.tcp_sack", "net.ipv4.tcp_retries2"),
    *("net.ipv4.ip_no_pmtu_disc", "net.ipv4.icmp_echo_ignore_all"),
)
"""The names of the file, which need not be read to ask a node for them."""
_NUMBER = regex(r"-?[0-9]{1,20}")


class Effect(StrEnum):
    """What another value does to jobs."""

    STOPS = "stops"
    HINDERS = "hinders"


class KernelNeed(BaseModel):
    """One row."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    effect: Effect
    why: str = Field(min_length=1)
    source: str
    """A key of :attr:`KernelNeeds.sources`."""
    never: tuple[str, ...] = ()
    least: int | None = None

    @property
    def expected(self) -> str:
        if self.least is None:
            return f"not {' or '.join(self.never)}"
        return f"at least {self.least}"

    def is_met(self, value: str) -> bool | None:
        """Whether a value does no harm; None for what is no value of such a setting."""
        words = value.split()
        numbers = [int(word) for word in words if _NUMBER.fullmatch(word)]
        if not words or len(numbers) != len(words):
            return None
        if self.least is None:
            return value not in self.never
        first, *last = numbers
        return (last[0] - first + 1 if last else first) >= self.least


class KernelNeeds(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sources: dict[str, str]
    checked_on: date
    settings: tuple[KernelNeed, ...]


@cache
def kernel_needs() -> KernelNeeds:
    """The catalogue. It is ours: a mistake in it is a bug, and raises."""
    return KernelNeeds.model_validate(catalogue("kernel_needs.yml"))
