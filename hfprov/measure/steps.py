"""The steps of a plan: what will be measured where, against whom and for how long. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from hfprov.measure.tool import (
    End,
    Group,
    GroupTool,
    HostTool,
    PairTool,
    Settings,
)
from hfprov.observe import AT_ONCE


@dataclass(frozen=True, slots=True)
class Machine:
    """What a plan must know of a host beside its tools."""

    vendor: str = ""
    """Of its accelerators; empty when nobody knows."""
    accelerators: int = 0
    """How many there are; 0 when nobody said."""
    in_use: str = ""
    """Why it is not known whether somebody uses its accelerators; empty when nobody does."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables of communication libraries, as the inventory declares them."""


@dataclass(frozen=True, slots=True)
class HostStep:
    """One tool on several hosts, each by itself, all at once."""

    tool: HostTool
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PairStep:
    """One tool in one rail: rounds of pairs, each round's pairs at once, both ways in turn."""

    tool: PairTool
    rail: str
    ends: Mapping[str, End]
    rounds: tuple[tuple[tuple[str, str], ...], ...]


@dataclass(frozen=True, slots=True)
class GroupStep:
    """One tool over all hosts of a rail together."""

    tool: GroupTool
    rail: str
    group: Group

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(end.host for end in self.group.ends)


Step = HostStep | PairStep | GroupStep


def members(step: Step) -> tuple[str, ...]:
    """Hosts that take part in a step."""
    return tuple(step.ends) if isinstance(step, PairStep) else step.hosts


@dataclass(frozen=True, slots=True)
class MeasurePlan:
    """All of it, in order."""

    settings: Settings
    steps: tuple[Step, ...]
    missing: Mapping[str, str]
    """By ``host: kind``: why it cannot be measured."""
    at_once: int = AT_ONCE
    """Hosts, or pairs of hosts, that are at work at the same time, at most."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every host that takes part, each once."""
        return tuple(dict.fromkeys(host for step in self.steps for host in members(step)))

    def without(self, hosts: Collection[str]) -> MeasurePlan:
        """The same without some hosts; their partners sit the rounds out."""
        kept = (_without(step, hosts) for step in self.steps)
        return replace(self, steps=tuple(step for step in kept if step is not None))


def _without(step: Step, hosts: Collection[str]) -> Step | None:
    if isinstance(step, HostStep):
        left = tuple(host for host in step.hosts if host not in hosts)
        return replace(step, hosts=left) if left else None
    if isinstance(step, GroupStep):
        ends = tuple(end for end in step.group.ends if end.host not in hosts)
        whole = len(ends) > 1
        return replace(step, group=replace(step.group, ends=ends)) if whole else None
    pairs = tuple(tuple(pair for pair in one if not set(pair) & set(hosts)) for one in step.rounds)
    if not any(pairs):
        return None
    kept = {host: end for host, end in step.ends.items() if host not in hosts}
    return replace(step, ends=kept, rounds=tuple(filter(None, pairs)))
