"""Robust statistics of measurements: medians, spreads, outliers, changes, effects. Pure.

Medians and median absolute deviations instead of means and standard deviations: one disturbed run
must neither hide nor make a fault.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

FEWEST_SAMPLES = 5
"""Repeats below which a measurement says nothing about its own spread."""
FEWEST_PEERS = 8
"""Values below which nobody is an outlier among them."""
OUTLIER = 3.5
"""Modified z-score of an outlier; Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993."""
_TO_SIGMA = 1.4826
"""MAD times this estimates the standard deviation of a normal distribution (ibid.)."""
_RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Summary:
    """What some repeats of one measurement came to; of the unit that they have."""

    count: int
    median: float
    least: float
    most: float
    variation: float
    """Coefficient of variation: standard deviation over mean, 0 for a single sample."""


def summarise(samples: Sequence[float]) -> Summary:
    """Raises ValueError for no samples and for values that are no finite numbers."""
    if not samples or not all(math.isfinite(one) for one in samples):
        raise ValueError("A summary needs samples that are finite numbers.")
    mean = statistics.fmean(samples)
    spread = statistics.stdev(samples) if len(samples) > 1 else 0.0
    variation = spread / abs(mean) if mean else math.copysign(math.inf, spread) if spread else 0.0
    return Summary(len(samples), statistics.median(samples), min(samples), max(samples), variation)


def deviation(values: Sequence[float]) -> float:
    """Median absolute deviation of some values from their median."""
    middle = statistics.median(values)
    return statistics.median([abs(one - middle) for one in values])


def modified_z(value: float, others: Sequence[float], floor: float) -> float:
    """How far a value is from the middle of some others, in robust standard deviations.

    ``floor`` is the least deviation that counts, as a share of the median: machines that agree to
    the last digit must not make an outlier of one that differs by a hair.
    """
    middle = statistics.median(others)
    scale = max(_TO_SIGMA * deviation(others), floor * abs(middle))
    if scale == 0:
        return 0.0 if value == middle else math.copysign(math.inf, value - middle)
    return (value - middle) / scale


@dataclass(frozen=True, slots=True)
class Change:
    """A series that has changed its level for good."""

    at: int
    """Index of the first value of the new level."""
    before: float
    after: float
    """Medians of both parts."""
    chance: float
    """Probability of as clear a split in a series that has none, about."""


def change_point(values: Sequence[float]) -> Change | None:
    """Where a series has most clearly changed its level; None when it is too short (8).

    Pettitt's test on ranks: A. N. Pettitt, A Non-Parametric Approach to the Change-Point Problem,
    Applied Statistics 28, 1979, with its approximate probability.
    """
    count = len(values)
    if count < FEWEST_PEERS:
        return None
    running, best, at = 0, 0, 0
    for split in range(count - 1):
        one = values[split]
        running += sum((one > other) - (one < other) for other in values)
        if abs(running) > best:
            best, at = abs(running), split + 1
    if not at:
        return None
    chance = min(1.0, 2 * math.exp(-6 * best**2 / (count**3 + count**2)))
    return Change(at, statistics.median(values[:at]), statistics.median(values[at:]), chance)


@dataclass(frozen=True, slots=True)
class Effect:
    """What a change did: the ratio of medians after and before, less one."""

    size: float
    low: float
    high: float
    """Bounds within which the effect lies with the wanted confidence."""
    confidence: float

    @property
    def shown(self) -> bool:
        """Whether no effect at all lies outside of the bounds."""
        return self.low > 0 or self.high < 0


def effect(
    before: Sequence[float], after: Sequence[float], *, confidence: float = 0.95, seed: int = 1
) -> Effect:
    """The effect of a change with its bounds, by resampling both sides (percentile bootstrap).

    The same samples give the same bounds. Raises ValueError for fewer than five samples on a side,
    and for a median of zero before.
    """
    if min(len(before), len(after)) < FEWEST_SAMPLES:
        raise ValueError(f"An effect needs {FEWEST_SAMPLES} samples before and after.")
    base = statistics.median(before)
    if base == 0:
        raise ValueError("Nothing was measured before: there is no effect to speak of.")
    chance = random.Random(seed)  # noqa: S311 - statistics, nothing secret
    ratios = sorted(
        statistics.median(chance.choices(after, k=len(after)))
        / (statistics.median(chance.choices(before, k=len(before))) or base)
        for _ in range(_RESAMPLES)
    )
    tail = round((1 - confidence) / 2 * _RESAMPLES)
    return Effect(
        statistics.median(after) / base - 1,
        ratios[tail] - 1,
        ratios[_RESAMPLES - 1 - tail] - 1,
        confidence,
    )
