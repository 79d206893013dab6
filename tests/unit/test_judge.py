"""The judge: what cannot be said is unknown, and a bug in one check hides no other."""

import gc
import subprocess
import sys
import weakref

import pytest

from hfprov.baseline import Baseline, Value
from hfprov.checks import registry
from hfprov.checks.registry import Check, Facts
from hfprov.errors import NoEvidenceError, NotUnderstoodError, anew
from hfprov.evidence.system import COMMAND_LINES, PROCESSES
from hfprov.evidence.task_limits import TASK_LIMITS
from hfprov.judge import judge, outcome_of, reads_for, unreachable, wanted_reads
from hfprov.observe import message
from hfprov.reading import Observation, Result, Source, file, text_source
from hfprov.remembered import Remembered
from hfprov.verdict import Impact, Outcome, passed

READ = file("/etc/thing")
THING = text_source("thing", READ, str.strip)


def seen(**result):
    return Observation({READ.id: (Result(name="/etc/thing", **{"status": "ok", **result}),)})


@pytest.fixture
def only(monkeypatch):
    def use(*functions, role=None, sources=(THING,)):
        checks = tuple(
            Check(f"t.{number}", one, sources, role, Impact.NONE, ())
            for number, one in enumerate(functions)
        )
        monkeypatch.setattr(registry, "all_checks", lambda: checks)

    return use


def reads_thing(facts, _):
    yield passed(observed=facts.get(THING))


def nothing(_facts, _baseline):
    return iter(())


def broken(_facts, _baseline):
    raise KeyError("oops")


def half_broken(_facts, _baseline):
    yield passed("first")
    raise ZeroDivisionError("second")


BASE = Baseline("n1", ("limits",))


def test_a_check_with_its_evidence_judges(only):
    only(reads_thing)
    [verdict] = judge(seen(text=" yes "), BASE)
    assert (verdict.outcome, verdict.finding.observed) == (Outcome.PASS, "yes")


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"status": "absent"}, "not there"),
        ({"status": "denied"}, "could not be read"),
        ({"status": "timeout"}, "deadline"),
        ({"status": "skipped", "stderr": "late"}, "late"),
        ({"truncated": True}, "cut off"),
        ({"code": 3, "stderr": "boom"}, "exit code 3: boom"),
    ],
)
def test_without_whole_evidence_it_is_unknown_and_says_why(only, result, said):
    only(reads_thing)
    [verdict] = judge(seen(**result), BASE)
    assert verdict.outcome is Outcome.UNKNOWN
    assert said in verdict.finding.reason


def test_what_was_not_even_asked_for_is_unknown(only):
    only(reads_thing)
    [verdict] = judge(Observation({}), BASE)
    assert verdict.outcome is Outcome.UNKNOWN


@pytest.mark.parametrize("one", [nothing, broken, half_broken])
def test_a_check_that_finds_nothing_or_breaks_never_passes(only, one):
    only(one, reads_thing)
    verdicts = judge(seen(text="x"), BASE)
    assert outcome_of([v for v in verdicts if v.check == "t.0"]) is Outcome.UNKNOWN
    assert [v.outcome for v in verdicts if v.check == "t.1"] == [Outcome.PASS]


def test_checks_of_roles_that_a_host_does_not_have_are_not_judged(only):
    only(reads_thing, role="rdma")
    assert judge(seen(text="x"), BASE) == []
    assert outcome_of([]) is Outcome.UNKNOWN


def test_every_check_of_an_unreachable_host_is_unknown(only):
    only(reads_thing, reads_thing)
    verdicts = unreachable(BASE, "no route")
    assert {(v.outcome, v.finding.reason) for v in verdicts} == {(Outcome.UNKNOWN, "no route")}


def test_each_read_is_asked_for_once(only):
    only(reads_thing, reads_thing)
    assert reads_for(BASE) == (READ,)


def declared(*services):
    return Baseline("n1", ("limits",), {"limits_services": Value(list(services), "")})


