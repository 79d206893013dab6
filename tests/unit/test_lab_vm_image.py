"""What goes onto a virtual machine's disk, without root and without a mirror."""

import lzma
import shutil
import subprocess

import pytest

from hfprov.errors import LabError
from hfprov.lab import vm_disk, vm_image
from hfprov.lab.vm_kernel import shrink, wanted_modules
from hfprov.lab.vm_node import find_entry

MENU = """\
menuentry 'Debian GNU/Linux' --class debian $menuentry_id_option 'gnulinux-simple-AB' {
}
submenu 'Advanced options' $menuentry_id_option 'gnulinux-advanced-AB' {
\tmenuentry 'Linux 6.12' --class os $menuentry_id_option 'gnulinux-6.12.9+deb12-amd64-advanced-AB' {
\t}
\tmenuentry 'rescue' --class os $menuentry_id_option 'gnulinux-6.12.9+deb12-amd64-recovery-AB' {
\t}
\tmenuentry 'Linux 6.1' --class os $menuentry_id_option 'gnulinux-6.1.0-50-amd64-advanced-AB' {
\t}
}
"""


def test_a_kernel_is_found_in_grubs_menu():
    entry = "gnulinux-advanced-AB>gnulinux-6.1.0-50-amd64-advanced-AB"
    assert find_entry(MENU, "6.1.0-50-amd64") == entry


@pytest.mark.parametrize("release", ["6.1", "6.1.0-50", "7.0", ""])
def test_a_kernel_that_grub_does_not_have_is_refused_with_what_it_has(release):
    with pytest.raises(LabError, match=f"no kernel '{release}'") as caught:
        find_entry(MENU, release)
    assert "gnulinux-6.12.9+deb12-amd64-advanced-AB" in caught.value.hint
    with pytest.raises(LabError):
        find_entry("", release)


def test_modules_are_kept_with_all_they_need():
    modules = (
        "kernel/drivers/net/virtio_net.ko: kernel/net/core/failover.ko kernel/x/deep.ko\n"
        "kernel/x/deep.ko:\nkernel/sound/core/snd.ko: kernel/sound/soundcore.ko\n"
        "kernel/drivers/net/virtio_netx/other.ko.xz:\n"
    )
    assert wanted_modules(modules) == {
        "kernel/drivers/net/virtio_net.ko",
        "kernel/net/core/failover.ko",
        "kernel/x/deep.ko",
        "kernel/drivers/net/virtio_netx/other.ko.xz",
    }


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb")
def test_a_small_kernel_package_has_the_same_name_and_fewer_plain_modules(tmp_path):
    tree, target = tmp_path / "tree", tmp_path / "small"
    modules = tree / "lib/modules/6.12.9-amd64"
    for name, content in {
        "kernel/fs/ext4/ext4.ko.xz": lzma.compress(b"ext4"),
        "kernel/sound/snd.ko.xz": lzma.compress(b"snd"),
        "modules.builtin": b"",
    }.items():
        (modules / name).parent.mkdir(parents=True, exist_ok=True)
        (modules / name).write_bytes(content)
    (tree / "DEBIAN").mkdir()
    (tree / "DEBIAN/md5sums").write_text("0  lib/modules/6.12.9-amd64/kernel/sound/snd.ko.xz\n")
    (tree / "DEBIAN/control").write_text(
        "Package: linux-image-x\nVersion: 6.12.9\nArchitecture: all\nInstalled-Size: 99999\n"
        "Maintainer: a <a@example.org>\nDescription: a kernel\n"
    )
    deb = tmp_path / "linux-image-x_6.12.9_all.deb"
    subprocess.run(["dpkg-deb", "--build", tree, deb], check=True, capture_output=True)
    target.mkdir()

    def depmod(base, release):
        dep = "kernel/fs/ext4/ext4.ko.xz:\nkernel/sound/snd.ko.xz:\n"
        (base / "lib/modules" / release / "modules.dep").write_text(dep)

    small = shrink(deb, target, depmod)
    assert small.name == deb.name
    shown = subprocess.run(
        ["dpkg-deb", "--contents", small], check=True, capture_output=True, text=True
    ).stdout
    names = {line.split()[-1] for line in shown.splitlines() if not line.startswith("d")}
    assert names == {
        "./lib/modules/6.12.9-amd64/kernel/fs/ext4/ext4.ko",
        "./lib/modules/6.12.9-amd64/modules.builtin",
    }
    field = ["dpkg-deb", "--field", small, "Version", "Installed-Size"]
    said = subprocess.run(field, check=True, capture_output=True, text=True).stdout
    assert said.split() == ["Version:", "6.12.9", "Installed-Size:", "0"]


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb")
def test_a_kernel_without_any_wanted_module_is_no_success(tmp_path):
    modules = tmp_path / "tree/lib/modules/1/kernel/sound"
    modules.mkdir(parents=True)
    (modules / "snd.ko").write_bytes(b"")
    (modules.parents[1] / "modules.dep").write_text("kernel/sound/snd.ko:\n")
    (tmp_path / "tree/DEBIAN").mkdir()
    (tmp_path / "tree/DEBIAN/control").write_text(
        "Package: x\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b.c>\nDescription: a\n"
    )
    deb = tmp_path / "x.deb"
    subprocess.run(["dpkg-deb", "--build", tmp_path / "tree", deb], check=True, capture_output=True)
    with pytest.raises(LabError, match="none of the modules"):
        shrink(deb, tmp_path, lambda *_: None)


