"""The cause is named, and nobody is accused who is not to blame."""

from __future__ import annotations

import random
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfprov.pairs.explain import Cause, Kind, explain
from hfprov.pairs.schedule import covering_rounds

RACK = tuple(f"n{number}" for number in range(8))


def test_a_good_rack_has_no_cause(rack):
    assert explain(rack(RACK, lambda *_: False)) == ()
    assert explain({}) == ()


def test_one_bad_host_is_named_and_only_it(rack):
    found = explain(rack(RACK, lambda a, b: "n3" in (a, b)))
    assert found == (Cause(Kind.HOST, (("n3",),), 7, 7),)


def test_a_host_that_only_sends_badly_is_named_as_well(rack):
    found = explain(rack(RACK, lambda a, _: a == "n3"))
    assert found == (Cause(Kind.HOST, (("n3",),), 7, 7),)


def test_a_bad_link_between_switches_is_not_put_on_a_host(rack):
    left = set(RACK[:5])
    found = explain(rack(RACK, lambda a, b: (a in left) != (b in left)))
    assert found == (Cause(Kind.GROUPS, (RACK[:5], RACK[5:]), 15, 15),)


def test_one_bad_pair_is_a_pair(rack):
    found = explain(rack(RACK, lambda a, b: {a, b} == {"n1", "n2"}))
    assert found == (Cause(Kind.PAIR, (("n1",), ("n2",)), 1, 1),)


def test_a_host_with_one_bad_cable_of_two_is_named_with_its_share(rack):
    found = explain(rack(RACK, lambda a, b: "n3" in (a, b) and int(a[1]) + int(b[1]) > 7))
    assert found == (Cause(Kind.PARTLY, (("n3",),), 3, 7),)


def test_when_nothing_passes_no_host_is_accused(rack):
    assert explain(rack(RACK, lambda *_: True)) == (Cause(Kind.RAIL, (RACK,), 28, 28),)


def test_of_two_hosts_it_cannot_be_told_which(rack):
    assert explain(rack(("a", "b"), lambda *_: True)) == (Cause(Kind.PAIR, (("a",), ("b",)), 1, 1),)


def test_a_bad_host_and_a_bad_link_at_once(rack):
    left = set(RACK[:4])

    def broken(a, b):
        return "n7" in (a, b) or (a in left) != (b in left)

    found = {(cause.kind, cause.hosts) for cause in explain(rack(RACK, broken))}
    assert found == {(Kind.HOST, (("n7",),)), (Kind.GROUPS, (RACK[:4], RACK[4:7]))}


@given(st.integers(4, 40), st.integers(0, 10**6))
def test_any_few_bad_hosts_are_exactly_those_that_are_named(count, seed):
    hosts = [f"n{number}" for number in range(count)]
    bad = set(random.Random(seed).sample(hosts, (count - 1) // 3))
    found = explain({pair: not bad & set(pair) for pair in permutations(hosts, 2)})
    assert {cause.hosts[0][0] for cause in found} == bad
    assert all(cause.kind is Kind.HOST for cause in found)


@pytest.mark.parametrize("seed", range(5))
def test_a_sample_of_a_fleet_is_enough_to_name_bad_hosts(seed):
    hosts = [f"n{number}" for number in range(300)]
    bad = set(random.Random(seed).sample(hosts, 3))
    tested = {
        pair: not bad & set(pair)
        for one in covering_rounds(hosts, 12)
        for a, b in one
        for pair in ((a, b), (b, a))
    }
    assert {cause.hosts[0][0] for cause in explain(tested)} == bad
