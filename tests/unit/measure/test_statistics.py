"""Robust statistics: one disturbed run neither hides nor makes a fault."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfprov.measure.statistics import change_point, effect, modified_z, summarise

SEEDS = range(50)


def noisy(middle, share, count, seed):
    chance = random.Random(seed)
    return [chance.gauss(middle, share * middle) for _ in range(count)]


def test_a_summary_tells_middle_ends_and_variation():
    found = summarise([10.0, 12.0, 11.0, 9.0, 50.0])
    assert (found.count, found.median, found.least, found.most) == (5, 11.0, 9.0, 50.0)
    assert found.variation == pytest.approx(17.67 / 18.4, rel=0.01)


def test_a_single_sample_has_no_variation_and_zeros_have_none():
    assert summarise([3.0]).variation == 0
    assert summarise([0.0, 0.0]).variation == 0
    assert summarise([1.0, -1.0]).variation == math.inf


@pytest.mark.parametrize("samples", [[], [math.nan], [1.0, math.inf]])
def test_what_is_no_number_is_refused(samples):
    with pytest.raises(ValueError, match="finite"):
        summarise(samples)


class TestOutliers:
    def test_equal_values_make_no_outlier_of_a_hair(self):
        assert abs(modified_z(99.9, [100.0] * 9, floor=0.01)) < 1

    def test_one_slow_of_many_is_far_out(self):
        assert modified_z(50.0, noisy(100, 0.01, 9, 1), floor=0.01) < -10

    def test_a_second_slow_one_does_not_hide_the_first(self):
        assert modified_z(50.0, [*noisy(100, 0.01, 9, 1), 50.0], floor=0.01) < -10

    def test_without_a_floor_the_least_difference_is_endless(self):
        assert modified_z(99.0, [100.0] * 9, floor=0) == -math.inf
        assert modified_z(100.0, [100.0] * 9, floor=0) == 0

    @given(st.floats(1, 1e6), st.lists(st.floats(1, 1e6), min_size=8, max_size=40))
    def test_it_is_a_number_whose_sign_says_which_side(self, value, others):
        found = modified_z(value, others, floor=0.01)
        middle = sorted(others)[len(others) // 2]
        assert not math.isnan(found)
        if value > max(others):
            assert found >= 0
        if value < min(others):
            assert found <= 0
        assert middle > 0


class TestChanges:
    def test_a_lasting_drop_is_found_where_it_began(self):
        found = change_point([*noisy(100, 0.01, 12, 3), *noisy(80, 0.01, 8, 4)])
        assert found is not None
        assert found.at == 12
        assert found.chance < 0.01
        assert found.after / found.before == pytest.approx(0.8, abs=0.02)

    def test_noise_is_seldom_called_a_change(self):
        called = sum(
            (found := change_point(noisy(100, 0.03, 20, seed))) is not None and found.chance < 0.01
            for seed in SEEDS
        )
        assert called <= 2

    def test_one_bad_run_is_no_change(self):
        found = change_point([*noisy(100, 0.01, 10, 5), 60.0, *noisy(100, 0.01, 10, 6)])
        assert found is None or found.chance > 0.05

    @pytest.mark.parametrize("values", [[], [1.0] * 7, [5.0] * 20])
    def test_too_few_values_and_equal_ones_tell_nothing(self, values):
        assert change_point(values) is None


class TestEffects:
    def test_a_true_effect_is_shown_with_bounds_around_it(self):
        found = effect(noisy(100, 0.02, 10, 1), noisy(120, 0.02, 10, 2))
        assert found.shown
        assert found.low < 0.2 < found.high
        assert found.low < found.size < found.high

    def test_no_effect_is_seldom_shown(self):
        shown = sum(
            effect(noisy(100, 0.03, 10, seed), noisy(100, 0.03, 10, 1000 + seed)).shown
            for seed in SEEDS
        )
        assert shown <= 6

    def test_the_same_samples_give_the_same_bounds(self):
        some = noisy(100, 0.03, 10, 1), noisy(101, 0.03, 10, 2)
        assert effect(*some) == effect(*some)

    def test_too_few_samples_are_refused(self):
        with pytest.raises(ValueError, match="5 samples"):
            effect([1.0] * 4, [1.0] * 9)

    def test_nothing_before_has_no_effect(self):
        with pytest.raises(ValueError, match="Nothing was measured"):
            effect([0.0] * 5, [1.0] * 5)
