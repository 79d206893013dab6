"""What boots by default, with which parameters, and what runs: now, and after the next reboot."""

from __future__ import annotations

import pytest

from hfprov.judge import find_check
from hfprov.verdict import Impact, NotApplicable, Outcome

FAIL = Outcome.FAIL
MENU = "file /boot/grub/grub.cfg"
ENVIRONMENT = "file /boot/grub/grubenv"
RUNNING, CMDLINE = "file /proc/sys/kernel/osrelease", "file /proc/cmdline"
SETTINGS = "glob /etc/default/grub.d/*.cfg"
OUR, OLD = "6.1.0-40-amd64", "6.1.0-38-amd64"
UUID = "11111111-2222-3333-4444-555555555555"
DEFAULT = f'set default="gnulinux-advanced-{UUID}>gnulinux-{OUR}-advanced-{UUID}"'
BLOCK = "# GRUB Environment Block\n{}\n####"


def test_impacts_say_what_only_a_reboot_brings():
    impacts = {
        name: find_check(f"kernel.{name}").impact
        for name in ("running", "cmdline", "default", "menu", "settings", "next_boot", "rivals")
    }
    assert impacts == {
        "running": Impact.REBOOT,
        "cmdline": Impact.REBOOT,
        "default": Impact.NONE,
        "menu": Impact.NONE,
        "settings": Impact.NONE,
        "next_boot": Impact.MANUAL,
        "rivals": Impact.MANUAL,
    }


def test_installed_and_not_yet_booted(node):
    """Configured but not effective: the files are right, and only a reboot is missing."""
    node.put(RUNNING, f"{OLD}\n")
    assert node.bad("kernel.running") == {"": FAIL}
    assert "a reboot is needed" in node.reason("kernel.running")
    assert not node.bad("kernel.default")


@pytest.mark.parametrize(
    ("default", "environment", "words"),
    [
        ('set default="1>2"', None, f"'gnulinux-advanced-{UUID}>gnulinux-{OLD}-advanced-{UUID}'"),
        ('set default="${saved_entry}"', "saved_entry=1>2", "saved_entry is '1>2'"),
        (DEFAULT, "next_entry=1>2", "next_entry is '1>2'"),
    ],
)
def test_after_a_reboot_into_another_kernel_the_entry_that_won_is_named(
    node, default, environment, words
):
    """A6: back is not enough; it is the expected kernel, or the host fails and says why."""
    node.put(RUNNING, f"{OLD}\n")
    node.replace(MENU, DEFAULT, default)
    if environment:
        node.put(ENVIRONMENT, BLOCK.format(environment))
    assert node.bad("kernel.running") == {"": FAIL}
    assert "A reboot would not bring it" in node.reason("kernel.running")
    assert words in node.reason("kernel.running")


def test_an_entry_that_is_gone_falls_back_to_the_first(node):
    node.replace(MENU, DEFAULT, 'set default="gnulinux-6.1.0-99-amd64"')
    assert not node.bad("kernel.default")
    node.put(MENU, node.one(MENU)["text"].replace(OUR, "6.1.0-41-amd64"))
    assert node.bad("kernel.default") == {"": FAIL}
    assert "not in the menu" in node.reason("kernel.default")


def test_one_boot_of_another_kernel(node):
    node.put(ENVIRONMENT, BLOCK.format("next_entry=1>2"))
    assert node.bad("kernel.next_boot") == {"": FAIL}
    node.put(ENVIRONMENT, BLOCK.format("next_entry=0"))
    assert not node.bad("kernel.next_boot")


def test_in_effect_now_and_gone_after_a_reboot(node):
    """The running kernel has the parameter; the menu does not."""
    node.replace(MENU, " pci=realloc=off", "")
    assert node.bad("kernel.menu") == {"default entry": FAIL, "made of": FAIL}
    assert "running" not in node.bad("kernel.cmdline")


def test_configured_and_not_in_effect(node):
    node.replace(CMDLINE, " pci=realloc=off", "")
    assert node.bad("kernel.cmdline") == {"running": FAIL, "as booted": FAIL}
    assert not node.bad("kernel.menu")
    assert "adds 'pci=realloc=off'" in node.reason("kernel.cmdline")


def test_a_later_parameter_of_that_name_wins(node):
    node.replace(CMDLINE, "iommu=pt", "iommu=pt iommu=off")
    assert "running" in node.bad("kernel.cmdline")


def test_a_parameter_that_is_no_longer_declared_is_drift_everywhere(node):
    node.values["kernel_parameters"] = ["iommu=pt"]
    assert set(node.bad("kernel.settings").values()) == {FAIL}
    node.replace(SETTINGS, " pci=realloc=off", "")
    assert not node.bad("kernel.settings")
    assert node.bad("kernel.menu") == {"made of": FAIL}
    node.replace(MENU, " pci=realloc=off", "")
    assert not node.bad("kernel.menu")
    assert node.bad("kernel.cmdline") == {"as booted": FAIL}
    node.replace(CMDLINE, " pci=realloc=off", "")
    assert not node.bad("kernel.cmdline")


def test_parameters_of_the_site_stay(node):
    node.replace("file /etc/default/grub", "quiet", "quiet nosmt")
    node.replace(MENU, "quiet", "quiet nosmt")
    assert not node.bad("kernel.menu")
    assert not node.bad("kernel.settings")
    assert node.bad("kernel.cmdline") == {"as booted": FAIL}


def test_settings_of_another_mode(node):
    node.results[SETTINGS][0]["mode"] = 0o666
    assert set(node.bad("kernel.settings").values()) == {FAIL}


def test_a_container_that_is_tried_out_runs_no_kernel_of_its_own(node):
    node.values["kernel_in_containers"] = True
    node.put("systemd itself", "Virtualization=systemd-nspawn\n")
    assert not node.bad("kernel.menu")
    for check_id in ("kernel.running", "kernel.cmdline"):
        assert node.findings(check_id)[0].not_applicable is NotApplicable.CONTAINER


def test_a_node_without_grub_is_unknown_not_well(node):
    node.results[MENU] = [{"name": "/boot/grub/grub.cfg", "status": "absent"}]
    for check_id in ("kernel.default", "kernel.menu", "kernel.cmdline", "kernel.next_boot"):
        assert node.bad(check_id) == {"": Outcome.UNKNOWN}
