"""Three judges of one measured value: its nominal value, its peers, its own history. Pure.

None of them is enough. Peers do not see a rack that is uniformly slow; a nominal value does not see
one that was better last week; history does not see one that was always bad. A measurement that no
judge can speak about is unknown: it is a first figure, not a good one.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from hfprov.measure.conditions import unlike
from hfprov.measure.statistics import (
    FEWEST_PEERS,
    FEWEST_SAMPLES,
    OUTLIER,
    Summary,
    change_point,
    modified_z,
)
from hfprov.measure.tool import Tolerance
from hfprov.verdict import Outcome, worst
from hfprov.words import be, plural

FLOOR = 0.02
"""Least deviation that counts, as a share of the median: what sound twins differ by."""
WORSE = 0.05
"""Share by which a value must be worse than its own past to be so."""
_CHANCE = 0.01


class Judge(StrEnum):
    """Who has judged."""

    STABILITY = "stability"
    NOMINAL = "nominal"
    PEERS = "peers"
    HISTORY = "history"


@dataclass(frozen=True, slots=True)
class Opinion:
    """What one judge says. ``unknown``: it cannot speak, and says why."""

    judge: Judge
    outcome: Outcome
    reason: str


@dataclass(frozen=True, slots=True)
class Past:
    """One earlier measurement of the same."""

    value: float
    conditions: Mapping[str, Any]
    run: str


@dataclass(frozen=True, slots=True)
class Bound:
    """What a value must reach on this machine, and who says so."""

    value: float
    source: str


def stability(summary: Summary, tolerance: Tolerance) -> Opinion:
    """Whether the repeats agree with each other."""
    if summary.count < FEWEST_SAMPLES:
        reason = f"It was measured {plural(summary.count, 'time')}; {FEWEST_SAMPLES} are needed."
        return Opinion(Judge.STABILITY, Outcome.UNKNOWN, reason)
    if summary.variation > tolerance.unstable:
        reason = (
            f"Unstable: its repeats vary by {summary.variation:.0%}, from {summary.least:.4g} to "
            f"{summary.most:.4g}."
        )
        return Opinion(Judge.STABILITY, Outcome.FAIL, reason)
    reason = f"{summary.count} repeats vary by {summary.variation:.1%}."
    return Opinion(Judge.STABILITY, Outcome.PASS, reason)


def nominal(value: float, bound: Bound | None, *, higher_is_better: bool) -> Opinion:
    """Whether it is what such a machine must reach."""
    if bound is None:
        reason = (
            "Nobody has said what this machine must reach: declare it in "
            "'node_expected_measurements'."
        )
        return Opinion(Judge.NOMINAL, Outcome.UNKNOWN, reason)
    good = value >= bound.value if higher_is_better else value <= bound.value
    word = "at least" if higher_is_better else "at most"
    reason = f"{value:.4g}, and {word} {bound.value:.4g} is expected ({bound.source})."
    return Opinion(Judge.NOMINAL, Outcome.PASS if good else Outcome.FAIL, reason)


def peers(value: float, others: Sequence[float], *, higher_is_better: bool) -> Opinion:
    """Whether it stands out among the same measurement of other hosts, for the worse."""
    if len(others) + 1 < FEWEST_PEERS:
        there_are = f"{be(len(others) + 1)} {plural(len(others) + 1, 'value')}"
        reason = f"There {there_are} to tell an outlier by; it takes {FEWEST_PEERS}."
        return Opinion(Judge.PEERS, Outcome.UNKNOWN, reason)
    far = modified_z(value, others, FLOOR)
    middle = statistics.median(others)
    reason = f"{value:.4g} among {len(others)} others with a median of {middle:.4g} (z {far:.1f})."
    bad = far < -OUTLIER if higher_is_better else far > OUTLIER
    return Opinion(Judge.PEERS, Outcome.FAIL if bad else Outcome.PASS, reason)


def history(
    value: float,
    past: Sequence[Past],
    conditions: Mapping[str, Any],
    *,
    higher_is_better: bool,
) -> Opinion:
    """Whether it is as good as before, under like conditions. ``past`` is oldest first."""
    like = [one for one in past if not any(unlike(conditions, one.conditions))]
    if past and not like:
        why = next(unlike(conditions, past[-1].conditions))
        reason = f"Run '{past[-1].run}' is not comparable: {why}."
        return Opinion(Judge.HISTORY, Outcome.UNKNOWN, reason)
    if len(like) < FEWEST_SAMPLES:
        reason = f"{plural(len(like), 'earlier measurement')}; {FEWEST_SAMPLES} are needed."
        return Opinion(Judge.HISTORY, Outcome.UNKNOWN, reason)
    earlier = [one.value for one in like]
    middle = statistics.median(earlier)
    sign = 1 if higher_is_better else -1
    far = sign * modified_z(value, earlier, FLOOR)
    if far < -OUTLIER and sign * (value - middle) < -WORSE * abs(middle):
        reason = f"{value:.4g}; it was {middle:.4g} in {len(like)} earlier runs (z {far:.1f})."
        return Opinion(Judge.HISTORY, Outcome.FAIL, reason)
    change = change_point([*earlier, value])
    if change is not None and change.chance < _CHANCE:
        step = sign * (change.after - change.before)
        if step < -WORSE * abs(change.before):
            since = like[change.at].run if change.at < len(like) else "this one"
            reason = (
                f"It has been {change.after:.4g} since run '{since}', and was "
                f"{change.before:.4g} until then."
            )
            return Opinion(Judge.HISTORY, Outcome.WARN, reason)
    reason = f"{value:.4g}; the median of {len(like)} earlier runs is {middle:.4g}."
    return Opinion(Judge.HISTORY, Outcome.PASS, reason)


def together(opinions: Sequence[Opinion]) -> Outcome:
    """The outcome of a measurement: unknown when nobody can say whether the value is good.

    Peers can only accuse. That nobody stands out does not make a rack good that is uniformly slow;
    it takes a nominal value, or a past that was good.
    """
    outcome = {one.judge: one.outcome for one in opinions}
    if Outcome.FAIL in outcome.values():
        return Outcome.FAIL
    vouched = [
        outcome[one]
        for one in (Judge.NOMINAL, Judge.HISTORY)
        if outcome.get(one, Outcome.UNKNOWN) is not Outcome.UNKNOWN
    ]
    stable = outcome.get(Judge.STABILITY, Outcome.UNKNOWN)
    return worst([stable, *vouched] if vouched else [Outcome.UNKNOWN])
