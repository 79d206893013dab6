"""Interrupts of the data NICs: on near cores, spread, in effect; and they come where they should.

What is required is worked out here, from the node's topology and the declaration; the plan of the
role's own script is not asked. Only two things are taken from its notes: counts from before an
interrupt was moved, and that the kernel refused to move one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hfprov.baseline import Baseline
from hfprov.checks.hardware import in_container
from hfprov.checks.irq_scope import ROLE, Scope, shown, unplaced
from hfprov.checks.registry import Facts, check
from hfprov.errors import NoEvidenceError
from hfprov.evidence.irq_cores import CORES, Core
from hfprov.evidence.irq_files import STATE, State
from hfprov.evidence.irq_node import ADAPTERS, NicInterrupt
from hfprov.evidence.managed_links import LINKS
from hfprov.evidence.system import KERNEL, MACHINE
from hfprov.verdict import Finding, Impact, failed, passed, unknown, warned

PLACING = ("irq_affinity_interfaces", "irq_affinity_reserved_cpus", "irq_affinity_smt")
_READS = (MACHINE, LINKS, ADAPTERS, CORES)
_SHOWN = 3
_FEW_STRAYS = 10
_STRAY_SHARE = 0.05


def notes(facts: Facts) -> State | None:
    """The script's notes of this boot; those of another say nothing about these interrupts."""
    found = facts.get(STATE)
    return found if found and found.boot_id == facts.get(KERNEL).boot_id else None


