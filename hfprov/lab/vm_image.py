"""The disk that practice virtual machines share: built once on top of the containers' image.

It has what a container needs none of: a kernel, an initial file system, GRUB on a partitioned disk
and QEMU's guest agent; and one more local repository, with a newer kernel from backports.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from hfprov.errors import LabError
from hfprov.lab.host import run
from hfprov.lab.image import (
    MIRROR_VARIABLE,
    Image,
    Recipe,
    Say,
    build_once,
    ensure_image,
    in_root,
    write_repository,
)
from hfprov.lab.vm_disk import make_disk
from hfprov.lab.vm_kernel import shrink

KERNEL_REPOSITORY = "srv/hfprov-lab/kernel"
BACKPORTS_REPOSITORY = "srv/hfprov-lab/backports"
DISK = "disk.qcow2"
SUITES = ("bookworm",)

_PACKAGES = (
    "initramfs-tools zstd e2fsprogs fdisk pciutils qemu-guest-agent "
    # There before any role comes, as on many nodes: an emulated one takes a minute to install them.
    "ethtool irqbalance perftest rdma-core ibverbs-utils"
)
_DEFAULT_MIRROR = "http://deb.debian.org/debian"
_DEFAULT_SECURITY = "http://deb.debian.org/debian-security"
_WORK = "var/tmp/hfprov-lab"
_APT_INSTALL = ["apt-get", "-q", "-y", "--no-install-recommends", "install"]
_INITIAL_MODULES = "virtio_pci virtio_blk ext4 virtio_net igb e1000e virtio_console nvme"
_MODULE_OPTIONS = "".join(
    f"install {name} /sbin/modprobe --all --quiet virtio_pci virtio_net; "
    f"/sbin/modprobe --ignore-install {name} $CMDLINE_OPTS\n"
    for name in ("igb", "e1000e")
)
"""udev loads drivers in any order, and the management NIC must be found first to become eth0.

Not by a 'softdep': with that 'modprobe -r igb' unloads virtio_pci as well, and takes the disk away.
"""
_KERNEL_ARGUMENTS = (
    # What an emulated processor has no time for. SYSTEMD_SECCOMP reaches systemd's environment.
    "mitigations=off SYSTEMD_SECCOMP=0 loglevel=4 nokaslr cryptomgr.notests nowatchdog "
    # Now and then the emulated timer of a halted processor seems to get lost, and all wait for
    # that processor; where the timer ticks on, the next tick mends it.
    "nohz=off highres=off "
    # Nor can it keep to the minute and a half that starting a service or finding a disk may take.
    "systemd.default_timeout_start_sec=900 systemd.mask=serial-getty@ttyS0.service "
    "systemd.mask=e2scrub_reap.service"
)


@dataclass(frozen=True, slots=True)
class VmRecipe:
    """What a virtual machine's disk is made of. The same recipe names the same directory."""

    base: Recipe
    packages: tuple[str, ...] = tuple(_PACKAGES.split())
    kernel_arguments: str = _KERNEL_ARGUMENTS
    initial_modules: str = _INITIAL_MODULES
    module_options: str = _MODULE_OPTIONS
    revision: int = 1
    """Raised when the code below makes something else of the same lists."""

    @property
    def name(self) -> str:
        digest = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()
        return f"vm-{self.base.suite}-{digest[:12]}"


def ensure_vm_image(lab: Path, recipe: VmRecipe, say: Say) -> Path:
    """Return the image directory of ``recipe``, building it first when it is not in the cache.

    Raises :class:`LabError` when the suite has none or the build fails.
    """
    if recipe.base.suite not in SUITES:
        raise LabError(
            f"There are no virtual machines of '{recipe.base.suite}' yet.",
            hint=f"One of {', '.join(SUITES)}.",
        )
    base = ensure_image(lab, recipe.base, say)
    return build_once(lab / "images", recipe.name, lambda to: _build(to, base, recipe, say))


def _build(building: Path, base: Image, recipe: VmRecipe, say: Say) -> None:
    say("Building the disk of the virtual machines (once, two to five minutes) ...")
    with _writable(base, building) as root:
        _use_mirror(root, recipe.base.suite)
        in_root(root, ["apt-get", "-q", "update"], network=True)
        say("Cutting down kernel packages ...")
        _kernel_repositories(root, recipe.base.suite)
        say("Installing kernel and boot loader ...")
        in_root(root, [*_APT_INSTALL, *recipe.packages], network=True)
        _configure(root, recipe)
        kernels = [f"/{KERNEL_REPOSITORY}/{deb.name}" for deb in
                   (root / KERNEL_REPOSITORY).glob("*.deb")]  # fmt: skip
        in_root(root, [*_APT_INSTALL, *sorted(kernels)], network=True)
        # After the kernel, which would want to write a menu for a disk that is not there yet.
        in_root(root, [*_APT_INSTALL, "grub-pc"], network=True)
        _use_local_repositories(root)
        say("Writing the disk ...")
        make_disk(root, building / DISK)


