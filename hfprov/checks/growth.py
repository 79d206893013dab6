"""What went wrong between two observations of one host: counters of errors that grew.

Totals say that something was wrong once; growth says that it is wrong now. A reboot begins all
counters at zero. A counter that went down without one was reset: then it grew by at least what it
shows, and that it grew by no more is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hfprov.baseline import Baseline
from hfprov.checks.magnitude import magnitude
from hfprov.checks.memory import CORRECTED_PER_DAY
from hfprov.checks.nic_health import DAMAGED_SHARE, LOST_SHARE, Trouble, trouble
from hfprov.checks.pcie import BENIGN, CORRECTABLE_PER_DAY
from hfprov.checks.registry import Facts, check
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.ethtool.statistics import Statistics
from hfprov.evidence.memory_node import MEMORY_ERRORS
from hfprov.evidence.net_counters import Family, changes, meaning_of
from hfprov.evidence.nic_node import NIC_STATISTICS
from hfprov.evidence.pci_devices import AER
from hfprov.evidence.rdma_node import RDMA_COUNTERS
from hfprov.evidence.system import KERNEL
from hfprov.reading import Observation, Source
from hfprov.verdict import (
    Finding,
    Impact,
    NotApplicable,
    failed,
    not_applicable,
    passed,
    unknown,
    warned,
)

_DAY = 86_400.0
_COUNTED = frozenset({Family.ERROR, Family.DISCARD, Family.LINK, Family.RETRANSMIT, Family.TRAFFIC})
_EXPECTED = "no growth of note"

Sample = dict[str, int]
Judgement = Callable[[str, "Growth"], Finding]


@dataclass(frozen=True, slots=True)
class Growth:
    """By how much the counters of one thing rose, at least."""

    increases: Mapping[str, int]
    seconds: float
    uncertain: bool
    """Some counters were reset in between, or stood at their largest value already."""

    @property
    def days(self) -> float:
        return max(1.0, self.seconds / _DAY)


def growth(before: Observation, after: Observation, baseline: Baseline) -> list[Finding]:
    """Findings on everything that counts errors: adapters, RDMA ports, memory, PCIe functions.

    The subject names the kind and the device (``adapter eth1``, ``memory mc0 DIMM_A1``). What only
    one of the observations has is ``unknown``; where neither counts anything, there is no finding.
    """
    return _between(Facts(before, baseline), Facts(after, baseline))


_COMPARED: tuple[Source[Any], ...] = (KERNEL, NIC_STATISTICS, RDMA_COUNTERS, MEMORY_ERRORS, AER)


def compared_reads(baseline: Baseline) -> frozenset[str]:
    """Ids of all reads that are needed of an earlier observation."""
    return frozenset(read.id for source in _COMPARED for read in source.reads(baseline))


@check(
    "growth.counters",
    reads=_COMPARED,
    impact=Impact.MANUAL,
)
def counters(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Counters of errors have not grown since an earlier run looked."""
    if facts.earlier is None:
        why = "The record has no earlier observation of this host."
        yield not_applicable(NotApplicable.NOT_REQUESTED, why)
        return
    findings = _between(Facts(facts.earlier, baseline), facts)
    if not findings:
        yield not_applicable(NotApplicable.NO_SUCH_HARDWARE, "Nothing here counts errors.")
    yield from findings


def _between(then: Facts, now: Facts) -> list[Finding]:
    seconds = now.seen.now - then.seen.now
    if not then.seen.now or not now.seen.now or seconds <= 0:
        return [
            unknown(reason="The node's clock does not tell how far the observations are apart.")
        ]
    try:
        rebooted = then.get(KERNEL).boot_id != now.get(KERNEL).boot_id
    except (NoEvidenceError, NotUnderstoodError) as error:
        return [unknown(reason=f"Whether the node was rebooted in between: {error.message}")]
    findings: list[Finding] = []
    for samples_of, judge in _KINDS:
        old, new = samples_of(then), samples_of(now)
        findings.extend(
            _one(subject, old, new, judge, seconds=seconds, rebooted=rebooted)
            for subject in dict.fromkeys((*old, *new))
        )
    return findings


def _one(
    subject: str,
    old: Mapping[str, Sample],
    new: Mapping[str, Sample],
    judge: Judgement,
    *,
    seconds: float,
    rebooted: bool,
) -> Finding:
    if subject not in new:
        return unknown(subject, reason="It is gone, or its counters can no longer be read.")
    if rebooted:
        return judge(subject, Growth(new[subject], seconds, uncertain=False))
    if subject not in old:
        return unknown(subject, reason="The earlier observation did not have it.")
    try:
        found = changes(old[subject], new[subject], seconds)
    except NoEvidenceError as error:
        return unknown(subject, reason=error.message)
    increases = {
        # A counter that was reset shows what came after.
        one.name: one.after if one.reset else one.increase or 0
        for one in found.changes
    }
    uncertain = any(_is_counted(one.name) for one in found.unknown)
    return judge(subject, Growth(increases, seconds, uncertain=uncertain))


def _is_counted(name: str) -> bool:
    """Whether a counter that went down means a reset; some figures among them are no counters."""
    return name in ("corrected", "uncorrected") or meaning_of(name).family in _COUNTED


def _known(facts: Facts, samples: Callable[[Facts], dict[str, Sample]]) -> dict[str, Sample]:
    try:
        return samples(facts)
    except (NoEvidenceError, NotUnderstoodError):
        return {}


