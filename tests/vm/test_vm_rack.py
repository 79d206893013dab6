"""What only virtual machines have: cables, NUMA nodes and kernels of their own.

Power is in test_vm_power.py.
"""

from __future__ import annotations

import time

import pytest

JUMBO = "8972"  # a payload that makes a packet of 9000


@pytest.fixture
def at_1500(vm_rack):
    """Both data NICs at 1500 before and after."""
    yield vm_rack
    for node in vm_rack.nodes:
        node.run(["ip", "link", "set", "eth1", "mtu", "1500", "up"])


def ping(node, address, size):
    """Whether packets of a size get through unfragmented."""
    argv = ["ping", "-M", "do", "-c", "3", "-i", "0.3", "-W", "5", "-s", size, address]
    return node.ssh(argv).returncode == 0


def wait_until(holds, seconds=60):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.5)


def test_nodes_are_different_machines_with_kernels_of_their_own(vm_rack):
    one, two = vm_rack.nodes
    for command in (
        ["cat", "/proc/sys/kernel/random/boot_id"],
        ["cat", "/sys/class/dmi/id/product_serial"],
        ["cat", "/etc/machine-id"],
        ["cat", "/sys/class/net/eth1/address"],
    ):
        first, second = one.run(command).strip(), two.run(command).strip()
        assert first
        assert first != second, command
    assert one.kernel_release().startswith("6.1.0-")
    assert one.run(["nproc"]).strip() == "4"
    assert one.run(["cat", "/sys/devices/system/node/online"]).strip() == "0-1"
    assert one.run(["hostname"]).strip() == one.name


def test_jumbo_frames_pass_once_both_ends_have_them_and_not_before(at_1500):
    one, two = at_1500.nodes
    assert ping(one, two.data_address, "1472")
    assert not ping(one, two.data_address, JUMBO)
    for node in (one, two):
        node.run(["ip", "link", "set", "eth1", "mtu", "9000"])
    wait_until(lambda: ping(one, two.data_address, JUMBO))


def test_a_cut_cable_is_seen_by_the_node_and_mended_again(vm_rack):
    one, two = vm_rack.nodes
    # The driver looks for a link every other second, and anew after each change of the MTU.
    wait_until(lambda: ping(one, two.data_address, "56"))
    one.set_cable(connected=False)
    try:
        wait_until(lambda: one.run(["cat", "/sys/class/net/eth1/carrier"]).strip() == "0")
        assert not ping(one, two.data_address, "56")
    finally:
        one.set_cable(connected=True)
    wait_until(lambda: ping(one, two.data_address, "56"))


def test_the_data_nic_has_queues_with_interrupts_of_their_own(node):
    driver = node.run(["readlink", "/sys/class/net/eth1/device/driver"]).strip().split("/")[-1]
    if driver != "igb":
        pytest.skip("this QEMU has no 'igb'; its virtio NIC shows no msi_irqs and no NUMA node")
    interrupts = node.run(["ls", "/sys/class/net/eth1/device/msi_irqs"]).split()
    assert len(interrupts) >= 4
    assert node.run(["cat", "/sys/class/net/eth1/device/numa_node"]).strip() == "1"
