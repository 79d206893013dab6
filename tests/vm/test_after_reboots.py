"""A21: what is written is what the next start brings, by itself and before anybody looks.

The first node was switched on last, in the new kernel; the second one has booted the old one.
"""

from __future__ import annotations

import time

import pytest

from tests.vm.on_node import (
    live_mtu,
    locked_memory,
    outcomes,
    places,
    soft_roce_is_up,
    wait_until_in_place,
)

pytestmark = pytest.mark.usefixtures("away")

LARGEST = "8972"  # a payload that makes a packet of 9000


def test_the_larger_mtu_is_there(declared):
    for node in declared.nodes:
        deadline = time.monotonic() + 120
        while live_mtu(node) != "9000":
            assert time.monotonic() < deadline
            time.sleep(2)


def test_interrupts_are_in_place_beside_irqbalance(node, note):
    wait_until_in_place(node)
    assert node.run(["systemctl", "is-active", "irqbalance"]).strip() == "active"
    note(f"interrupts of {node.name} after a reboot: {places(node)}")


def test_soft_roce_is_up(declared):
    for node in declared.nodes:
        soft_roce_is_up(node)


def test_memory_may_be_locked_without_limit(node):
    assert set(locked_memory(node).values()) == {"unlimited"}


def test_packets_of_9000_bytes_still_pass(declared):
    one, two = declared.nodes
    for source, target in ((one, two), (two, one)):
        argv = ["ping", "-q", "-M", "do", "-c", "3", "-s", LARGEST, target.data_address]
        assert source.ssh(argv).returncode == 0, source.name


def test_hfprov_finds_the_first_node_as_declared(declared):
    [host] = declared.patient("drift", "--limit", "node01")["hosts"]
    found = outcomes(host["verdicts"])
    for check in (
        "kernel.running", "kernel.cmdline", "mtu.live", "mtu.files", "mtu.persistent",
        "irq.affinity",
    ):  # fmt: skip
        assert found[check] == {"pass"}, check
