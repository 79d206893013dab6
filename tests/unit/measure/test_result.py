"""The slow host is named, nobody else is; a slow rack and an unstable host are what they are."""

from __future__ import annotations

import random

import pytest

from hfprov.measure.judges import Bound, Judge
from hfprov.measure.result import Judging, culprits, judge, usual_of, words
from hfprov.measure.taken import Taken
from hfprov.measure.tool import LATENCY, REPEATS, Figure
from hfprov.measure.tools import TOOLS
from hfprov.pairs.explain import Kind
from hfprov.pairs.schedule import rounds
from hfprov.verdict import Outcome

IPERF = next(tool for tool in TOOLS if tool.name == "iperf3")
FIO = next(tool for tool in TOOLS if tool.name == "fio")
NOTHING_KNOWN = Judging({}, {}, {})


def rack(hosts, rate, seed=1, noise=0.03, **kind):
    """What pairs of hosts measured; ``rate`` gives the true rate of a pair."""
    chance = random.Random(seed)
    taken = []
    for one in rounds(hosts):
        for a, b in one:
            for pair in ((a, b), (b, a)):
                true = rate(*pair)
                values = tuple(chance.gauss(true, noise * true) for _ in range(REPEATS))
                figure = Figure("iperf3 tcp", "Gbit/s", values, **kind)
                taken.append(Taken(IPERF, *pair, "rail", figures={figure.test: figure}))
    return taken


def names(count):
    return [f"n{number}" for number in range(count)]


def blamed(taken):
    return {(one.cause.kind, one.cause.hosts[0]) for one in culprits(taken)}


@pytest.mark.parametrize("seed", range(50))
def test_the_slow_host_is_named_and_nobody_else_is_ever_accused(seed):
    chance = random.Random(seed)
    hosts = names(chance.choice([3, 4, 5, 8, 16]))
    slow = chance.choice(hosts)
    share = chance.uniform(0.2, 0.65)
    taken = rack(hosts, lambda *pair: 25 * (share if slow in pair else 1), seed)
    assert blamed(taken) == {(Kind.HOST, (slow,))}


@pytest.mark.parametrize("seed", range(50))
def test_in_a_good_rack_nobody_is_accused(seed):
    hosts = names(random.Random(seed).choice([2, 3, 4, 8, 16]))
    assert blamed(rack(hosts, lambda *_: 25, seed)) == set()


def test_a_host_that_is_slow_one_way_only_is_named():
    assert blamed(rack(names(4), lambda a, _: 5 if a == "n2" else 25)) == {(Kind.HOST, ("n2",))}


def test_a_slow_link_between_switches_is_not_put_on_a_host():
    left = {"n0", "n1", "n2"}
    taken = rack(names(6), lambda a, b: 5 if (a in left) != (b in left) else 25)
    assert blamed(taken) == {(Kind.GROUPS, ("n0", "n1", "n2"))}


def test_a_uniformly_slow_rack_fails_on_nominal_and_accuses_nobody():
    taken = rack(names(4), lambda *_: 5)
    bounds = {(host, "iperf3 tcp"): Bound(20, "declared") for host in names(4)}
    results = judge(taken, Judging(bounds, {}, {}))
    assert culprits(taken) == []
    assert {one.outcome for one in results} == {Outcome.FAIL}
    assert all(
        spoken.outcome is Outcome.FAIL
        for one in results
        for spoken in one.opinions
        if spoken.judge is Judge.NOMINAL
    )


def latencies(hosts, cost, seed=1, noise=0.03):
    """A pair needs what both of its ends need; ``cost`` gives that of a host."""
    kind = {"higher_is_better": False, "tolerance": LATENCY}
    return rack(hosts, lambda a, b: cost(a) + cost(b), seed, noise, **kind)


@pytest.mark.parametrize("seed", range(50))
def test_the_host_of_high_latency_is_named_and_nobody_else_is_ever_accused(seed):
    chance = random.Random(seed)
    hosts = names(chance.choice([3, 4, 5, 8, 16]))
    slow = chance.choice(hosts)
    more = chance.uniform(3, 9)
    taken = latencies(hosts, lambda host: 20 * (more if host == slow else 1), seed)
    assert blamed(taken) == {(Kind.HOST, (slow,))}
    [cause] = culprits(taken)
    assert cause.value > cause.usual
    assert "others need" in words(cause)


@pytest.mark.parametrize("seed", range(50))
def test_a_host_of_low_latency_is_not_named_and_makes_nobody_else_slow(seed):
    chance = random.Random(seed)
    hosts = names(chance.choice([4, 5, 8, 16]))
    quick = chance.choice(hosts)
    taken = latencies(hosts, lambda host: 20 * (0.1 if host == quick else 1), seed)
    assert blamed(taken) == set()


def test_a_rack_behind_another_switch_is_not_slow_for_the_way_there():
    left = {"n0", "n1", "n2"}
    kind = {"higher_is_better": False, "tolerance": LATENCY}
    taken = rack(names(6), lambda a, b: 4.5 if (a in left) != (b in left) else 3, **kind)
    assert blamed(taken) == set()


