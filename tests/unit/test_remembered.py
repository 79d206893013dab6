"""Remembered findings are the findings that the checks would have come to themselves."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path

import pytest

from hfprov import remembered
from hfprov.baseline import Baseline, Value
from hfprov.checks.registry import Check, Facts, checks_for
from hfprov.judge import judge_facts
from hfprov.reading import Observation, Source, file
from hfprov.remembered import Remembered
from hfprov.verdict import Impact, passed

NODE = Path(__file__).parent / "checks" / "node_networkd.json"
READ, OTHER = file("/a"), file("/b")
SOURCE = Source("a", lambda _: (READ,), lambda seen, _: seen.text(READ))
STRANGE = Source("b", lambda _: (READ,), lambda seen, _: seen.text(READ) + seen.text(OTHER))
CLOCK = Source("clock", lambda _: (READ,), lambda seen, _: f"{seen.text(READ)}{seen.now}")
EVERYTHING = Source("all", lambda _: (READ,), lambda seen, _: str(sorted(seen.results)))


def spoilt(results, pick):
    """The results with one thing changed: gone, cut, longer, another status."""
    found = copy.deepcopy(results)
    name = pick.choice([name for name, some in found.items() if some])
    one = pick.choice(found[name])
    change = pick.randrange(6)
    if change == 0:
        del found[name]
    elif change == 1:
        one["text"] = one.get("text", "")[: pick.randrange(40)]
    elif change == 2:
        one["text"] = one.get("text", "").replace("1", "2")
    elif change == 3:
        one.update(status="timeout", ms=pick.randrange(100))
    elif change == 4:
        one.update(mode=0o666, uid=pick.randrange(2))
    else:
        found[name].append({**one, "name": one.get("name", "") + "x"})
    return found


def test_the_same_verdicts_on_nodes_that_are_spoilt_in_any_way():
    pick = random.Random(7)
    recorded = json.loads(NODE.read_text())["results"]
    values = {"limits_nofile": Value(16384, ""), "jumbo_mtu_interfaces": Value(["eth1"], "")}
    baseline = Baseline("n", ("limits", "jumbo_mtu", "time_sync"), values)
    memory = Remembered()
    checks = tuple(checks_for(baseline))
    for _ in range(60):
        results = recorded if pick.random() < 0.4 else spoilt(recorded, pick)
        seen = Observation.from_json({"results": results, "now": pick.random()})
        expected = judge_facts(Facts(seen, baseline), baseline)
        assert memory.judge(checks, Facts(seen, baseline), baseline) == expected
    assert sum(known.found for known in memory._known.values()) > 1000


def judged(memory, source, *, a="1", b="1", now=1.0, host="n", look=None):
    """The text that a check saw, and how often it was really run until now."""
    runs = judged.runs

    def judge(facts, baseline):
        runs.append(1)
        extra = look(facts, baseline) if look else ""
        yield passed(observed=f"{facts.get(source)}{extra}")

    name = f"{source.name}{look}"
    check = judged.checks.setdefault(name, Check("x.y", judge, (source,), None, Impact.NONE, ()))
    results = {READ.id: [{"name": "", "status": "ok", "text": a, "ms": len(runs)}],
               OTHER.id: [{"name": "", "status": "ok", "text": b}]}  # fmt: skip
    facts = Facts(Observation.from_json({"results": results, "now": now}), baseline_of(host))
    (found,) = memory.judge((check,), facts, baseline_of(host))
    return found.finding.observed


VALUES = {"v": Value(1, "")}


def baseline_of(host):
    return Baseline(host, (), VALUES)


@pytest.fixture(autouse=True)
def counted():
    judged.runs, judged.checks = [], {}


def test_equal_evidence_is_judged_once():
    memory = Remembered()
    assert [judged(memory, SOURCE, host=h) for h in "abc"] == ["1", "1", "1"]
    assert len(judged.runs) == 1
    assert judged(memory, SOURCE, a="2") == "2"
    assert judged(memory, SOURCE, a="1") == "1"
    assert len(judged.runs) == 2


@pytest.mark.parametrize(
    ("source", "look", "change"),
    [
        (STRANGE, None, {"b": "2"}),
        (CLOCK, None, {"now": 2.0}),
        (EVERYTHING, None, {}),
        (SOURCE, lambda facts, _: facts.seen.now, {"now": 2.0}),
        (SOURCE, lambda facts, _: facts.earlier, {}),
        (SOURCE, lambda facts, _: facts.get(STRANGE), {"b": "2"}),
    ],
)
def test_what_looks_beyond_its_reads_is_never_remembered(source, look, change):
    memory = Remembered()
    first = judged(memory, source, look=look)
    second = judged(memory, source, look=look, **change)
    assert len(judged.runs) == 2
    assert (first != second) is bool(change)


def test_what_a_source_looked_at_for_one_check_counts_for_the_next_as_well():
    memory = Remembered()
    runs = []

    def judge(facts, _):
        runs.append(1)
        yield passed(observed=facts.get(CLOCK))

    checks = tuple(Check(f"x.{n}", judge, (CLOCK,), None, Impact.NONE, ()) for n in "ab")
    for now in (1.0, 2.0):
        seen = Observation.from_json(
            {"results": {READ.id: [{"name": "", "status": "ok", "text": "a"}]}, "now": now}
        )
        found = memory.judge(checks, Facts(seen, baseline_of("n")), baseline_of("n"))
        assert [one.finding.observed for one in found] == [f"a{now}", f"a{now}"]
    assert len(runs) == 4


def test_a_check_whose_evidence_always_differs_is_no_longer_watched(monkeypatch):
    memory = Remembered()
    watched = []
    real = remembered._WatchedFacts
    monkeypatch.setattr(remembered, "_WatchedFacts", lambda *a: watched.append(1) or real(*a))
    for number in range(200):
        assert judged(memory, SOURCE, a=str(number)) == str(number)
    assert len(watched) == remembered._TRIALS
    assert len(memory._prints[READ.id]) <= remembered._KEPT_PER_READ
