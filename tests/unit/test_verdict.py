"""The reducer is the policy: it must never make a set of outcomes look better than its worst."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfprov.verdict import Outcome, badness, worst

outcomes = st.lists(st.sampled_from(list(Outcome)))


@given(outcomes)
def test_the_order_of_outcomes_does_not_matter(some):
    assert worst(some) is worst(list(reversed(some)))


@given(outcomes, st.sampled_from(list(Outcome)))
def test_one_more_outcome_never_makes_it_better_unless_nothing_was_judged(some, more):
    judged = [one for one in some if one is not Outcome.NOT_APPLICABLE]
    if judged:
        assert badness(worst([*some, more])) >= badness(worst(some))


@given(outcomes)
def test_pass_needs_at_least_one_pass_and_nothing_worse(some):
    if worst(some) is Outcome.PASS:
        assert Outcome.PASS in some
        assert not {Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN} & set(some)


@pytest.mark.parametrize("some", [[], [Outcome.NOT_APPLICABLE], [Outcome.NOT_APPLICABLE] * 3])
def test_nothing_judged_is_unknown(some):
    assert worst(some) is Outcome.UNKNOWN
