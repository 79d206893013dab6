"""xpu-smi: health, diagnostics and dumps that are not all well, and tables that are cut off."""

from __future__ import annotations

from pathlib import Path

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.evidence import xpu_smi
from hfprov.evidence.failures import FailureKind

SAMPLES = Path(__file__).parents[2] / "data" / "captures_other_samples"
HEALTH = (SAMPLES / "xpu-smi__health.txt").read_text()
DIAG = (SAMPLES / "xpu-smi__diag.txt").read_text()


def test_health_is_ok_bad_or_unknown():
    checks = xpu_smi.parse(HEALTH).checks
    assert [(check.component, check.passed) for check in checks] == [
        ("GPU Core Temperature", True),
        ("GPU Memory", False),
        ("Xe Link Port", None),
    ]
    assert checks[1].message == "Memory channels are broken and need attention."
    assert {check.device for check in checks} == {0}


def test_a_failed_diagnosis_and_any_part_of_it_never_pass():
    lines = DIAG.splitlines(keepends=True)
    (diagnosis,) = xpu_smi.parse(DIAG).diagnoses
    assert (diagnosis.level, diagnosis.passed) == (2, False)
    assert diagnosis.checks[1].message == "Fail to check PCIe bandwidth."
    for end in range(len(lines)):
        try:
            facts = xpu_smi.parse("".join(lines[:end]))
        except NotUnderstoodError:
            continue
        assert not any(each.passed for each in facts.diagnoses)


def test_fewer_items_than_announced_is_refused():
    cut = DIAG[: DIAG.index("| Integration PCIe")]
    with pytest.raises(NotUnderstoodError, match="announces 2 items and has 1"):
        xpu_smi.parse(cut)


def test_open_frame_is_refused():
    with pytest.raises(NotUnderstoodError, match="not closed"):
        xpu_smi.parse("".join(HEALTH.splitlines(keepends=True)[:-1]))


def test_json_health_and_error():
    text = (
        '{"device_list": [{"device_id": 1, "device_name": "Intel(R) Data Center GPU Max 1550", '
        '"memory_physical_size_byte": "68719476736", '
        '"memory": {"status": "Warning", "description": "d"}, "power": {"status": "Ok"}}]}'
    )
    facts = xpu_smi.parse(text)
    assert facts.devices[0].memory_total_mib == 65536
    assert [(check.component, check.passed) for check in facts.checks] == [
        ("memory", False),
        ("power", True),
    ]
    assert xpu_smi.parse('{"errno": 5, "error": "device not found"}').kind is FailureKind.NO_DEVICES
    assert xpu_smi.parse('{"device_list": []}').kind is FailureKind.NO_DEVICES


def test_a_device_whose_state_is_not_normal_has_failed():
    text = '{"device_id": 5, "device_name": "A", "device_state": "%s"}'
    (check,) = xpu_smi.parse(text % "survivability mode (do something)").checks
    assert (check.device, check.component, check.passed) == (5, "Device State", False)
    assert xpu_smi.parse(text % "normal").checks == ()
    table = (
        "+---+---+\n| Device ID | Device Information |\n+---+---+\n"
        "| 5 | Device Name: A |\n|  | Device State: survivability mode |\n+---+---+\n"
    )
    assert [one.passed for one in xpu_smi.parse(table).checks] == [False]


def test_dump_keeps_rows_with_their_units():
    facts = xpu_smi.parse((SAMPLES / "xpu-smi__dump.csv").read_text())
    assert [row["GPU Power (W)"] for row in facts.samples] == ["14.61", "14.70"]
    assert facts.samples[1]["GPU Utilization (%)"] == "N/A"


def test_update_that_does_not_end_did_not_succeed():
    facts = xpu_smi.parse("Starting to update firmware\nFirmware Name: GFX\n[====] 40 %\n")
    assert facts.update.succeeded is False


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Error: Level Zero Initialization Error", FailureKind.DRIVER_NOT_LOADED),
        ("No device discovered", FailureKind.NO_DEVICES),
        ("Error: device not found", FailureKind.NO_DEVICES),
        ("Error: fail to connect to XPUM daemon", FailureKind.DAEMON_DOWN),
    ],
)
def test_failures_are_typed(said, kind):
    assert xpu_smi.parse(said).kind is kind


def test_statistics_of_a_device_and_its_uncorrected_errors():
    frame = f"+{'-' * 30}+{'-' * 40}+\n"
    rows = (
        ("Device ID", "5"),
        None,
        ("GPU Utilization (%)", "N/A"),
        ("Cache Errors Uncorrectable", "0, total: 0"),
        ("Mem Errors Correctable", "5, total: 5"),
        ("Mem Errors Uncorrectable", "Tile 0: 0, total: 0"),
        ("", "Tile 1: 0, total: 55"),
        None,
        ("GPU Memory Temperature (C)", ""),
    )
    table = "".join(f"| {row[0]:28} | {row[1]:38} |\n" if row else frame for row in rows)
    facts = xpu_smi.parse(frame + table + frame)
    assert [(check.device, check.component, check.passed) for check in facts.checks] == [
        (5, "Mem Errors Uncorrectable", False)
    ]
    assert facts.samples[0]["Mem Errors Uncorrectable"].endswith("total: 55")
    assert facts.samples[0]["GPU Memory Temperature (C)"] == ""
