"""What a container can have of it. Shares no code with the role or the checks."""

import json
import re

UNIT = "hfprov-irq-affinity"
LIBRARY = "/usr/local/lib/hfprov"
# One NIC with three interrupts, four CPUs, no hyper-threads. What is written is read back.
MAKE_TREE = r"""
set -e; rm -rf /run/t; mkdir -p /run/t; cd /run/t
mkdir -p sys/class/net sys/devices/pci0000:00/0000:00:03.0/net/eth1 sys/devices/system/cpu
mkdir -p sys/devices/pci0000:00/0000:00:03.0/msi_irqs run proc/sys/kernel/random
ln -s ../../devices/pci0000:00/0000:00:03.0/net/eth1 sys/class/net/eth1
ln -s ../.. sys/devices/pci0000:00/0000:00:03.0/net/eth1/device
echo 0x1003 > sys/class/net/eth1/flags
echo -1 > sys/devices/pci0000:00/0000:00:03.0/numa_node
echo 0-3 | tee sys/devices/system/cpu/online > sys/devices/system/cpu/possible
for cpu in 0 1 2 3; do
  mkdir -p sys/devices/system/cpu/cpu$cpu/topology
  echo $cpu > sys/devices/system/cpu/cpu$cpu/topology/thread_siblings_list
done
for irq in 40 41 42; do
  mkdir -p proc/irq/$irq sys/kernel/irq/$irq
  echo msix > sys/devices/pci0000:00/0000:00:03.0/msi_irqs/$irq
  echo 0 > proc/irq/$irq/smp_affinity_list
  echo eth1-TxRx-$((irq - 40)) > sys/kernel/irq/$irq/actions
done
"""


def test_units_are_started_at_boot_but_not_in_containers(host):
    for unit in (f"{UNIT}.service", f"{UNIT}.timer"):
        shown = host.check_output(f"systemctl show -p UnitFileState,LoadError {unit}")
        assert sorted(shown.split()) == ["LoadError=", "UnitFileState=enabled"]
        host.check_output(f"systemd-analyze verify /etc/systemd/system/{unit}")
        host.check_output(f"systemctl start {unit}")
        assert host.check_output(f"systemctl show -p ConditionResult --value {unit}") == "no"


def test_its_command_moves_interrupts_of_a_made_up_node(host):
    host.check_output(MAKE_TREE)
    text = host.check_output(f"cat /etc/systemd/system/{UNIT}.service")
    (command,) = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
    done = host.run(f"{command} --root /run/t")
    # ethtool asks the node's own eth1, which has no rings: that is said, not hidden.
    assert done.rc == 1
    assert "'eth1' cannot have max descriptors per rx ring" in done.stderr
    lists = "cat /run/t/proc/irq/*/smp_affinity_list"
    assert host.check_output(lists).split("\n") == ["1", "2", "3"]
    assert host.check_output(f"ls -A {LIBRARY}").split() == [
        "irq_affinity.py",
        "irq_plan.py",
        "irqbalance_policy.sh",
    ]
    host.check_output("rm -r /run/t")


def test_configuration_is_what_was_declared(host):
    config = json.loads(host.check_output("cat /etc/hfprov/irq-affinity.json"))
    assert config["interfaces"] == ["eth1"]
    assert (config["reserved_cpus"], config["ring_rx"], config["rps"]) == ("0", "max", "off")
    assert config["coalescing"] == {"adaptive-rx": "on", "rx-usecs": 8}


def test_udev_has_nothing_against_the_rule(host):
    rules = "/etc/udev/rules.d/90-hfprov-irq-affinity.rules"
    verified = host.run(f"udevadm verify {rules}")
    # Debian 12's udevadm cannot verify.
    assert verified.rc == 0 or "Unknown command verb" in verified.stderr
    assert f"{UNIT}.service" in host.check_output(f"cat {rules}")


def test_irqbalance_would_ask_the_policy(host):
    shown = host.check_output("systemctl cat irqbalance.service 2>/dev/null || true")
    drop_in = host.check_output("cat /etc/systemd/system/irqbalance.service.d/90-hfprov.conf")
    assert f"--policyscript={LIBRARY}/irqbalance_policy.sh\n" in drop_in + "\n"
    assert not shown or drop_in in shown
    policy = f"{LIBRARY}/irqbalance_policy.sh /sys/bus/pci/devices/0000:00:00.0 9999"
    assert host.run(policy).rc == 0
    assert host.check_output(policy) == ""
