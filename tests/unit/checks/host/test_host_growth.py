"""Growth of error counters between two observations: grown, still, reset, rebooted, unknown."""

from __future__ import annotations

import pytest

from hfprov.checks.growth import growth
from hfprov.checks.registry import Facts
from hfprov.evidence import memory_node, nic_node, pci_devices, rdma_node, system
from hfprov.judge import judge_facts
from hfprov.verdict import Outcome, worst

PASS, WARN, FAIL, UNKNOWN = Outcome.PASS, Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN
NIC, PORT, DIMM, FUNCTION = (
    "adapter ens1f0np0",
    "port mlx5_0/1",
    "memory mc0 DIMM_A1",
    "pcie 0000:81:00.0",
)
DAY = 86_400.0
OTHER_BOOT = "ffffffff-3a1e-4a55-9c55-0a0a0a0a0a0a\n"
DIMM_COUNT = memory_node.EDAC_READS[1]


@pytest.fixture
def later(machine):
    """The same machine a day later."""
    twin = machine.copy()
    twin.now += DAY
    return twin


def outcomes(before, after):
    findings = growth(before.observation(), after.observation(), after.baseline())
    assert len({one.subject for one in findings}) == len(findings)
    return {one.subject: one.outcome for one in findings}


def bad(before, after):
    return {name: found for name, found in outcomes(before, after).items() if found is not PASS}


def count(machine, **counters):
    """Set counters of the first adapter."""
    (result,) = [r for r in machine.results[nic_node.STATISTICS.id] if r["name"] == "ens1f0np0"]
    for name, value in counters.items():
        line = next(line for line in result["text"].split("\n") if f" {name}:" in line)
        result["text"] = result["text"].replace(line, f"     {name}: {value}")


def test_nothing_grew(machine, later):
    found = outcomes(machine, later)
    assert {NIC, PORT, DIMM, FUNCTION} <= set(found)
    assert set(found.values()) == {PASS}


@pytest.mark.parametrize(
    ("counters", "expected"),
    [
        ({"rx_crc_errors_phy": 5}, WARN),  # of no new frames at all, but few
        ({"rx_crc_errors_phy": 5, "rx_packets_phy": 2_000_000_000}, WARN),
        ({"rx_crc_errors_phy": 5000, "rx_packets_phy": 2_000_000_000}, FAIL),
        ({"link_down_events_phy": 3}, WARN),
        ({"rx_discards_phy": 50_000_000, "rx_packets_phy": 2_000_000_000}, WARN),
        ({"rx_packets_phy": 2_000_000_000, "rx_err_lane_0_phy": 990_000}, PASS),
        ({"rx_steer_missed_packets": 90_000_000}, PASS),
    ],
)
def test_adapters(machine, later, counters, expected):
    count(later, **counters)
    assert bad(machine, later) == ({} if expected is PASS else {NIC: expected})


def test_totals_that_stand_still_are_no_growth(machine, later):
    for one in (machine, later):
        count(one, rx_crc_errors_phy=5000)
    assert bad(machine, later) == {}


@pytest.mark.parametrize(
    ("read", "name", "text", "subject", "expected"),
    [
        (DIMM_COUNT, "dimm_ue_count", "1\n", DIMM, FAIL),
        (DIMM_COUNT, "dimm_ce_count", "50\n", DIMM, WARN),
        (DIMM_COUNT, "dimm_ce_count", "3\n", DIMM, PASS),
        (rdma_node.PORT_COUNTERS, "mlx5_0/ports/1/counters/symbol_error", "9\n", PORT, WARN),
        (rdma_node.PORT_COUNTERS, "mlx5_0/ports/1/counters/symbol_error", "9999\n", PORT, FAIL),
        (rdma_node.PORT_COUNTERS, "mlx5_0/ports/1/counters/link_downed", "2\n", PORT, WARN),
        (
            pci_devices.AER_READS["nonfatal"],
            "0000:81:00.0/aer_dev_nonfatal",
            "CmpltTO 4\nTOTAL_ERR_NONFATAL 4\n",
            FUNCTION,
            FAIL,
        ),
        (
            pci_devices.AER_READS["correctable"],
            "0000:81:00.0/aer_dev_correctable",
            "RxErr 700\nTOTAL_ERR_COR 700\n",
            FUNCTION,
            WARN,
        ),
        (
            pci_devices.AER_READS["nonfatal"],
            "0000:81:00.0/aer_dev_nonfatal",
            "UnsupReq 4\nTOTAL_ERR_NONFATAL 4\n",
            FUNCTION,
            PASS,
        ),
    ],
)
def test_memory_ports_and_functions(machine, later, read, name, text, subject, expected):
    later.change(read, name, text)
    assert bad(machine, later) == ({} if expected is PASS else {subject: expected})


