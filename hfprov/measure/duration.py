"""How long the steps of a plan take, about. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hfprov.measure.steps import GroupStep, HostStep, MeasurePlan, PairStep, Step
from hfprov.measure.tool import ATTEMPTS, REPEATS, PairTool, Settings

_CONNECT = 0.5
"""Seconds to begin one run on a node."""
_SERVER = 1.0
"""Seconds in which the other end begins to serve, and ends."""
_MINUTES = 300
"""Seconds from which minutes say as much."""


@dataclass(frozen=True, slots=True)
class Duration:
    """Seconds, on nodes and a controller that have nothing else to do."""

    usual: float
    most: float
    """Where the repeats of everything have to be made anew."""

    def __add__(self, other: Duration) -> Duration:
        return Duration(self.usual + other.usual, self.most + other.most)

    def times(self, count: int) -> Duration:
        return Duration(self.usual * count, self.most * count)

    def __str__(self) -> str:
        return f"about {_words(self.usual)}, up to {_words(self.most)} where repeats disagree"


def _words(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < _MINUTES else f"{seconds / 60:.0f} min"


def duration_of(step: Step, settings: Settings, at_once: int) -> Duration:
    """About how long a step takes: rounds one after the other, ``at_once`` in each at a time."""
    if isinstance(step, PairStep):
        rounds = (duration_of_round(step, pairs, settings, at_once) for pairs in step.rounds)
        return sum(rounds, Duration(0, 0))
    one = step.tool.usual(settings) + _CONNECT
    whole = Duration((1 + REPEATS) * one, (1 + ATTEMPTS * REPEATS) * one)
    return whole.times(_turns(len(step.hosts), at_once)) if isinstance(step, HostStep) else whole


def duration_of_round(
    step: PairStep, pairs: Sequence[tuple[str, str]], settings: Settings, at_once: int
) -> Duration:
    """About how long one round of a step takes: its pairs at once, both ways in turn."""
    begin = _CONNECT + (_SERVER if step.tool.server is not None else 0)
    repeats = _repeats(step.tool) * (step.tool.usual(settings) + begin)
    curve = sum(step.tool.usual(one) + begin for one in step.tool.curve(settings))
    both_ways = Duration(repeats + curve, ATTEMPTS * repeats + curve).times(2)
    return both_ways.times(_turns(len(pairs), at_once))


def duration_of_plan(todo: MeasurePlan) -> Duration:
    """About how long all of it takes."""
    steps = (duration_of(step, todo.settings, todo.at_once) for step in todo.steps)
    return sum(steps, Duration(0, 0))


def runs_of(step: HostStep | GroupStep) -> int:
    """How often the tool is run, on all hosts together, when repeats agree."""
    return (1 + REPEATS) * (len(step.hosts) if isinstance(step, HostStep) else 1)


def runs_of_round(step: PairStep, pairs: Sequence[tuple[str, str]], settings: Settings) -> int:
    """The same of one round, over all of its pairs and both ways."""
    return 2 * len(pairs) * (_repeats(step.tool) + len(step.tool.curve(settings)))


def _repeats(tool: PairTool) -> int:
    return 1 if tool.intervals else REPEATS


def _turns(count: int, at_once: int) -> int:
    return math.ceil(count / max(1, at_once))
