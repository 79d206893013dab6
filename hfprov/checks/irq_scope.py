"""What the checks of interrupts share: which adapters are meant, and which cores each may use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hfprov.baseline import Baseline
from hfprov.checks.nic import adapters
from hfprov.checks.registry import Facts, require
from hfprov.errors import NotUnderstoodError
from hfprov.evidence.cpulist import parse_cpulist
from hfprov.evidence.irq_cores import CORES, Core, Cores
from hfprov.evidence.irq_node import ADAPTERS, Adapter
from hfprov.evidence.managed_links import LINKS
from hfprov.evidence.nic_node import data_nics
from hfprov.verdict import Finding, failed, unknown

ROLE = "irq_affinity"


def interfaces(baseline: Baseline) -> tuple[str, ...]:
    """The declared data interfaces. Raises NoEvidenceError when there are none."""
    own = tuple(str(name) for name in baseline["irq_affinity_interfaces"])
    names = own or data_nics(baseline)
    require(
        names,
        "No data interface is declared in 'irq_affinity_interfaces' or 'jumbo_mtu_interfaces'.",
    )
    return names


def shown(cpus: Iterable[int]) -> str:
    """``CPU 0-3,8``; the kernel's own short form of a list."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][-1] + 1:
            ranges[-1][1:] = [cpu]
        else:
            ranges.append([cpu])
    return "CPU " + (",".join("-".join(map(str, one)) for one in ranges) or "none")


@dataclass(frozen=True, slots=True)
class Scope:
    """The adapters that a host's declaration means, with the cores that each may use."""

    names: tuple[str, ...]
    """Adapters that were found, members of bonds in place of the bond."""
    missing: tuple[str, ...]
    """Declared interfaces that are not there, or have no adapter below them."""
    adapters: Mapping[str, Adapter]
    up: frozenset[str]
    cores: Cores
    reserved: frozenset[int]
    both_threads: bool

    @classmethod
    def of(cls, facts: Facts, baseline: Baseline) -> Scope:
        links, found = facts.get(LINKS), facts.get(ADAPTERS)
        below = {name: adapters(links, (name,)) for name in interfaces(baseline)}
        names = dict.fromkeys(name for ones in below.values() for name in ones if name in found)
        missing = [name for name, ones in below.items() if not ones or set(ones) - found.keys()]
        try:
            reserved = frozenset(parse_cpulist(str(baseline["irq_affinity_reserved_cpus"])))
        except NotUnderstoodError as error:
            raise NotUnderstoodError(f"'irq_affinity_reserved_cpus': {error.message}") from None
        return cls(
            names=tuple(names),
            missing=tuple(missing),
            adapters=found,
            up=frozenset(link.name for link in links.interfaces if "UP" in link.flags),
            cores=facts.get(CORES),
            reserved=reserved,
            both_threads=str(baseline["irq_affinity_smt"]) == "threads",
        )

    def near(self, name: str) -> tuple[Core, ...]:
        """Cores that an adapter's queues may use."""
        return self.cores.near(self.adapters[name].numa_node, self.reserved)

    def threads(self, core: Core) -> Core:
        """CPUs of a core that queues may use."""
        return core if self.both_threads else core[:1]

    def allowed(self, name: str) -> frozenset[int]:
        """CPUs that an adapter's queues may use."""
        return frozenset(cpu for core in self.near(name) for cpu in self.threads(core))

    def without_queues(self, name: str) -> Finding:
        """The finding on an adapter without interrupts of queues: never that all is well."""
        if name not in self.up:
            reason = "It is down: its driver asks for interrupts when it is set up."
            return unknown(name, reason=reason)
        reason = "Its device has no interrupt of a queue: the driver is not at work, or unknown."
        return failed(name, observed="0 queues", expected="at least one queue", reason=reason)


def unplaced(facts: Facts, name: str) -> Finding:
    """The finding on a declared interface without an adapter."""
    there = facts.get(LINKS).find(name) is not None
    observed = "no adapter below it" if there else "absent"
    reason = "Its queues cannot be found." if there else "There is no interface of this name."
    return failed(name, observed=observed, expected="an adapter", reason=reason)
