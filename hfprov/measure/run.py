"""Measure hosts: look, plan, keep quiet, run, retest suspects, judge, record."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hfprov.baseline import Baseline
from hfprov.catalogue.bandwidths import bandwidth_for
from hfprov.catalogue.skus import find_sku
from hfprov.errors import ExitCode
from hfprov.measure.judges import Bound, Past
from hfprov.measure.look import Ready, look, rails_of
from hfprov.measure.plan import HostStep, MeasurePlan, PairStep, Step, plan, seconds_of
from hfprov.measure.result import Culprit, Judging, Result, culprits, judge
from hfprov.measure.session import Taken, quiet_nodes, run_host_step, run_round
from hfprov.measure.tools import Kind, Settings, tools_of
from hfprov.pairs.explain import Kind as CauseKind
from hfprov.record.log import RunLog
from hfprov.record.model import HostState, Measurement
from hfprov.record.store import Record
from hfprov.sweep import Fleet
from hfprov.verdict import Outcome, worst

_MARGIN = 600.0
"""Seconds beyond the plan after which a node that we lost starts its timers again by itself."""
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Request:
    """What a person asked for."""

    kinds: tuple[Kind, ...]
    settings: Settings = field(default_factory=Settings)
    only_plan: bool = False


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of it."""

    run: str
    plan: MeasurePlan
    results: tuple[Result, ...]
    culprits: tuple[Culprit, ...]
    unfit: Mapping[str, str]
    """By host, or host and kind: why it was not measured."""
    code: ExitCode


def measure(
    record: Record,
    fleet: Fleet,
    log: RunLog,
    request: Request,
    on_plan: Callable[[MeasurePlan], None],
    say: Say,
) -> Measured:
    """Measure the hosts of a fleet. Nodes are kept quiet meanwhile, and are given back in any case.

    Raises HostBusyError when another run works on one of them.
    """
    tools = tools_of(request.kinds)
    ready, unfit = look(fleet, tools)
    installed = {host: frozenset(one.tools) for host, one in ready.items()}
    todo = plan(tools, request.settings, installed, rails_of(ready.values()))
    on_plan(todo)
    results: list[Result] = []
    found: list[Culprit] = []
    if todo.steps and not request.only_plan:
        log.acquire(todo.hosts)
        log.states(todo.hosts, HostState.MEASURING)
        with quiet_nodes(fleet, todo.hosts, todo.seconds * 2 + _MARGIN, say) as noisy:
            unfit |= noisy
            # Recorded step by step: what was measured is not lost with what is interrupted.
            for step in todo.without(noisy).steps:
                taken, blamed = _take(fleet, step, request.settings, say)
                judged = judge(taken, _judging(record, fleet, ready, taken))
                _record(log, ready, judged, blamed)
                results += judged
                found += blamed
        log.states(todo.hosts, HostState.OBSERVED)
    unfit |= todo.missing
    return Measured(
        log.id, todo, tuple(results), tuple(found), unfit, _exit_code(results, found, unfit)
    )


def _take(
    fleet: Fleet, step: Step, settings: Settings, say: Say
) -> tuple[list[Taken], list[Culprit]]:
    """Carry out one step; its figures in the order of the inventory."""
    about = f"about {seconds_of(step, settings):.0f} s"
    blamed: list[Culprit] = []
    if isinstance(step, HostStep):
        say(f"{step.tool.name} on {len(step.hosts)} hosts, {about}")
        chosen = {host: _settings_of(fleet.baselines[host], settings) for host in step.hosts}
        taken = run_host_step(fleet, step, chosen)
    else:
        taken = []
        for number, pairs in enumerate(step.rounds, start=1):
            say(f"{step.tool.name} in {step.rail}: round {number} of {len(step.rounds)}, {about}")
            taken += run_round(fleet, step, pairs, settings)
        blamed = _retested(fleet, step, settings, taken, say)
    places = {host: place for place, host in enumerate(fleet.baselines)}
    taken.sort(key=lambda one: (places[one.host], places.get(one.peer, -1)))
    return taken, blamed


def _record(
    log: RunLog,
    ready: Mapping[str, Ready],
    results: Sequence[Result],
    found: Sequence[Culprit],
) -> None:
    for one in results:
        log.measured(_measurement(one, ready[one.host]))
    for blamed in found:
        log.event("slow", words(blamed))


def _settings_of(baseline: Baseline, settings: Settings) -> Settings:
    machine = find_sku(str(baseline.get("node_sku", "")))
    count = baseline.get("node_accelerator_count") or (machine.count if machine else 0)
    return replace(settings, accelerators=int(str(count)))


