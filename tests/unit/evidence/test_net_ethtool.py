"""ethtool: forms and wordings of which there is no recording; failures; what is cut off."""

from __future__ import annotations

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.ethtool.dispatch import parse
from hfprov.evidence.ethtool.failure import EthtoolFailure, Reason
from hfprov.evidence.ethtool.fec import Fec
from hfprov.evidence.ethtool.settings import Channels, Features, Pause, Rings
from hfprov.evidence.ethtool.statistics import Statistics

LINK_400G = """\
Settings for enp26s0np0:
\tSupported ports: [ FIBRE ]
\tSupported link modes:   400000baseCR4/Full
\t                        200000baseCR4/Full
\tSupported FEC modes: RS\tLLRS
\tAdvertised link modes:  400000baseCR4/Full
\tAdvertised FEC modes: RS
\tLink partner advertised link modes:  Not reported
\tSpeed: 400000Mb/s
\tLanes: 4
\tDuplex: Full
\tAuto-negotiation: on
\tPort: Direct Attach Copper
\tPHYAD: 0
\tTransceiver: internal
\tSupports Wake-on: d
\tWake-on: d
\tLink Down Events: 3
        Current message level: 0x00000004 (4)
                               link
\tLink detected: yes
"""

CMIS = """\
\tIdentifier                                : 0x1e (QSFP+ or later with CMIS)
\tPower class                               : 8
\tMax power                                 : 17.00W
\tConnector                                 : 0x0c (MPO)
\tVendor name                               : NVIDIA
\tVendor PN                                 : MMA4Z00-NS400
\tVendor SN                                 : MT2245FT00000
\tModule State                              : 0x03 (ModuleReady)
\tModule temperature                        : 52.07 degrees C / 125.73 degrees F
\tModule voltage                            : 3.2480 V
\tLaser tx bias current (Channel 1)         : 8.316 mA
\tTransmit avg optical power (Channel 1)    : 1.7783 mW / 2.50 dBm
\tRcvr signal avg optical power (Channel 1) : 1.5849 mW / 2.00 dBm
\tLaser tx bias current (Channel 2)         : 8.316 mA
\tTransmit avg optical power (Channel 2)    : 1.7783 mW / 2.50 dBm
\tRcvr signal avg optical power (Channel 2) : 0.0000 mW / -inf dBm
\tModule temperature high alarm             : Off
\tLaser rx power low alarm   (Chan 1)       : Off
\tLaser rx power low alarm   (Chan 2)       : On
\tLaser rx power low alarm threshold        : 0.1000 mW / -10.00 dBm
"""


@pytest.mark.parametrize(
    ("lines", "alarms"),
    [
        ("\tRx loss of signal   : None\n\tTx fault   : No\n", None),
        ("\tRx loss of signal   : [ Yes, No, No, No ]\n", ("Rx loss of signal",)),
        ("\tTx fault   : Yes\n\tTx loss of lock  : None\n", ("Tx fault",)),
    ],
)
def test_lost_signals_are_alarms(lines, alarms):
    assert parse(f"\tIdentifier   : 0x19 (OSFP)\n{lines}").alarms == alarms


def test_limits_of_mlxlink_are_alarms():
    text = "Module Info\n-----------\nIdentifier    : OSFP\nTemperature [C]    : {} [0..75]\n"
    assert parse(text.format(92)).alarms == ("Temperature [C] 92 [0..75]",)
    assert parse(text.format(41)).alarms is None
    assert parse(text.format("1,2,-3")).alarms == ("Temperature [C] 1,2,-3 [0..75]",)


def test_the_link_of_mlxlink_is_not_overlooked():
    text = "Operational Info\n-----\nState    : Polling\n\nModule Info\nIdentifier    : OSFP\n"
    with pytest.raises(NotUnderstoodError, match="output of mlxlink"):
        parse(text)


def test_a_400g_port_of_ethtool_6():
    link = parse(LINK_400G)
    assert (link.speed_mbps, link.lanes, link.duplex) == (400000, 4, "full")
    assert link.link_detected is True
    assert link.link_down_events == 3
    assert link.supported.fec_modes == ("RS", "LLRS")
    assert link.partner.link_modes == ()


def test_no_link_comes_with_its_reason():
    link = parse("Settings for eth0:\n\tSpeed: Unknown!\n\tLink detected: no (No cable)\n")
    assert link.link_detected is False
    assert link.link_detail == "No cable"


@pytest.mark.parametrize(
    "line",
    [
        "Link detected: maybe",
        "Speed: 400000",
        "Speed: 400000Gb/s",
        "Duplex: Ful",
        "Auto-negotiation: o",
        "Lanes: four",
        "Supported link modes: 400000",
    ],
)
def test_a_garbled_setting_is_refused(line):
    with pytest.raises(NotUnderstoodError, match=line.partition(":")[0]):
        parse(f"Settings for eth0:\n\t{line}\n\tPort: FIBRE\n")


