"""From the distribution's kernel to the one of backports, through a slow shutdown (A6)."""

from __future__ import annotations

from tests.vm.conftest import SERIES
from tests.vm.on_node import outcomes
from tests.vm.reboots import events, states

HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage/enabled"


def test_a_node_in_its_old_boot_is_not_rebooted_however_it_answers(rebooted):
    assert not rebooted.ended_early, rebooted.document
    assert rebooted.boot_meanwhile == rebooted.boot_before
    assert states(rebooted.meanwhile) == {"node01": "rebooting"}
    assert events(rebooted.meanwhile, "rebooted") == []


def test_it_is_back_with_a_new_boot_the_new_kernel_and_its_parameters(node, provisioned, rebooted):
    document = rebooted.document
    assert rebooted.code == 0, document
    assert document["failed"] == {}
    boots = document["rebooted"]["node01"]
    assert boots["boot_id"] == [rebooted.boot_before, node.boot_id()]
    assert boots["boot_id"][0] != boots["boot_id"][1]
    assert boots["kernel"] == [provisioned["node01"].kernel, node.kernel_release()]
    assert node.kernel_release().startswith(f"{SERIES}.")
    assert "[never]" in node.run(["cat", HUGE_PAGES])
    words = node.run(["cat", "/proc/cmdline"]).split()
    assert {"iommu=pt", "transparent_hugepage=never"} <= set(words)


def test_both_kernels_are_in_the_record_and_the_checks_have_become_good(declared, rebooted):
    run = declared.recorded(rebooted.document["run"])
    [said] = [one["message"] for one in run["events"] if one["kind"] == "rebooted"]
    for release in rebooted.document["rebooted"]["node01"]["kernel"]:
        assert f"'{release}'" in said
    [host] = run["hosts"]
    found = outcomes(host["phases"]["after reboot"]["verdicts"])
    for check in ("kernel.running", "kernel.cmdline", "kernel.default", "kernel.next_boot"):
        assert found[check] == {"pass"}, check
