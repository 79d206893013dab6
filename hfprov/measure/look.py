"""What nodes are before they are measured: conditions, tools, ends of their data networks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hfprov.baseline import Baseline
from hfprov.catalogue.accelerators import accelerators
from hfprov.catalogue.skus import find_sku
from hfprov.checks.comm_library import ROLE as COMM_LIBRARY
from hfprov.checks.comm_library import declared as comm_variables
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.accelerators.model import Accelerator
from hfprov.evidence.text import clean
from hfprov.measure.conditions import (
    accelerators_of,
    condition_reads,
    conditions_of,
    state_of,
    state_reads,
    tool_of,
    tool_read,
    workloads_of,
)
from hfprov.measure.devices import told_of_processes
from hfprov.measure.idle import cautions, refusal
from hfprov.measure.steps import Machine
from hfprov.measure.tool import End, Tool, programs
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
from hfprov.words import at_work

RDMA_NETDEVS = glob("/sys/class/infiniband/*/ports/*/gid_attrs/ndevs/0", limit=64)
"""Which network device an RDMA port belongs to: Documentation/ABI/stable/sysfs-class-infiniband."""
_NUMA_NODES = glob("/sys/class/net/*/device/numa_node", limit=64)
_BIND = "numactl"


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
    machine: Machine = field(default_factory=Machine)
    numa: Mapping[str, int] | None = None
    """NUMA node by network device; None where nothing could bind to it."""
    cautions: tuple[str, ...] = ()
    """What may distort its figures."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What came of a look at a fleet."""

    ready: dict[str, Ready]
    """Hosts that can be measured, in the order of the inventory."""
    unfit: dict[str, str]
    """By host: why it cannot."""
    silent: frozenset[str]
    """Those of them that could not be observed at all."""


def look(fleet: Fleet, tools: Sequence[Tool]) -> Looked:
    """Which hosts can be measured, and why the others cannot."""
    reads: dict[str, tuple[Read, ...]] = {}
    names = _programs(tools)
    for host, baseline in fleet.baselines.items():
        wanted = [*condition_reads(baseline), *(tool_read(name) for name in names)]
        reads[host] = once([*wanted, ADDRESSES, RDMA_NETDEVS, _NUMA_NODES])
    ready: dict[str, Ready] = {}
    unfit: dict[str, str] = {}
    silent: set[str] = set()
    for answer in observe_many(
        reads, fleet.connections, at_once=fleet.at_once, deadline=fleet.deadline
    ):
        try:
            ready[answer.host] = _ready(answer, fleet.baselines[answer.host], names)
        except (NoEvidenceError, NotUnderstoodError) as error:
            unfit[answer.host] = error.message
        if answer.observation is None:
            silent.add(answer.host)
    in_order = {host: ready[host] for host in fleet.baselines if host in ready}
    return Looked(in_order, unfit, frozenset(silent))


def states(fleet: Fleet, hosts: Iterable[str]) -> dict[str, Mapping[str, Any]]:
    """Load, temperatures and clocks of hosts now; a host that does not answer is left out."""
    some = fleet.only(hosts)
    reads = {host: state_reads(baseline) for host, baseline in some.baselines.items()}
    found: dict[str, Mapping[str, Any]] = {}
    for answer in observe_many(
        reads, some.connections, at_once=some.at_once, deadline=some.deadline
    ):
        if answer.observation is not None:
            found[answer.host] = state_of(answer.observation, some.baselines[answer.host])
    return found


def _programs(tools: Sequence[Tool]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*(name for tool in tools for name in programs(tool)), _BIND]))


def _ready(answer: Answer, baseline: Baseline, names: Sequence[str]) -> Ready:
    seen = answer.observation
    if seen is None:
        raise NoEvidenceError(answer.error)
    workloads = workloads_of(seen, baseline)
    if workloads is None:
        raise NoEvidenceError("It is not known whether something is at work on the node.")
    if workloads:
        raise NoEvidenceError(f"{at_work(len(workloads))} ({workloads[0]}): drain the node first.")
    conditions, devices = conditions_of(seen, baseline), accelerators_of(seen, baseline)
    if reason := refusal(conditions, devices):
        raise NoEvidenceError(reason)
    interfaces, wanted = declared(baseline)
    found = {name: tool_of(seen, name) for name in names}
    ends, _ = endpoints(answer.host, interfaces, wanted, interfaces_of(answer))
    return Ready(
        host=answer.host,
        conditions=conditions,
        tools={name: one for name, one in found.items() if one is not None},
        ends=tuple(ends),
        rdma=_rdma(seen),
        machine=machine_of(baseline, devices),
        numa=_numa_nodes(seen) if found[_BIND] else None,
        cautions=tuple(cautions(conditions, devices)),
    )


def machine_of(baseline: Baseline, devices: tuple[Accelerator, ...]) -> Machine:
    """What is declared of a host's accelerators, else what is seen of them."""
    sku = find_sku(str(baseline.get("node_sku") or ""))
    model = accelerators().by_id(sku.accelerator) if sku else None
    vendors = {one.vendor.value for one in devices}
    vendor = model.vendor if model else vendors.pop() if len(vendors) == 1 else ""
    count = int(str(baseline.get("node_accelerator_count") or (sku.count if sku else 0)))
    in_use = ""
    if (count or devices) and not told_of_processes(devices):
        in_use = "No tool tells whether somebody uses its accelerators."
    environment = comm_variables(baseline) if COMM_LIBRARY in baseline.roles else {}
    return Machine(str(vendor), count, in_use, environment)


def _rdma(seen: Observation) -> dict[str, str]:
    return {
        clean(result.text).strip(): result.name.split("/")[4]
        for result in seen.each(RDMA_NETDEVS)
        if result.ok and result.text.strip()
    }


def _numa_nodes(seen: Observation) -> dict[str, int]:
    """By network device; -1 is the kernel's word for not known."""
    return {
        result.name.split("/")[4]: int(result.text)
        for result in seen.each(_NUMA_NODES)
        if result.ok and result.text.strip().isdigit()
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
                (hosts[end.host].numa or {}).get(end.interface),
            )
            for end in rail.ends
        }
    return named
