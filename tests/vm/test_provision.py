"""``provision``: what is there at once, while the old kernel still runs."""

from __future__ import annotations

import pytest

from tests.vm.conftest import ROLES, SECOND
from tests.vm.on_node import in_place, live_mtu, locked_memory, outcomes, soft_roce_is_up
from tests.vm.reboots import events

WANTED = {"node01": set(ROLES), "node02": set(SECOND)}


@pytest.fixture(params=sorted(WANTED))
def name(request):
    return request.param


def test_an_ordinary_inventory_leads_to_each_node(declared, provisioned, name):
    run = declared.recorded(provisioned[name].document["run"])
    [host] = run["hosts"]
    # A new node's data NIC is at 1500 where 9000 is wanted: that is read from the node.
    assert outcomes(host["phases"]["before"]["verdicts"])["mtu.live"] == {"fail"}


def test_every_role_does_its_part(provisioned, name):
    document = provisioned[name].document
    assert {host: set(roles) for host, roles in document["plan"]["roles"].items()} == {
        name: WANTED[name]
    }
    assert document["failed"] == {}
    [host] = document["hosts"]
    bad = {
        (one["check"], one["reason"])
        for one in host["verdicts"]
        if one["outcome"] in ("fail", "unknown") and one["role"] in WANTED[name] - {"kernel"}
    }
    assert bad == set()


def test_it_says_that_a_reboot_is_needed_and_does_not_reboot(declared, provisioned, name):
    [node] = [one for one in declared.nodes if one.name == name]
    before = provisioned[name]
    assert before.kernel.startswith("6.1.0-")
    assert (node.kernel_release(), node.boot_id()) == (before.kernel, before.boot)
    assert "a reboot is needed" in before.document["reboot_needed"][name]
    [host] = before.document["hosts"]
    found = outcomes(host["verdicts"])
    assert found["kernel.default"] == {"pass"}
    assert found["kernel.running"] == {"fail"}
    assert "fail" in found["kernel.cmdline"]
    assert events(declared.recorded(before.document["run"]), "reboot_needed") == [name]


def test_memory_may_be_locked_without_limit_in_sessions_and_services(declared, provisioned):
    assert "unlimited" not in provisioned["node01"].locked.values()
    assert set(locked_memory(declared.nodes[0]).values()) == {"unlimited"}


def test_queues_are_on_the_cores_of_their_node_one_to_a_core(declared, provisioned):  # noqa: ARG001
    node = declared.nodes[0]
    assert in_place(node)
    channels = node.run(["ethtool", "-l", "eth1"])
    now = channels.split("Current hardware settings:")[1]
    assert now.split("Combined:")[1].split()[0] == "2"


def test_mtu_and_soft_roce_are_up(declared, provisioned):  # noqa: ARG001 - by it
    for node in declared.nodes:
        assert live_mtu(node) == "9000"
        soft_roce_is_up(node)
