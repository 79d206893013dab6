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
from typing import Any, TypeVar

from hfprov.baseline import Baseline
from hfprov.checks.registry import Check, Facts
from hfprov.errors import anew
from hfprov.judge import findings_of
from hfprov.reading import Observation, RawResults, Result, Source
from hfprov.verdict import Verdict

F = TypeVar("F")

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


@dataclass(frozen=True, slots=True)
class _Parsed:
    """What a source had to say of a host, and which results it looked at for that."""

    facts: Any
    error: Exception | None
    touched: frozenset[str]
    all_touched: bool


class _Sources:
    """The sources of one host, each parsed once for all its checks, and watched meanwhile."""

    def __init__(self, facts: Facts, baseline: Baseline) -> None:
        self.seen = facts.seen
        self.earlier = facts.earlier
        # The baseline of a host without a name: no finding may depend on it.
        self.nobody = Baseline("", baseline.roles, baseline.values)
        self._parsed: dict[str, _Parsed] = {}

    def parsed(self, source: Source[Any]) -> _Parsed:
        if source.name not in self._parsed:
            watched, results = self.watched()
            found, error = None, None
            try:
                found = source.parse(watched, self.nobody)
            except Exception as raised:  # noqa: BLE001 - raised again in every check that asks
                error = anew(raised)
            touched = frozenset(results.touched)
            self._parsed[source.name] = _Parsed(found, error, touched, results.all_touched)
        return self._parsed[source.name]

    def watched(self) -> tuple[_Watched, _WatchedResults]:
        seen, results = self.seen, _WatchedResults(self.seen.results)
        return _Watched(results, seen.python, seen.uid, seen.now, seen.seconds), results


class _WatchedFacts(Facts):
    """Facts for one check that note what it looked at, in its sources and by itself."""

    def __init__(self, sources: _Sources) -> None:
        self.asked_earlier = False
        self._sources = sources
        watched, self.results = sources.watched()
        super().__init__(watched, sources.nobody, sources.earlier)

    def get(self, source: Source[F]) -> F:
        parsed = self._sources.parsed(source)
        self.results.touched |= parsed.touched
        self.results.all_touched |= parsed.all_touched
        if parsed.error is not None:
            raise anew(parsed.error)
        found: F = parsed.facts
        return found

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
        numbers = _Numbers(self, facts.seen)
        sources = _Sources(facts, baseline)
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
                verdicts += self._verdicts(check, known, sources, numbers)
            else:
                verdicts += _verdicts(check, facts, baseline)
        return verdicts

    def _verdicts(
        self, check: Check, known: _Known, sources: _Sources, numbers: _Numbers
    ) -> tuple[Verdict, ...]:
        key = tuple(map(numbers.__getitem__, known.reads))
        known.tried += 1
        found = known.verdicts.get(key)
        if found is not None:
            known.found += 1
            known.verdicts.move_to_end(key)
            return found
        watched = _WatchedFacts(sources)
        found = _verdicts(check, watched, sources.nobody)
        known.is_pure = (
            not watched.results.all_touched
            and watched.results.touched <= set(known.reads)
            and not watched.asked_earlier
        )
        known.verdicts[key] = found
        if len(known.verdicts) > _KEPT_PER_CHECK:
            known.verdicts.popitem(last=False)
        return found

    def number(self, read: str, seen: Observation) -> int:
        """A number that two hosts share where a read gave them the same results."""
        shown = _shown(seen.results, read)
        kept = self._prints.setdefault(read, OrderedDict())
        if shown in kept:
            kept.move_to_end(shown)
        else:
            kept[shown] = next(self._numbers)
            if len(kept) > _KEPT_PER_READ:
                kept.popitem(last=False)
        return kept[shown]


class _Numbers(dict[str, int]):
    """The numbers of one host's reads, each found on first use."""

    def __init__(self, remembered: Remembered, seen: Observation) -> None:
        super().__init__()
        self._remembered = remembered
        self._seen = seen

    def __missing__(self, read: str) -> int:
        self[read] = found = self._remembered.number(read, self._seen)
        return found


def _verdicts(check: Check, facts: Facts, baseline: Baseline) -> tuple[Verdict, ...]:
    return tuple(Verdict(check.id, one) for one in findings_of(check, facts, baseline))


def _shown(results: Mapping[str, tuple[Result, ...]], read: str) -> Print:
    """All that a read gave."""
    if isinstance(results, RawResults):
        shown = results.shown(read)
    else:
        found = results.get(read)
        shown = None if found is None else tuple(map(_print, found))
    return (("not asked",),) if shown is None else shown


def _print(one: Result) -> tuple[Any, ...]:
    """All of a result but how long it took; that is told only of what did not end in time."""
    return (
        one.name, one.status, one.text, one.stderr, one.code, one.truncated, one.garbled,
        one.mode, one.uid, one.gid, one.link, one.type, one.ms if one.status == "timeout" else 0,
    )  # fmt: skip
