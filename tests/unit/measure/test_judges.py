"""Three judges, each of whom sees what the others do not."""

from __future__ import annotations

import random

import pytest

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
from hfprov.measure.statistics import summarise
from hfprov.measure.tool import BANDWIDTH, TAIL
from hfprov.verdict import Outcome

P, F, U, W = Outcome.PASS, Outcome.FAIL, Outcome.UNKNOWN, Outcome.WARN
HERE = {"kernel": "6.1", "mtu": {"eth1": 9000}}


def past(*values, conditions=HERE):
    return [Past(value, conditions, f"r{number}") for number, value in enumerate(values)]


def noisy(middle, count, seed, share=0.01):
    chance = random.Random(seed)
    return [chance.gauss(middle, share * middle) for _ in range(count)]


def test_repeats_that_disagree_are_unstable_not_slow():
    found = stability(summarise([10, 4, 11, 3, 10]), BANDWIDTH)
    assert (found.outcome, found.reason[:8]) == (F, "Unstable")
    assert stability(summarise([10, 10.1, 9.9, 10, 10]), BANDWIDTH).outcome is P


def test_a_tail_may_vary_more_than_a_middle():
    repeats = summarise([10, 16, 11, 13, 10])
    assert stability(repeats, BANDWIDTH).outcome is F
    assert stability(repeats, TAIL).outcome is P


def test_too_few_repeats_are_unknown():
    assert stability(summarise([10.0] * 4), BANDWIDTH).outcome is U


@pytest.mark.parametrize(
    ("value", "higher", "outcome"), [(9, True, F), (10, True, P), (11, False, F), (10, False, P)]
)
def test_a_nominal_value_is_a_floor_for_bandwidth_and_a_ceiling_for_latency(value, higher, outcome):
    found = nominal(value, Bound(10, "a data sheet"), higher_is_better=higher)
    assert found.outcome is outcome
    assert "a data sheet" in found.reason


def test_without_a_nominal_value_it_is_unknown():
    assert nominal(9, None, higher_is_better=True).outcome is U


def test_the_slow_one_stands_out_and_the_fast_one_does_not():
    others = noisy(100, 9, 1)
    assert peers(80, others, higher_is_better=True).outcome is F
    assert peers(120, others, higher_is_better=True).outcome is P
    assert peers(120, others, higher_is_better=False).outcome is F


def test_peers_do_not_see_a_rack_that_is_uniformly_slow_and_nominal_does():
    slow = noisy(50, 10, 2)
    assert peers(slow[0], slow[1:], higher_is_better=True).outcome is P
    assert nominal(slow[0], Bound(90, "x"), higher_is_better=True).outcome is F


def test_few_peers_say_nothing():
    assert peers(1, [100.0] * 6, higher_is_better=True).outcome is U


class TestHistory:
    def judge(self, value, some, *, higher=True):
        return history(value, some, HERE, higher_is_better=higher)

    def test_worse_than_ever_is_a_failure_and_better_is_none(self):
        some = past(*noisy(100, 8, 3))
        assert self.judge(85, some).outcome is F
        assert self.judge(115, some).outcome is P
        assert self.judge(115, some, higher=False).outcome is F

    def test_a_hair_worse_is_no_failure(self):
        assert self.judge(97.5, past(*[100.0] * 8)).outcome is P

    def test_a_level_that_has_sunk_is_told_with_its_beginning(self):
        some = past(*noisy(100, 8, 4), *noisy(85, 12, 5))
        found = self.judge(85, some)
        assert found.outcome is W
        assert "since run 'r8'" in found.reason

    def test_other_conditions_are_not_compared_and_the_difference_is_named(self):
        found = self.judge(10, past(*[100.0] * 8, conditions={**HERE, "mtu": {"eth1": 1500}}))
        assert found.outcome is U
        assert "mtu" in found.reason
        assert "1500" in found.reason

    def test_the_unlike_ones_are_left_out_and_the_like_ones_count(self):
        other = past(*[10.0] * 8, conditions={**HERE, "kernel": "5.10"})
        assert self.judge(50, [*other, *past(*[100.0] * 6)]).outcome is F

    def test_little_history_says_nothing(self):
        assert self.judge(1, past(100, 100, 100, 100)).outcome is U


@pytest.mark.parametrize(
    ("spoken", "outcome"),
    [
        ([P, U, U, U], U),
        ([P, P, U, U], P),
        ([P, U, U, P], P),
        ([P, U, P, U], U),
        ([P, P, F, U], F),
        ([P, P, U, W], W),
        ([F, P, P, P], F),
        ([U, P, P, P], U),
        ([U, U, U, U], U),
        ([F, U, U, U], F),
    ],
)
def test_a_value_that_nobody_can_judge_is_not_good(spoken, outcome):
    assert together([Opinion(*one, "") for one in zip(Judge, spoken, strict=True)]) is outcome
