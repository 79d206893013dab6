"""dcgmi: one device's failure fails, no results are no success, half is not whole."""

from __future__ import annotations

import json

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.dcgmi.forms import parse
from hfprov.evidence.dcgmi.model import DcgmiFailure, DiagStatus


def dcgm4(*statuses: str, summary: str = "Pass", **root: object) -> str:
    results = [
        {"entity_group": "GPU", "entity_group_id": 1, "entity_id": number, "status": status}
        for number, status in enumerate(statuses)
    ]
    test = {"name": "memory", "results": results, "test_summary": {"status": summary}}
    category = {"category": "Hardware", "tests": [test]}
    document = {
        "DCGM Diagnostic": {"test_categories": [category]},
        "metadata": {"version": "4.2.3", "Driver Version Detected": "580.82.09"},
        **root,
    }
    return json.dumps(document)


def dcgm3(*statuses: str) -> str:
    results = [{"gpu_id": str(number), "status": status} for number, status in enumerate(statuses)]
    categories = [{"category": "Hardware", "tests": [{"name": "memory", "results": results}]}]
    root = {"test_categories": categories, "version": "3.3.9", "GPU Device IDs": ["2330"]}
    return json.dumps({"DCGM GPU Diagnostic": root})


@pytest.mark.parametrize("form", [dcgm3, dcgm4])
def test_a_single_failing_gpu_of_eight_fails_the_run(form):
    report = parse(form(*["Pass"] * 5, "Fail", "Pass", "Pass"))
    assert report.overall is DiagStatus.FAIL
    assert [result.entity_id for result in report.failed] == [5]
    assert report.judged == 8


@pytest.mark.parametrize("form", [dcgm3, dcgm4])
def test_all_passing(form):
    report = parse(form(*["PASS"] * 8))
    assert report.overall is DiagStatus.PASS
    assert report.judged == 8


def test_a_failing_summary_over_passing_gpus_fails():
    assert parse(dcgm4("Pass", "Pass", summary="Fail")).overall is DiagStatus.FAIL


def test_a_run_that_only_skipped_judged_nothing():
    report = parse(dcgm4("Skip", "Skip", summary="Skip"))
    assert report.judged == 0
    assert report.overall is DiagStatus.SKIP


@pytest.mark.parametrize("word", ["", "Maybe", "N/A", "Passed?"])
def test_an_unknown_word_is_unknown(word):
    report = parse(dcgm4("Pass", word))
    assert report.overall is DiagStatus.UNKNOWN
    assert report.judged == 1


@pytest.mark.parametrize(
    "document",
    [
        {"DCGM GPU Diagnostic": {"test_categories": []}},
        {"DCGM Diagnostic": {"test_categories": [{"category": "x", "tests": []}]}},
        {"DCGM Diagnostic": {"test_categories": [{"tests": [{"name": "a", "results": []}]}]}},
    ],
)
def test_no_results_are_no_success(document):
    report = parse(json.dumps(document))
    assert report.judged == 0
    assert report.overall is DiagStatus.UNKNOWN


@pytest.mark.parametrize(
    "document",
    [
        {"DCGM GPU Diagnostic": {"runtime_error": "The diagnostic timed out."}},
        {"runtime_error": "The diagnostic timed out."},
        {"DCGM Diagnostic": {"test_categories": [], "runtime_error": "The diagnostic timed out."}},
    ],
)
def test_a_runtime_error_is_kept(document):
    report = parse(json.dumps(document))
    assert report.runtime_error == "The diagnostic timed out."
    assert report.overall is DiagStatus.UNKNOWN


def test_each_iteration_counts():
    one = json.loads(dcgm4("Pass"))["DCGM Diagnostic"]
    two = json.loads(dcgm4("Fail"))["DCGM Diagnostic"]
    report = parse(json.dumps({"DCGM Diagnostic": {"iterations": [one, two]}}))
    assert [result.iteration for result in report.results] == [1, 1, 2, 2]
    assert report.overall is DiagStatus.FAIL


