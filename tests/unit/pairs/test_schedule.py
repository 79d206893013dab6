"""Every pair once, nobody twice in a round; a fleet's sample gives everybody enough partners."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from hfprov.pairs.schedule import covering_rounds, rounds


def names(count):
    return [f"n{number}" for number in range(count)]


@given(st.integers(0, 60))
def test_every_pair_occurs_once_and_nobody_is_twice_in_a_round(count):
    found = list(rounds(names(count)))
    pairs = Counter(frozenset(pair) for one in found for pair in one)
    assert pairs == Counter(frozenset(pair) for pair in combinations(names(count), 2))
    for one in found:
        hosts = [host for pair in one for host in pair]
        assert len(hosts) == len(set(hosts))


@given(st.integers(2, 60))
def test_there_are_no_more_rounds_than_needed(count):
    found = list(rounds(names(count)))
    assert len(found) == count - 1 + count % 2
    assert all(len(one) == count // 2 for one in found)


@given(st.integers(2, 200), st.integers(1, 20))
def test_a_sample_gives_everybody_that_many_partners(count, partners):
    met = Counter(
        host for one in covering_rounds(names(count), partners) for pair in one for host in pair
    )
    wanted = min(partners, count - 1)
    assert all(met[host] >= wanted for host in names(count))
    assert all(met[host] <= wanted + 1 for host in names(count))


def test_no_partners_are_no_rounds():
    assert list(covering_rounds(names(5), 0)) == []
    assert list(covering_rounds(names(1), 3)) == []


def test_a_fleet_is_planned_without_planning_all_pairs():
    assert sum(len(one) for one in covering_rounds(names(10_000), 12)) == 12 * 5_000
