"""What is true on a node, read from /proc, sysfs and the tools that everybody has.

Neither the roles' scripts nor hfprov's checks are asked: these tests are about them.
"""

from __future__ import annotations

import time

from hfprov.evidence import ibv_devinfo

USER = "hfprov-test"
MTU = "/sys/class/net/eth1/mtu"
# Interrupts of queues: number, where it may come, name, and how often it has come to each CPU.
_QUEUES = r"""
for irq in $(ls /sys/class/net/eth1/device/msi_irqs); do
    [ -e /proc/irq/$irq/smp_affinity_list ] || continue
    name=$(cat /sys/kernel/irq/$irq/actions)
    case "$name" in
        *TxRx-[0-9]*|*rx-[0-9]*|*tx-[0-9]*)
            echo $irq $(cat /proc/irq/$irq/smp_affinity_list) $name \
                $(cat /sys/kernel/irq/$irq/per_cpu_count) ;;
    esac
done
"""
_LOCKED = """
ulimit -l
su -l "$1" -c 'ulimit -l'
systemd-run --quiet --wait --pipe sh -c 'ulimit -l'
"""


def live_mtu(node):
    return node.run(["cat", MTU]).strip()


def queues(node):
    """By interrupt of a queue: CPUs it may come to, its name, and its count on each CPU."""
    done = node.ssh(["sh", "-c", _QUEUES])
    rows = [line.split() for line in done.stdout.splitlines()] if done.returncode == 0 else []
    return {
        irq: (cpus, name, [int(count) for count in counts.split(",")])
        for irq, cpus, name, counts in rows
    }


def places(node):
    """Where the interrupts of a node's queues may come, in words."""
    return ", ".join(f"{name} CPU {cpus}" for cpus, name, _ in queues(node).values()) or "none"


def in_place(node):
    """Whether each queue of the NIC has a core of its NUMA node to itself: CPUs 2 and 3.

    A queue has one interrupt or two; there are none while the driver sets itself up.
    """
    found = sorted(cpus for cpus, _, _ in queues(node).values())
    return found in (["2", "3"], ["2", "2", "3", "3"])


def wait_until_in_place(node, seconds=600):
    """How often it is looked at does not matter: the timer comes once a minute of the node."""
    deadline = time.monotonic() + seconds
    while not in_place(node):
        assert time.monotonic() < deadline, queues(node)
        time.sleep(2)


def locked_memory(node):
    """What may be locked in a session of root, of a user, and in a service."""
    said = node.run(["sh", "-euc", _LOCKED, "sh", USER])
    return dict(zip(("root", "user", "service"), said.split(), strict=True))


def rdma_ports(node):
    """Ports of every RDMA device, as libibverbs has them."""
    found = ibv_devinfo.parse(node.run(["ibv_devinfo"]))
    assert isinstance(found, ibv_devinfo.Devices)
    return [port for device in found.devices for port in device.ports]


def soft_roce_is_up(node):
    """One port, active, with the largest MTU that RDMA has."""
    [port] = rdma_ports(node)
    assert port.state == "PORT_ACTIVE"
    assert port.active_mtu_bytes == 4096
    tos = node.run(["sh", "-c", "cat /sys/kernel/config/rdma_cm/*/ports/1/default_roce_tos"])
    # configfs shows it where somebody has made its folder.
    assert tos.split() in ([], ["106"])


def outcomes(verdicts):
    """Outcomes by check; what is said of a check's subjects goes into one set."""
    found = {}
    for one in verdicts:
        found.setdefault(one["check"], set()).add(one["outcome"])
    return found