def test_gpus_listed_in_one_result_are_told_apart():
    root = {
        "test_categories": [
            {
                "tests": [
                    {
                        "name": "a",
                        "results": [{"gpu_ids": "0,3", "status": "FAIL", "warnings": "text only"}],
                    }
                ]
            }
        ]
    }
    report = parse(json.dumps({"DCGM GPU Diagnostic": root}))
    assert [result.entity_id for result in report.failed] == [0, 3]
    assert report.failed[0].messages[0].text == "text only"


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"other": 1}',
        '{"DCGM Diagnostic": []}',
        '{"DCGM Diagnostic": {"test_categories": 3}}',
        '{"DCGM Diagnostic": {"test_categories": [1]}}',
        '{"DCGM Diagnostic": {"test_categories": [{"tests": [{"results": {}}]}]}}',
        dcgm4("Pass")[:-1],
        dcgm4("Fail") + "}",
        '{"DCGM Diagnostic": ' + "9" * 5000 + "}",
        '{"DCGM Diagnostic": ' + "[" * 100_000,
        "{\n" * 100_000,
    ],
)
def test_unknown_and_broken_json_is_refused(text):
    with pytest.raises(NotUnderstoodError):
        parse(text)


def test_a_warning_before_the_json_is_passed_over():
    assert parse("Warning: something\n" + dcgm4("Fail")).overall is DiagStatus.FAIL


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (
            (
                "Error: unable to establish a connection to the specified host: localhost\n"
                "Error: Unable to connect to host engine. Host engine connection "
                "invalid/disconnected.\n"
            ),
            "no_connection",
        ),
        (
            "Error: Unable to complete diagnostic for group 2147483647. Return: (-21) Error\n",
            "not_run",
        ),
        ("Error: No GPUs found\n", "no_devices"),
        ("bash: dcgmi: command not found\n", "tool_missing"),
    ],
)
def test_a_sentence_of_failure_is_a_fact(text, kind):
    facts = parse(text)
    assert isinstance(facts, DcgmiFailure)
    assert facts.kind == kind


@pytest.mark.parametrize("text", ["", "\n", "hello", "+---+\n"])
def test_nothing_and_nonsense_are_refused(text):
    with pytest.raises(NotUnderstoodError):
        parse(text)


DCGM4_TABLE = """\
Successfully ran diagnostic for group.
+---------------------------+------------------------------------------------+
| Diagnostic                | Result                                         |
+===========================+================================================+
|-----  Metadata  ----------+------------------------------------------------|
| DCGM Version              | 4.2.3                                          |
|-----  Deployment  --------+------------------------------------------------|
| software                  | Pass                                           |
|                           | GPU0: Pass                                     |
|                           | GPU1: Pass                                     |
+-----  Hardware  ----------+------------------------------------------------+
| memory                    | Fail                                           |
|                           | GPU0: Pass                                     |
|                           | GPU1: Fail                                     |
| Warning: GPU1             | A memory error was found. Run a field diagnos  |
|                           | tic.                                           |
+---------------------------+------------------------------------------------+
"""


def test_table_of_dcgm_4_names_the_gpu():
    report = parse(DCGM4_TABLE)
    assert report.incomplete == ""
    assert report.overall is DiagStatus.FAIL
    failed = [result for result in report.failed if not result.summary]
    assert [(result.test, result.entity_id) for result in failed] == [("memory", 1)]
    assert failed[0].messages[0].text == "A memory error was found. Run a field diagnostic."
    passed = [one for one in report.results if one.test == "memory" and one.entity_id == 0]
    assert passed[0].messages == ()


