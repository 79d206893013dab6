"""Who measures what against whom. Pure; shown before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hfprov.measure.steps import GroupStep, HostStep, Machine, MeasurePlan, PairStep, Step
from hfprov.measure.tool import (
    End,
    Group,
    GroupTool,
    HostTool,
    Kind,
    PairTool,
    Settings,
    Tool,
    programs,
)
from hfprov.pairs.schedule import rounds_for

Alternatives = tuple[tuple[str, ...], ...]
"""Programs of the tools of one aim, of which any tool would do."""
PARTNERS = 6
"""In a larger rail each host is measured against so many others: enough to tell whose fault it is,
in a time that does not grow with the fleet."""


def plan(
    tools: Sequence[Tool],
    settings: Settings,
    installed: Mapping[str, frozenset[str]],
    rails: Mapping[str, Mapping[str, End]],
    machines: Mapping[str, Machine] | None = None,
) -> MeasurePlan:
    """Put tools on hosts, hosts into pairs, and all hosts of a rail into a group.

    ``installed``: by host, the names of the programs that it has. ``rails``: by name, the end of
    each host. Hosts come in the order of ``installed``.
    """
    site = _Site(settings, installed, rails, machines or {})
    for kind in dict.fromkeys(tool.kind for tool in tools):
        site.add(kind, [tool for tool in tools if tool.kind is kind])
    return MeasurePlan(settings, tuple(site.steps), site.missing)


@dataclass(slots=True)
class _Site:
    """A plan in the making."""

    settings: Settings
    installed: Mapping[str, frozenset[str]]
    rails: Mapping[str, Mapping[str, End]]
    machines: Mapping[str, Machine]
    steps: list[Step] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    absent: dict[tuple[str, Kind], list[Alternatives]] = field(default_factory=dict)
    """Per host and kind, for each aim: the programs that each of its tools would need."""

    def machine(self, host: str) -> Machine:
        return self.machines.get(host, Machine())

    def add(self, kind: Kind, tools: Sequence[Tool]) -> None:
        """Steps of one kind: per aim and host the first tool that is there."""
        chosen: dict[int, list[str]] = {id(tool): [] for tool in tools}
        for host in self.installed:
            for some in self._aims(host, kind, tools):
                self._choose(host, kind, some, chosen)
            if aims := self.absent.get((host, kind)):
                self._lacks(host, kind, _absent_words(aims))
        for tool in tools:
            hosts = tuple(dict.fromkeys(chosen[id(tool)]))
            if isinstance(tool, HostTool) and hosts:
                self.steps.append(HostStep(tool, hosts))
            elif isinstance(tool, PairTool):
                self._pairs(tool, hosts)
            elif isinstance(tool, GroupTool):
                self._groups(tool, hosts)

    def _aims(self, host: str, kind: Kind, tools: Sequence[Tool]) -> list[list[Tool]]:
        """Tools of a kind that make sense on a host, those that replace each other together."""
        machine = self.machine(host)
        if machine.in_use and any(_accelerated(tool) for tool in tools):
            self._lacks(host, kind, machine.in_use)
            return []
        fitting = [tool for tool in tools if self._fits(host, tool)]
        if not fitting and tools[0].kind is not Kind.LATENCY:
            self._lacks(
                host, kind, f"No tool here measures accelerators of vendor '{machine.vendor}'."
            )
        found: dict[str, list[Tool]] = {}
        for tool in fitting:
            # Of a machine whose vendor nobody knows, the one vendor's tool that is there will do.
            unclear = isinstance(tool, HostTool) and tool.vendors and not machine.vendor
            found.setdefault(kind.value if unclear else tool.aim or tool.name, []).append(tool)
        return list(found.values())

    def _fits(self, host: str, tool: Tool) -> bool:
        if isinstance(tool, PairTool):
            # Without any RDMA device there is no RDMA latency to be had; bandwidth was asked for.
            return not (tool.rdma and tool.kind is Kind.LATENCY) or self._has_rdma(host)
        machine, company = self.machine(host), self._has_company(host)
        if isinstance(tool, GroupTool) and not company:
            return False
        # A single accelerator has others to talk to in other nodes only.
        within = tool.kind is Kind.COLLECTIVE and isinstance(tool, HostTool)
        if within and company and machine.accelerators == 1:
            return False
        return not tool.vendors or not machine.vendor or machine.vendor in tool.vendors

    def _has_rdma(self, host: str) -> bool:
        return any(host in ends and ends[host].rdma_device for ends in self.rails.values())

    def _has_company(self, host: str) -> bool:
        return any(host in ends and len(ends) > 1 for ends in self.rails.values())

    def _choose(
        self, host: str, kind: Kind, tools: Sequence[Tool], chosen: dict[int, list[str]]
    ) -> None:
        there = self.installed[host]
        for tool in tools:
            if there.issuperset(programs(tool)):
                chosen[id(tool)].append(host)
                # The next best is for partners that do not have this one.
                if not isinstance(tool, PairTool):
                    return
        if any(host in chosen[id(tool)] for tool in tools):
            return
        self.absent.setdefault((host, kind), []).append(
            tuple(tuple(one for one in programs(tool) if one not in there) for tool in tools)
        )

    def _lacks(self, host: str, kind: Kind, reason: str) -> None:
        key = f"{host}: {kind.value}"
        if reason not in self.missing.get(key, ""):
            self.missing[key] = f"{self.missing[key]} {reason}" if key in self.missing else reason

    def _pairs(self, tool: PairTool, hosts: Sequence[str]) -> None:
        """Pairs in each rail, of hosts that no better tool of the same aim has measured there."""
        placed: set[str] = set()
        for name, ends in self.rails.items():
            served = self._served(tool, name)
            able = [
                host for host in hosts if host in ends and (ends[host].rdma_device or not tool.rdma)
            ]
            if served and served.issuperset(able):
                placed.update(able)
                continue
            if len(able) < 2:  # noqa: PLR2004 - it takes two
                continue
            placed.update(able)
            rounds = tuple(rounds_for(able, PARTNERS))
            self.steps.append(PairStep(tool, name, {host: ends[host] for host in able}, rounds))
        for host in hosts:
            if host not in placed and not self._measured(tool, host):
                self._lacks(
                    host,
                    tool.kind,
                    "It shares no network with another host on which both have an RDMA device."
                    if tool.rdma
                    else "There is no other host in a network of its data interfaces to measure "
                    "against.",
                )

    def _served(self, tool: PairTool, rail: str) -> set[str]:
        """Hosts of a rail that a tool of the same aim measures already."""
        return {
            host
            for step in self.steps
            if isinstance(step, PairStep) and step.rail == rail and step.tool.aim == tool.aim
            for host in step.ends
        }

    def _measured(self, tool: PairTool, host: str) -> bool:
        return any(host in self._served(tool, rail) for rail in self.rails)

    def _groups(self, tool: GroupTool, hosts: Sequence[str]) -> None:
        """One run per set of hosts: all of a node's cards take part, whatever rail is named."""
        seen: set[frozenset[str]] = set()
        for name, ends in self.rails.items():
            able = [host for host in hosts if host in ends]
            counts = {self.machine(host).accelerators for host in able}
            if len(able) < 2 or frozenset(able) in seen:  # noqa: PLR2004
                continue
            if len(counts) != 1 or not min(counts):
                for host in able:
                    self._lacks(
                        host,
                        tool.kind,
                        "A collective over nodes takes the same number of accelerators in each, "
                        "and the number must be known: declare 'node_sku'.",
                    )
                continue
            seen.add(frozenset(able))
            group = Group(
                tuple(ends[host] for host in able),
                min(counts),
                self.machine(able[0]).environment,
            )
            self.steps.append(GroupStep(tool, name, group))


def _absent_words(aims: Sequence[Alternatives]) -> str:
    """What is not installed, each program once: aims may need the same one."""
    named: set[str] = set()
    parts = []
    for tools in aims:
        words = [" and ".join(f"'{one}'" for one in some if one not in named) for some in tools]
        named.update(one for some in tools for one in some)
        if any(words):
            parts.append(f"no {' nor '.join(filter(None, words))}")
    return (
        f"It has {', '.join(parts)}. Role 'diagnostics_tools' installs what is named in "
        "'diagnostics_tools_wanted' or 'diagnostics_tools_site_packages'."
    )


def _accelerated(tool: Tool) -> bool:
    return not isinstance(tool, PairTool) and bool(tool.vendors)
