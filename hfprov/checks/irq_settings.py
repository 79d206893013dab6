"""Queues of the data NICs as declared: how many, how long, how often they interrupt, whose.

Numbers that are ``auto`` or ``max`` are worked out here from what the NIC can do and which cores
are near it.
"""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.hardware import in_container, judged_each
from hfprov.checks.irq_scope import ROLE, Scope, unplaced
from hfprov.checks.registry import Facts, check
from hfprov.errors import NoEvidenceError
from hfprov.evidence.ethtool.failure import EthtoolFailure, Reason
from hfprov.evidence.ethtool.settings import Coalescing, SizesFacts
from hfprov.evidence.irq_cores import CORES
from hfprov.evidence.irq_node import ADAPTERS
from hfprov.evidence.irq_settings import QUEUE_SETTINGS, STEERING, QueueSettings
from hfprov.evidence.managed_links import LINKS
from hfprov.evidence.system import MACHINE
from hfprov.verdict import (
    Finding,
    Impact,
    NotApplicable,
    compared,
    failed,
    not_applicable,
    passed,
)

LEAVE, AUTO, MAX = "leave", "auto", "max"
_READS = (MACHINE, LINKS, ADAPTERS, CORES)
_TAKES_LINK_DOWN = (
    "irq_affinity_channels",
    "irq_affinity_ring_rx",
    "irq_affinity_ring_tx",
    "irq_affinity_coalescing",
)


