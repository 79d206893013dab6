"""What a vendor's diagnosis means: one GPU's failure fails, and nothing judged is never a pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hfprov.diagnose import on_node, refused
from hfprov.diagnosis import TOOLS, judge_dcgmi, judge_output, judge_rvs, judge_xpu
from hfprov.errors import NotUnderstoodError
from hfprov.evidence.accelerators.model import Vendor
from hfprov.remote import Output
from hfprov.verdict import Outcome

ROOT = Path(__file__).resolve().parents[4]
CAPTURES = ROOT.parent / "shared" / "captures"
TABLE = yaml.safe_load((ROOT / "tests/data/verdicts_diagnose.yml").read_text("utf-8"))
DCGMI = next(tool for tool in TOOLS if tool.name == "dcgmi")
needs_captures = pytest.mark.skipif(
    not CAPTURES.is_dir(), reason=f"the recorded outputs are not at {CAPTURES}"
)


def by_outcome(findings: list[Any], outcome: Outcome) -> list[str]:
    return [one.subject or "(whole)" for one in findings if one.outcome is outcome]


@needs_captures
@pytest.mark.parametrize("name", list(TABLE))
def test_recorded_diagnosis_is_judged_as_an_operator_would(name):
    row = TABLE[name]
    text = (CAPTURES / name).read_text("utf-8")
    if row.get("not_understood"):
        with pytest.raises(NotUnderstoodError, match=row["not_understood"]):
            judge_dcgmi(text, None)
        return
    findings = judge_dcgmi(text, None)
    for outcome in (Outcome.FAIL, Outcome.WARN, Outcome.UNKNOWN):
        assert by_outcome(findings, outcome) == row.get(outcome.value, [])
    assert len(by_outcome(findings, Outcome.PASS)) == row["passes"]


def diag(*statuses: str, category: str = "Hardware") -> str:
    """A DCGM 4 document with one test and one result per GPU."""
    results = [
        {"entity_group": "GPU", "entity_group_id": 1, "entity_id": n, "status": status}
        for n, status in enumerate(statuses)
    ]
    test = {"name": "memory", "results": results, "test_summary": {"status": "Pass"}}
    categories = [{"category": category, "tests": [test]}]
    return json.dumps(
        {"DCGM Diagnostic": {"test_categories": categories}, "metadata": {"version": "4.2.3"}}
    )


def diag3(*statuses: str) -> str:
    """The same as DCGM 3 wrote it."""
    results = [{"gpu_id": str(n), "status": status} for n, status in enumerate(statuses)]
    tests = [{"name": "memory", "results": results}]
    categories = [{"category": "Hardware", "tests": tests}]
    return json.dumps({"DCGM GPU Diagnostic": {"test_categories": categories}})


@pytest.mark.parametrize("document", [diag, diag3])
def test_only_the_sixth_gpu_failing_fails(document):
    findings = judge_dcgmi(document(*["Pass"] * 5, "Fail", "Pass", "Pass"), 8)
    assert by_outcome(findings, Outcome.FAIL) == ["memory GPU 5"]
    assert len(by_outcome(findings, Outcome.PASS)) == 7


@pytest.mark.parametrize(
    ("statuses", "devices", "subject"),
    [
        (["Skip"] * 8, 8, "(whole)"),
        (["Not Run"] * 8, 8, "(whole)"),
        (["Pass"] * 7, 8, "coverage"),
        (["Pass", "Splendid"], 2, "memory GPU 1"),
    ],
)
def test_what_was_not_judged_is_unknown(statuses, devices, subject):
    assert subject in by_outcome(judge_dcgmi(diag(*statuses), devices), Outcome.UNKNOWN)


def test_a_test_that_passed_and_complains_is_no_clean_pass():
    document = json.loads(diag("Pass", "Pass"))
    first = document["DCGM Diagnostic"]["test_categories"][0]["tests"][0]["results"][0]
    first["warnings"] = [{"error_id": 11, "warning": "Too little memory could be had to test."}]
    findings = judge_dcgmi(json.dumps(document), 2)
    assert by_outcome(findings, Outcome.WARN) == ["memory GPU 0"]
    assert by_outcome(findings, Outcome.PASS) == ["memory GPU 1"]


def test_software_alone_does_not_vouch_for_the_hardware():
    document = json.loads(diag("Pass", category="Deployment"))
    skipped = json.loads(diag("Skip"))["DCGM Diagnostic"]["test_categories"]
    document["DCGM Diagnostic"]["test_categories"] += skipped
    findings = judge_dcgmi(json.dumps(document), 1)
    assert by_outcome(findings, Outcome.UNKNOWN) == ["hardware"]


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("", 0, "Exit code 0"),
        ("garbage", 0, "Exit code 0"),
        ("{", 0, "Exit code 0"),
        (diag("Pass"), 226, "exit code 226"),
        (diag("Pass"), 124, "did not end"),
        (diag("Pass"), 137, "did not end"),
        ("Error: Unable to connect to host engine localhost.\n", 255, "could not diagnose"),
    ],
)
def test_what_is_not_a_whole_run_is_unknown(text, code, words):
    findings = judge_output(DCGMI, Output(text.encode(), "", code), 1)
    unknown = [one for one in findings if one.outcome is Outcome.UNKNOWN]
    assert any(words in one.reason for one in unknown), findings


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(["Pass", "Fail", "Skip", "Warn"]), min_size=1, max_size=8), st.data()
)
def test_a_cut_never_turns_a_failure_into_a_pass(statuses, data):
    whole = diag(*statuses, "Fail")
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    findings = judge_output(DCGMI, Output(cut.encode(), "", 0), len(statuses) + 1)
    assert {one.outcome for one in findings} & {Outcome.FAIL, Outcome.UNKNOWN}


def test_more_results_than_any_machine_has_are_bounded():
    findings = judge_output(DCGMI, Output(diag(*["Fail"] * 3000).encode(), "", 0), None)
    assert len(findings) <= 500
    assert findings[0].outcome is Outcome.FAIL
    assert findings[-1].outcome is Outcome.UNKNOWN


def test_vendors_without_a_parser_are_recorded_and_unknown():
    for tool in TOOLS:
        if tool.judge is None:
            [finding] = judge_output(tool, Output(b"all is well", "", 0), 8)
            assert finding.outcome is Outcome.UNKNOWN
            assert "recorded" in finding.reason


def test_rvs_and_xpu_smi_fail_by_name_and_say_nothing_of_silence():
    log = (
        "[RESULT] [ 0.5] Action name :gst_1\n[RESULT] [ 0.6] Module name :gst\n"
        "[RESULT] [ 1.0] [gst_1] [GPU:: 4 - 1001] gst_1 pass: TRUE\n"
        "[RESULT] [ 2.0] [gst_1] [GPU:: 5 - 1002] gst_1 pass: FALSE\n"
    )
    assert by_outcome(judge_rvs(log, 2), Outcome.FAIL) == ["gst_1"]
    health = (
        '{"device_list": [{"device_id": 0, "memory": {"status": "Critical", "description": "x"}}]}'
    )
    assert by_outcome(judge_xpu(health, 1), Outcome.FAIL) == ["memory GPU 0"]
    nothing = '{"device_list": [{"device_id": 0}]}'
    assert by_outcome(judge_xpu(nothing, 1), Outcome.UNKNOWN) == ["(whole)"]


@pytest.mark.parametrize(("result", "outcome"), [("PASS", Outcome.UNKNOWN), ("FAIL", Outcome.FAIL)])
def test_a_summary_of_rvs_alone_says_of_no_gpu_that_it_passed(result, outcome):
    rule = "+" + "=" * 30 + "+"
    rows = (
        f"{rule}\n| Action Name | Module | Result |\n{rule}\n| gst_1 | GST | {result} |\n{rule}\n"
    )
    (finding,) = judge_rvs(rows, 2)
    assert finding.outcome is outcome


def test_every_level_has_a_command_and_a_deadline_of_the_nodes_own():
    for tool in TOOLS:
        for level in range(1, 5):
            argv = on_node(tool.command(level), tool.seconds[level])
            assert argv[0] == "env"
            assert "timeout" in argv
            assert argv[-len(tool.command(level)) :] == list(tool.command(level))
    assert {tool.vendor for tool in TOOLS} == set(Vendor)


def test_a_node_in_use_is_refused_and_an_idle_one_is_not(h100, node_of):
    tool = DCGMI
    assert refused(*node_of(h100, tool)) is None
    process = (
        "<processes><process_info><pid>4711</pid><type>C</type><process_name>python3"
        "</process_name><used_memory>100 MiB</used_memory></process_info></processes>"
    )
    h100.replace("run nvidia-smi -q -x", "<processes></processes>", process, count=1)
    finding = refused(*node_of(h100, tool))
    assert finding is not None
    assert finding.outcome is Outcome.UNKNOWN
    assert "4711 python3" in finding.reason


def test_a_node_that_does_not_tell_who_uses_it_is_refused(h100, node_of):
    h100.command("nvidia-smi -q -x", "", status="timeout", ms=30000)
    finding = refused(*node_of(h100, DCGMI))
    assert finding is not None
    assert "not known" in finding.reason


def test_a_node_with_a_container_at_work_is_refused(h100, node_of):
    line = "/usr/bin/containerd-shim-runc-v2\0-namespace\0moby\0"
    h100.files("glob /proc/[0-9]*/cmdline", **{"/proc/77/cmdline": line})
    finding = refused(*node_of(h100, DCGMI))
    assert finding is not None
    assert "containerd-shim" in finding.reason