def _adapters(facts: Facts) -> dict[str, Sample]:
    return {
        f"adapter {name}": dict(found.counters)
        for name, found in facts.get(NIC_STATISTICS).facts.items()
        if isinstance(found, Statistics)
    }


def _ports(facts: Facts) -> dict[str, Sample]:
    return {f"port {name}": dict(counts) for name, counts in facts.get(RDMA_COUNTERS).items()}


def _memory(facts: Facts) -> dict[str, Sample]:
    samples: dict[str, Sample] = {}
    for one in facts.get(MEMORY_ERRORS):
        name = f"memory mc{one.index}"
        samples[name] = {"corrected": one.corrected, "uncorrected": one.uncorrected}
        for dimm in one.dimms:
            label = dimm.label or f"module {dimm.index}"
            counts = {"corrected": dimm.corrected, "uncorrected": dimm.uncorrected}
            samples[f"{name} {label}"] = counts
    return samples


def _functions(facts: Facts) -> dict[str, Sample]:
    samples: dict[str, Sample] = {}
    for address, one in facts.get(AER).items():
        serious = {**one.nonfatal, **one.fatal}
        grave = sum(count for name, count in serious.items() if name not in BENIGN)
        # Names that are at zero are left out of the evidence, so that only sums can be compared.
        counts = {"uncorrected": grave, "corrected": sum(one.correctable.values())}
        samples[f"pcie {address}"] = counts
    return samples


def _judge_adapter(subject: str, rise: Growth) -> Finding:
    seen = trouble(rise.increases)
    links = _of(rise, Family.LINK)
    return _first(
        subject,
        rise,
        (seen.exceeds(seen.damaged, DAMAGED_SHARE), failed, seen.damaged, "Frames arrive damaged."),
        (bool(links), warned, links, "The link went down, or had to recover."),
        (bool(seen.storms), warned, seen.storms, "The adapter stopped the network for long."),
        (seen.exceeds(seen.lost, LOST_SHARE), warned, seen.lost, "Frames are thrown away."),
        (bool(seen.damaged), warned, seen.damaged, "A few frames arrived damaged."),
    )


def _judge_port(subject: str, rise: Growth) -> Finding:
    errors = {
        name: count
        for name, count in _of(rise, Family.ERROR).items()
        if not meaning_of(name).note and "cqe" not in name
    }
    links, again = _of(rise, Family.LINK), _of(rise, Family.RETRANSMIT)
    packets = rise.increases.get("port_rcv_packets", 0) or None
    traffic = Trouble(packets, packets, damaged=errors, lost=again, paused={}, storms={})
    return _first(
        subject,
        rise,
        (traffic.exceeds(errors, DAMAGED_SHARE), failed, errors, "The port receives damage."),
        (bool(links), warned, links, "The link went down, or had to recover."),
        (bool(errors), warned, errors, "The port received a little damage."),
        (traffic.exceeds(again, LOST_SHARE), warned, again, "Much had to be sent again."),
    )


def _judge_memory(subject: str, rise: Growth) -> Finding:
    lost = _only(rise, "uncorrected")
    often = rise.increases.get("corrected", 0) > CORRECTED_PER_DAY * rise.days
    corrected = _only(rise, "corrected")
    return _first(
        subject,
        rise,
        (bool(lost), failed, lost, "Data in memory was lost."),
        (often, warned, corrected, "It is corrected more often than a healthy module."),
    )


def _judge_function(subject: str, rise: Growth) -> Finding:
    lost = _only(rise, "uncorrected")
    often = rise.increases.get("corrected", 0) > CORRECTABLE_PER_DAY * rise.days
    corrected = _only(rise, "corrected")
    return _first(
        subject,
        rise,
        (bool(lost), failed, lost, "Packets on the bus were lost for good."),
        (often, warned, corrected, "The link is repaired all the time."),
    )


Case = tuple[bool, Callable[..., Finding], Mapping[str, int], str]


def _first(subject: str, rise: Growth, *cases: Case) -> Finding:
    """The first case that applies; nothing wrong is only a pass when nothing was hidden."""
    hours = rise.seconds / 3600
    for applies, judged, counts, reason in cases:
        if applies:
            most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:4]
            observed = ", ".join(f"{name}: {magnitude(count)}" for name, count in most)
            observed += f" in {hours:.1f} hours"
            return judged(subject, observed=observed, expected=_EXPECTED, reason=reason)
    if rise.uncertain:
        reason = "Counters were reset in between, or are at their largest value."
        return unknown(subject, reason=reason, expected=_EXPECTED)
    return passed(subject, observed="no growth of note", expected=_EXPECTED)


def _of(rise: Growth, family: Family) -> Sample:
    return {
        name: count
        for name, count in rise.increases.items()
        if count > 0 and meaning_of(name).family is family
    }


def _only(rise: Growth, name: str) -> Sample:
    count = rise.increases.get(name, 0)
    return {name: count} if count else {}


def _kind(samples: Callable[[Facts], dict[str, Sample]]) -> Callable[[Facts], dict[str, Sample]]:
    return lambda facts: _known(facts, samples)


_KINDS: tuple[tuple[Callable[[Facts], dict[str, Sample]], Judgement], ...] = (
    (_kind(_adapters), _judge_adapter),
    (_kind(_ports), _judge_port),
    (_kind(_memory), _judge_memory),
    (_kind(_functions), _judge_function),
)
