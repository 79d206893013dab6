"""A kernel update that breaks the driver is found before the reboot; services beside the driver."""

from __future__ import annotations

import pytest

from hfprov.verdict import NotApplicable, Outcome

FAIL, UNKNOWN, PASS = Outcome.FAIL, Outcome.UNKNOWN, Outcome.PASS
KERNEL, NEW = "6.1.0-98-amd64", "6.12.0-99-amd64"
FILES = "list /lib/modules/*/updates/dkms/*.ko*"
INDEX = "run grep -oE"
IMAGES = "run find -L /boot"


def with_new_kernel(node, status):
    """A newer kernel was installed, whose build ended as DKMS says."""
    node.replace("file /boot/grub/grub.cfg", KERNEL, NEW)
    index = dict(node.results[node.read(INDEX)][0])
    node.results[node.read(INDEX)].append(index | {"name": NEW, "text": "", "code": 1})
    node.replace("run dkms status", "installed\n", f"installed\n{status}")


def test_the_kernel_that_boots_has_the_driver(metal):
    finding = metal.only("driver.target_kernel")
    assert finding.outcome is PASS
    assert finding.subject == KERNEL


@pytest.mark.parametrize("status", ["", f"nvidia-current/535.161.08, {NEW}, x86_64: built\n"])
def test_a_kernel_update_that_breaks_the_driver_is_found_before_the_reboot(metal, status):
    """Field case A7: there for the running kernel, missing for the one that boots next."""
    with_new_kernel(metal, status)
    finding = metal.only("driver.target_kernel")
    assert finding.outcome is FAIL
    assert finding.subject == NEW
    assert f"was not built for kernel '{NEW}'" in finding.observed
    assert f"it is there for '{KERNEL}'" in finding.observed
    assert "boots next" in finding.reason


def test_a_declared_kernel_is_judged_in_place_of_the_loaders(metal):
    metal.values["accelerator_target_kernel"] = NEW
    assert metal.outcomes("driver.target_kernel") == {NEW: FAIL}


def test_a_module_that_the_index_does_not_have_will_not_be_found(metal):
    metal.put(INDEX, text="", code=1)
    assert "depmod did not run" in metal.only("driver.target_kernel").observed


def test_a_module_of_another_version_is_not_the_declared_driver(metal):
    metal.replace("run dkms status", "535.161.08", "525.60.13")
    finding = metal.only("driver.target_kernel")
    assert finding.outcome is FAIL
    assert "525.60.13" in finding.observed


def test_a_broken_build_fails_though_its_file_is_there(metal):
    metal.replace("run dkms status", ": installed", ": broken")
    assert metal.outcomes("driver.target_kernel") == {KERNEL: FAIL}


def test_the_file_was_lost_and_dkms_believes_it_is_there(metal):
    metal.results[FILES] = []
    assert metal.outcomes("driver.target_kernel") == {KERNEL: FAIL}


def test_a_module_without_dkms_is_proof_enough(metal):
    """As with modules that a distribution built and signed."""
    metal.put("run dkms status", status="absent", text="")
    assert metal.only("driver.target_kernel").outcome is PASS


def test_a_machine_without_a_boot_menu_is_unknown(metal):
    metal.put("file /boot/grub/grub.cfg", status="absent", text="")
    assert metal.outcomes("driver.target_kernel") == {"": UNKNOWN}


def test_dkms_that_cannot_be_understood_is_unknown(metal):
    metal.put("run dkms status", text="Segmentation fault\n")
    assert metal.outcomes("driver.target_kernel") == {"": UNKNOWN}


def test_a_container_without_a_kernel_has_nothing_to_boot(node):
    node.put(IMAGES, text="")
    assert node.only("driver.target_kernel").not_applicable is NotApplicable.CONTAINER