def test_table_of_dcgm_4_whose_test_failed_although_its_gpus_passed():
    text = DCGM4_TABLE.replace(
        """\
| memory                    | Fail                                           |
|                           | GPU0: Pass                                     |
|                           | GPU1: Fail                                     |
| Warning: GPU1             | A memory error was found. Run a field diagnos  |
|                           | tic.                                           |
""",
        """\
| pcie                      | Fail                                           |
| Warning                   | There was an internal error during the test:   |
|                           | 'A child process (152) exited with non-zero s  |
|                           | tatus 1'                                       |
| Warning                   | Another one.                                   |
|                           | GPU0: Pass                                     |
|                           | GPU1: Pass                                     |
""",
    )
    report = parse(text)
    assert report.overall is DiagStatus.FAIL
    (failed,) = report.failed
    assert (failed.test, failed.summary) == ("pcie", True)
    assert [message.text for message in failed.messages] == [
        (
            "There was an internal error during the test: "
            "'A child process (152) exited with non-zero status 1'"
        ),
        "Another one.",
    ]
    gpus = [one for one in report.results if one.test == "pcie" and one.entity_id is not None]
    assert [(one.entity_id, one.status, one.messages) for one in gpus] == [
        (0, DiagStatus.PASS, ()),
        (1, DiagStatus.PASS, ()),
    ]


@pytest.mark.parametrize("lines", range(1, 17))
def test_a_table_that_is_cut_off_never_passes(lines):
    text = "\n".join(DCGM4_TABLE.split("\n")[:lines])
    try:
        report = parse(text)
    except NotUnderstoodError:
        return
    assert report.incomplete
    assert report.overall is not DiagStatus.PASS


HEALTH = """\
Health Monitor Report
+---------------------------+----------------------------------------------------------+
| Overall Health            | {overall}                                                |
{rows}+---------------------------+----------------------------------------------------------+
"""


def test_health():
    assert parse(HEALTH.format(overall="Healthy", rows="")).overall is DiagStatus.PASS
    sick = parse(
        HEALTH.format(
            overall="Failure",
            rows="| GPU                       |          |\n"
            "| -> 3                      | Failure  |\n"
            "|    -> Errors              |          |\n|       -> NVLink system    | Failure  |\n"
            "|                           | GPU 3's NvLink link 3 is down |\n",
        )
    )
    assert sick.overall is DiagStatus.FAIL
    assert [(item.entity_id, item.system) for item in sick.items] == [(3, ""), (3, "NVLink system")]
    assert "link 3 is down" in sick.items[1].message


def test_old_form_of_health():
    report = parse(
        "Health Monitor Report\n+----+----+\n| Overall Health:    Warning        |\n+====+====+\n"
        "| GPU ID: 0        | Warning        |\n"
        "|                  | PCIe system: Warning - Detected more than 8 PCIe |\n"
        "|                  | replays per minute for GPU 0: 13                 |\n+----+----+\n"
    )
    assert report.overall is DiagStatus.WARN
    assert report.items[1].system == "PCIe system"
    assert "13" in report.items[1].message


def test_health_that_is_cut_off_is_incomplete():
    text = HEALTH.format(overall="Healthy", rows="").rsplit("+---", 1)[0].rsplit("+---", 1)[0]
    assert parse(text).incomplete


def test_a_placeholder_of_the_host_engine_is_no_name():
    text = (
        "1 GPUs found.\n+---+---+\n| 0 | Name: <<<NULL>>> |\n|   | PCI Bus ID: 00000000:60:00.0 |\n"
        "|   | Device UUID: <<<NULL>>> |\n+---+---+\n"
    )
    discovery = parse(text)
    assert (discovery.gpus[0].name, discovery.gpus[0].uuid) == ("", "")
    assert "without its UUID" in discovery.incomplete


def test_discovery_that_lacks_a_gpu_is_incomplete():
    text = (
        "2 GPUs found.\n+---+---+\n| 0 | Name: A |\n|   | PCI Bus ID: 00000000:60:00.0 |\n"
        "|   | Device UUID: GPU-1 |\n+---+---+\n"
    )
    discovery = parse(text)
    assert discovery.gpus[0].pci_address == "0000:60:00.0"
    assert "2 GPUs were found but 1" in discovery.incomplete
