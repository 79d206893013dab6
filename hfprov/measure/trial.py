"""Measure, apply a role, measure again, undo or keep: how a setting earns its place.

Both sides are measured the same way on the same nodes, and what the setting did is told with its
confidence. The nodes are given back as they were, also after an error or Ctrl-C, unless asked to
keep what was tried.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hfprov.converge import Tools, change_of, play_request
from hfprov.errors import ExitCode, PlayError, UsageError
from hfprov.measure.result import Result
from hfprov.measure.run import Measured, Request, measure
from hfprov.measure.statistics import FEWEST_SAMPLES, Effect, effect
from hfprov.measure.steps import MeasurePlan
from hfprov.play import HostResult, PlayStatus, TaskResult, run_play
from hfprov.record.log import RunLog
from hfprov.record.model import HostState
from hfprov.record.store import Record
from hfprov.sweep import Fleet

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class TrialRequest:
    """What is tried."""

    role: str
    before: Mapping[str, Any]
    """Variables of the role for the first measurement, and for undoing it."""
    after: Mapping[str, Any]
    """Variables of the role for the second; empty: as the inventory declares."""
    measure: Request
    keep: bool = False


@dataclass(frozen=True, slots=True)
class SettingEffect:
    """What the change did to one test, over all hosts and pairs."""

    test: str
    effect: Effect | None
    """None: it cannot be told; ``reason`` says why."""
    pairs: int
    """Hosts, or pairs of hosts, that were measured both times."""
    higher_is_better: bool = True
    reason: str = ""

    @property
    def better(self) -> bool | None:
        """Whether it is better; None when no effect is shown."""
        if self.effect is None or not self.effect.shown:
            return None
        return (self.effect.size > 0) is self.higher_is_better


@dataclass(slots=True)
class Trial:
    """What came of it."""

    run: str
    first: Measured | None = None
    second: Measured | None = None
    effects: list[SettingEffect] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """By host: why the role could not be applied, or undone."""
    kept: bool = False

    @property
    def code(self) -> ExitCode:
        if self.failed:
            return ExitCode.BAD
        if not self.effects or any(one.effect is None for one in self.effects):
            return ExitCode.UNKNOWN
        return ExitCode.GOOD


def trial(
    record: Record, fleet: Fleet, tools: Tools, log: RunLog, asked: TrialRequest, say: Say
) -> Trial:
    """Carry out a trial. Raises UsageError for a role or variable that a host does not have."""
    require(fleet, asked)
    done = Trial(log.id)
    hosts = tuple(fleet.baselines)

    def look() -> Measured:
        return measure(record, fleet, log, asked.measure, _silent, say)

    log.acquire(hosts)
    try:
        say(f"role '{asked.role}' with {_shown(asked.before)}")
        done.failed |= apply(tools, hosts, asked.role, asked.before, log)
        if done.failed:
            return done
        done.first = look()
        say(f"role '{asked.role}' with {_shown(asked.after) or 'what the inventory declares'}")
        done.failed |= apply(tools, hosts, asked.role, asked.after, log)
        if not done.failed:
            done.second = look()
            done.effects = effects(done.first.results, done.second.results)
            done.kept = asked.keep
    finally:
        if not done.kept:
            say(f"role '{asked.role}' is undone")
            done.failed |= apply(tools, hosts, asked.role, asked.before, log)
        log.states(hosts, HostState.FAILED if done.failed else HostState.VERIFIED)
        log.release(hosts)
    for one in done.effects:
        log.event("trial", sentence(one), data={"role": asked.role, "kept": done.kept})
    return done


def _silent(_: MeasurePlan) -> None:
    """The plan is the same both times, and is not shown again."""


def require(fleet: Fleet, asked: TrialRequest) -> None:
    """Raises UsageError for a trial of what some host does not have, or that compares nothing."""
    for host, baseline in fleet.baselines.items():
        if asked.role not in baseline.roles:
            raise UsageError(
                f"'{host}' has no role '{asked.role}'.",
                hint=f"It has {', '.join(baseline.roles)}.",
            )
    if not asked.before:
        raise UsageError(
            "The trial does not say what it is compared with.",
            hint=f"Give '--before VARIABLE=VALUE' of role '{asked.role}'.",
        )
    for baseline in fleet.baselines.values():
        for name in {**asked.before, **asked.after}:
            if name not in baseline or not name.startswith(f"{asked.role}_"):
                raise UsageError(f"Role '{asked.role}' has no variable '{name}'.")


def _shown(variables: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in variables.items())


def apply(
    tools: Tools, hosts: Sequence[str], role: str, variables: Mapping[str, Any], log: RunLog
) -> dict[str, str]:
    """Run one role with some variables. By host, why it failed; empty when it did not."""
    log.states(hosts, HostState.CONVERGING, role)

    def on_task(task: TaskResult) -> None:
        if task.changed or task.failed or task.unreachable:
            log.change(task.host, change_of(task))

    request = play_request(tools, (role,), hosts, variables)
    try:
        outcome = run_play(request, on_task)
    except PlayError as error:
        return dict.fromkeys(hosts, error.message)
    if outcome.status is not PlayStatus.FINISHED:
        return dict.fromkeys(hosts, outcome.message or "Ansible did not finish.")
    return {
        host: outcome.failures.get(host, f"Ansible left it '{result.value}'.")
        for host, result in outcome.hosts.items()
        if result is not HostResult.OK
    }


def effects(first: Sequence[Result], second: Sequence[Result]) -> list[SettingEffect]:
    """What changed between two measurements, per test, over all that both of them have.

    Each host or pair is compared with itself, so that hosts that differ do not hide an effect.
    """
    then = {(one.test, one.host, one.peer): one for one in first if one.figure}
    both = [
        (then[key], one)
        for one in second
        if one.figure and (key := (one.test, one.host, one.peer)) in then
    ]
    tests = dict.fromkeys(one.test for one in (*first, *second) if one.figure)
    return [_effect(test, [pair for pair in both if pair[0].test == test]) for test in tests]


def _effect(test: str, both: Sequence[tuple[Result, Result]]) -> SettingEffect:
    before: list[float] = []
    after: list[float] = []
    higher = True
    for old, new in both:
        if old.figure is None or new.figure is None:
            continue
        middle = statistics.median(old.figure.values)
        if middle:
            before += [value / middle for value in old.figure.values]
            after += [value / middle for value in new.figure.values]
            higher = old.figure.higher_is_better
    if min(len(before), len(after)) < FEWEST_SAMPLES:
        return SettingEffect(test, None, len(both), higher, "It was not measured both times.")
    return SettingEffect(test, effect(before, after), len(both), higher)


def sentence(one: SettingEffect) -> str:
    """An effect in words."""
    if one.effect is None:
        return f"{one.test}: {one.reason}"
    bounds = f"{one.effect.low:+.1%} to {one.effect.high:+.1%}"
    what = "host or pair" if one.pairs == 1 else "hosts or pairs"
    sure = f"with {one.effect.confidence:.0%} confidence, over {one.pairs} {what}"
    if one.better is None:
        return f"{one.test}: no effect is shown ({one.effect.size:+.1%}; {bounds} {sure})."
    word = "better" if one.better else "worse"
    return f"{one.test}: {word} by {abs(one.effect.size):.1%} ({bounds} {sure})."
