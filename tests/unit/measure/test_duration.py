"""What is announced is what the tools need, and a long step gives a sign of life."""

from __future__ import annotations

import pytest

from hfprov.measure.duration import (
    Duration,
    duration_of,
    duration_of_plan,
    duration_of_round,
    runs_of,
    runs_of_round,
)
from hfprov.measure.progress import StepProgress
from hfprov.measure.steps import HostStep, MeasurePlan, PairStep
from hfprov.measure.tool import ATTEMPTS, REPEATS, End, Settings
from hfprov.measure.tools import TOOLS
from hfprov.pairs.schedule import rounds

ONE_SECOND = Settings(seconds=1)


def tool(name):
    return next(one for one in TOOLS if one.name == name)


def on_hosts(name, count=1):
    return HostStep(tool(name), tuple(f"n{number}" for number in range(count)))


def in_pairs(name, count):
    hosts = [f"n{number}" for number in range(count)]
    ends = {host: End(host, "eth1", "192.0.2.1", "mlx5_0") for host in hosts}
    return PairStep(tool(name), "r", ends, tuple(rounds(hosts)))


@pytest.mark.parametrize(
    ("name", "one_run"),
    [("fio", 3), ("stress-ng", 10)],  # three jobs of a second; never less than ten
)
def test_a_tool_that_runs_longer_than_asked_is_announced_with_its_own_time(name, one_run):
    found = duration_of(on_hosts(name), ONE_SECOND, 64)
    runs = 1 + REPEATS
    assert runs * one_run <= found.usual <= runs * (one_run + 1)
    assert found.most > found.usual + (ATTEMPTS - 1) * REPEATS * one_run


def test_a_round_is_announced_with_its_own_time_and_not_that_of_all_rounds():
    step = in_pairs("ping", 3)
    one = duration_of_round(step, step.rounds[0], ONE_SECOND, 64)
    whole = duration_of(step, ONE_SECOND, 64)
    assert whole.usual == pytest.approx(3 * one.usual)
    # Five that count and four sizes, a second each, both ways.
    assert 2 * 9 <= one.usual <= 2 * 9 * 2


def test_hosts_that_cannot_all_work_at_once_take_turns():
    one, many = (duration_of(on_hosts("fio", count), ONE_SECOND, 64) for count in (64, 65))
    assert many.usual == 2 * one.usual
    plan = MeasurePlan(ONE_SECOND, (on_hosts("fio", 65), on_hosts("fio", 1)), {}, at_once=64)
    assert duration_of_plan(plan).usual == pytest.approx(3 * one.usual)


def test_what_is_announced_names_the_longest_as_well():
    assert str(Duration(48.2, 90.0)) == "about 48 s, up to 90 s where repeats disagree"
    assert str(Duration(300.0, 900.0)) == "about 5 min, up to 15 min where repeats disagree"


def test_runs_are_counted_over_all_hosts_pairs_and_sizes():
    assert runs_of(on_hosts("fio", 3)) == 3 * (1 + REPEATS)
    ping, iperf = in_pairs("ping", 4), in_pairs("iperf3", 4)
    assert runs_of_round(ping, ping.rounds[0], ONE_SECOND) == 2 * 2 * (REPEATS + 4)
    assert runs_of_round(iperf, iperf.rounds[0], ONE_SECOND) == 2 * 2


def test_a_long_step_says_how_far_it_is_and_a_fleet_no_more_often_than_a_rack():
    now, said = [0.0], []
    progress = StepProgress(said.append, "fio on 1000 hosts", 6000, clock=lambda: now[0])
    for number in range(3000):
        now[0] = number / 100  # thirty seconds
        progress(REPEATS if number == 2500 else 0)
    assert said == [
        "fio on 1000 hosts: 1001 of 6000 runs",
        "fio on 1000 hosts: 2001 of 6000 runs",
    ]
    now[0] = 40.0
    progress(0)
    assert said[-1].endswith("3001 of 6005 runs, 5 of them made anew")
