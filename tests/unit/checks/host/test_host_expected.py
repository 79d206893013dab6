"""Declared figures, SKUs, the odd one out, and words that stay the same from run to run."""

from __future__ import annotations

import pytest

from hfprov.catalogue.explanations import explanations
from hfprov.checks.hardware import Odd, odd_ones
from hfprov.checks.magnitude import magnitude, percent
from hfprov.checks.registry import all_checks
from hfprov.evidence import nic_node, storage_node, system
from hfprov.verdict import NotApplicable, Outcome

PASS, WARN, FAIL, UNKNOWN = Outcome.PASS, Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN
MODULES = {
    "host", "memory", "storage", "pcie", "nic", "nic_health", "nic_firmware", "rdma_port",
    "container_host",
}  # fmt: skip


@pytest.mark.parametrize(
    ("check_id", "variable", "value", "expected"),
    [
        ("memory.modules", "node_dimms", 4, {}),
        ("memory.modules", "node_dimms", 8, {"": FAIL}),
        ("memory.modules", "node_dimms", 2, {"": WARN}),
        ("memory.modules", "node_dimms", "4", {}),
        ("memory.modules", "node_dimms", -4, {"": UNKNOWN}),
        ("memory.modules", "node_dimms", "", {}),
        ("memory.speed", "node_memory_mts", 4800, {}),
        ("memory.total", "node_memory_gib", 128, {}),
        ("memory.total", "node_memory_gib", 100, {}),
        ("storage.nvme", "node_nvme", 2, {}),
        ("storage.nvme", "node_nvme", 3, {"": FAIL}),
        ("nic.count", "node_nics", 3, {}),
        ("nic.speed", "node_nic_gbps", 400, {}),
        ("nic.speed", "node_nic_gbps", 200, {}),
    ],
)
def test_what_is_declared(machine, check_id, variable, value, expected):
    machine.values[variable] = value
    assert machine.bad(check_id) == expected


def test_a_sku_stands_for_what_is_not_declared(machine):
    machine.values["node_sku"] = "dgx-h100"
    assert machine.bad("memory.modules") == {"": FAIL}  # it has 32 modules
    assert machine.bad("memory.total") == {"": FAIL}
    assert machine.bad("nic.count") == {"": FAIL}  # eight cards at 400 Gbit/s
    (finding,) = machine.findings("nic.count")
    assert finding.observed == "2 cards with a port at 400 Gbit/s"
    assert "SKU 'dgx-h100'" in finding.expected
    machine.values |= {"node_dimms": 4, "node_memory_gib": 128, "node_nics": 2}
    assert machine.bad("memory.modules") == machine.bad("memory.total") == {}
    assert machine.bad("nic.count") == {}


def test_an_unknown_sku_expects_nothing_here(machine):
    machine.values["node_sku"] = "no-such-machine"
    assert machine.bad("memory.modules") == {}


def test_adapters_below_a_bond_and_a_vlan_are_judged(machine):
    up = ["UP", "LOWER_UP"]
    machine.values["jumbo_mtu_interfaces"] = ["vlan7"]
    machine.set_links(
        {"vlan7": up, "bond0": up, "ens1f0np0": up, "ens2f0np0": up},
        vlan7={"link": "bond0", "linkinfo": {"info_kind": "vlan"}},
        bond0={"linkinfo": {"info_kind": "bond"}},
        ens1f0np0={"master": "bond0"},
        ens2f0np0={"master": "bond0"},
    )
    subjects = {one.subject for one in machine.findings("nic_health.counters")}
    assert subjects == {"ens1f0np0", "ens2f0np0"}
    machine.change(nic_node.SPEEDS, "ens2f0np0/speed", "100000\n")
    assert machine.bad("nic.speed") == {"ens2f0np0": WARN}


def test_a_virtual_machine_is_judged_by_what_is_its_own(machine):
    machine.text(system.VIRTUALIZATION, "Virtualization=kvm\n")
    for check_id in ("memory.modules", "memory.total", "host.power", "host.bmc_events"):
        (finding,) = machine.findings(check_id)
        assert finding.not_applicable is NotApplicable.VIRTUAL_MACHINE, check_id
    machine.smart_log("nvme0", critical_warning=1)
    assert machine.bad("storage.health") == {"nvme0": FAIL}
    machine.values["node_memory_gib"] = 512
    assert machine.bad("memory.total") == {"": FAIL}


def test_a_machine_without_drives_is_asked_for_none_unless_they_are_declared(machine):
    for read in (*storage_node.CONTROLLERS, storage_node.SMART_LOG, storage_node.SMART):
        machine.files(read, {})
    for check_id in ("storage.nvme", "storage.health", "storage.disks"):
        (finding,) = machine.findings(check_id)
        assert finding.not_applicable is NotApplicable.NO_SUCH_HARDWARE
    machine.values["node_nvme"] = 2
    assert machine.bad("storage.nvme") == {"": FAIL}


@pytest.mark.parametrize(
    ("values", "odd"),
    [
        ({}, None),
        ({"a": "1"}, None),
        ({"a": "1", "b": "1"}, None),
        ({"a": "1", "b": "1", "c": "2"}, Odd("1", {"c": "2"})),
        ({"a": "1", "b": "2"}, Odd("", {"a": "1", "b": "2"})),
        (
            {"a": "1", "b": "1", "c": "2", "d": "2"},
            Odd("", {"a": "1", "b": "1", "c": "2", "d": "2"}),
        ),
    ],
)
def test_the_odd_one_out(values, odd):
    assert odd_ones(values) == odd


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0"),
        (-3, "0"),
        (1, "1 to 9"),
        (9, "1 to 9"),
        (10, "10 or more"),
        (99, "10 or more"),
        (100, "100 or more"),
        (12_345, "10000 or more"),
    ],
)
def test_counts_in_words(count, words):
    assert magnitude(count) == words


@pytest.mark.parametrize(
    ("part", "whole", "words"),
    [(0, 8, "0 %"), (1, 1000, "under 1 %"), (1, 2, "50 %"), (1, 0, "0 %")],
)
def test_shares_in_words(part, whole, words):
    assert percent(part, whole) == words


def test_observed_words_do_not_change_while_counters_count(machine):
    """Verdicts of two runs are compared: numbers that always change would make all differ."""
    shown = [one.observed for one in machine.findings("nic_health.counters")]
    machine.replace(nic_node.STATISTICS, "rx_packets_phy: 1000000000", "rx_packets_phy: 1000000777")
    machine.replace(nic_node.STATISTICS, "rx_out_of_buffer: 12", "rx_out_of_buffer: 13")
    assert [one.observed for one in machine.findings("nic_health.counters")] == shown


@pytest.mark.parametrize(
    "check_id", [one.id for one in all_checks() if one.id.partition(".")[0] in MODULES]
)
def test_every_check_is_explained(check_id):
    text = explanations()[check_id]
    assert text.causes
    assert text.remedy
    assert text.source


def test_a_driver_without_devlink_has_no_firmware_that_waits_and_others_must_tell(machine):
    machine.text(nic_node.DEVLINK, "")
    found = {one.subject: one for one in machine.findings("nic_firmware.pending")}
    onboard = found.pop("eno1 (0000:02:00.0)")
    assert onboard.outcome is Outcome.NOT_APPLICABLE
    assert "'igb'" in onboard.reason
    assert {one.outcome for one in found.values()} == {UNKNOWN}
    assert len(found) == 2
