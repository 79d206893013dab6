"""Measure hosts: look, plan, keep quiet, run, retest suspects, judge, record."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hfprov.baseline import Baseline
from hfprov.catalogue.skus import find_sku
from hfprov.errors import ExitCode
from hfprov.measure.duration import (
    duration_of,
    duration_of_plan,
    duration_of_round,
    runs_of,
    runs_of_round,
)
from hfprov.measure.judging import judging, measurement
from hfprov.measure.look import Looked, Ready, look, rails_of, states
from hfprov.measure.plan import plan
from hfprov.measure.progress import StepProgress
from hfprov.measure.quiesce import quiet_nodes
from hfprov.measure.result import Culprit, Result, culprits, judge, words
from hfprov.measure.session import run_group_step, run_host_step, run_round
from hfprov.measure.steps import GroupStep, MeasurePlan, PairStep, Step
from hfprov.measure.taken import Taken
from hfprov.measure.tool import Kind, Settings, Tool
from hfprov.measure.tools import tools_of
from hfprov.pairs.explain import Kind as CauseKind
from hfprov.record.log import RunLog
from hfprov.record.model import HostState
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
    cautions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By host: what may distort its figures."""


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
    looked = look(fleet, tools)
    ready, unfit = looked.ready, looked.unfit
    _record_looked(log, looked)
    todo = _plan(fleet, tools, request.settings, ready)
    cautions = {host: ready[host].cautions for host in todo.hosts if ready[host].cautions}
    on_plan(todo)
    for host, reasons in cautions.items():
        say(f"{host}: {' '.join(reasons)}")
    results: list[Result] = []
    found: list[Culprit] = []
    if todo.steps and not request.only_plan:
        log.acquire(todo.hosts)
        log.states(todo.hosts, HostState.MEASURING)
        with quiet_nodes(fleet, todo.hosts, _quiet_seconds(todo), say) as noisy:
            unfit |= noisy
            # Recorded step by step: what was measured is not lost with what is interrupted.
            for step in todo.without(noisy).steps:
                taken, blamed = _take(fleet, step, request.settings, say)
                judged = judge(taken, judging(record, fleet, ready, taken))
                _record(log, judged, blamed)
                results += judged
                found += blamed
            _record_states(log, ready, states(fleet, todo.without(noisy).hosts))
        log.states(todo.hosts, HostState.OBSERVED)
    unfit |= todo.missing
    if request.only_plan:
        # As the measurement itself would end: what cannot be measured stays unknown.
        able = ExitCode.UNKNOWN if unfit else ExitCode.GOOD
        code = able if todo.steps else ExitCode.NOTHING
    else:
        code = _exit_code(results, found, unfit)
    return Measured(log.id, todo, tuple(results), tuple(found), unfit, code, cautions)


def _plan(
    fleet: Fleet, tools: Sequence[Tool], settings: Settings, ready: Mapping[str, Ready]
) -> MeasurePlan:
    installed = {host: frozenset(one.tools) for host, one in ready.items()}
    machines = {host: one.machine for host, one in ready.items()}
    todo = plan(tools, settings, installed, rails_of(ready.values()), machines)
    return replace(todo, at_once=fleet.at_once)


def _quiet_seconds(todo: MeasurePlan) -> float:
    """After which a node that we lost starts its timers again by itself; busy nodes are slow."""
    return duration_of_plan(todo).most * 2 + _MARGIN


def _record_looked(log: RunLog, looked: Looked) -> None:
    """That hosts were looked at, whether or not something is measured on them afterwards."""
    log.states(looked.ready, HostState.OBSERVED)
    for host, reason in looked.unfit.items():
        silent = host in looked.silent
        log.state(host, HostState.UNREACHABLE if silent else HostState.OBSERVED, reason)


def _take(
    fleet: Fleet, step: Step, settings: Settings, say: Say
) -> tuple[list[Taken], list[Culprit]]:
    """Carry out one step; its figures in the order of the inventory."""
    name, blamed = step.tool.name, list[Culprit]()
    if isinstance(step, PairStep):
        taken = []
        for number, pairs in enumerate(step.rounds, start=1):
            title = f"{name} in {step.rail}: round {number} of {len(step.rounds)}"
            say(f"{title}, {duration_of_round(step, pairs, settings, fleet.at_once)}")
            progress = StepProgress(say, title, runs_of_round(step, pairs, settings))
            taken += run_round(fleet, step, pairs, settings, progress)
        blamed = _retested(fleet, step, settings, taken, say)
    else:
        hosts = f"{len(step.hosts)} host{'' if len(step.hosts) == 1 else 's'}"
        together = f" of {step.rail}" if isinstance(step, GroupStep) else ""
        title = f"{name} {'over' if together else 'on'} {hosts}{together}"
        say(f"{title}, {duration_of(step, settings, fleet.at_once)}")
        progress = StepProgress(say, title, runs_of(step))
        if isinstance(step, GroupStep):
            taken = run_group_step(fleet, step, settings, progress)
        else:
            chosen = {host: _settings_of(fleet.baselines[host], settings) for host in step.hosts}
            taken = run_host_step(fleet, step, chosen, progress)
    places = {host: place for place, host in enumerate(fleet.baselines)}
    taken.sort(key=lambda one: (places[one.host], places.get(one.peer, -1)))
    return taken, blamed


def _record(log: RunLog, results: Sequence[Result], found: Sequence[Culprit]) -> None:
    for one in results:
        log.measured(measurement(one))
    for blamed in found:
        log.event("slow", words(blamed))


def _record_states(
    log: RunLog, ready: Mapping[str, Ready], after: Mapping[str, Mapping[str, Any]]
) -> None:
    """What the nodes were like before is with every figure; what they became is told once."""
    for host, state in after.items():
        before = {name: ready[host].conditions.get(name) for name in state}
        data = json.loads(json.dumps({"before": before, "after": state}, default=str))
        log.event("conditions", "Load, temperatures and clocks after it was measured.", host, data)


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
        if single and good and not suspect.doubtful:
            host = suspect.cause.hosts[0][0]
            say(f"{host} once more, alone against {good[0]}")
            again = run_round(fleet, step, [(host, good[0])], settings)
            values = [
                statistics.median(one.figures[suspect.test].values)
                for one in again
                if not one.problem and suspect.test in one.figures
            ]
            worst_way = min if suspect.higher_is_better else max
            found.append(replace(suspect, alone=worst_way(values) if values else None))
        else:
            found.append(suspect)
    return found


def _exit_code(
    results: Sequence[Result], found: Sequence[Culprit], unfit: Mapping[str, str]
) -> ExitCode:
    if not results:
        return ExitCode.UNKNOWN if unfit else ExitCode.NOTHING
    outcome = worst(one.outcome for one in results)
    if outcome is Outcome.UNKNOWN or unfit:
        return ExitCode.UNKNOWN
    blamed = any(not one.only_beside_others and not one.doubtful for one in found)
    if outcome is Outcome.FAIL or blamed:
        return ExitCode.BAD
    return ExitCode.UNKNOWN if any(one.doubtful for one in found) else ExitCode.GOOD