def test_a_link_cut_off_before_its_state_has_no_state():
    cut = LINK_400G[: LINK_400G.index("\tLink detected")]
    assert parse(cut).link_detected is None


def test_a_port_without_any_setting_is_no_port():
    with pytest.raises(NotUnderstoodError, match="no setting"):
        parse("Settings for eth0:\n")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("netlink error: Operation not supported\n", Reason.NOT_SUPPORTED),
        ("netlink error: No such device\n", Reason.NO_SUCH_DEVICE),
        ("no stats available\n", Reason.NO_DATA),
        ("Cannot get device settings: No such device\n", Reason.NO_SUCH_DEVICE),
        ("Cannot get stats strings information: Operation not permitted\n", Reason.NOT_PERMITTED),
        ("netlink error: Invalid argument\n", Reason.OTHER),
        ("Cannot get Module EEPROM data: Input/output error\n", Reason.OTHER),
        ("Cannot get device FEC settings: Operation not supported\n", Reason.NOT_SUPPORTED),
    ],
)
def test_a_refusal_is_evidence_and_no_value(text, reason):
    failure = parse(text)
    assert isinstance(failure, EthtoolFailure)
    assert failure.reason is reason
    assert failure.sentence == text.strip()


def test_a_failure_outranks_the_values_beside_it():
    text = "Cannot get device ring settings: Input/output error\nRing parameters for eth0:\nRX: 1\n"
    assert parse(text) == EthtoolFailure(
        "device ring settings", Reason.OTHER, text.splitlines()[0], "eth0"
    )


def test_several_interfaces_give_several_facts():
    text = "driver: mlx5_core\nbus-info: 0000:17:00.0\ndriver: ice\nbus-info: 0000:31:00.0\n"
    assert [info.driver for info in parse(text)] == ["mlx5_core", "ice"]


def test_answers_and_failures_of_several_runs_are_not_guessed_apart():
    text = (
        "Cannot get device ring settings: No such device\nRing parameters for eth0:\n"
        "Ring parameters for eth1:\nCurrent hardware settings:\nRX: 1\nTX: 1\n"
    )
    with pytest.raises(NotUnderstoodError, match="mixed"):
        parse(text)


def test_rings_cut_off_in_the_current_settings_are_refused():
    text = "Ring parameters for eth0:\nPre-set maximums:\nRX:\t8192\nTX:\t8192\n"
    with pytest.raises(NotUnderstoodError, match="Current hardware settings"):
        parse(text)
    with pytest.raises(NotUnderstoodError, match="before 'tx'"):
        parse(text + "Current hardware settings:\nRX:\t8192\n")


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("     [0]: rx_ucast_packets: 123", "[0]: rx_ucast_packets", 123),  # bnxt_en
        ("     port.rx_dropped: 7", "port.rx_dropped", 7),  # i40e, ice
        ("     tx-0.tx_packets: 9", "tx-0.tx_packets", 9),  # i40e
        ("     rx_queue_0_drops: 1", "rx_queue_0_drops", 1),  # virtio_net, ena
        ("     queue_0_rx_bad_desc_num: 2", "queue_0_rx_bad_desc_num", 2),  # ena
        ("     mac_rx_bad_oct_num: 18446744073709551615", "mac_rx_bad_oct_num", 2**64 - 1),
        ("     Rx CRC errors: 4", "Rx CRC errors", 4),
        ("     fw_state: 0x1f", "fw_state", 31),
    ],
)
def test_counters_of_any_driver(line, name, value):
    facts = parse(f"NIC statistics:\n{line}\n")
    assert isinstance(facts, Statistics)
    assert facts.get(name) == value
    assert facts.get("absent") is None


def test_a_counter_that_comes_once_per_queue_is_added_up():
    assert parse("NIC statistics:\n  drops: 2\n  drops: 3\n").get("drops") == 5


def test_statistics_without_a_counter_prove_nothing():
    with pytest.raises(NotUnderstoodError, match="no counter"):
        parse("NIC statistics:\n")


def test_a_counter_that_is_no_number_is_refused():
    with pytest.raises(NotUnderstoodError, match="line 2"):
        parse("NIC statistics:\n     rx_crc_errors_phy: N/A\n")


def test_cmis_module_with_a_dark_lane():
    module = parse(CMIS)
    assert module.state == "ModuleReady"
    assert module.temperature_c == 52.07
    assert [lane.number for lane in module.lanes] == [1, 2]
    assert module.lanes[1].rx_power_mw == 0.0
    assert module.lanes[1].rx_power_dbm is None
    assert module.alarms == ("Laser rx power low alarm (Chan 2)",)