def _retested(
    fleet: Fleet, step: PairStep, settings: Settings, taken: Sequence[Taken], say: Say
) -> list[Culprit]:
    """Suspects once more, each alone against a host that nobody suspects."""
    suspects = culprits(taken)
    blamed = {host for one in suspects for group in one.cause.hosts for host in group}
    good = [host for host in step.ends if host not in blamed]
    found = []
    for suspect in suspects:
        single = suspect.cause.kind in (CauseKind.HOST, CauseKind.PARTLY)
        if single and good:
            host = suspect.cause.hosts[0][0]
            say(f"{host} once more, alone against {good[0]}")
            again = run_round(fleet, step, [(host, good[0])], settings)
            values = [
                statistics.median(one.figures[suspect.test].values)
                for one in again
                if not one.problem and suspect.test in one.figures
            ]
            found.append(replace(suspect, alone=min(values) if values else None))
        else:
            found.append(suspect)
    return found


def _judging(
    record: Record, fleet: Fleet, ready: Mapping[str, Ready], taken: Sequence[Taken]
) -> Judging:
    bounds: dict[tuple[str, str], Bound] = {}
    past: dict[tuple[str, str, str], list[Past]] = {}
    for one in taken:
        for test, figure in one.figures.items():
            if bound := bound_of(fleet.baselines[one.host], test):
                bounds[one.host, test] = bound
            past[one.host, one.peer, test] = [
                Past(old.value, old.conditions, old.run)
                for old in record.measurements(one.host, test)
                if old.value is not None and old.peer == one.peer and old.unit == figure.unit
            ]
    conditions = {(one.host, one.tool.name): _conditions(one, ready[one.host]) for one in taken}
    return Judging(bounds, past, conditions)


def bound_of(baseline: Baseline, test: str) -> Bound | None:
    """What a test must reach on a host: as declared, else as the catalogue knows its SKU."""
    declared = baseline.get("node_expected_measurements") or {}
    if isinstance(declared, Mapping) and test in declared:
        return Bound(float(str(declared[test])), "node_expected_measurements")
    row = bandwidth_for(test, str(baseline.get("node_sku", "")))
    return Bound(row.gate, row.source) if row else None


def _conditions(one: Taken, ready: Ready) -> dict[str, object]:
    return {**ready.conditions, **ready.tools.get(one.tool.name, {})}


def _measurement(one: Result, ready: Ready) -> Measurement:
    tool = one.taken.tool
    conditions = {
        **_conditions(one.taken, ready),
        "argv": list(one.taken.argv),
        "alone": one.taken.alone,
        "outcome": one.outcome.value,
        "opinions": [[spoken.judge, spoken.outcome, spoken.reason] for spoken in one.opinions],
    }
    return Measurement(
        one.host,
        one.test,
        one.summary.median if one.summary else None,
        one.unit,
        peer=one.peer,
        parameters={
            "tool": tool.name,
            "rail": one.rail,
            "curve": [list(point) for point in one.figure.curve] if one.figure else [],
        },
        samples=one.figure.values if one.figure else (),
        conditions=json.loads(json.dumps(conditions, default=str)),
        raw=one.taken.raw,
    )


def words(one: Culprit) -> str:
    """What explains slow pairs, in a sentence."""
    groups = [", ".join(group) for group in one.cause.hosts]
    figures = f"{one.value:.3g} {one.unit}, where others reach {one.usual:.3g}"
    pairs = f"{one.cause.failed} of {one.cause.of} pairs are slow"
    if one.cause.kind is CauseKind.RAIL:
        return f"{one.test} in {one.rail}: the pairs differ widely; no single host explains it."
    if one.cause.kind is CauseKind.GROUPS:
        return f"{one.test} in {one.rail}: slow between {groups[0]} and {groups[1]} ({figures})."
    if one.cause.kind is CauseKind.PAIR:
        return f"{one.test} in {one.rail}: slow from {groups[0]} to {groups[1]} ({figures})."
    again = ""
    if one.alone is not None:
        again = f" Alone it reaches {one.alone:.3g}"
        again += (
            ": slow only beside others." if one.only_beside_others else ": it is slow by itself."
        )
    return f"{groups[0]}: {one.test} in {one.rail}: {pairs} ({figures}).{again}"


def _exit_code(
    results: Sequence[Result], found: Sequence[Culprit], unfit: Mapping[str, str]
) -> ExitCode:
    if not results:
        return ExitCode.UNKNOWN if unfit else ExitCode.NOTHING
    outcome = worst(one.outcome for one in results)
    if outcome is Outcome.UNKNOWN or unfit:
        return ExitCode.UNKNOWN
    blamed = any(not one.only_beside_others for one in found)
    return ExitCode.BAD if outcome is Outcome.FAIL or blamed else ExitCode.GOOD
