"""The root file system that practice nodes share: built once, kept in a cache.

An image directory holds ``root`` (the base), one ``layer-NAME`` per extra package set laid over it,
and inside the base a flat apt repository, because nodes have no way out to a mirror.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from hfprov.errors import LabError
from hfprov.lab.host import mountpoints_below, run

Say = Callable[[str], None]

SUITES = ("bookworm", "trixie")
REPOSITORY = "srv/hfprov-lab/apt"
MIRROR_VARIABLE = "HFPROV_LAB_MIRROR"

_BASE_PACKAGES = (
    "dbus iproute2 iputils-ping kmod netbase openssh-server procps python3 python3-apt sudo "
    "systemd systemd-sysv udev"
)
_REPOSITORY_PACKAGES = (
    "auditd busybox-static chrony containerd crun dmidecode docker.io ethtool fio ibverbs-utils "
    "ifupdown infiniband-diags initramfs-tools iperf3 ipmitool irqbalance jq linux-cpupower lldpd "
    "lm-sensors lshw mstflint netplan.io network-manager nftables ntpsec numactl nvme-cli "
    "openntpd pciutils perftest podman rdma-core runc smartmontools stress-ng sysstat "
    "systemd-timesyncd tcpdump unattended-upgrades"
)
_BUILD_DEADLINE = 1800.0
_STEP_DEADLINE = 300.0


@dataclass(frozen=True, slots=True)
class Recipe:
    """What an image is made of. The same recipe always names the same image directory."""

    suite: str = "bookworm"
    packages: tuple[str, ...] = tuple(_BASE_PACKAGES.split())
    repository: tuple[str, ...] = tuple(_REPOSITORY_PACKAGES.split())
    layers: tuple[str, ...] = ("chrony", "ifupdown")
    revision: int = 1
    """Raised when the code below makes something else of the same lists."""

    @property
    def name(self) -> str:
        digest = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()
        return f"{self.suite}-{digest[:12]}"


@dataclass(frozen=True, slots=True)
class Image:
    """A finished image on disk. Never written to: nodes lay their own directory over it."""

    directory: Path

    @property
    def root(self) -> Path:
        return self.directory / "root"

    def lower_directories(self, *layers: str) -> list[Path]:
        """Overlay ``lowerdir`` entries, topmost first."""
        return [*(self.directory / f"layer-{layer}" for layer in layers), self.root]


def find_image(lab: Path, recipe: Recipe) -> Image | None:
    """The image of this recipe when it was built before."""
    directory = lab / "images" / recipe.name
    return Image(directory) if directory.is_dir() else None


def ensure_image(lab: Path, recipe: Recipe, say: Say) -> Image:
    """Return the image of ``recipe``, building it first when it is not in the cache.

    Two callers at once build once. Raises :class:`LabError` when the suite is not known or the
    build fails; a failed build leaves nothing behind.
    """
    if recipe.suite not in SUITES:
        raise LabError(
            f"There is no recipe for the suite '{recipe.suite}'.",
            hint=f"One of {', '.join(SUITES)}.",
        )

    def build(building: Path) -> None:
        say(f"Building the {recipe.suite} image (once, about a minute) ...")
        _build(building, recipe, say)

    return Image(build_once(lab / "images", recipe.name, build))


def build_once(images: Path, name: str, build: Callable[[Path], None]) -> Path:
    """Return the directory ``name`` below ``images``; ``build`` fills it when it is not there.

    Two callers at once build once; a failed build leaves nothing behind.
    """
    images.mkdir(parents=True, exist_ok=True)
    if (images / name).is_dir():  # then nobody waits for what is being built beside it
        return images / name
    with _build_lock(images):
        if (images / name).is_dir():
            return images / name
        _remove_abandoned_builds(images)
        building = Path(tempfile.mkdtemp(prefix=".building-", dir=images))
        try:
            building.chmod(0o755)
            build(building)
            building.rename(images / name)
        except BaseException:
            _remove_abandoned_builds(images)
            raise
    return images / name


@contextmanager
def _build_lock(images: Path) -> Iterator[None]:
    with (images / ".lock").open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _remove_abandoned_builds(images: Path) -> None:
    """Only ever called under the build lock, so no build directory can be in use."""
    for leftover in images.glob(".building-*"):
        for point in mountpoints_below(leftover):
            run(["umount", point], timeout=30)
        shutil.rmtree(leftover)


def _build(building: Path, recipe: Recipe, say: Say) -> None:
    root = building / "root"
    debs = building / "debs"
    debs.mkdir()
    hook = Path(__file__).with_name("download_debs.sh")
    mirror = os.environ.get(MIRROR_VARIABLE)
    run(
        [
            "mmdebstrap",
            "--mode=root",
            "--variant=minbase",
            f"--include={','.join(recipe.packages)}",
            "--aptopt=APT::Install-Recommends false",
            "--aptopt=Acquire::Languages none",
            "--dpkgopt=path-exclude=/usr/share/man/*",
            "--dpkgopt=path-exclude=/usr/share/locale/*",
            f"--customize-hook={hook}",
            recipe.suite,
            root,
            *([mirror] if mirror else []),
        ],
        timeout=_BUILD_DEADLINE,
        env={"HFPROV_DEBS": str(debs), "HFPROV_PACKAGES": " ".join(recipe.repository)},
    )
    say("Writing the local package repository ...")
    write_repository(debs, root / REPOSITORY)
    debs.rmdir()
    _configure(root)
    in_root(root, ["apt-get", "-q", "update"])
    # Packages must not start their services in here.
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n", encoding="ascii")
    policy.chmod(0o755)
    for layer in recipe.layers:
        say(f"Installing the layer '{layer}' ...")
        _build_layer(building, layer)
    policy.unlink()


def write_repository(debs: Path, repository: Path) -> None:
    """Move packages into a flat apt repository and index it (deb822, as apt-ftparchive does)."""
    repository.mkdir(parents=True)
    entries = []
    for deb in sorted(debs.glob("*.deb")):
        control = run(["dpkg-deb", "--field", deb], timeout=60).rstrip("\n")
        content = deb.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        entries.append(
            f"{control}\nFilename: ./{deb.name}\nSize: {len(content)}\nSHA256: {digest}\n"
        )
        shutil.move(deb, repository / deb.name)
    if not entries:
        raise LabError("No packages were downloaded for the nodes' local repository.")
    (repository / "Packages").write_text("\n".join(entries), encoding="utf-8")


def _configure(root: Path) -> None:
    files = {
        # trusted=yes: the packages were verified by the mirror's signature when they were
        # downloaded, and this directory is part of the node's own root file system.
        "etc/apt/sources.list": f"deb [trusted=yes] file:/{REPOSITORY} ./\n",
        "etc/apt/apt.conf.d/90hfprov-lab": 'Acquire::Languages "none";\n',
        # A node lives for minutes: no need to wait for the disk.
        "etc/dpkg/dpkg.cfg.d/90hfprov-lab": "force-unsafe-io\n",
        "etc/resolv.conf": "# No resolver: an unreachable one makes every look-up wait.\n",
        "etc/machine-id": "",
        "etc/fstab": "",
    }
    for name, text in files.items():
        path = root / name
        path.unlink(missing_ok=True)
        path.write_text(text, encoding="utf-8")
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    units = root / "etc/systemd/system"
    # Timers that wake every node at the same second, and consoles that do not exist.
    for unit in (
        "apt-daily.timer",
        "apt-daily-upgrade.timer",
        "dpkg-db-backup.timer",
        "e2scrub_all.timer",
        "fstrim.timer",
        "console-getty.service",
    ):
        (units / unit).unlink(missing_ok=True)
        (units / unit).symlink_to("/dev/null")
    # By hand: 'systemctl enable' would enable networkd-wait-online as well.
    wanted = units / "multi-user.target.wants/systemd-networkd.service"
    wanted.unlink(missing_ok=True)
    wanted.symlink_to("/lib/systemd/system/systemd-networkd.service")


def _build_layer(building: Path, package: str) -> None:
    layer, work, merged = (building / name for name in (f"layer-{package}", "work", "merged"))
    for directory in (layer, work, merged):
        directory.mkdir()
    options = f"lowerdir={building / 'root'},upperdir={layer},workdir={work}"
    run(["mount", "-t", "overlay", "-o", options, "overlay", merged], timeout=30)
    try:
        in_root(merged, ["apt-get", "-q", "-y", "--no-install-recommends", "install", package])
    finally:
        run(["umount", merged], timeout=30)
    shutil.rmtree(work)
    merged.rmdir()


def in_root(root: Path, argv: list[str], *, network: bool = False) -> None:
    """Run a command in a root file system, in process and network spaces that end with it.

    With ``network`` it can reach what this machine reaches, a mirror for instance.
    """
    run(
        [
            *("unshare", "--mount", "--pid", "--fork", "--kill-child", f"--mount-proc={root}/proc"),
            *(() if network else ("--net",)),
            *("chroot", root, "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"),
            *("DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8", *argv),
        ],
        timeout=_STEP_DEADLINE,
    )
