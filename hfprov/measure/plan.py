"""What will be measured where, against whom and for how long. Pure; shown before anything runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from hfprov.measure.tools import REPEATS, End, HostTool, PairTool, Settings, Tool
from hfprov.pairs.schedule import rounds_for

PARTNERS = 6
"""In a larger rail each host is measured against so many others: enough to tell whose fault it is,
in a time that does not grow with the fleet."""
_CONNECT = 2.0
"""Seconds to begin one run on a node."""


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


Step = HostStep | PairStep


@dataclass(frozen=True, slots=True)
class MeasurePlan:
    """All of it, in order."""

    settings: Settings
    steps: tuple[Step, ...]
    missing: Mapping[str, str]
    """By ``host: kind``: why it cannot be measured."""

    @property
    def seconds(self) -> float:
        """About how long it takes."""
        return sum(seconds_of(step, self.settings) for step in self.steps)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every host that takes part, each once."""
        found: dict[str, None] = {}
        for step in self.steps:
            members = step.hosts if isinstance(step, HostStep) else step.ends
            found.update(dict.fromkeys(members))
        return tuple(found)

    def without(self, hosts: Collection[str]) -> MeasurePlan:
        """The same without some hosts; their partners sit the rounds out."""
        kept: list[Step] = []
        for step in self.steps:
            if isinstance(step, HostStep):
                left = tuple(host for host in step.hosts if host not in hosts)
                if left:
                    kept.append(replace(step, hosts=left))
            else:
                pairs = tuple(
                    tuple(pair for pair in one if not set(pair) & set(hosts)) for one in step.rounds
                )
                ends = {host: end for host, end in step.ends.items() if host not in hosts}
                if any(pairs):
                    kept.append(replace(step, ends=ends, rounds=tuple(filter(None, pairs))))
        return replace(self, steps=tuple(kept))


def seconds_of(step: Step, settings: Settings) -> float:
    """About how long a step takes."""
    if isinstance(step, HostStep):
        return (REPEATS + 1) * (settings.seconds + _CONNECT)
    both_ways = 2
    return len(step.rounds) * both_ways * (max(settings.seconds, REPEATS) + 1 + 2 * _CONNECT)


def plan(
    tools: Sequence[Tool],
    settings: Settings,
    installed: Mapping[str, frozenset[str]],
    rails: Mapping[str, Mapping[str, End]],
) -> MeasurePlan:
    """Put tools on hosts and hosts into pairs.

    ``installed``: by host, the names of the tools that it has. ``rails``: by name, the end of each
    host. Hosts come in the order of ``installed``.
    """
    steps: list[Step] = []
    missing: dict[str, str] = {}
    for kind in dict.fromkeys(tool.kind for tool in tools):
        of_kind = [tool for tool in tools if tool.kind is kind]
        chosen = {
            host: next((tool for tool in of_kind if tool.name in names), None)
            for host, names in installed.items()
        }
        for host, tool in chosen.items():
            if tool is None:
                names = " nor ".join(f"'{one.name}'" for one in of_kind)
                missing[f"{host}: {kind.value}"] = (
                    f"It has no {names}. Role 'diagnostics_tools' installs it: name it in "
                    "'diagnostics_tools_wanted' or 'diagnostics_tools_site_packages'."
                )
        for tool in of_kind:
            hosts = tuple(host for host, one in chosen.items() if one is tool)
            if not hosts:
                continue
            if isinstance(tool, HostTool):
                steps.append(HostStep(tool, hosts))
            else:
                steps += _pair_steps(tool, hosts, rails, missing)
    return MeasurePlan(settings, tuple(steps), missing)


def _pair_steps(
    tool: PairTool,
    hosts: Sequence[str],
    rails: Mapping[str, Mapping[str, End]],
    missing: dict[str, str],
) -> list[PairStep]:
    steps = []
    placed: set[str] = set()
    for name, ends in rails.items():
        members = [host for host in hosts if host in ends and _usable(tool, ends[host])]
        if len(members) < 2:  # noqa: PLR2004 - it takes two
            continue
        placed.update(members)
        chosen = rounds_for(members, PARTNERS)
        steps.append(PairStep(tool, name, {host: ends[host] for host in members}, tuple(chosen)))
    for host in hosts:
        if host not in placed:
            missing[f"{host}: {tool.kind.value}"] = (
                "There is no other host in a network of its data interfaces to measure against."
                if not _needs_rdma(tool)
                else "It shares no network with another host on which both have an RDMA device."
            )
    return steps


def _needs_rdma(tool: PairTool) -> bool:
    return tool.name.startswith("ib_")


def _usable(tool: PairTool, end: End) -> bool:
    return bool(end.rdma_device) or not _needs_rdma(tool)
