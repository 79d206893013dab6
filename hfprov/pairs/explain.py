"""From failed paths to what explains them: a host, a link between groups, or single paths. Pure.

Hosts are joined where packets pass. Whoever is joined to nobody is the cause itself; groups of
hosts that pass among themselves have a bad link between them; what then still fails inside a group
is put on the hosts that most of it has in common.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from hfprov.pairs.schedule import Pair


class Kind(StrEnum):
    """What a cause is."""

    RAIL = "rail"
    """Nothing passes: the network, or a setting that all hosts share."""
    HOST = "host"
    GROUPS = "groups"
    """Hosts pass within their groups, and not between them: the link in between."""
    PARTLY = "partly"
    """A host fails with some of the others: one of several cables or paths of it."""
    PAIR = "pair"


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing that explains failed paths."""

    kind: Kind
    hosts: tuple[tuple[str, ...], ...]
    """One group for most kinds; for ``groups`` and ``pair`` both sides."""
    failed: int
    """Pairs that fail for it."""
    of: int
    """Pairs that were tested of it."""


def explain(tested: Mapping[Pair, bool]) -> tuple[Cause, ...]:
    """Causes of what failed, the gravest first. ``tested``: by directed pair, whether it passed.

    A pair counts as failed when either way fails: an echo needs both.
    """
    outcome: dict[frozenset[str], bool] = {}
    for (a, b), passed in tested.items():
        pair = frozenset((a, b))
        outcome[pair] = outcome.get(pair, True) and passed
    bad = {pair for pair, passed in outcome.items() if not passed}
    if not bad:
        return ()
    hosts = {host: None for pair in tested for host in pair}
    if len(bad) == len(outcome) and len(hosts) > 2:  # noqa: PLR2004 - two hosts are a pair
        return (Cause(Kind.RAIL, (tuple(hosts),), len(bad), len(outcome)),)
    if len(hosts) == 2:  # noqa: PLR2004
        a, b = hosts
        return (Cause(Kind.PAIR, ((a,), (b,)), 1, 1),)
    groups = _groups(hosts, outcome)
    causes = [*_lone_hosts(groups, outcome), *_between(groups, bad, outcome)]
    member = {host: number for number, group in enumerate(groups) for host in group}
    within = {pair for pair in bad if len({member[host] for host in pair}) == 1}
    return (*causes, *_within(within, outcome))


def _groups(hosts: Iterable[str], outcome: Mapping[frozenset[str], bool]) -> list[list[str]]:
    """Hosts that are joined by passing pairs, the largest group first."""
    neighbours: dict[str, set[str]] = {host: set() for host in hosts}
    for pair, passed in outcome.items():
        if passed:
            a, b = pair
            neighbours[a].add(b)
            neighbours[b].add(a)
    groups: list[list[str]] = []
    seen: set[str] = set()
    for first in neighbours:
        if first in seen:
            continue
        group, waiting = [], [first]
        seen.add(first)
        while waiting:
            host = waiting.pop()
            group.append(host)
            waiting += [one for one in neighbours[host] if one not in seen]
            seen.update(neighbours[host])
        groups.append([host for host in neighbours if host in set(group)])
    return sorted(groups, key=lambda group: -len(group))


def _lone_hosts(groups: list[list[str]], outcome: Mapping[frozenset[str], bool]) -> Iterable[Cause]:
    for group in groups:
        if len(group) == 1:
            [host] = group
            tests = sum(host in pair for pair in outcome)
            yield Cause(Kind.HOST, ((host,),), tests, tests)


def _between(
    groups: list[list[str]],
    bad: set[frozenset[str]],
    outcome: Mapping[frozenset[str], bool],
) -> Iterable[Cause]:
    large = [group for group in groups if len(group) > 1]
    for number, one in enumerate(large):
        for other in large[number + 1 :]:
            across = [
                pair
                for pair in outcome
                if len(pair & set(one)) == 1 and len(pair & set(other)) == 1
            ]
            failed = sum(pair in bad for pair in across)
            if failed:
                yield Cause(Kind.GROUPS, (tuple(one), tuple(other)), failed, len(across))


def _within(bad: set[frozenset[str]], outcome: Mapping[frozenset[str], bool]) -> list[Cause]:
    causes = []
    left = set(bad)
    while left:
        degree = Counter(host for pair in sorted(left, key=sorted) for host in sorted(pair))
        host, failed = max(degree.items(), key=lambda item: (item[1], item[0]))
        if failed == 1:
            break
        tests = sum(host in pair for pair in outcome)
        causes.append(Cause(Kind.PARTLY, ((host,),), failed, tests))
        left = {pair for pair in left if host not in pair}
    for pair in sorted(left, key=sorted):
        a, b = sorted(pair)
        causes.append(Cause(Kind.PAIR, ((a,), (b,)), 1, 1))
    return causes
