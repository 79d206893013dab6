"""The role jumbo_mtu: a node that its new MTU cuts off helps itself; the others keep theirs.

The cut is made on the node, where the change is seen at once: while its data NIC has the new MTU,
nothing gets from it to the controller, as on nodes that have one NIC for both networks.
"""

from __future__ import annotations

import time

import pytest

MTU = "/sys/class/net/eth1/mtu"
GUARD = ["systemctl", "show", "-p", "ActiveState", "--value", "hfprov-mtu-guard.timer"]
CUT = """
while [ "$(cat /sys/class/net/eth1/mtu)" = 1500 ]; do sleep 0.5; done
ip route add blackhole CONTROLLER/32
echo cut > /run/hfprov-test-cut
while [ "$(cat /sys/class/net/eth1/mtu)" != 1500 ]; do sleep 0.5; done
ip route del blackhole CONTROLLER/32
"""


def live_mtu(node):
    return node.run(["cat", MTU]).strip()


def files_with_an_mtu(node):
    found = node.run(
        ["grep", "-rlsi", "mtu", "/etc/systemd/network", "/etc/network"],
        codes=(0, 1, 2),
    )
    return found.split()


@pytest.fixture
def cut_off(vm_rack):
    """The first node, at 1500 and about to lose its management network with a larger MTU."""
    node = vm_rack.nodes[0]
    assert live_mtu(node) == "1500"
    assert files_with_an_mtu(node) == []
    controller = node.run(["sh", "-c", "echo ${SSH_CLIENT%% *}"]).strip()
    script = CUT.replace("CONTROLLER", controller)
    node.run(["systemd-run", "--quiet", "--unit=hfprov-test-cut", "/bin/sh", "-c", script])
    return node


def test_a_node_that_is_cut_off_takes_its_old_mtu_back_and_answers_again(vm_rack, cut_off):
    with vm_rack.declaring("jumbo_mtu", jumbo_mtu_confirm_seconds=45):
        document = vm_rack.patient("provision", "--limit", cut_off.name)
        # Nobody put it back but the node.
        cut_off.wait_for_ssh()
        assert cut_off.run(["cat", "/run/hfprov-test-cut"]).strip() == "cut"
        assert cut_off.name in document["failed"]
        assert document["exit_code"] in (1, 3)
        assert live_mtu(cut_off) == "1500"
        assert cut_off.run(GUARD).strip() == "inactive"
        # Nor does the next start bring it.
        assert files_with_an_mtu(cut_off) == []
        [host] = vm_rack.patient("drift", "--limit", cut_off.name)["hosts"]
    found = {one["check"]: one["outcome"] for one in host["verdicts"]}
    assert found["mtu.live"] == "fail"
    assert found["mtu.guard"] == "pass"


@pytest.fixture(scope="module")
def large(vm_rack):
    """Both nodes as the role leaves them when nothing goes wrong; new ones afterwards."""
    with vm_rack.declaring("jumbo_mtu", jumbo_mtu_confirm_seconds=900):
        document = vm_rack.patient("provision", "--waves", "100%")
        assert document["failed"] == {}
        yield vm_rack
    vm_rack.reset(*vm_rack.nodes)


def test_a_change_that_was_confirmed_stays(large):
    for node in large.nodes:
        assert live_mtu(node) == "9000"
        assert node.run(GUARD).strip() == "inactive"
        assert files_with_an_mtu(node)


def full_paths(rack):
    """What became of every path's largest packets, by source and target."""
    document = rack.patient("path-mtu")
    assert document["untested"] == {}
    return {
        (one["source"], one["target"]): one["passed"]
        for rail in document["rails"]
        for one in rail["trials"]
        if one["bytes"] == 9000
    }


BOTH_WAYS = {("node01", "node02"): True, ("node02", "node01"): True}


def test_packets_of_9000_bytes_pass_both_ways(large):
    assert full_paths(large) == BOTH_WAYS


def test_after_a_reboot_it_is_there_by_itself(large):
    """A21: what is written is what the next start brings, before anybody looks."""
    node = large.nodes[0]
    before = node.boot_id()
    node.ssh(["systemctl", "reboot"])
    node.wait_for_boot(before)
    deadline = time.monotonic() + 120
    while live_mtu(node) != "9000":
        assert time.monotonic() < deadline
        time.sleep(2)
    [host] = large.patient("drift", "--limit", node.name)["hosts"]
    found = {one["check"]: one["outcome"] for one in host["verdicts"]}
    for check in ("mtu.live", "mtu.files", "mtu.persistent"):
        assert found[check] == "pass", check
    assert full_paths(large) == BOTH_WAYS