def test_module_cut_off_among_its_alarms_has_no_clean_alarms():
    cut = CMIS[: CMIS.index("\tLaser rx power low alarm   (Chan 2)")]
    with pytest.raises(NotUnderstoodError, match="alarm thresholds"):
        parse(cut)


def test_module_in_json_whose_keys_come_twice():
    text = """[ { "identifier": 17, "identifier_description": "QSFP28",
        "length_(copper_or_active_cable)": 3, "vendor_pn": "PN", "module_temperature": 56.9805,
        "alarm/warning_flags_implemented": true, "laser_tx_bias_current": [ 0,0 ],
        "transmit_avg_optical_power": [ 1,0 ],
        "rx_power": { "values": [ 0.0449,0.0475 ], "type": "Rcvr signal avg optical power" },
        "laser_rx_power_low_alarm": [ false,true ], "module_voltage_low_alarm": false,
        "module_temperature": { "high_alarm_threshold": 80 } } ]"""
    module = parse(text)
    assert module.temperature_c == 56.9805
    assert module.thresholds == {"Module temperature high alarm threshold": "80.0"}
    assert module.cable_length_m == 3.0
    assert (module.lanes[0].tx_power_dbm, module.lanes[1].tx_power_dbm) == (0.0, None)
    assert module.lanes[1].rx_power_mw == 0.0475
    assert module.alarms == ("Laser rx power low alarm (Chan 2)",)
    with pytest.raises(NotUnderstoodError, match="no thresholds"):
        parse('[{"identifier": 17, "alarm/warning_flags_implemented": true}]')


def test_module_as_a_hexadecimal_dump_is_refused():
    with pytest.raises(NotUnderstoodError):
        parse("Offset\t\tValues\n------\t\t------\n0x0000:\t\t11 07 00 02\n")


def test_fec_with_lane_counters():
    fec = parse(
        "FEC parameters for eth0:\nSupported/Configured FEC encodings: Auto RS\n"
        "Active FEC encoding: RS\nStatistics:\n  corrected_blocks: 10\n"
        "    Lane 0: 9\n    Lane 1: 1\n"
    )
    assert fec == Fec(
        "eth0",
        ("Auto", "RS"),
        ("RS",),
        {"corrected_blocks": 10, "corrected_blocks_lane_0": 9, "corrected_blocks_lane_1": 1},
    )
    with pytest.raises(NotUnderstoodError, match="Active FEC"):
        parse("FEC parameters for eth0:\nConfigured FEC encodings: RS\n")


def test_pause_cut_off_is_not_read_as_off():
    with pytest.raises(NotUnderstoodError, match="TX"):
        parse("Pause parameters for eth0:\nAutonegotiate:\toff\nRX:\t\toff\n")


def test_json_forms():
    assert parse('[{"ifname":"e","rx-max":8192,"tx-max":8192,"rx":1024,"tx":512}]') == Rings(
        "e", {"rx": 8192, "tx": 8192}, {"rx": 1024, "tx": 512}
    )
    assert parse('[{"ifname":"e","combined-max":63,"combined":16}]') == Channels(
        "e", {"combined": 63}, {"combined": 16}
    )
    pause = parse('[{"ifname":"e","autonegotiate":false,"rx":true,"tx":false}]')
    assert isinstance(pause, Pause)
    assert (pause.rx, pause.tx) == (True, False)
    features = parse('[{"ifname":"e","rx-gro":{"active":true,"fixed":false,"requested":true}}]')
    assert isinstance(features, Features)
    assert features.features["rx-gro"].active is True
    counters = parse('[{"ifname":"e","eth-mac":{"FrameCheckSequenceErrors":4},"rx_drops":2}]')
    assert counters.counters == {"eth-mac-FrameCheckSequenceErrors": 4, "rx_drops": 2}


@pytest.mark.parametrize(
    "text",
    ["", "\n\n", "ethtool: bad command line argument(s)\n", "[]", "{}", '[{"ifname":"e"}]', "[1]"],
)
def test_what_is_no_answer_is_refused(text):
    with pytest.raises(NotUnderstoodError):
        parse(text)


@pytest.mark.parametrize(
    ("said", "alarms"),
    [
        ('[ "Yes", "No" ]', ("Rx loss of signal",)),
        ("[ false, true ]", ("Rx loss of signal",)),
        ('"None"', None),
    ],
)
def test_lost_signals_of_a_module_in_json(said, alarms):
    text = '[ {{ "identifier": 25, "identifier_description": "OSFP", "rx_loss_of_signal": {} }} ]'
    assert parse(text.format(said)).alarms == alarms
