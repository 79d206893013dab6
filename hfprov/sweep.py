"""One sweep over hosts: observe, judge, record each as it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from hfprov.ahead import Ahead
from hfprov.baseline import Baseline
from hfprov.certificate.configuration import Configuration, configuration_of
from hfprov.certificate.waivers import NO_WAIVERS, Waivers
from hfprov.checks.growth import compared_reads
from hfprov.checks.registry import Facts, checks_for
from hfprov.declare.connection import Connection
from hfprov.errors import NoEvidenceError, NotUnderstoodError, RecordError, RemoteError
from hfprov.evidence.accelerators.adapters import ACCELERATORS
from hfprov.evidence.identity import IDENTITY
from hfprov.evidence.system import KERNEL, OS, PROCESSES
from hfprov.fleet_checks import Sample, accelerator_samples
from hfprov.judge import outcome_of, unreachable, wanted_reads
from hfprov.observe import AT_ONCE, HOST_DEADLINE, Answer, observe_groups, parse_answer
from hfprov.reading import Observation, Source
from hfprov.record.errors import HostIdentityError
from hfprov.record.evidence import Seen
from hfprov.record.identity import Identity
from hfprov.record.log import RunLog
from hfprov.record.model import HostState
from hfprov.remembered import Remembered
from hfprov.verdict import Outcome, Verdict, unknown

F = TypeVar("F")

SOFTWARE = "software"
"""The facts that are kept of each observation, to tell later what changed; see :func:`software`."""
BOOT = "boot"
TOGETHER = 32
"""Hosts recorded in one transaction at most; so many are lost when the controller dies."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """The hosts that a command works on: what each must be, and how to reach it."""

    baselines: Mapping[str, Baseline]
    connections: Mapping[str, Connection]
    at_once: int = AT_ONCE
    deadline: float = HOST_DEADLINE
    waivers: Waivers = NO_WAIVERS
    """Who answers for which findings; shown beside them."""
    ahead: Ahead | None = None
    """What was begun of the first sweep; see :mod:`hfprov.ahead`."""

    def only(self, hosts: Iterable[str]) -> Fleet:
        """The same fleet, of these hosts only."""
        wanted = set(hosts)
        return replace(
            self,
            baselines={name: one for name, one in self.baselines.items() if name in wanted},
            connections={name: one for name, one in self.connections.items() if name in wanted},
        )


@dataclass(frozen=True, slots=True)
class HostVerdicts:
    """One host as one sweep saw it."""

    host: str
    verdicts: tuple[Verdict, ...]
    reachable: bool
    reason: str = ""
    """Why it was not observed, or why what was observed does not count."""
    hint: str = ""
    evidence_sha256: str = ""
    identity: Identity | None = None
    workloads: tuple[str, ...] | None = None
    """Containers and jobs at work; None when that is not known."""
    samples: tuple[Sample, ...] = ()
    """What is compared across hosts: kernel, drivers, firmware."""
    configuration: Configuration | None = None
    """What the machine consists of and runs; None when it was not observed for that."""

    @property
    def outcome(self) -> Outcome:
        return outcome_of(list(self.verdicts))


OnHost = Callable[[HostVerdicts], None]


def sweep(
    fleet: Fleet,
    log: RunLog,
    *,
    phase: str,
    state: HostState = HostState.OBSERVED,
    on_host: OnHost = lambda _: None,
) -> dict[str, HostVerdicts]:
    """Observe and judge every host of the fleet, and record each when it has answered."""
    reads = wanted_reads(fleet.baselines)
    answers = observe_groups(
        reads,
        fleet.connections,
        at_once=fleet.at_once,
        deadline=fleet.deadline,
        begun={} if fleet.ahead is None else fleet.ahead.take(),
    )
    return judge_answers(fleet, answers, log, phase=phase, state=state, on_host=on_host)


def judge_answers(
    fleet: Fleet,
    answers: Iterable[Sequence[Answer]],
    log: RunLog,
    *,
    phase: str,
    state: HostState = HostState.OBSERVED,
    on_host: OnHost = lambda _: None,
) -> dict[str, HostVerdicts]:
    """Judge and record hosts as they answer, those that came together in one transaction.

    The views are in the order of the fleet.
    """
    views: dict[str, HostVerdicts] = {}
    remembered = Remembered()
    for group in answers:
        for start in range(0, len(group), TOGETHER):
            some = group[start : start + TOGETHER]
            for view in _recorded(fleet, some, log, phase, state, remembered):
                views[view.host] = view
                on_host(view)
    return {host: views[host] for host in fleet.baselines}


def _recorded(
    fleet: Fleet,
    answers: Iterable[Answer],
    log: RunLog,
    phase: str,
    state: HostState,
    remembered: Remembered,
) -> Iterator[HostVerdicts]:
    """Views of some hosts, all of which are recorded before the first one is given."""
    seen: list[tuple[HostVerdicts, Seen]] = []
    views: list[HostVerdicts] = []
    for answer in answers:
        if answer.observation is None:
            views.append(_not_observed(fleet, answer, log, phase))
        else:
            seen.append(_judged(fleet, answer, answer.observation, log, remembered, phase, state))
    for (view, _), kept in zip(seen, log.observed_all([one for _, one in seen]), strict=True):
        if isinstance(kept, HostIdentityError):
            views.append(_refused(view, kept, log, phase))
        else:
            views.append(replace(view, evidence_sha256=kept))
    yield from views


def _not_observed(fleet: Fleet, answer: Answer, log: RunLog, phase: str) -> HostVerdicts:
    host = answer.host
    verdicts = fleet.waivers.annotate(host, unreachable(fleet.baselines[host], answer.error))
    log.not_observed(host, phase, answer.error, verdicts)
    return HostVerdicts(
        host, tuple(verdicts), reachable=False, reason=answer.error, hint=answer.hint
    )


def _refused(view: HostVerdicts, error: HostIdentityError, log: RunLog, phase: str) -> HostVerdicts:
    """Two names for one machine: what was seen may be recorded for neither of them."""
    verdicts = [Verdict(one.check, unknown(reason=error.message)) for one in view.verdicts]
    log.not_observed(view.host, phase, error.message, verdicts)
    return HostVerdicts(
        view.host, tuple(verdicts), reachable=False, reason=error.message, hint=error.hint
    )


def _judged(
    fleet: Fleet,
    answer: Answer,
    observation: Observation,
    log: RunLog,
    remembered: Remembered,
    phase: str,
    state: HostState,
) -> tuple[HostVerdicts, Seen]:
    """What a host is to be shown as, and what is to be recorded of it."""
    host, baseline = answer.host, fleet.baselines[answer.host]
    facts = Facts(observation, baseline, _earlier(baseline, log))
    verdicts = fleet.waivers.annotate(
        host, remembered.judge(tuple(checks_for(baseline)), facts, baseline)
    )
    identity, processes = known(facts, IDENTITY), known(facts, PROCESSES)
    samples = host_samples(host, facts)
    view = HostVerdicts(
        host,
        tuple(verdicts),
        reachable=True,
        identity=identity,
        workloads=None if processes is None else processes.workloads,
        samples=samples,
        configuration=configuration_of(facts),
    )
    kept = {SOFTWARE: software(samples, facts)}
    return view, Seen(
        host, phase, answer.raw, verdicts, identity, kept, state, packed=answer.packed
    )


def _earlier(baseline: Baseline, log: RunLog) -> Observation | None:
    """What the newest run before this one saw of a host.

    What cannot be read any more, as it is damaged or of another version, is as if it was not there.
    """
    try:
        raw = log.earlier_evidence(baseline.host)
        return None if raw is None else parse_answer(raw, compared_reads(baseline))
    except (RecordError, RemoteError):
        return None


def known(facts: Facts, source: Source[F]) -> F | None:
    """The facts of a source, or None when they do not tell; the checks then say why."""
    try:
        return facts.get(source)
    except (NoEvidenceError, NotUnderstoodError):
        return None


def host_samples(host: str, facts: Facts) -> tuple[Sample, ...]:
    """What should be the same on every host of a kind. What is not known is not compared."""
    values = {}
    kernel, system = known(facts, KERNEL), known(facts, OS)
    if kernel is not None:
        values["kernel"] = kernel.release
    if system is not None:
        values["system"] = " ".join(system)
    heard = known(facts, ACCELERATORS)
    devices = () if heard is None else heard.devices
    return (Sample(host, "host", values), *accelerator_samples(host, devices))


def software(samples: Iterable[Sample], facts: Facts) -> dict[str, str]:
    """What may explain a drift when it is another one than before: kernel, drivers, firmware, boot.

    Devices of a kind that differ are named with all their values.
    """
    values: dict[str, set[str]] = {}
    for sample in samples:
        for name, value in sample.values.items():
            label = name if sample.kind == "host" else f"{name} of {sample.kind}"
            values.setdefault(label, set()).add(value)
    found = {label: ", ".join(sorted(some)) for label, some in values.items()}
    kernel = known(facts, KERNEL)
    if kernel is not None:
        found[BOOT] = kernel.boot_id
    return found