@pytest.mark.parametrize("failing", ["mkfs.ext4", "mount", "cp", "unshare"])
def test_no_loop_device_and_no_mount_is_left_by_a_build_that_fails(tmp_path, monkeypatch, failing):
    done = []

    def run(argv, **_):
        done.append([str(word) for word in argv])
        if argv[0] == failing:
            raise LabError("broken")
        if argv[0] == "cp":
            (tmp_path / "disk.mnt/etc").mkdir()
        return "/dev/loop77\n"

    monkeypatch.setattr(vm_disk, "run", run)
    with pytest.raises(LabError, match="broken"):
        vm_disk.make_disk(tmp_path / "root", tmp_path / "disk.qcow2")
    assert ["partx", "--delete", "/dev/loop77"] in done
    assert done[-1] == ["losetup", "--detach", "/dev/loop77"]
    mounted = failing in ("cp", "unshare")
    assert (["umount", str(tmp_path / "disk.mnt")] in done) is mounted


@pytest.mark.parametrize("mirror", ["deb http://x bookworm main", "-", "mirror.example.org"])
def test_a_mirror_that_cannot_have_backports_is_refused(tmp_path, monkeypatch, mirror):
    monkeypatch.setenv("HFPROV_LAB_MIRROR", mirror)
    with pytest.raises(LabError, match="address of a mirror"):
        vm_image._use_mirror(tmp_path, "bookworm")


def test_another_mirror_serves_everything(tmp_path, monkeypatch):
    monkeypatch.setenv("HFPROV_LAB_MIRROR", "http://mirror.example.org/debian")
    vm_image._use_mirror(tmp_path, "bookworm")
    assert (tmp_path / "etc/apt/sources.list").read_text().splitlines() == [
        "deb http://mirror.example.org/debian bookworm main",
        "deb http://mirror.example.org/debian bookworm-backports main",
    ]


def test_backports_are_there_only_when_asked_for(tmp_path):
    (tmp_path / "Packages").write_bytes(b"Package: x\n")
    vm_image._write_release(tmp_path, "bookworm-backports")
    release = (tmp_path / "Release").read_text().splitlines()
    assert "NotAutomatic: yes" in release
    assert "ButAutomaticUpgrades: yes" in release
    assert release[-1].split()[1:] == ["11", "Packages"]
