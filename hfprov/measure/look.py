"""What nodes are before they are measured: conditions, tools, ends of their data networks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.text import clean
from hfprov.measure.conditions import (
    condition_reads,
    conditions_of,
    tool_of,
    tool_read,
    workloads_of,
)
from hfprov.measure.tools import End, Tool
from hfprov.observe import Answer, observe_many
from hfprov.pairs.ends import (
    ADDRESSES,
    Endpoint,
    declared,
    endpoints,
    interfaces_of,
    rails,
)
from hfprov.reading import Observation, Read, glob, once
from hfprov.sweep import Fleet

RDMA_NETDEVS = glob("/sys/class/infiniband/*/ports/*/gid_attrs/ndevs/0", limit=64)
"""Which network device an RDMA port belongs to: Documentation/ABI/stable/sysfs-class-infiniband."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A host that can be measured."""

    host: str
    conditions: Mapping[str, Any]
    tools: Mapping[str, Mapping[str, str]]
    """By name of those that are installed: hash and version."""
    ends: tuple[Endpoint, ...]
    rdma: Mapping[str, str]
    """RDMA device by network device."""


def look(fleet: Fleet, tools: Sequence[Tool]) -> tuple[dict[str, Ready], dict[str, str]]:
    """Hosts that can be measured, and by host why the others cannot."""
    reads: dict[str, tuple[Read, ...]] = {}
    for host, baseline in fleet.baselines.items():
        wanted = [*condition_reads(baseline), *(tool_read(tool.name) for tool in tools)]
        reads[host] = once([*wanted, ADDRESSES, RDMA_NETDEVS])
    ready: dict[str, Ready] = {}
    unfit: dict[str, str] = {}
    for answer in observe_many(
        reads, fleet.connections, at_once=fleet.at_once, deadline=fleet.deadline
    ):
        try:
            ready[answer.host] = _ready(answer, fleet.baselines[answer.host], tools)
        except (NoEvidenceError, NotUnderstoodError) as error:
            unfit[answer.host] = error.message
    return {host: ready[host] for host in fleet.baselines if host in ready}, unfit


def _ready(answer: Answer, baseline: Baseline, tools: Sequence[Tool]) -> Ready:
    seen = answer.observation
    if seen is None:
        raise NoEvidenceError(answer.error)
    at_work = workloads_of(seen, baseline)
    if at_work is None:
        raise NoEvidenceError("It is not known whether something is at work on the node.")
    if at_work:
        raise NoEvidenceError(
            f"{len(at_work)} containers or jobs are at work ({at_work[0]}): drain the node first."
        )
    names, wanted = declared(baseline)
    found = {tool.name: tool_of(seen, tool.name) for tool in tools}
    ends, _ = endpoints(answer.host, names, wanted, interfaces_of(answer))
    return Ready(
        host=answer.host,
        conditions=conditions_of(seen, baseline),
        tools={name: one for name, one in found.items() if one is not None},
        ends=tuple(ends),
        rdma=_rdma(seen),
    )


def _rdma(seen: Observation) -> dict[str, str]:
    return {
        clean(result.text).strip(): result.name.split("/")[4]
        for result in seen.each(RDMA_NETDEVS)
        if result.ok and result.text.strip()
    }


def rails_of(ready: Iterable[Ready]) -> dict[str, dict[str, End]]:
    """The rails that hosts form, by name; of each host its end. IPv4 where there is a choice."""
    hosts = {one.host: one for one in ready}
    found, _ = rails(end for one in hosts.values() for end in one.ends)
    named: dict[str, dict[str, End]] = {}
    taken: set[tuple[str, str]] = set()
    for rail in sorted(found, key=lambda one: one.ends[0].family):
        # An interface with an address of each family is one wire, and measured once.
        if any((end.host, end.interface) in taken for end in rail.ends):
            continue
        taken.update((end.host, end.interface) for end in rail.ends)
        named[rail.name] = {
            end.host: End(
                end.host,
                end.interface,
                end.address,
                hosts[end.host].rdma.get(end.interface, ""),
            )
            for end in rail.ends
        }
    return named
