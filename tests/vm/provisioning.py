"""``hfprov provision`` of one virtual machine, and one that its new MTU cuts off.

The cut is made on the node, where the change is seen at once: while its data NIC has the new MTU,
nothing gets from it to the controller, as on nodes that have one NIC for both networks.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.vm.on_node import MTU, USER, live_mtu, locked_memory

CONFIRM = 45  # seconds that a new MTU has to be confirmed in
_GUARD = ["systemctl", "show", "-p", "ActiveState", "--value", "hfprov-mtu-guard.timer"]
_LOG = "/run/hfprov-test-cut"
_CUT = f"""
while [ "$(cat {MTU})" = 1500 ]; do sleep 0.5; done
ip route add blackhole CONTROLLER/32
echo "cut $(date +%s)" > {_LOG}
while [ "$(cat {MTU})" != 1500 ]; do sleep 0.5; done
ip route del blackhole CONTROLLER/32
echo "back $(date +%s)" >> {_LOG}
"""


@dataclass(frozen=True)
class Provisioned:
    """What ``provision`` said of a node, and what was true before."""

    kernel: str
    boot: str
    locked: dict[str, str]
    document: dict


def provision(rack, node):
    """Provision a node that nothing but a failed attempt has been made on."""
    node.run(["useradd", "--create-home", USER], codes=(0, 9))  # 9: there already
    before = node.kernel_release(), node.boot_id(), locked_memory(node)
    return Provisioned(*before, rack.patient("provision", "--limit", node.name))


@dataclass(frozen=True)
class CutOff:
    """A node after it was cut off; read once it answered again, which nobody but it has brought."""

    document: dict
    log: list[str]
    mtu: str
    guard: str
    files: list[str]
    verdicts: list[dict]


def let_it_be_cut_off(rack, node):
    """Provision a node that loses its management network with a larger MTU."""
    assert live_mtu(node) == "1500"
    assert files_with_an_mtu(node) == []
    controller = node.run(["sh", "-c", "echo ${SSH_CLIENT%% *}"]).strip()
    script = _CUT.replace("CONTROLLER", controller)
    node.run(["systemd-run", "--quiet", "--unit=hfprov-test-cut", "/bin/sh", "-c", script])
    document = rack.patient("provision", "--limit", node.name)
    node.wait_for_ssh()
    log = node.run(["cat", _LOG]).split()
    seen = live_mtu(node), guard(node), files_with_an_mtu(node)
    [host] = rack.patient("drift", "--limit", node.name)["hosts"]
    return CutOff(document, log, *seen, host["verdicts"])


def guard(node):
    """State of the timer that puts the old MTU back."""
    return node.run(_GUARD).strip()


def files_with_an_mtu(node):
    """Files that would bring an MTU with the next start."""
    found = node.run(
        ["grep", "-rlsi", "mtu", "/etc/systemd/network", "/etc/network"],
        codes=(0, 1, 2),
    )
    return found.split()
