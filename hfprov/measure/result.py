"""What was measured, judged: opinions per value, and the host that explains slow pairs. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hfprov.measure.judges import (
    Bound,
    Judge,
    Opinion,
    Past,
    history,
    nominal,
    peers,
    stability,
    together,
)
from hfprov.measure.statistics import Summary, summarise
from hfprov.measure.taken import Taken
from hfprov.measure.tool import Figure, Tolerance
from hfprov.pairs.explain import Cause, Kind, explain
from hfprov.verdict import Outcome
from hfprov.words import be, plural

_BEST = 0.25
"""Share of pairs that stands for what the network can do: in a small rack one bad host spoils half
of all pairs, and the middle with them."""
_FEW = 3
"""Hosts among which one that is fast looks like another one that is slow."""
_PLAIN = 0.5
"""Share of what others reach below which that is no question: nobody is twice as fast by luck."""


@dataclass(frozen=True, slots=True)
class Result:
    """One test on one host, or from one host to another."""

    host: str
    peer: str
    rail: str
    test: str
    unit: str
    figure: Figure | None
    summary: Summary | None
    """None: it was tried and gave no figure; ``opinions`` say why."""
    opinions: tuple[Opinion, ...]
    taken: Taken = field(repr=False)
    conditions: Mapping[str, Any] = field(repr=False, default_factory=dict)

    @property
    def outcome(self) -> Outcome:
        return together(self.opinions)


@dataclass(frozen=True, slots=True)
class Culprit:
    """What explains slow pairs of one rail and test."""

    rail: str
    test: str
    cause: Cause
    value: float
    """The middle one of its slow pairs: of two, the worse."""
    usual: float
    """The middle one of the good pairs."""
    unit: str
    tolerance: Tolerance
    higher_is_better: bool
    alone: float | None = None
    """What the host reached with nothing else on the network; None: not tried."""
    hosts: int = 0
    """How many were measured against each other."""
    both_ways: bool = True
    """Whether traffic is slow in both directions."""

    @property
    def only_beside_others(self) -> bool:
        """Whether it is fast when it is alone: the network is shared, not broken at this host."""
        return self.alone is not None and as_good(
            self.alone, self.usual, self.tolerance, higher_is_better=self.higher_is_better
        )

    @property
    def doubtful(self) -> bool:
        """Whether others may be fast instead. From four hosts on a fast one accuses nobody.

        Bandwidth is that of a pair's slower end, so that one of three hosts is slow where one pair
        is fast; latency is the sum of both ends, so that one is fast where one pair is slow.
        """
        one_stands_out = Kind.HOST if self.higher_is_better else Kind.PAIR
        share = self.value / self.usual if self.higher_is_better else self.usual / self.value
        return self.hosts == _FEW and self.cause.kind is one_stands_out and share >= _PLAIN


@dataclass(frozen=True, slots=True)
class Judging:
    """What is needed to judge a value beside the value itself."""

    bounds: Mapping[tuple[str, str], Bound]
    """By host and test."""
    past: Mapping[tuple[str, str, str], Sequence[Past]]
    """By host, peer and test, oldest first."""
    conditions: Mapping[tuple[str, str, str], Mapping[str, Any]]
    """By host, peer and name of the tool."""


def judge(taken: Sequence[Taken], known: Judging) -> list[Result]:
    """Every value with what each judge says of it."""
    medians: dict[str, list[tuple[Taken, float]]] = {}
    for one in taken:
        if not one.problem:
            for test, figure in one.figures.items():
                medians.setdefault(test, []).append((one, statistics.median(figure.values)))
    results = []
    for one in taken:
        conditions = known.conditions.get((one.host, one.peer, one.tool.name), {})
        if one.problem or not one.figures:
            reason = one.problem or "It gave no figure."
            spoken = Opinion(Judge.STABILITY, Outcome.UNKNOWN, reason)
            results.append(
                Result(one.host, one.peer, one.rail, one.tool.name, "", None, None, (spoken,), one,
                       conditions)
            )  # fmt: skip
            continue
        for test, figure in one.figures.items():
            others = [value for other, value in medians[test] if other is not one]
            opinions = _opinions(one, figure, others, conditions, known)
            results.append(
                Result(one.host, one.peer, one.rail, test, figure.unit, figure,
                       summarise(figure.values), opinions, one, conditions)
            )  # fmt: skip
    return results


def _opinions(
    one: Taken,
    figure: Figure,
    others: Sequence[float],
    conditions: Mapping[str, Any],
    known: Judging,
) -> tuple[Opinion, ...]:
    summary = summarise(figure.values)
    better = figure.higher_is_better
    past = known.past.get((one.host, one.peer, figure.test), ())
    return (
        _with_retries(stability(summary, figure.tolerance), one),
        nominal(summary.median, known.bounds.get((one.host, figure.test)), higher_is_better=better),
        peers(summary.median, others, higher_is_better=better),
        history(summary.median, past, conditions, higher_is_better=better),
    )


def _with_retries(spoken: Opinion, one: Taken) -> Opinion:
    """What the judge of repeats says, and which runs are not among them."""
    if not one.retried:
        return spoken
    anew = f"{plural(len(one.retried), 'run')} had to be made anew: {one.retried[-1]}"
    return replace(spoken, reason=f"{spoken.reason} {anew}")


def culprits(taken: Iterable[Taken]) -> list[Culprit]:
    """Per rail and test, what explains the pairs that are slow beside the best ones."""
    groups: dict[tuple[str, str], dict[tuple[str, str], Figure]] = {}
    for one in taken:
        if one.peer and not one.problem:
            for test, figure in one.figures.items():
                groups.setdefault((one.rail, test), {})[one.host, one.peer] = figure
    return [
        found for (rail, test), pairs in groups.items() for found in _explained(rail, test, pairs)
    ]


def _explained(rail: str, test: str, pairs: Mapping[tuple[str, str], Figure]) -> Iterable[Culprit]:
    kind = next(iter(pairs.values()))
    better = kind.higher_is_better
    values = {pair: statistics.median(figure.values) for pair, figure in pairs.items()}
    usual = usual_of(list(values.values())) if better else usual_latency(values)
    passed = {
        pair: as_good(value, usual, kind.tolerance, higher_is_better=better)
        for pair, value in values.items()
    }
    good = [value for pair, value in values.items() if passed[pair]]
    told = statistics.median_low(good) if good else usual
    hosts = len({host for pair in pairs for host in pair})
    for cause in explain(passed):
        slow = {
            pair: value
            for pair, value in values.items()
            if not passed[pair] and _concerns(cause, pair)
        }
        if not slow:
            continue
        middle = _middle(slow.values(), higher_is_better=better)
        # The best quarter finds who is slow; nobody is called so who is as good as most others.
        if as_good(middle, told, kind.tolerance, higher_is_better=better):
            continue
        both_ways = any(pair[::-1] in slow for pair in slow)
        yield Culprit(
            rail, test, _directed(cause, slow, higher_is_better=better), middle, told, kind.unit,
            kind.tolerance, better, hosts=hosts, both_ways=both_ways,
        )  # fmt: skip


def _middle(values: Iterable[float], *, higher_is_better: bool) -> float:
    """The median, as one of the values: between two, the worse."""
    some = list(values)
    return statistics.median_low(some) if higher_is_better else statistics.median_high(some)


def _directed(
    cause: Cause, slow: Mapping[tuple[str, str], float], *, higher_is_better: bool
) -> Cause:
    """A single pair named in the direction that is slow, or slower than the other."""
    if cause.kind is not Kind.PAIR:
        return cause
    worst = min if higher_is_better else max
    one, other = worst(slow, key=lambda pair: slow[pair])
    return replace(cause, hosts=((one,), (other,)))


def usual_of(values: Sequence[float]) -> float:
    """What good pairs reach: the middle one of the best quarter.

    Of two the lower one: a single value that stands out above all others makes nobody slow.
    """
    best = sorted(values)[-max(1, round(_BEST * len(values))) :]
    return statistics.median_low(best)


def usual_latency(values: Mapping[tuple[str, str], float]) -> float:
    """What good pairs need: the middle host's middle pair.

    A pair is as fast as its slower end, but its latency is the sum of both ends. So the best
    quarter would be the pairs of one host that is better than the others, and accuse them all.
    """
    by_host: dict[str, list[float]] = {}
    for pair, value in values.items():
        for host in pair:
            by_host.setdefault(host, []).append(value)
    return statistics.median_low([statistics.median_low(mine) for mine in by_host.values()])


def as_good(value: float, usual: float, tolerance: Tolerance, *, higher_is_better: bool) -> bool:
    """Whether a value is near what good pairs reach, or better."""
    if higher_is_better:
        return value >= tolerance.slow * usual
    return value <= usual / tolerance.slow


def _concerns(cause: Cause, pair: tuple[str, str]) -> bool:
    if cause.kind in (Kind.GROUPS, Kind.PAIR):
        one, other = (set(group) for group in cause.hosts)
        return bool({pair[0]} & one and {pair[1]} & other) or bool(
            {pair[1]} & one and {pair[0]} & other
        )
    return bool(set(pair) & set(cause.hosts[0]))


def words(one: Culprit) -> str:
    """What explains slow pairs, in a sentence."""
    groups = [", ".join(group) for group in one.cause.hosts]
    reach = "reach" if one.higher_is_better else "need"
    value = f"{one.value:.3g} {one.unit}"
    figures = f"{value}, where others {reach} {one.usual:.3g}"
    where = f"{one.test} in {one.rail}"
    if one.doubtful:
        return (
            f"{where}: pairs of {' with '.join(groups)} {reach} {value}, others {one.usual:.3g}. "
            "With three hosts it cannot be told who is slow and who is fast."
        )
    if one.cause.kind is Kind.RAIL:
        return f"{where}: the pairs differ widely; no single host explains it."
    if one.cause.kind is Kind.GROUPS:
        return f"{where}: slow between {groups[0]} and {groups[1]} ({figures})."
    if one.cause.kind is Kind.PAIR:
        return f"{where}: {_pair_words(one, groups, figures)}."
    failed = one.cause.failed
    pairs = f"{failed} of {plural(one.cause.of, 'pair')} {be(failed)} slow"
    again = ""
    if one.alone is not None:
        again = f" Alone it {reach}{'es' if one.higher_is_better else 's'} {one.alone:.3g}"
        again += (
            ": slow only beside others." if one.only_beside_others else ": it is slow by itself."
        )
    return f"{groups[0]}: {where}: {pairs} ({figures}).{again}"


def _pair_words(one: Culprit, ends: Sequence[str], figures: str) -> str:
    if one.hosts == 2:  # noqa: PLR2004 - there is nobody but the two
        back = f"{one.value:.3g} {one.unit}, and {one.usual:.3g} back"
        return f"slow from {ends[0]} to {ends[1]} ({back})"
    if one.both_ways:
        return f"slow both ways between {ends[0]} and {ends[1]} ({figures})"
    return f"slow from {ends[0]} to {ends[1]} ({figures})"
