"""A bootable disk from a root file system: GPT, ext4, GRUB for a BIOS."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hfprov.lab.host import run

SIZE = "6G"
_BIOS_BOOT = "21686148-6449-6E6F-744E-656564454649"
_LINUX = "0FC63DAF-8483-4772-8E79-3D69D8477DE4"
_DEADLINE = 300.0

_INSTALL_BOOT_LOADER = """\
root=$1 disk=$2
for tree in dev proc sys; do mount --rbind "/$tree" "$root/$tree"; done
chroot "$root" grub-install --target=i386-pc --modules='part_gpt ext2' "$disk"
chroot "$root" update-grub
"""
"""In a mount namespace of its own, so that nothing stays mounted."""


def make_disk(root: Path, disk: Path) -> None:
    """Write a qcow2 disk that boots the root file system ``root`` (Debian with grub-pc).

    Needs root and loop devices; ``disk`` must not exist. Raises :class:`LabError`.
    """
    raw = disk.with_suffix(".raw")
    mountpoint = disk.with_suffix(".mnt")
    filesystem = str(uuid.uuid4())
    run(["truncate", f"--size={SIZE}", raw], timeout=30)
    layout = f"label: gpt\nsize=1MiB, type={_BIOS_BOOT}\ntype={_LINUX}\n"
    run(["sfdisk", "--quiet", raw], timeout=30, stdin=layout)
    mountpoint.mkdir()
    with _loop_device(raw) as device, _partition(device) as partition:
        # GRUB 2.06 cannot read what newer versions of mke2fs turn on.
        features = "^metadata_csum_seed,^orphan_file"
        now = "lazy_itable_init=0,lazy_journal_init=0"  # or the node does it while it is used
        _run("mkfs.ext4", "-q", "-U", filesystem, "-O", features, "-E", now, partition)
        _run("mount", "-t", "ext4", partition, mountpoint)
        try:
            _run("cp", "-a", "--one-file-system", f"{root}/.", mountpoint)
            fstab = f"UUID={filesystem} / ext4 errors=remount-ro 0 1\n"
            (mountpoint / "etc/fstab").write_text(fstab, encoding="ascii")
            _run("unshare", "--mount", "sh", "-eu", "-c", _INSTALL_BOOT_LOADER, "sh",
                 mountpoint, device)  # fmt: skip
            # There is no udev here whose links would make GRUB use the file system's UUID.
            menu = mountpoint / "boot/grub/grub.cfg"
            text = menu.read_text(encoding="utf-8")
            menu.write_text(
                text.replace(f"root={partition}", f"root=UUID={filesystem}"), encoding="utf-8"
            )
        finally:
            _run("umount", mountpoint)
    mountpoint.rmdir()
    _run("qemu-img", "convert", "-O", "qcow2", raw, disk)
    raw.unlink()


@contextmanager
def _loop_device(file: Path) -> Iterator[str]:
    device = _run("losetup", "--find", "--show", file).strip()
    try:
        yield device
    finally:
        _run("losetup", "--detach", device)


@contextmanager
def _partition(device: str) -> Iterator[str]:
    """The second partition of a device. By hand: not every kernel reads partition tables."""
    if not Path(f"{device}p2").exists():
        _run("partx", "--add", device)
    try:
        yield f"{device}p2"
    finally:
        _run("partx", "--delete", device)


def _run(*argv: str | Path) -> str:
    return run(argv, timeout=_DEADLINE)
