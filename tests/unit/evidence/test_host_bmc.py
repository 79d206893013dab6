"""The baseboard controller (IPMI, Redfish): unseen forms, faults, and texts that were cut off.

Every text here was written for the test, after the documentation named in the parsers.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.evidence import ipmi, redfish


class TestIpmi:
    def test_sensor_list(self) -> None:
        text = (
            "CPU1 Temp        | 98.000     | degrees C  | cr    | 0.000     | 0.000     |"
            " 0.000     | 90.000    | 95.000    | 100.000   \n"
            "FAN1             | na         |            | na    | na        | na        |"
            " na        | na        | na        | na        \n"
            "PS1 Status       | 0x1        | discrete   | 0x0100| na        | na        |"
            " na        | na        | na        | na        \n"
        )
        facts = ipmi.parse(text)
        assert isinstance(facts, ipmi.SensorFacts)
        assert [sensor.is_ok for sensor in facts.sensors] == [False, None, None]
        assert facts.not_ok[0].value == 98.0

    def test_sdr_elist_words_count_more_than_ok(self) -> None:
        text = (
            "PS1 Status       | C8h | ok  | 10.1 | Presence detected\n"
            "PS2 Status       | C9h | ok  | 10.2 | Presence detected, Failure detected\n"
            "Watchdog         | CAh | ok  | 11.1 | Something new\n"
            "Inlet Temp       | 05h | ok  |  7.1 | 24 degrees C\n"
        )
        facts = ipmi.parse(text)
        assert isinstance(facts, ipmi.SensorFacts)
        assert [sensor.is_ok for sensor in facts.sensors] == [True, False, None, True]

    def test_freeipmi_with_thresholds(self) -> None:
        text = (
            "ID | Name | Type | State | Reading | Units | Lower NR | Lower C | Lower NC | Upper NC"
            " | Upper C | Upper NR | Event\n"
            "5 | CPU5 Temp | Temperature | Nominal | 45.00 | C | 0.00 | 0.00 | 0.00 | 85.00 | 90.00"
            " | 95.00 | 'OK'\n"
            "6 | PS5 Status | Power Supply | Critical | N/A | N/A | N/A | N/A | N/A | N/A | N/A"
            " | N/A | 'Presence detected' 'Power Supply input lost (AC/DC)'\n"
        )
        facts = ipmi.parse(text)
        assert isinstance(facts, ipmi.SensorFacts)
        assert [(one.name, one.value, one.unit, one.is_ok) for one in facts.sensors] == [
            ("CPU5 Temp", 45.0, "C", True),
            ("PS5 Status", None, "", False),
        ]
        with pytest.raises(NotUnderstoodError, match="columns ID, name"):
            ipmi.parse(text[: text.rindex("| Critical")] + "\n")

    def test_logs_with_all_kinds_of_time_stamps(self) -> None:
        text = (
            "   1 |  Pre-Init  |0000000006| Memory #0x53 | Uncorrectable ECC | Asserted\n"
            "   2 |  Pre-Init  |Pre-Init   | Fan FAN1 | Lower Critical going low  | Asser"
            "ted | Reading 0 < Threshold 500 RPM\n"
            "   3 | 05/03/26 | 21:44:19 UTC | Power Supply PS1 Status | Presence detected"
            " | Asserted\n"
            "   4 | OEM record e0 | 000137000100\n"
            "   5 | 05/03/2026 | 21:44:20 | Fan FAN1 | Lower Critical going low  | Deasserted\n"
        )
        facts = ipmi.parse(text)
        assert isinstance(facts, ipmi.SelFacts)
        assert [event.record for event in facts.severe] == [1, 2, 5]
        assert [event.record for event in facts.standing] == [1]
        assert facts.events[1].reading == "Reading 0 < Threshold 500 RPM"

    def test_an_empty_log_is_a_good_answer(self) -> None:
        facts = ipmi.parse("SEL has no entries\n")
        assert facts == ipmi.SelFacts(())

    @pytest.mark.parametrize(
        "event",
        [
            "Upper Critical going high",
            "Uncorrectable ECC",
            "Failure detected",
            "IERR",
            "Redundancy Lost",
            "Transition to Non-recoverable",
            "Bus Fatal Error",
            "Power Supply AC lost",
        ],
    )
    def test_severe(self, event: str) -> None:
        facts = ipmi.parse(f" 1 | 01/02/2026 | 10:00:00 | X #0x01 | {event} | Asserted\n")
        assert isinstance(facts, ipmi.SelFacts)
        assert len(facts.severe) == 1

    @pytest.mark.parametrize(
        "event",
        [
            "Log area reset/cleared",
            "Correctable ECC",
            "Upper Non-critical going high",
            "Presence detected",
            "Transition to OK",
        ],
    )
    def test_not_severe(self, event: str) -> None:
        facts = ipmi.parse(f" 1 | 01/02/2026 | 10:00:00 | X #0x01 | {event} | Asserted\n")
        assert isinstance(facts, ipmi.SelFacts)
        assert facts.severe == ()

    def test_a_row_that_was_cut_off_is_refused(self) -> None:
        with pytest.raises(NotUnderstoodError):
            ipmi.parse(" 1 | 01/02/2026 | 10:00:00 | Memory #0x53 | Uncorrect")

    def test_inventory(self) -> None:
        text = (
            "FRU Device Description : Builtin FRU Device (ID 0)\n Board Serial : W1\n\n"
            "FRU Device Description : PSU2 (ID 2)\n Device not present (Requested sensor "
            "not found)\n\n"
            "Get SDR 0000 command failed: Requested sensor, data, or record not found\n"
        )
        facts = ipmi.parse(text)
        assert isinstance(facts, ipmi.FruFacts)
        assert facts.devices[0].fields == {"Board Serial": "W1"}
        assert facts.devices[1].problem == "Device not present (Requested sensor not found)"
        assert len(facts.errors) == 1


class TestSensorDetails:
    ANALOG = (
        "Sensor ID              : PSU1 Temp (0x2a)\n Entity ID             : 10.1 (Power Supply)\n"
        " Sensor Type (Analog)  : Temperature\n Sensor Reading        : {} degrees C\n"
        " Status                : {}\n Upper critical        : 80.000\n\n"
    )
    DISCRETE = (
        "Sensor ID              : PSU1 State (0x2b)\n Sensor Type (Discrete): Power Supply\n"
        " States Asserted       : Power Supply\n                         [{}]\n"
        " Assertions Enabled    : Power Supply\n                         [Failure detected]\n\n"
    )

    def sensors(self, text: str) -> tuple[ipmi.Sensor, ...]:
        facts = ipmi.parse(text)
        assert isinstance(facts, ipmi.SensorFacts)
        return facts.sensors

    def test_words_of_thresholds_and_states(self) -> None:
        text = (
            self.ANALOG.format("91 (+/- 0)", "Upper Critical")
            + self.ANALOG.format("-2.500 (+/- 0.5)", "ok")
            + self.DISCRETE.format("Presence detected")
            + self.DISCRETE.format("Failure detected")
        )
        hot, cold, present, broken = self.sensors(text)
        assert (hot.name, hot.value, hot.unit) == ("PSU1 Temp", 91.0, "degrees C")
        assert (hot.mark, hot.is_ok) == ("ucr", False)
        assert (cold.value, cold.is_ok) == (-2.5, True)
        assert (present.states, present.is_ok) == (("Presence detected",), True)
        assert (broken.states, broken.is_ok) == (("Failure detected",), False)

    def test_a_sensor_without_a_reading_says_nothing(self) -> None:
        text = self.ANALOG.replace("{} degrees C", "{}").format("Disabled", "Disabled")
        (sensor,) = self.sensors(text)
        assert (sensor.value, sensor.is_ok) == (None, None)

    @pytest.mark.parametrize("lines", [1, 3, 4])
    def test_a_block_that_is_cut_off_is_refused(self, lines: int) -> None:
        whole = self.ANALOG.format("20 (+/- 0)", "ok")
        with pytest.raises(NotUnderstoodError, match="cut off"):
            ipmi.parse(whole + "\n".join(whole.split("\n")[:lines]))

    def test_an_unknown_status_is_refused(self) -> None:
        with pytest.raises(NotUnderstoodError, match="a status such as"):
            ipmi.parse(self.ANALOG.format("20 (+/- 0)", "splendid"))


class TestFreeIpmi:
    def test_sensors_as_a_table(self) -> None:
        text = (
            "ID | Name         | Type        | State    | Reading | Units | Event\n"
            "1  | CPU1 Temp    | Temperature | Nominal  | 45.00   | C     | 'OK'\n"
            "2  | FAN1         | Fan         | Critical | 0.00    | RPM   | 'OK'\n"
            "3  | PS2 Status   | PSU         | Nominal  | N/A     | N/A   | 'Input lost'\n"
            "4  | Chassis Intru| Security    | N/A      | N/A     | N/A   | 'General thing'\n"
        )
        facts = ipmi.parse(text)
        assert isinstance(facts, ipmi.SensorFacts)
        assert [sensor.is_ok for sensor in facts.sensors] == [True, False, False, None]

    def test_log(self) -> None:
        text = (
            "ID  | Date        | Time     | Name      | Type          | State   | Event\n"
            "1   | Jan-02-2026 | 10:00:00 | SEL    | Event Logging | Nominal | Log Area Cleared\n"
            "10  | Jan-03-2026 | 11:00:00 | DIMM_A1   | Memory        | Critical | Something odd\n"
        )
        facts = ipmi.parse(text)
        assert isinstance(facts, ipmi.SelFacts)
        assert [event.record for event in facts.events] == [1, 10]
        assert [event.sensor for event in facts.severe] == ["Memory DIMM_A1"]


class TestRedfish:
    def memory(self, **more: Any) -> str:
        document = {"@odata.type": "#Memory.v1_12_0.Memory", "Id": "A1", "CapacityMiB": 32768}
        return json.dumps({**document, **more})

    @pytest.mark.parametrize(
        ("status", "ok"),
        [
            ({"Health": "OK", "State": "Enabled"}, True),
            ({"Health": "OK", "HealthRollup": "Critical"}, False),
            ({"Health": "Warning"}, False),
            ({"State": "Absent"}, None),
            ({"Health": None}, None),
        ],
    )
    def test_health(self, status: dict[str, Any], *, ok: bool | None) -> None:
        health = redfish.parse(self.memory(Status=status)).resource.health
        assert health is not None
        assert health.is_ok is ok

    def test_no_status_is_no_health(self) -> None:
        assert redfish.parse(self.memory()).resource.health is None

    def test_failed_row_remapping_of_an_accelerator(self) -> None:
        oem = {"Nvidia": {"RowRemappingFailed": True, "RowRemappingPending": False}}
        memory = redfish.parse(self.memory(Oem=oem)).resource.memory
        assert memory is not None
        assert (memory.row_remapping_failed, memory.row_remapping_pending) == (True, False)

    def test_a_page_of_a_collection_is_not_complete(self) -> None:
        page = {
            "@odata.type": "#SoftwareInventoryCollection.SoftwareInventoryCollection",
            "Members": [{"@odata.id": "/a"}],
            "Members@odata.count": 2,
            "Members@odata.nextLink": "/b",
        }
        facts = redfish.parse(json.dumps(page))
        assert not facts.complete
        assert redfish.parse(json.dumps({**page, "Members": []})).complete is False

    def test_an_error_of_the_bmc_is_quoted(self) -> None:
        error = {"error": {"@Message.ExtendedInfo": [{"Message": "Authentication required."}]}}
        with pytest.raises(NotUnderstoodError, match="Authentication required"):
            redfish.parse(json.dumps(error))

    def test_deprecated_thermal_and_power(self) -> None:
        document = {
            "@odata.type": "#Thermal.v1_4_0.Thermal",
            "Temperatures": [{"Name": "Inlet", "ReadingCelsius": 24, "Status": {"Health": "OK"}}],
            "Fans": [
                {
                    "FanName": "Fan 1",
                    "Reading": 20,
                    "ReadingUnits": "Percent",
                    "Status": {"Health": "Critical"},
                }
            ],
        }
        inlet, fan = redfish.parse(json.dumps(document)).resource.readings
        assert (inlet.value, inlet.unit) == (24.0, "celsius")
        assert (fan.unit, fan.health.is_ok) == ("percent", False)

    @pytest.mark.parametrize("value", [-1, 1.5, "many", True, [], 10**40])
    def test_a_capacity_that_is_no_number_is_refused(self, value: Any) -> None:
        with pytest.raises(NotUnderstoodError):
            redfish.parse(self.memory(CapacityMiB=value))

    def test_half_a_document_is_refused(self) -> None:
        text = self.memory()
        for end in range(1, len(text)):
            with pytest.raises(NotUnderstoodError):
                redfish.parse(text[:end])


def test_the_health_of_memory_stands_in_the_summary_of_a_system() -> None:
    document = {
        "@odata.type": "#ComputerSystem.v1_13_0.ComputerSystem",
        "Id": "1",
        "Status": {"State": "Enabled", "Health": "OK"},
        "MemorySummary": {"TotalSystemMemoryGiB": 512, "Status": {"Health": "Critical"}},
    }
    facts = redfish.parse(json.dumps(document))
    assert facts.resource is not None
    assert facts.resource.values["MemorySummary.Status.Health"] == "Critical"
