"""Since when something is bad: told from stretches as from one judgement after another."""

from __future__ import annotations

import random

import pytest

from hfprov.baseline import Baseline
from hfprov.record.store import Record
from hfprov.verdict import NotApplicable, Verdict, failed, not_applicable, passed, unknown

CHECK, SUBJECT = "limits.units", "sshd"
HOSTS = ("a", "b", "c")
SAID = {
    "pass": passed(SUBJECT),
    "fail": failed(SUBJECT, observed="1", expected="2", reason="Less."),
    "other": passed("cron"),
    "lost": unknown("cron", reason="It timed out."),
    "absent": not_applicable(NotApplicable.CONTAINER, "A container."),
}
GOOD, BAD = {"pass", "other"}, {"fail", "unreached"}


@pytest.fixture
def record(tmp_path):
    with Record.open(tmp_path / "record.db") as record:
        yield record


def write(record, story):
    """One run in which each host is judged as the story says; the run's id."""
    baselines = {host: Baseline(host, ()) for host in story}
    with record.start_run("drift", [], baselines) as log:
        for host, how in story.items():
            if how == "unreached":
                log.not_observed(
                    host, "before", "No route.", [Verdict(CHECK, unknown(SUBJECT, reason="-"))]
                )
            else:
                log.observed(host, "before", b"{}", [Verdict(CHECK, SAID[how])])
        log.finish(0)
    return log.id


def expected(told):
    """The last good run and the first bad one after it, from (run, how) in order."""
    good = max((number for number, (_, how) in enumerate(told) if how in GOOD), default=-1)
    bad = (run for run, how in told[good + 1 :] if how in BAD)
    return (told[good][0] if good >= 0 else None), next(bad, None)


@pytest.mark.parametrize("seed", range(12))
def test_any_history(record, seed):
    chance = random.Random(seed)
    told = {host: [] for host in HOSTS}
    for _ in range(chance.randrange(1, 14)):
        story = {host: chance.choice([*SAID, "unreached"]) for host in HOSTS}
        run = write(record, story)
        for host, how in story.items():
            told[host].append((run, how))
    (found,) = record.since_each([(HOSTS, CHECK, SUBJECT)])
    for host in HOSTS:
        one = found[host]
        seen = (one.last_good and one.last_good.run), (one.first_bad and one.first_bad.run)
        assert seen == expected(told[host]), told[host]
        assert one == record.since(host, CHECK, SUBJECT)


def test_each_question_has_its_own_answer_in_its_place(record):
    first = write(record, {"a": "fail", "b": "pass"})
    second = write(record, {"a": "pass", "b": "fail"})
    asked = [(["b", "nobody"], CHECK, SUBJECT), ([], CHECK, SUBJECT), (["a"], CHECK, "cron")]
    of_b, of_none, of_cron = record.since_each(asked)
    assert (of_b["b"].last_good.run, of_b["b"].first_bad.run) == (first, second)
    assert set(of_b) == {"b"}
    assert of_none == {}
    assert of_cron["a"].last_good.run == second