def test_the_newest_kernel_is_newest_by_number(node):
    node.replace(IMAGES, f"/boot/vmlinuz-{KERNEL}\n", f"/boot/vmlinuz-{KERNEL}\n"
                 "1.0 9 /boot/vmlinuz-6.1.0-9-amd64\n")  # fmt: skip
    assert node.only("driver.target_kernel").subject == KERNEL


# nouveau


def test_nouveau_that_is_loaded_has_the_gpus(metal):
    metal.put("file /proc/modules", text="nouveau 1 0 - Live 0x0\n")
    assert metal.outcomes("driver.nouveau") == {"": FAIL}


def test_an_initramfs_that_is_older_than_the_ban(metal):
    text = metal.results[metal.read(IMAGES)][0]["text"]
    old = [f"1.0 {line.split(' ', 1)[1]}" for line in text.splitlines()]
    metal.put(IMAGES, text="\n".join(old) + "\n")
    assert metal.outcomes("driver.initramfs") == {KERNEL: FAIL}


def test_an_initramfs_without_a_ban_to_take_up(metal):
    metal.replace("run find /etc/modprobe.d", "hfprov-accelerator", "other")
    assert metal.outcomes("driver.initramfs") == {KERNEL: FAIL}


# Services


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("UnitFileState=enabled", "UnitFileState=disabled", "disabled"),
        ("UnitFileState=enabled", "UnitFileState=masked", "masked"),
        ("NeedDaemonReload=no", "NeedDaemonReload=yes", "reload needed: yes"),
        ("ActiveState=active", "ActiveState=failed", "failed"),
        ("LoadState=loaded", "LoadState=not-found", "not installed"),
    ],
)
def test_a_persistence_daemon_that_is_not_right(metal, old, new, said):
    metal.replace("units of systemd", old, new)
    (finding,) = [one for one in metal.findings("driver.units") if one.outcome is FAIL]
    assert finding.subject == "nvidia-persistenced.service"
    assert said in finding.observed


def test_a_daemon_cannot_run_without_a_driver_and_is_not_blamed_for_it(metal):
    metal.replace("units of systemd", "ActiveState=active", "ActiveState=failed")
    metal.put("file /sys/module/nvidia/initstate", status="absent", text="")
    assert metal.outcomes("driver.units") == {}
    assert metal.outcomes("driver.loaded") == {"": FAIL}


def test_the_fabric_manager_starts_after_rdma(metal):
    metal.values["accelerator_fabric_manager"] = "enabled"
    bad = metal.outcomes("driver.units")
    drop_in = "/etc/systemd/system/nvidia-fabricmanager.service.d/90-hfprov-accelerator.conf"
    assert set(bad) == {drop_in, "nvidia-fabricmanager.service"}
    text = "[Unit]\nAfter=rdma-hw.target\nBefore=slurmd.service kubelet.service\n"
    metal.put(f"file {drop_in}", status="ok", text=text, mode=0o644, uid=0, gid=0)
    assert set(metal.outcomes("driver.units")) == {"nvidia-fabricmanager.service"}


def test_no_service_is_declared(metal):
    metal.values["accelerator_persistence"] = False
    drop_in = "/etc/systemd/system/nvidia-persistenced.service.d/90-hfprov-accelerator.conf"
    assert metal.outcomes("driver.units") == {drop_in: FAIL}
    metal.put(f"file {drop_in}", status="absent", text="")
    assert metal.only("driver.units").not_applicable is NotApplicable.NOT_REQUESTED


# Path to the NICs


def test_peermem_must_be_loaded_where_it_is_the_path(metal):
    assert metal.only("driver.gpudirect").outcome is PASS
    metal.put("file /sys/module/nvidia_peermem/initstate", status="absent", text="")
    assert metal.outcomes("driver.gpudirect") == {"": FAIL}
    metal.values["accelerator_gpudirect"] = "dmabuf"
    assert metal.only("driver.gpudirect").not_applicable is NotApplicable.NOT_REQUESTED