def test_a_noisy_host_is_unstable_and_not_slow():
    taken = rack(names(4), lambda *_: 25)
    noisy = (30.0, 12.0, 25.0, 26.0, 14.0)
    for one in taken:
        if one.host == "n1":
            one.figures["iperf3 tcp"] = Figure("iperf3 tcp", "Gbit/s", noisy)
    assert culprits(taken) == []
    found = {one.host: one for one in judge(taken, NOTHING_KNOWN) if one.peer == "n0"}
    assert found["n1"].outcome is Outcome.FAIL
    assert "Unstable" in found["n1"].opinions[0].reason
    assert found["n2"].outcome is Outcome.UNKNOWN


def test_a_tool_without_a_figure_is_unknown_and_counts_for_nobody():
    broken = Taken(FIO, "n1", problem="There is no space left.")
    [found] = judge([broken], NOTHING_KNOWN)
    assert (found.outcome, found.summary) == (Outcome.UNKNOWN, None)
    assert found.opinions[0].reason == "There is no space left."
    [empty] = judge([Taken(FIO, "n1")], NOTHING_KNOWN)
    assert empty.outcome is Outcome.UNKNOWN


def test_what_good_pairs_reach_is_not_dragged_down_by_half_of_all_being_slow():
    assert usual_of([5.0] * 6 + [25.0] * 6) == 25.0
    assert usual_of([7.0]) == 7.0
    assert usual_of([12.8, 13.3, 13.9, 14.0, 14.02, 20.2]) == 14.02


# -- what is told is what was measured -------------------------------------------------------------


def table(values, test="iperf3 tcp", **kind):
    """Exactly these medians, by pair."""
    return [
        Taken(IPERF, *pair, "rail", figures={test: Figure(test, "Gbit/s", (value,) * 5, **kind)})
        for pair, value in values.items()
    ]


def test_one_fast_value_among_three_hosts_makes_nobody_slow():
    values = {
        ("n1", "n2"): 13.8, ("n2", "n1"): 14.1, ("n1", "n3"): 14.01, ("n3", "n1"): 13.27,
        ("n2", "n3"): 20.2, ("n3", "n2"): 14.02,
    }  # fmt: skip
    assert culprits(table(values)) == []


def test_a_pair_that_is_slow_one_way_is_told_in_that_direction_with_its_own_figure():
    values = {(a, b): 14.0 + int(b[1]) / 10 for a in names(4) for b in names(4) if a != b}
    [cause] = culprits(table({**values, ("n3", "n1"): 7.27}))
    assert words(cause) == (
        "iperf3 tcp in rail: slow from n3 to n1 (7.27 Gbit/s, where others reach 14.2)."
    )
    assert cause.value == 7.27
    assert cause.usual in values.values()


def test_a_pair_that_is_slow_both_ways_is_told_by_the_slower_one():
    values = {(a, b): 14.0 for a in names(4) for b in names(4) if a != b}
    [cause] = culprits(table({**values, ("n1", "n3"): 8.0, ("n3", "n1"): 7.0}))
    assert "slow both ways between n3 and n1 (7 Gbit/s, where others reach 14)" in words(cause)


def test_of_two_hosts_the_slow_way_is_told_beside_the_way_back():
    [cause] = culprits(table({("n1", "n2"): 25.0, ("n2", "n1"): 5.0}))
    assert words(cause) == "iperf3 tcp in rail: slow from n2 to n1 (5 Gbit/s, and 25 back)."


def test_of_three_hosts_with_one_fast_pair_it_is_not_said_that_the_third_is_slow():
    fast = {"n0", "n1"}
    values = {
        (a, b): 20.0 if {a, b} == fast else 14.0 for a in names(3) for b in names(3) if a != b
    }
    [cause] = culprits(table(values))
    assert cause.doubtful
    assert "are slow" not in words(cause)
    assert "cannot be told who is slow" in words(cause)
    # A tenth of what the others reach is no luck of the others.
    [plain] = culprits(table({pair: 2.0 if "n2" in pair else 20.0 for pair in values}))
    assert not plain.doubtful
    assert words(plain).startswith("n2: iperf3 tcp in rail: 2 of 2 pairs are slow")


def test_of_three_hosts_a_quick_one_does_not_make_the_other_two_slow():
    cost = {"n0": 2.0, "n1": 20.0, "n2": 20.0}
    values = {(a, b): cost[a] + cost[b] for a in cost for b in cost if a != b}
    [cause] = culprits(table(values, higher_is_better=False, tolerance=LATENCY))
    assert cause.doubtful
    assert "cannot be told" in words(cause)


def test_who_is_as_good_as_most_others_is_not_slow_beside_the_best():
    left = {"n0", "n1", "n2"}
    fast = {(a, b) for a in left for b in left}
    values = {
        (a, b): 20.0 if (a, b) in fast else 16.5 for a in names(5) for b in names(5) if a != b
    }
    assert culprits(table({**values, ("n3", "n4"): 15.9, ("n4", "n3"): 15.9})) == []
