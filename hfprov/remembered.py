"""Findings of earlier hosts, given again where a check rests on the very same evidence.

Hosts of a fleet are alike: most of what a check reads says the same on each of them. A check is a
pure function, so where every result that it looked at is equal, its findings are. What it looked
at is watched while it runs: a check that looks at anything beyond its declared reads (the clock, an
earlier observation) is never remembered. Nothing here outlives a sweep.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from hfprov.baseline import Baseline
from hfprov.checks.registry import Check, Facts
from hfprov.judge import findings_of
from hfprov.reading import Observation, Result
from hfprov.verdict import Verdict

_KEPT_PER_READ = 16
_KEPT_PER_CHECK = 32
_TRIALS = 24
"""After so many hosts, a check that seldom finds its evidence again is no longer remembered."""

Print = tuple[tuple[Any, ...], ...]


class _WatchedResults(Mapping[str, tuple[Result, ...]]):
    """Results that note which of them were looked at."""

    def __init__(self, results: Mapping[str, tuple[Result, ...]]) -> None:
        self._results = results
        self.touched: set[str] = set()
        self.all_touched = False

    def __getitem__(self, read: str) -> tuple[Result, ...]:
        self.touched.add(read)
        return self._results[read]

    def __iter__(self) -> Iterator[str]:
        self.all_touched = True
        return iter(self._results)

    def __len__(self) -> int:
        self.all_touched = True
        return len(self._results)


class _Watched(Observation):
    """An observation that notes what else of it was looked at."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        if name in {"now", "seconds", "uid", "python"}:
            results = object.__getattribute__(self, "results")
            results.all_touched = True
        return object.__getattribute__(self, name)


class _WatchedFacts(Facts):
    """Facts that note whether an earlier observation was asked for."""

    def __init__(self, seen: Observation, baseline: Baseline, earlier: Observation | None) -> None:
        self.asked_earlier = False
        super().__init__(seen, baseline, earlier)

    @property
    def earlier(self) -> Observation | None:
        self.asked_earlier = True
        return self._earlier

    @earlier.setter
    def earlier(self, found: Observation | None) -> None:
        self._earlier = found


@dataclass(slots=True)
class _Known:
    """What is known of one check on hosts with one declaration."""

    reads: tuple[str, ...]
    verdicts: OrderedDict[tuple[int, ...], tuple[Verdict, ...]] = field(default_factory=OrderedDict)
    tried: int = 0
    found: int = 0
    is_pure: bool = True

    @property
    def worthwhile(self) -> bool:
        return self.is_pure and (self.tried < _TRIALS or 2 * self.found > self.tried)


class Remembered:
    """Judges the hosts of one sweep. Not safe to use from several threads."""

    def __init__(self) -> None:
        self._prints: dict[str, OrderedDict[Print, int]] = {}
        self._numbers = count()
        self._known: dict[tuple[str, tuple[str, ...], int], _Known] = {}
        self._values: dict[int, Mapping[str, Any]] = {}

    def judge(self, checks: tuple[Check, ...], facts: Facts, baseline: Baseline) -> list[Verdict]:
        """Every verdict of these checks on a host, as :func:`hfprov.judge.judge_facts` has them."""
        # An id means nothing once its object is gone: keep the declarations that were met.
        shape = id(baseline.values)
        self._values[shape] = baseline.values
        numbers: dict[str, int] = {}
        verdicts: list[Verdict] = []
        for check in checks:
            known = self._known.get((check.id, baseline.roles, shape))
            if known is None:
                reads = dict.fromkeys(
                    name
                    for source in check.sources
                    for read in source.reads(baseline)
                    for name in (read.id, read.sent_as().id)
                )
                known = _Known(tuple(reads))
                self._known[check.id, baseline.roles, shape] = known
            if known.worthwhile:
                verdicts += self._verdicts(check, known, facts, baseline, numbers)
            else:
                verdicts += _verdicts(check, facts, baseline)
        return verdicts

    def _verdicts(
        self,
        check: Check,
        known: _Known,
        facts: Facts,
        baseline: Baseline,
        numbers: dict[str, int],
    ) -> tuple[Verdict, ...]:
        key = tuple(self._number(read, facts.seen, numbers) for read in known.reads)
        known.tried += 1
        found = known.verdicts.get(key)
        if found is not None:
            known.found += 1
            known.verdicts.move_to_end(key)
            return found
        watched, nobody = _watched(facts, baseline)
        found = _verdicts(check, watched, nobody)
        results = watched.seen.results
        known.is_pure = (
            isinstance(results, _WatchedResults)
            and not results.all_touched
            and results.touched <= set(known.reads)
            and not watched.asked_earlier
        )
        known.verdicts[key] = found
        if len(known.verdicts) > _KEPT_PER_CHECK:
            known.verdicts.popitem(last=False)
        return found

    def _number(self, read: str, seen: Observation, numbers: dict[str, int]) -> int:
        """A number that two hosts share where a read gave them the same results."""
        if read not in numbers:
            results = seen.results.get(read)
            shown = (("not asked",),) if results is None else tuple(map(_print, results))
            kept = self._prints.setdefault(read, OrderedDict())
            if shown in kept:
                kept.move_to_end(shown)
            else:
                kept[shown] = next(self._numbers)
                if len(kept) > _KEPT_PER_READ:
                    kept.popitem(last=False)
            numbers[read] = kept[shown]
        return numbers[read]


def _verdicts(check: Check, facts: Facts, baseline: Baseline) -> tuple[Verdict, ...]:
    return tuple(Verdict(check.id, one) for one in findings_of(check, facts, baseline))


def _watched(facts: Facts, baseline: Baseline) -> tuple[_WatchedFacts, Baseline]:
    """Facts that are watched, and the baseline of a host without a name: none may depend on it."""
    nobody = Baseline("", baseline.roles, baseline.values)
    seen = facts.seen
    results = _WatchedResults(seen.results)
    watched = _Watched(results, seen.python, seen.uid, seen.now, seen.seconds)
    return _WatchedFacts(watched, nobody, facts.earlier), nobody


def _print(one: Result) -> tuple[Any, ...]:
    """All of a result but how long it took; that is told only of what did not end in time."""
    return (
        one.name, one.status, one.text, one.stderr, one.code, one.truncated, one.garbled,
        one.mode, one.uid, one.gid, one.link, one.type, one.ms if one.status == "timeout" else 0,
    )  # fmt: skip
