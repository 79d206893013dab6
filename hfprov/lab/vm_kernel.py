"""Kernel packages cut down to what a virtual machine needs.

An emulated processor takes minutes to unpack and index the 4,000 modules of a stock kernel. The
packages made here have the same names, versions, scripts and kernel image and a tenth of the
modules, uncompressed.
"""

from __future__ import annotations

import lzma
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from hfprov.errors import LabError
from hfprov.lab.host import run

_STEP_DEADLINE = 300.0
_XZ = ".xz"

_WANTED = (
    "arch/x86",
    "crypto",
    "drivers/block/loop",
    "drivers/block/virtio_blk",
    "drivers/char/hw_random",
    "drivers/char/ipmi",
    "drivers/char/virtio_console",
    "drivers/cpufreq",
    "drivers/infiniband/core",
    "drivers/infiniband/sw/rxe",
    "drivers/net/bonding",
    "drivers/net/dummy",
    "drivers/net/ethernet/intel/e1000e",
    "drivers/net/ethernet/intel/igb",
    "drivers/net/macvlan",
    "drivers/net/tun",
    "drivers/net/veth",
    "drivers/net/virtio_net",
    "drivers/nvme/host",
    "drivers/virtio",
    "drivers/watchdog/i6300esb",
    "drivers/watchdog/softdog",
    "fs/autofs",
    "fs/binfmt_misc",
    "fs/configfs",
    "fs/efivarfs",
    "fs/ext4",
    "fs/fuse",
    "fs/nls",
    "fs/overlayfs",
    "fs/squashfs",
    "fs/fat",
    "lib",
    "net/8021q",
    "net/bridge",
    "net/core",
    "net/ipv4/netfilter",
    "net/ipv4/tcp_bbr",
    "net/ipv6/netfilter",
    "net/netfilter/nf",
    "net/netfilter/nft",
    "net/netfilter/x_tables",
    "net/netfilter/xt_",
    "net/sched/sch_fq",
    "net/tls",
    "net/unix",
)
"""Prefixes of module paths; what these depend on is kept as well."""

Depmod = Callable[[Path, str], None]
"""Writes ``modules.dep`` for the tree below a directory and a kernel release."""


def shrink(deb: Path, target: Path, depmod: Depmod) -> Path:
    """Write the small form of a kernel package into ``target`` and return its path.

    A package without modules is copied. Needs about 700 MiB beside ``deb`` for a while.
    """
    tree = deb.with_suffix(".tree")
    run(["dpkg-deb", "--raw-extract", deb, tree], timeout=_STEP_DEADLINE)
    for modules in [*tree.glob("lib/modules/*"), *tree.glob("usr/lib/modules/*")]:
        _prune(tree, modules, depmod)
        (tree / "DEBIAN/md5sums").unlink(missing_ok=True)  # optional; lists what is gone
        _set_installed_size(tree)
    small = target / deb.name
    run(
        ["dpkg-deb", "--root-owner-group", "-Znone", "--build", tree, small],
        timeout=_STEP_DEADLINE,
    )
    shutil.rmtree(tree)
    return small


def wanted_modules(modules_dep: str) -> set[str]:
    """Paths of the modules to keep, from the text of a ``modules.dep``.

    That file lists with each module everything it depends on, directly or not.
    """
    keep: set[str] = set()
    for line in modules_dep.splitlines():
        module, _, needs = line.partition(":")
        if module.removeprefix("kernel/").startswith(_WANTED):
            keep |= {module, *needs.split()}
    return keep


def _prune(tree: Path, modules: Path, depmod: Depmod) -> None:
    shipped = {path.name for path in modules.iterdir()}
    depmod(modules.parents[2], modules.name)
    keep = wanted_modules((modules / "modules.dep").read_text(encoding="utf-8"))
    if not keep:
        raise LabError(f"'{tree.name}' has none of the modules that a virtual machine needs.")
    for path in [*modules.iterdir()]:
        if path.name not in shipped:
            path.unlink()
    for module in _module_files(modules):
        if str(module.relative_to(modules)) not in keep:
            module.unlink()
        elif module.suffix == _XZ:
            module.with_suffix("").write_bytes(lzma.decompress(module.read_bytes()))
            module.unlink()
    for directory in sorted(modules.rglob("*/"), reverse=True):
        if directory.is_dir() and not any(directory.iterdir()):
            directory.rmdir()


def _module_files(modules: Path) -> Iterable[Path]:
    return [path for path in modules.rglob("*.ko*") if path.is_file()]


def _set_installed_size(tree: Path) -> None:
    size = sum(p.lstat().st_size for p in tree.rglob("*") if p.is_file() and not p.is_symlink())
    control = tree / "DEBIAN/control"
    lines = [
        f"Installed-Size: {size // 1024}" if line.startswith("Installed-Size:") else line
        for line in control.read_text(encoding="utf-8").splitlines()
    ]
    control.write_text("\n".join(lines) + "\n", encoding="utf-8")