def test_a_reboot_begins_at_zero(machine, later):
    """What is counted now came after the reboot, whatever stood there before."""
    later.text(system.BOOT_ID, OTHER_BOOT)
    count(machine, rx_crc_errors_phy=900_000)
    count(later, rx_crc_errors_phy=7, link_down_events_phy=0, rx_discards_phy=0)
    later.change(DIMM_COUNT, "dimm_ue_count", "1\n")
    later.change(rdma_node.PORT_COUNTERS, "mlx5_0/ports/1/counters/link_downed", "0\n")
    found = bad(machine, later)
    assert found[NIC] is WARN
    assert found[DIMM] is FAIL
    assert PORT not in found


def test_a_reset_without_a_reboot_hides_what_was_before_it(machine, later):
    for one in (machine, later):
        count(one, rx_crc_errors_phy=0)
    count(later, rx_packets_phy=10)
    assert bad(machine, later)[NIC] is UNKNOWN


def test_what_a_reset_counter_shows_came_after_the_reset(machine, later):
    count(machine, rx_crc_errors_phy=900_000)
    count(later, rx_crc_errors_phy=5000)
    assert bad(machine, later)[NIC] is FAIL


def test_a_counter_that_stands_at_its_end_says_nothing(machine, later):
    for one in (machine, later):
        one.change(rdma_node.PORT_COUNTERS, "mlx5_0/ports/1/counters/symbol_error", "65535\n")
    assert bad(machine, later)[PORT] is UNKNOWN


def test_an_adapter_that_is_gone_or_new_is_unknown(machine, later):
    later.remove(nic_node.STATISTICS, "ens1f0np0")
    assert bad(machine, later) == {NIC: UNKNOWN}
    machine.now = later.now + DAY
    assert bad(later, machine) == {NIC: UNKNOWN}


@pytest.mark.parametrize("spoil", ["clock", "backwards", "boot"])
def test_two_observations_that_cannot_be_compared(machine, later, spoil):
    if spoil == "clock":
        machine.now = 0.0
    elif spoil == "backwards":
        later.now = machine.now - 1
    else:
        later.absent(system.BOOT_ID)
    findings = growth(machine.observation(), later.observation(), later.baseline())
    assert worst(one.outcome for one in findings) is UNKNOWN
    assert len(findings) == 1


def test_where_nothing_is_counted_there_is_no_finding(machine, later):
    keep = {system.BOOT_ID.id, system.KERNEL_RELEASE.id, system.CMDLINE.id}
    for one in (machine, later):
        one.results = {name: found for name, found in one.results.items() if name in keep}
    assert outcomes(machine, later) == {}


def judged(machine, earlier):
    """The findings of the check as the judge calls it, with what an earlier run saw."""
    facts = Facts(
        machine.observation(), machine.baseline(), earlier.observation() if earlier else None
    )
    found = [one.finding for one in judge_facts(facts, machine.baseline())
             if one.check == "growth.counters"]  # fmt: skip
    assert found
    return found


def test_the_check_compares_with_the_earlier_observation(machine, later):
    (first,) = judged(machine, None)
    assert (first.outcome, first.reason) == (
        Outcome.NOT_APPLICABLE,
        "The record has no earlier observation of this host.",
    )
    assert {one.outcome for one in judged(later, machine)} == {PASS}
    count(later, link_down_events_phy=3)
    assert {one.subject for one in judged(later, machine) if one.outcome is WARN} == {NIC}