@contextmanager
def _writable(base: Image, building: Path) -> Iterator[Path]:
    """The containers' root file system, with what is written kept out of it."""
    upper, work, merged = (building / name for name in ("upper", "work", "merged"))
    for directory in (upper, work, merged):
        directory.mkdir()
    options = f"lowerdir={base.root},upperdir={upper},workdir={work}"
    run(["mount", "-t", "overlay", "-o", options, "overlay", merged], timeout=30)
    try:
        yield merged
    finally:
        run(["umount", merged], timeout=60)
    merged.rmdir()
    shutil.rmtree(work)
    shutil.rmtree(upper)


def _use_mirror(root: Path, suite: str) -> None:
    mirror = os.environ.get(MIRROR_VARIABLE) or _DEFAULT_MIRROR
    if "://" not in mirror or " " in mirror:
        raise LabError(
            f"{MIRROR_VARIABLE} is '{mirror}', and virtual machines need the address of a mirror "
            "that has backports as well.",
            hint=f"For example {MIRROR_VARIABLE}={_DEFAULT_MIRROR}",
        )
    lines = [f"deb {mirror} {name} main\n" for name in (suite, f"{suite}-backports")]
    if mirror == _DEFAULT_MIRROR:
        lines.append(f"deb {_DEFAULT_SECURITY} {suite}-security main\n")
    _write(root / "etc/apt/sources.list", "".join(lines))
    _write(root / "etc/resolv.conf", Path("/etc/resolv.conf").read_text(encoding="utf-8"))
    _write(root / "usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n", mode=0o755)


def _use_local_repositories(root: Path) -> None:
    """Leave the root file system as a node finds it, with nothing but local packages."""
    for name, mode in (("etc/resolv.conf", "# No resolver.\n"), ("etc/machine-id", "")):
        _write(root / name, mode)
    (root / "usr/sbin/policy-rc.d").unlink()
    repositories = [*(root / "srv/hfprov-lab").iterdir()]
    sources = [f"deb [trusted=yes] file:/srv/hfprov-lab/{r.name} ./\n" for r in repositories]
    _write(root / "etc/apt/sources.list", "".join(sorted(sources)))
    shutil.rmtree(root / "var/lib/apt/lists")
    in_root(root, ["apt-get", "-q", "clean"])
    in_root(root, ["apt-get", "-q", "update"])


def _kernel_repositories(root: Path, suite: str) -> None:
    for repository, release in ((KERNEL_REPOSITORY, suite),
                                (BACKPORTS_REPOSITORY, f"{suite}-backports")):  # fmt: skip
        downloads, small = root / _WORK / "downloads", root / _WORK / "small"
        for directory in (downloads, small):
            directory.mkdir(parents=True)
        get = f"cd /{_WORK}/downloads && apt-get -q -t {release} download"
        in_root(root, ["sh", "-c", f"{get} linux-image-amd64"], network=True)
        [meta] = downloads.glob("*.deb")
        needs = run(["dpkg-deb", "--field", meta, "Depends"], timeout=30)
        in_root(root, ["sh", "-c", f'{get} "$1"', "sh", needs.split()[0]], network=True)
        for deb in sorted(downloads.glob("*.deb")):
            shrink(deb, small, partial(_depmod, root))
        write_repository(small, root / repository)
        shutil.rmtree(root / _WORK)
    _write_release(root / BACKPORTS_REPOSITORY, f"{suite}-backports")


def _depmod(root: Path, tree: Path, release: str) -> None:
    in_root(root, ["depmod", "-b", f"/{tree.relative_to(root)}", release])


def _write_release(repository: Path, suite: str) -> None:
    """What makes apt treat backports as it does on real nodes: only when asked."""
    packages = (repository / "Packages").read_bytes()
    _write(
        repository / "Release",
        f"Origin: Debian Backports\nLabel: Debian Backports\nSuite: {suite}\nCodename: {suite}\n"
        "NotAutomatic: yes\nButAutomaticUpgrades: yes\n"
        f"SHA256:\n {hashlib.sha256(packages).hexdigest()} {len(packages)} Packages\n",
    )


def _configure(root: Path, recipe: VmRecipe) -> None:
    modules = "".join(f"{name}\n" for name in recipe.initial_modules.split())
    files = {
        "etc/initramfs-tools/conf.d/hfprov-lab": "MODULES=list\nCOMPRESS=zstd\nCOMPRESSLEVEL=1\n",
        "etc/initramfs-tools/modules": modules,
        "etc/modprobe.d/hfprov-lab.conf": recipe.module_options,
        "etc/default/grub.d/hfprov-lab.cfg": (
            "GRUB_TIMEOUT=1\nGRUB_TERMINAL=serial\nGRUB_CMDLINE_LINUX_DEFAULT=\n"
            'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX console=ttyS0 '
            f'{recipe.kernel_arguments}"\n'
        ),
        # The kernel's names are those that containers have as well.
        "etc/systemd/network/99-default.link": "[Match]\nOriginalName=*\n\n[Link]\nNamePolicy=\n",
    }
    for name, text in files.items():
        _write(root / name, text)
    # Only until a node gets its own: without any, the server fails at the first start.
    key = "/etc/ssh/ssh_host_ed25519_key"
    in_root(root, ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key])


def _write(path: Path, text: str, *, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