def test_hosts_of_which_other_units_are_asked_are_sent_other_questions(only):
    """The reads have the same ids: what is asked by them tells them apart."""
    only(reads_thing, sources=(TASK_LIMITS,))
    reads = wanted_reads({"a": declared("slurmd"), "b": declared("ssh"), "c": declared("slurmd")})
    assert [read.id for read in reads["a"]] == [read.id for read in reads["b"]]
    assert reads["a"] is reads["c"]
    for host, unit in (("a", "slurmd.service"), ("b", "ssh.service")):
        (asked,) = (one for one in reads[host] if one.id == "units of systemd")
        assert unit in asked.request["units"]
    assert message(reads["a"], 9) is message(reads["c"], 9)
    assert message(reads["a"], 9) != message(reads["b"], 9)


def test_facts_are_parsed_once_and_failures_are_kept():
    calls = []

    def parse(_seen, _baseline):
        calls.append(1)
        raise NoEvidenceError("none")

    facts = Facts(Observation({}), BASE)
    source = Source("s", lambda _: (), parse)
    for _ in range(2):
        with pytest.raises(NoEvidenceError):
            facts.get(source)
    assert calls == [1]


class UncopiedError(ValueError):
    def __reduce__(self):
        raise TypeError("cannot be copied")


def test_an_error_that_cannot_be_copied_is_still_that_error():
    error = UncopiedError("gone")
    assert anew(error) is error


class Results(dict):
    """Results that can be seen to be gone."""


@pytest.mark.parametrize("error", [NoEvidenceError, ValueError])
@pytest.mark.parametrize("remember", [True, False], ids=["remembered", "judged"])
def test_what_failed_keeps_nothing_of_the_host(only, error, remember):
    def parse(_seen, _):
        raise error("gone")

    odd = Source("odd", lambda _: (READ,), parse)
    only(lambda facts, _: iter([passed(observed=facts.get(odd))]), sources=(odd,))
    facts = Facts(Observation(Results(seen(text="x").results)), Baseline("n1", ()))
    kept = weakref.ref(facts.seen.results)
    gc.collect()
    gc.disable()
    try:
        for _ in range(2):
            if remember:
                checks = tuple(registry.all_checks())
                [verdict] = Remembered().judge(checks, facts, Baseline("n1", ()))
                assert verdict.outcome is Outcome.UNKNOWN
            else:
                with pytest.raises((NoEvidenceError, NotUnderstoodError)):
                    facts.get(odd)
        del facts
        assert kept() is None
    finally:
        gc.enable()


def test_a_parser_that_stumbles_over_an_answer_is_not_understood_and_ends_nothing():
    def stumble(_seen, _baseline):
        raise IndexError("list index out of range")

    facts = Facts(seen(), BASE)
    source = Source("strange", lambda _: (READ,), stumble)
    for _ in range(2):
        with pytest.raises(NotUnderstoodError, match=r"'strange' was not understood \(IndexError"):
            facts.get(source)


def test_processes_of_a_node_that_names_no_files_are_read_all_the_same():
    hostile = {COMMAND_LINES.id: (Result(name="", status="ok", text="conmon"),)}
    assert Facts(Observation(hostile), BASE).get(PROCESSES).workloads == (": conmon",)


def test_checks_are_in_one_order_whichever_module_was_loaded_first():
    """Else evidence that is judged again by another command would tell its verdicts otherwise."""
    shown = (
        "import importlib, sys; importlib.import_module(sys.argv[1]);"
        "from hfprov.checks.registry import all_checks; print([one.id for one in all_checks()])"
    )
    orders = {
        subprocess.run(
            [sys.executable, "-c", shown, module],
            capture_output=True, text=True, timeout=60, check=True,
        ).stdout
        for module in ("hfprov.checks.nic", "hfprov.checks.time", "hfprov.checks.registry")
    }  # fmt: skip
    assert len(orders) == 1
