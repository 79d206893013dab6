"""Waves and the budget are pure: every host is in exactly one wave, and failures stop early."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hfprov.errors import UsageError
from hfprov.rollout import Budget, size_of, waves

sizes = st.lists(
    st.one_of(st.integers(1, 50).map(str), st.integers(1, 100).map(lambda n: f"{n}%")), min_size=1
)


@given(st.integers(0, 300), sizes)
def test_every_host_is_in_exactly_one_wave_in_order(count, chosen):
    hosts = [f"n{number}" for number in range(count)]
    assert [host for wave in waves(hosts, chosen) for host in wave] == hosts


def test_the_default_is_one_canary_then_a_tenth_then_the_rest():
    assert [len(wave) for wave in waves([str(n) for n in range(100)])] == [1, 10, 89]


@pytest.mark.parametrize("text", ["", "0x3", "-1", "101%", "ten", "1.5", "%"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(UsageError, match="neither a number"):
        size_of(text, 10)


@pytest.mark.parametrize("chosen", [["0"], ["0%"], ["0", "0%"], []])
def test_a_wave_of_nobody_is_refused(chosen):
    with pytest.raises(UsageError, match="at least one host"):
        waves(["a", "b"], chosen)


def test_shares_of_few_hosts_go_one_by_one():
    assert waves(["a", "b"], ["1%", "10%"]) == [("a",), ("b",)]


def test_the_canary_wave_tolerates_no_failure():
    assert "first wave" in Budget(failures=5).exceeded({"a": "no disk"}, canary=True)


def test_the_same_failure_twice_is_a_cause():
    assert "same failure on 2 hosts" in Budget(5).exceeded(
        {"a": "no disk", "b": "no disk"}, canary=False
    )


def test_different_failures_stop_only_over_the_budget():
    two = {"a": "no disk", "b": "no link"}
    assert Budget(2).exceeded(two, canary=False) == ""
    assert "at most 1" in Budget(1).exceeded(two, canary=False)
    assert "1 host failed; at most 0 may" in Budget(0).exceeded({"a": "no disk"}, canary=False)


def test_a_share_that_comes_to_nobody_is_left_out():
    assert [len(wave) for wave in waves(["a", "b", "c"])] == [1, 2]


def test_nothing_failed_goes_on():
    assert Budget(0).exceeded({}, canary=True) == ""
