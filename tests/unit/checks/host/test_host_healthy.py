"""A healthy machine passes every check; without evidence, with garbage, late, none passes."""

from __future__ import annotations

import pytest

from hfprov.checks.registry import all_checks
from hfprov.evidence import system
from hfprov.judge import judge
from hfprov.verdict import NotApplicable, Outcome, worst

MODULES = (
    "host",
    "memory",
    "storage",
    "pcie",
    "nic",
    "nic_health",
    "nic_firmware",
    "rdma_port",
    "container_host",
)
CHECKS = [one.id for one in all_checks() if one.id.partition(".")[0] in MODULES]
NOT_JUDGED_HERE = {"nic.count", "nic.bonds", "nic.routes.ipv6"}
"""Nothing is declared of the number of adapters, and there is neither a bond nor IPv6."""
OWN_IN_CONTAINERS = {
    *("nic.link", "nic.routes", "nic.filter", "nic.shaping", "nic.bonds"),
    *("nic.modes", "nic.offloads", "nic.offloads.files", "nic.arp"),
    "container_host.config",
}


@pytest.mark.parametrize("check_id", CHECKS)
def test_a_healthy_machine_passes(machine, check_id):
    outcomes = {one.outcome for one in machine.findings(check_id)}
    expected = Outcome.NOT_APPLICABLE if check_id in NOT_JUDGED_HERE else Outcome.PASS
    assert outcomes == {expected}, machine.findings(check_id)


def spoilt(machine, check_id, **changes):
    """The outcomes of a check when all that it reads came back otherwise."""
    keep = {system.VIRTUALIZATION.id}
    for read in machine.reads_of(check_id):
        for result in machine.results[read]:
            if read not in keep:
                result.update(changes)
    return {one.outcome for one in machine.findings(check_id)}


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "timeout", "text": ""},
        {"status": "denied", "text": "", "stderr": "Permission denied"},
        {"status": "skipped", "stderr": "The host's deadline had passed."},
        {"truncated": True},
        {"text": ""},
        {"text": "\x00\x1b[31mgarbage\x1b[0m {[<"},
        {"text": "\n".join(["0"] * 3)},
        {"status": "error", "stderr": "Input/output error", "text": ""},
    ],
    ids=["timeout", "denied", "skipped", "truncated", "empty", "garbled", "zeros", "error"],
)
@pytest.mark.parametrize("check_id", CHECKS)
def test_what_was_not_read_is_never_a_pass(machine, check_id, changes):
    assert worst(spoilt(machine, check_id, **changes)) in (Outcome.UNKNOWN, Outcome.FAIL)


@pytest.mark.parametrize("check_id", CHECKS)
def test_reads_that_were_never_asked_for_make_it_unknown(machine, check_id):
    machine.values["node_nics"] = 2  # else the number of adapters is not asked for
    machine.results = {system.VIRTUALIZATION.id: machine.results[system.VIRTUALIZATION.id]}
    assert {one.outcome for one in machine.findings(check_id)} == {Outcome.UNKNOWN}


@pytest.mark.parametrize("check_id", CHECKS)
def test_a_container_is_not_judged_by_its_host(machine, check_id):
    machine.text(system.VIRTUALIZATION, "Virtualization=systemd-nspawn\n")
    for finding in machine.findings(check_id):
        if check_id.startswith(("nic.", "nic_health.")) or check_id in OWN_IN_CONTAINERS:
            continue  # interfaces are the container's own
        assert finding.not_applicable is NotApplicable.CONTAINER, finding


def test_virtual_interfaces_of_a_practice_node_are_only_asked_for_their_link(machine):
    machine.text(system.VIRTUALIZATION, "Virtualization=systemd-nspawn\n")
    machine.values["jumbo_mtu_interfaces"] = ["eth1"]
    veth = {"linkinfo": {"info_kind": "veth"}}
    machine.set_links({"eth1": ["BROADCAST", "UP", "LOWER_UP"]}, eth1=veth)
    for check_id in CHECKS:
        if check_id.startswith(("nic.", "nic_health.")) and check_id not in OWN_IN_CONTAINERS:
            (finding,) = machine.findings(check_id)
            assert finding.outcome is Outcome.NOT_APPLICABLE, check_id
    assert machine.bad("nic.link") == {}
    machine.set_links({"eth1": ["BROADCAST"]}, eth1=veth)
    assert machine.bad("nic.link") == {"eth1": Outcome.FAIL}


def test_a_host_without_data_interfaces_is_not_asked_for_them(machine):
    machine.values.pop("jumbo_mtu_interfaces")
    machine.roles = ()
    reasons = {check_id: machine.findings(check_id)[0].not_applicable for check_id in CHECKS}
    for check_id in ("nic.link", "nic.speed", "nic.neighbours", "nic_health.counters"):
        assert reasons[check_id] is NotApplicable.NOT_REQUESTED, check_id


def test_an_empty_list_of_data_interfaces_is_no_success(machine):
    machine.values["jumbo_mtu_interfaces"] = []
    for check_id in ("nic.link", "nic.speed", "nic.neighbours", "rdma_port.devices"):
        assert machine.bad(check_id) == {"": Outcome.UNKNOWN}, check_id


HOSTILE = [
    "",
    "\x00",
    "{}",
    "[]",
    "[1]",
    '{"info": 3}',
    "0",
    "-1",
    "9" * 6000,
    "a:b",
    "N/A",
    "\x1b]0;x\x07|,;",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("only_named", [True, False])
def test_no_check_breaks_on_anything_that_a_node_may_answer(machine, text, only_named):
    """A bug in a check shows as 'The check itself failed'."""
    for read, results in machine.results.items():
        for result in results:
            if "text" in result and read != system.VIRTUALIZATION.id:
                result["text"] = result["text"] if only_named and not result["name"] else text
    verdicts = judge(machine.observation(), machine.baseline())
    mine = [one for one in verdicts if one.check.partition(".")[0] in MODULES]
    assert mine
    assert not [one for one in mine if "check itself failed" in one.finding.reason]