@check(
    "irq.queues",
    reads=[*_READS, QUEUE_SETTINGS],
    role=ROLE,
    impact=Impact.DRAIN,
    judges=_TAKES_LINK_DOWN,
)
def queues(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Channels, rings and interrupt moderation of each data NIC."""
    if elsewhere := in_container(facts, "the network adapters"):
        yield elsewhere
        return
    scope = Scope.of(facts, baseline)
    settings = facts.get(QUEUE_SETTINGS)
    for name in scope.missing:
        yield unplaced(facts, name)
    yield from judged_each(scope.names, lambda name: _set_up(settings, scope, baseline, name))


def _set_up(settings: QueueSettings, scope: Scope, baseline: Baseline, name: str) -> Finding:
    """One finding on an adapter: what of it is not as declared."""
    rows = [
        *_channels(settings, scope, str(baseline["irq_affinity_channels"]), name),
        *_rings(settings, "rx", str(baseline["irq_affinity_ring_rx"]), name),
        *_rings(settings, "tx", str(baseline["irq_affinity_ring_tx"]), name),
        *_moderation(settings, baseline, name),
    ]
    bad = [row for row in rows if row[1] != row[2]]
    if bad:
        observed = ", ".join(f"{what} {found}" for what, found, _ in bad)
        expected = ", ".join(f"{what} {wanted}" for what, _, wanted in bad)
        reason = "The NIC's queues are not as declared."
        return failed(name, observed=observed, expected=expected, reason=reason)
    if not rows:
        reason = "Nothing of its queues is declared, or its driver has nothing to set."
        return not_applicable(NotApplicable.NOT_REQUESTED, reason, name)
    as_declared = ", ".join(f"{what} {found}" for what, found, _ in rows)
    return passed(name, observed=as_declared, expected=as_declared)


_SWITCH = {True: "on", False: "off", None: "cannot be set"}
_Row = tuple[str, str, str]
"""What, found, wanted."""


def _sizes(settings: QueueSettings, form: str, name: str) -> SizesFacts | None:
    """None where the driver has no such thing."""
    found = settings.of(form, name)
    if isinstance(found, SizesFacts):
        return found
    if isinstance(found, EthtoolFailure) and found.reason is Reason.NOT_SUPPORTED:
        return None
    said = found.sentence if isinstance(found, EthtoolFailure) else "another answer"
    raise NoEvidenceError(f"'ethtool {form} {name}': {said}")


def _channels(settings: QueueSettings, scope: Scope, wanted: str, name: str) -> Iterator[_Row]:
    if wanted == LEAVE:
        return
    sizes = _sizes(settings, "-l", name)
    maximum = sizes.maximum if sizes else {}
    most = {kind: maximum.get(kind) or 0 for kind in ("combined", "rx", "tx")}
    kinds = ["combined"] if most["combined"] else [kind for kind in ("rx", "tx") if most[kind]]
    if not kinds and wanted != AUTO:
        yield "channels", "cannot be set", wanted
    for kind in kinds:
        number = str(min(len(scope.allowed(name)), most[kind])) if wanted == AUTO else wanted
        found = sizes.current.get(kind) if sizes else None
        yield f"{kind} channels", str(found), number


def _rings(settings: QueueSettings, side: str, wanted: str, name: str) -> Iterator[_Row]:
    if wanted == LEAVE:
        return
    sizes = _sizes(settings, "-g", name)
    most = sizes.maximum.get(side) if sizes else None
    if not sizes or not most:
        yield f"{side} ring", "cannot be set", wanted
    else:
        yield f"{side} ring", str(sizes.current.get(side)), str(most) if wanted == MAX else wanted


def _moderation(settings: QueueSettings, baseline: Baseline, name: str) -> Iterator[_Row]:
    declared = baseline["irq_affinity_coalescing"]
    if not declared:
        return
    found = settings.of("-c", name)
    for key, value in sorted(declared.items()):
        wanted = _SWITCH[value] if isinstance(value, bool) else str(value)
        if not isinstance(found, Coalescing):
            yield key, "cannot be set", wanted
        elif key in ("adaptive-rx", "adaptive-tx"):
            switch = found.adaptive_rx if key == "adaptive-rx" else found.adaptive_tx
            yield key, _SWITCH[switch], wanted
        else:
            number = found.values.get(key)
            yield key, "cannot be set" if number is None else str(number), wanted


@check(
    "irq.steering",
    reads=[*_READS, STEERING],
    role=ROLE,
    impact=Impact.NONE,
    judges=["irq_affinity_rps", "irq_affinity_xps"],
)
def steering(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """RPS is off, and each transmit queue is used by the core that its interrupt is on."""
    if elsewhere := in_container(facts, "the network adapters"):
        yield elsewhere
        return
    scope = Scope.of(facts, baseline)
    for name in scope.missing:
        yield unplaced(facts, name)
    for name in scope.names:
        yield _receiving(facts, baseline, name)
        yield _sending(facts, baseline, scope, name)


def _receiving(facts: Facts, baseline: Baseline, name: str) -> Finding:
    subject = f"{name} RPS"
    if baseline["irq_affinity_rps"] == LEAVE:
        reason = f"'irq_affinity_rps' is '{LEAVE}'."
        return not_applicable(NotApplicable.NOT_REQUESTED, reason, subject)
    found = {queue: cpus for (net, queue), cpus in facts.get(STEERING).rps.items() if net == name}
    if not found:
        raise NoEvidenceError(f"'{name}' has no receive queue in sysfs.")
    on = sorted(queue for queue, cpus in found.items() if cpus)
    observed = f"on for queue {', '.join(map(str, on[:8]))}" if on else "off"
    reason = "Packets are moved to other CPUs once more, in software."
    return compared(subject, observed=observed, expected="off", reason=reason)


def _sending(facts: Facts, baseline: Baseline, scope: Scope, name: str) -> Finding:
    subject = f"{name} XPS"
    if baseline["irq_affinity_xps"] == LEAVE:
        reason = f"'irq_affinity_xps' is '{LEAVE}'."
        return not_applicable(NotApplicable.NOT_REQUESTED, reason, subject)
    found = {queue: cpus for (net, queue), cpus in facts.get(STEERING).xps.items() if net == name}
    core_of = {cpu: frozenset(core) for core in scope.cores.cores for cpu in core}
    wanted = {
        queue: core_of[ones[0].allowed[0]]
        for queue, ones in scope.adapters[name].queues.items()
        if queue in found and len(ones[0].allowed) == 1 and ones[0].allowed[0] in core_of
    }
    if len(found) <= 1:
        reason = "It has one transmit queue, which every CPU uses."
        return not_applicable(NotApplicable.NO_SUCH_HARDWARE, reason, subject)
    if not wanted:
        reason = "No transmit queue could be matched with an interrupt on one CPU."
        return failed(subject, observed="none matched", expected="matched", reason=reason)
    bad = sorted(queue for queue, cpus in wanted.items() if found[queue] != cpus)
    observed = f"queue {', '.join(map(str, bad[:8]))} elsewhere" if bad else "matched"
    reason = "Transmit queues are used by other cores than those that their interrupts are on."
    return compared(subject, observed=observed, expected="matched", reason=reason)