@check(
    "irq.affinity",
    reads=[*_READS, STATE, KERNEL],
    role=ROLE,
    impact=Impact.NONE,
    judges=PLACING,
)
def affinity(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Each queue may come to one CPU only, of a near free core, and no core is used too much."""
    if elsewhere := in_container(facts, "the interrupts"):
        yield elsewhere
        return
    scope, written = Scope.of(facts, baseline), notes(facts)
    for name in scope.missing:
        yield unplaced(facts, name)
    for name in scope.names:
        yield from _placed(scope, name, written)
    yield from _spread(scope, written)


def _is_managed(one: NicInterrupt, written: State | None) -> bool:
    row = written.interrupts.get(one.number) if written else None
    return row is not None and row.managed and row.name == one.name


def _placed(scope: Scope, name: str, written: State | None) -> Iterator[Finding]:
    near, adapter = scope.allowed(name), scope.adapters[name]
    expected = f"one CPU each, of {shown(near)}"
    if not adapter.queues:
        yield scope.without_queues(name)
        return
    if not near:
        reason = "Every core near it is isolated or reserved."
        yield failed(name, observed="no core", expected="at least one core", reason=reason)
        return
    free = [one for one in adapter.interrupts if one.queue is not None]
    managed = [one for one in free if _is_managed(one, written)]
    free = [one for one in free if one not in managed]
    if problems := [*_misplaced(free, near), *_ineffective(free, written)]:
        reason = "Interrupts of queues are not where they should be."
        yield failed(name, observed=_first(problems), expected=expected, reason=reason)
    else:
        waiting = sum(one.effective != one.allowed for one in free)
        late = f", {waiting} interrupts from the next one on" if waiting else ""
        observed = f"{len(adapter.queues)} queues in place{late}"
        yield passed(name, observed=observed, expected=expected)
    if managed:
        reason = "The kernel manages these: it does not let anybody move them."
        observed = f"{len(managed)} interrupts managed by the kernel"
        yield warned(f"{name} managed", observed=observed, expected="movable", reason=reason)


def _first(problems: Sequence[str]) -> str:
    more = f" and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
    return "; ".join(problems[:_SHOWN]) + more


def _misplaced(ones: Sequence[NicInterrupt], near: frozenset[int]) -> Iterator[str]:
    places: dict[int | None, set[tuple[int, ...]]] = {}
    for one in ones:
        places.setdefault(one.queue, set()).add(one.allowed)
        if len(one.allowed) != 1 or not near.issuperset(one.allowed):
            yield f"{one.name} ({one.number}) on {shown(one.allowed)}"
    for queue, found in places.items():
        if len(found) > 1:
            yield f"queue {queue} on different CPUs"


def _ineffective(ones: Sequence[NicInterrupt], written: State | None) -> Iterator[str]:
    for one in ones:
        if one.effective is None:
            raise NoEvidenceError(f"Interrupt {one.number}: the kernel does not say its CPU.")
        if one.effective != one.allowed and _has_come(one, written):
            yield f"{one.name} ({one.number}) in effect on {shown(one.effective)}"


def _has_come(one: NicInterrupt, written: State | None) -> bool:
    """Whether it has come since it was moved: only then does the move take effect."""
    row = written.interrupts.get(one.number) if written else None
    return row is None or row.name != one.name or row.before != one.counts


@dataclass(frozen=True, slots=True)
class _Load:
    cores: Mapping[Core, int]
    cpus: Mapping[int, int]


def _spread(scope: Scope, written: State | None) -> Iterator[Finding]:
    """No queue shares a core while another core that it may use has two queues less."""
    core_of = {cpu: core for core in scope.cores.cores for cpu in core}
    # An interrupt that two interfaces share counts once.
    places: dict[int, tuple[str, int, int]] = {}
    for name in scope.names:
        for number, ones in scope.adapters[name].queues.items():
            free = [one for one in ones if not _is_managed(one, written)]
            if free and len(free[0].allowed) == 1:
                places.setdefault(free[0].number, (name, number, free[0].allowed[0]))
    if not places:
        return
    load = _Load(
        Counter(core_of[cpu] for _, _, cpu in places.values() if cpu in core_of),
        Counter(cpu for _, _, cpu in places.values()),
    )
    crowded = [
        f"queue {number} of {name} on CPU {cpu}"
        for name, number, cpu in places.values()
        if cpu in core_of and _is_crowded(scope, name, cpu, core_of[cpu], load)
    ]
    expected = "no core shared while another is free"
    if crowded:
        reason = "Queues share a core although another one near the NIC has less to do."
        yield failed("spread", observed=_first(crowded), expected=expected, reason=reason)
    else:
        used = f"{len(places)} queues on {len(load.cores)} cores"
        yield passed("spread", observed=used, expected=expected)


def _is_crowded(scope: Scope, name: str, cpu: int, core: Core, load: _Load) -> bool:
    least = min((load.cores.get(other, 0) for other in scope.near(name)), default=0)
    if load.cores[core] - least > 1:
        return True
    threads = scope.threads(core)
    return load.cpus[cpu] - min(load.cpus.get(other, 0) for other in threads) > 1


@check(
    "irq.landing",
    reads=[*_READS, STATE, KERNEL],
    role=ROLE,
    impact=Impact.NONE,
    judges=PLACING[:1],
)
def landing(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Where interrupts of queues really came since they were moved: ``/proc/interrupts``."""
    if elsewhere := in_container(facts, "the interrupts"):
        yield elsewhere
        return
    scope, written = Scope.of(facts, baseline), notes(facts)
    for name in scope.missing:
        yield unplaced(facts, name)
    for name in scope.names:
        ones = [one for one in scope.adapters[name].interrupts if one.queue is not None]
        if not ones:
            yield scope.without_queues(name)
        elif written is None:
            reason = "Interrupts were not moved since the node was started."
            yield unknown(name, reason=reason)
        else:
            yield _landed(name, [one for one in ones if not _is_managed(one, written)], written)


def _landed(name: str, ones: Sequence[NicInterrupt], written: State) -> Finding:
    total, strays, bad = 0, 0, []
    for one in ones:
        row = written.interrupts.get(one.number)
        if row is None or row.name != one.name:
            return unknown(name, reason=f"Interrupt {one.number} is new since the last move.")
        since = {cpu: count - row.before.get(cpu, 0) for cpu, count in one.counts.items()}
        if any(count < 0 for count in since.values()) or row.before.keys() - one.counts.keys():
            return unknown(name, reason=f"Interrupt {one.number} was counted from zero again.")
        came, astray = sum(since.values()), {c for c in since if since[c] and c not in one.allowed}
        lost = sum(since[cpu] for cpu in astray)
        total, strays = total + came, strays + lost
        # One that was on its way when it was moved still comes to its old CPU.
        if lost > max(_FEW_STRAYS, came * _STRAY_SHARE):
            bad.append(f"{lost} of {came} of {one.name} on {shown(sorted(astray))}")
    expected = "each on its own CPU"
    if bad:
        reason = "Interrupts come to other CPUs than those they were moved to."
        return failed(name, observed=_first(bad), expected=expected, reason=reason)
    if not total:
        reason = "None has come since they were moved: where they come is not shown yet."
        return warned(name, observed="0 interrupts", expected=expected, reason=reason)
    return passed(name, observed=f"{total - strays} of {total} in place", expected=expected)
