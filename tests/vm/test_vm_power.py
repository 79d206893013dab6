"""A power cut, and a node that is thrown away and made anew. Reboots are in files of their own."""

from __future__ import annotations


def test_a_power_cut_and_a_start_from_the_disk(vm_rack, power_cut):
    before, was_off = power_cut.result()
    node = vm_rack.nodes[1]
    assert was_off
    assert node.boot_id() != before
    assert node.run(["cat", "/var/tmp/kept"]) == "kept\n"
    assert node.run(["systemctl", "is-system-running"]).strip() == "running"
    assert node.run(["hostname"]).strip() == node.name


def test_a_reset_node_is_as_new(vm_rack):
    node = vm_rack.nodes[1]
    node.run(["touch", "/etc/left-behind"])
    vm_rack.reset(node)
    assert node.ssh(["test", "-e", "/etc/left-behind"]).returncode == 1
    assert node.kernel_release().startswith("6.1.0-")
