"""Drives: unseen forms, faults, and texts that were cut off.

Every text here was written for the test, after the documentation named in the parsers.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.evidence import nvme, smartctl

SMART = {
    "critical_warning": 0,
    "temperature": 310,
    "avail_spare": 100,
    "spare_thresh": 5,
    "percent_used": 2,
    "power_on_hours": 10,
    "unsafe_shutdowns": 1,
    "media_errors": 0,
    "num_err_log_entries": 3,
    "warning_temp_time": 0,
    "critical_comp_time": 0,
}


class TestNvme:
    def health(self, **more: Any) -> nvme.NvmeHealth:
        facts = nvme.parse(json.dumps({**SMART, **more}))
        assert isinstance(facts, nvme.NvmeHealth)
        return facts

    @pytest.mark.parametrize(
        ("warning", "names"),
        [
            (4, ("reliability_degraded",)),
            ("9", ("available_spare", "read_only")),
            ({"value": 0, "ro": 1}, ("read_only",)),
            ({"value": 2}, ("temp_threshold",)),
            (128, ("unknown",)),
        ],
    )
    def test_critical_warnings(self, warning: Any, names: tuple[str, ...]) -> None:
        health = self.health(critical_warning=warning)
        assert health.warnings == names
        assert not health.is_ok

    @pytest.mark.parametrize("key", sorted(SMART))
    def test_a_missing_value_is_refused(self, key: str) -> None:
        document = {name: value for name, value in SMART.items() if name != key}
        with pytest.raises(NotUnderstoodError):
            nvme.parse(json.dumps(document))

    def test_media_errors_and_spare(self) -> None:
        assert self.health().is_ok
        assert not self.health(media_errors=1).is_ok
        assert not self.health(avail_spare=5).is_ok
        assert self.health(percentage_used=90).used_percent in (2, 90)

    TEXT = (
        "Smart Log for NVME device:nvme0 namespace-id:ffffffff\n"
        "critical_warning\t\t\t: 0x1\ntemperature\t\t\t\t: 51 °C (324 K)\n"
        "available_spare\t\t\t\t: 3%\navailable_spare_threshold\t\t: 10%\n"
        "percentage_used\t\t\t\t: 104%\nmedia_errors\t\t\t\t: 1,234\n"
        "num_err_log_entries\t\t\t: 7\npower_on_hours\t\t\t\t: 3,456\nunsafe_shutdowns\t\t\t: 156\n"
        "Warning Temperature Time\t\t: 0\nCritical Composite Temperature Time\t: 0\n"
        "Temperature Sensor 1           : 51 °C (324 K)\n"
    )

    def test_text(self) -> None:
        health = nvme.parse(self.TEXT)
        assert isinstance(health, nvme.NvmeHealth)
        assert health.warnings == ("available_spare",)
        assert (health.media_errors, health.power_on_hours, health.used_percent) == (
            1234,
            3456,
            104,
        )

    def test_text_that_was_cut_off_is_refused(self) -> None:
        for lines in range(1, 12):
            with pytest.raises(NotUnderstoodError):
                nvme.parse("\n".join(self.TEXT.splitlines()[:lines]))

    def test_controller_text(self) -> None:
        text = "NVME Identify Controller:\nvid       : 0x144d\nsn        : S1\n"
        text += "mn        : Samsung\nfr        : F1\nwctemp    : 355\n"
        facts = nvme.parse(text)
        assert isinstance(facts, nvme.NvmeControllerFacts)
        assert (facts.vendor_id, facts.warning_celsius) == ("144d", 81.85)

    def test_a_key_with_two_values_hides_nothing(self) -> None:
        text = json.dumps({**SMART, "critical_warning": 4})
        with pytest.raises(NotUnderstoodError, match="'critical_warning' comes twice"):
            nvme.parse(text[:-1] + ', "critical_warning": 0}')

    def test_no_drives(self) -> None:
        assert nvme.parse('{"Devices": []}') == nvme.NvmeListFacts(())


NVME_LIST = """\
Node                  Generic               SN                   Model                            \
        Namespace  Usage                      Format           FW Rev
--------------------- --------------------- -------------------- ---------------------------------\
------- ---------- -------------------------- ---------------- --------
/dev/nvme5n1          /dev/ng5n1            S5ABCDEFGHIJKLMNOPQRST   MAKER M5 Pro  X              \
        0x1          3.84  TB /   3.84  TB    512   B +  0 B   FW5
/dev/nvme6n1          /dev/ng6n1            S6                   MAKER M6                         \
        0x91       845.47  GB /   1.61  TB      4 KiB +  0 B   6.5.0.0
