"""The role irq_affinity on a node with a NIC of its own, beside irqbalance and against odds.

In the new kernel, on the first node.
"""

from __future__ import annotations

import json

import pytest

from tests.vm.on_node import in_place, outcomes, places, queues, wait_until_in_place

SERVICE, TIMER = "hfprov-irq-affinity.service", "hfprov-irq-affinity.timer"
APPLY = ["python3", "-BEs", "/usr/local/lib/hfprov/irq_affinity.py", "apply"]
LOOKS = 10  # seconds between two looks of irqbalance


@pytest.fixture(scope="module")
def placed(declared, rebooted):  # noqa: ARG001 - in the new kernel
    """The first node, with irqbalance as Debian installs it, and the role."""
    node = declared.nodes[0]
    driver = node.run(["readlink", "/sys/class/net/eth1/device/driver"]).strip()
    if not driver.endswith("/igb"):
        pytest.skip("this QEMU has no 'igb', whose queues have interrupts")
    wait_until_in_place(node)
    return node


def test_irqbalance_runs_and_leaves_them_alone(placed):
    assert placed.run(["systemctl", "is-active", "irqbalance"]).strip() == "active"
    running = int(placed.run(["ps", "-o", "etimes=", "-C", "irqbalance"]))
    placed.run(["sleep", str(max(0, 2 * LOOKS + 5 - running))])
    assert in_place(placed)


def test_a_second_run_has_nothing_to_do(placed):
    report = json.loads(placed.run(APPLY))
    assert report["changed"] is False
    assert report["problems"] == []
    assert in_place(placed)


def test_a_link_that_flaps_does_not_undo_it(placed):
    placed.run(["sh", "-c", "ip link set eth1 down && sleep 1 && ip link set eth1 up"])
    wait_until_in_place(placed)


def test_checks_pass_and_find_an_interrupt_that_was_moved(declared, rebooted, placed):
    [host] = declared.recorded(rebooted.document["run"])["hosts"]
    found = outcomes(host["phases"]["after reboot"]["verdicts"])
    assert found["irq.affinity"] == {"pass"}
    placed.run(["systemctl", "stop", TIMER])
    try:
        irq = next(iter(queues(placed)))
        placed.run(["sh", "-c", f"echo 0 > /proc/irq/{irq}/smp_affinity_list"])
        [host] = declared.patient("drift", "--limit", placed.name)["hosts"]
        assert "fail" in outcomes(host["verdicts"])["irq.affinity"]
        # What the timer does once a minute.
        placed.run(["systemctl", "start", SERVICE])
        assert in_place(placed)
    finally:
        placed.run(["systemctl", "start", TIMER])


def test_a_driver_that_was_loaded_anew_gets_it_again(placed, note):
    placed.run(["systemctl", "stop", TIMER])
    try:
        placed.run(["sh", "-ec", "modprobe -r igb; sleep 1; modprobe igb"])
        # Without the timer: it is udev that starts the unit. Queues ask for interrupts when it is
        # set up, which networkd does.
        wait = "for i in $(seq 60); do ip link set eth1 up 2>/dev/null && break; sleep 1; done"
        placed.run(["sh", "-c", wait])
        shown = ["systemctl", "show", "-p", "Result", "--value", SERVICE]
        assert placed.run(shown).strip() == "success"
    finally:
        placed.run(["systemctl", "start", TIMER])
    wait_until_in_place(placed)
    note(f"interrupts of {placed.name} after its driver was loaded anew: {places(placed)}")


def test_interrupts_come_where_they_should(declared, placed, wrong, note):
    wrong.result()  # whom packets are sent to, is back from a reboot of its own
    other = declared.nodes[1].data_address
    before = queues(placed)
    placed.run(["ping", "-q", "-c", "200", "-i", "0.02", "-s", "1400", other])
    after = queues(placed)
    came = {
        (name, cpus, str(cpu)): count - before[irq][2][cpu]
        for irq, (cpus, name, counts) in after.items()
        for cpu, count in enumerate(counts)
    }
    assert sum(came.values()) > 100
    astray = [count for (_, cpus, cpu), count in came.items() if cpu != cpus]
    # The first one after a move still comes to the old CPU.
    assert sum(astray) <= len(after), came
    for (name, cpus, cpu), count in came.items():
        if count:
            note(f"interrupts of {placed.name}: {name} CPU {cpu} +{count} (belongs to CPU {cpus})")