"""


class TestNvmeListText:
    @pytest.mark.parametrize("generic", [True, False])
    def test_rows(self, *, generic: bool) -> None:
        text = NVME_LIST if generic else re.sub(r"(?:Generic|/dev/ng\w+) +", "", NVME_LIST)
        facts = nvme.parse(text)
        assert isinstance(facts, nvme.NvmeListFacts)
        assert [(one.name, one.serial, one.model, one.firmware) for one in facts.drives] == [
            ("/dev/nvme5n1", "S5ABCDEFGHIJKLMNOPQRST", "MAKER M5 Pro  X", "FW5"),
            ("/dev/nvme6n1", "S6", "MAKER M6", "6.5.0.0"),
        ]
        sectors = [one.namespaces[0].sector_bytes for one in facts.drives]
        assert sectors == [512, 4096]

    def test_no_drive_is_an_answer_and_half_a_row_is_none(self) -> None:
        head = NVME_LIST[: NVME_LIST.index("/dev/nvme5n1")]
        assert nvme.parse(head) == nvme.NvmeListFacts(())
        with pytest.raises(NotUnderstoodError, match="seven columns"):
            nvme.parse(NVME_LIST[: NVME_LIST.rindex("4 KiB")])
        with pytest.raises(NotUnderstoodError):
            nvme.parse(head[: head.index("----")])

    def test_sizes_that_overflowed_are_not_known(self) -> None:
        drive = {
            "DevicePath": "/dev/nvme5n1",
            "ModelNumber": "M5",
            "SerialNumber": "S5",
            "Firmware": "F5",
            "UsedBytes": -2147483648,
            "PhysicalSize": -2147483648,
            "SectorSize": 512,
        }
        facts = nvme.parse(json.dumps({"Devices": [drive]}))
        assert isinstance(facts, nvme.NvmeListFacts)
        (namespace,) = facts.drives[0].namespaces
        assert (namespace.size_bytes, namespace.used_bytes) == (None, None)
        assert namespace.sector_bytes == 512


class TestSmartctl:
    def document(self, **more: Any) -> str:
        base = {
            "smartctl": {"version": [7, 4], "exit_status": 0},
            "device": {"name": "/dev/sda"},
            "model_name": "X",
            "smart_status": {"passed": True},
        }
        return json.dumps({**base, **more})

    def test_json(self) -> None:
        table = [{"id": 5, "raw": {"value": 8}}, {"id": 197, "raw": {"value": 1}}]
        facts = smartctl.parse(self.document(ata_smart_attributes={"table": table}))
        assert (facts.passed, facts.reallocated_sectors, facts.pending_sectors) == (True, 8, 1)

    def test_findings_beside_passed(self) -> None:
        facts = smartctl.parse(self.document(smartctl={"exit_status": 64}))
        assert facts.findings == ("the error log has entries",)

    @pytest.mark.parametrize("status", [1, 2, 4, 6])
    def test_a_drive_that_was_not_asked_is_not_healthy(self, status: int) -> None:
        about = {"exit_status": status, "messages": [{"string": "Smartctl open device failed"}]}
        with pytest.raises(NotUnderstoodError, match="open device failed"):
            smartctl.parse(self.document(smartctl=about))

    def test_one_command_failed_and_the_counters_are_there(self) -> None:
        table = [{"id": 5, "raw": {"value": 3}}]
        facts = smartctl.parse(
            self.document(smartctl={"exit_status": 4}, ata_smart_attributes={"table": table})
        )
        assert facts.findings == ("a command to the device failed",)
        assert (facts.passed, facts.reallocated_sectors) == (True, 3)

    def test_a_scsi_drive_has_keys_of_its_own(self) -> None:
        document = {
            "smartctl": {"exit_status": 0},
            "smart_status": {"passed": True},
            "scsi_model_name": "MAKER M1",
            "scsi_revision": "A2",
            "scsi_grown_defect_list": 7,
            "scsi_error_counter_log": {
                "read": {"total_uncorrected_errors": 2},
                "write": {"total_uncorrected_errors": 5},
                "verify": {"total_errors_corrected": 9},
            },
        }
        facts = smartctl.parse(json.dumps(document))
        assert (facts.model, facts.firmware) == ("MAKER M1", "A2")
        assert (facts.reallocated_sectors, facts.pending_sectors, facts.media_errors) == (
            7,
            None,
            7,
        )

    def test_smart_disabled(self) -> None:
        document = {"smartctl": {"exit_status": 0, "messages": [{"string": "SMART Disabled."}]}}
        with pytest.raises(NotUnderstoodError, match="SMART Disabled"):
            smartctl.parse(json.dumps(document))

    @pytest.mark.parametrize(
        ("line", "passed"),
        [
            ("SMART overall-health self-assessment test result: PASSED", True),
            ("SMART overall-health self-assessment test result: FAILED!", False),
            ("SMART Health Status: OK", True),
            ("SMART Health Status: FAILURE PREDICTION THRESHOLD EXCEEDED [asc=5d, ascq=0]", False),
        ],
    )
    def test_text(self, line: str, *, passed: bool) -> None:
        assert smartctl.parse(f"smartctl 7.2\n\n{line}\n").passed is passed

    VERDICT = "SMART overall-health self-assessment test result: PASSED\n"

    @pytest.mark.parametrize("hours", ["6,789", "6.789", "6\u202f789", "6789"])
    def test_text_of_an_nvme_drive(self, hours: str) -> None:
        text = (
            f"{self.VERDICT}Temperature:                        41 Celsius\n"
            f"Percentage Used:                    102%\nPower On Hours:          {hours}\n"
            "Media and Data Integrity Errors:    12\n"
        )
        facts = smartctl.parse(text)
        assert (facts.temperature_celsius, facts.used_percent) == (41, 102)
        assert (facts.power_on_hours, facts.media_errors) == (6789, 12)
        assert (facts.reallocated_sectors, facts.findings) == (None, ())

    @pytest.mark.parametrize(
        ("row", "brief"),
        [
            ("{:3} {:23} 0x0033   100   050   010    Pre-fail  Always       {}       {}", False),
            ("{:3} {:23} PO--CK   100   050   010    {}    {}", True),
        ],
    )
    def test_text_of_an_ata_drive(self, row: str, *, brief: bool) -> None:
        rows = [
            (5, "Reallocated_Sector_Ct", "-", "8"),
            (9, "Power_On_Hours", "-", "6789h+05m+01.000s"),
            (
                190,
                "Airflow_Temperature_Cel",
                "Past" if brief else "In_the_past",
                "45 (Min/Max 2/9)",
            ),
            (197, "Current_Pending_Sector", "NOW" if brief else "FAILING_NOW", "3"),
        ]
        facts = smartctl.parse(
            self.VERDICT + "\n".join(row.format(*cells) for cells in rows) + "\n"
        )
        assert (facts.reallocated_sectors, facts.pending_sectors) == (8, 3)
        assert (facts.power_on_hours, facts.temperature_celsius) == (6789, 45)
        assert facts.findings == smartctl.EXIT_BITS[4:6]

    def test_text_of_a_scsi_drive(self) -> None:
        text = (
            "SMART Health Status: OK\n\nCurrent Drive Temperature:     41 C\n"
            "Accumulated power on time, hours:minutes 6789:05\nElements in grown defect list: 7\n"
            "read:   1 2 3 6 5 12.345 2\nwrite:  1 2 3 6 5 12.345 5\n"
        )
        facts = smartctl.parse(text)
        assert (facts.temperature_celsius, facts.power_on_hours) == (41, 6789)
        assert (facts.reallocated_sectors, facts.media_errors) == (7, 7)

    @pytest.mark.parametrize(("left", "said"), [(9, [smartctl.SPARE_IS_LOW]), (10, []), (100, [])])
    def test_few_spare_blocks_beside_passed(self, left: int, said: list[str]) -> None:
        text = f"Available Spare:      {left}%\nAvailable Spare Threshold:     10%\n"
        assert list(smartctl.parse(self.VERDICT + text).findings) == said
        log = {"available_spare": left, "available_spare_threshold": 10}
        document = {
            "smartctl": {"exit_status": 0},
            "smart_status": {"passed": True},
            "nvme_smart_health_information_log": log,
        }
        assert list(smartctl.parse(json.dumps(document)).findings) == said

    GONE_WELL = "# 2  Extended offline    Completed without error       00%      1200         -\n"

    @pytest.mark.parametrize(
        ("rows", "failed"),
        [
            ("# 1  Short offline       Completed: read failure       90%   1234   56789\n", True),
            (
                "# 1  Background short  Failed in segment -->   3   1234   56789 [0x3 0x11 0x0]\n",
                True,
            ),
            (
                " 0   Extended       Completed: failed segments     1234   -   -   2   -    -\n",
                True,
            ),
            (
                GONE_WELL + "# 3  Short offline       Completed: read failure   90%   99   5\n",
                False,
            ),
            (
                "# 1  Short offline       Aborted by host               90%      1234         -\n",
                False,
            ),
            (
                "# 1  Background long   Completed                   -    1234   - [-   -    -]\n",
                False,
            ),
        ],
    )
    def test_text_of_a_self_test_log(self, rows: str, *, failed: bool) -> None:
        facts = smartctl.parse(self.VERDICT + rows)
        assert facts.findings == ((smartctl.EXIT_BITS[7],) if failed else ())

    def test_a_volume_of_a_raid_controller_was_not_asked(self) -> None:
        text = "Product:   PERC\nSMART support is:  Unavailable - device lacks SMART capability.\n"
        with pytest.raises(NotUnderstoodError, match="did not ask the drive: 'SMART support"):
            smartctl.parse(text)

    def test_text_of_an_error_log(self) -> None:
        facts = smartctl.parse(self.VERDICT + "ATA Error Count: 5\n")
        assert facts.findings == (smartctl.EXIT_BITS[6],)
        assert smartctl.parse(self.VERDICT + "No Errors Logged\n").findings == ()

    @pytest.mark.parametrize(
        "line",
        ["SMART overall-health self-assessment test result: UNKNOWN!", "SMART Health Status: "],
    )
    def test_an_unknown_verdict_is_refused(self, line: str) -> None:
        with pytest.raises(NotUnderstoodError):
            smartctl.parse(line + "\n")
