"""What the practice rack asks of the machine it runs on, and how it runs commands there."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hfprov.errors import LabError
from hfprov.words import plural

LAB_DIR_VARIABLE = "HFPROV_LAB_DIR"
DEFAULT_LAB_DIR = Path("/var/cache/hfprov/lab")

TOOLS = {
    "dpkg-deb": "dpkg",
    "ip": "iproute2",
    "mmdebstrap": "mmdebstrap",
    "mount": "mount",
    "nsenter": "util-linux",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "systemd-nspawn": "systemd-container",
    "unshare": "util-linux",
}
"""Command -> Debian package that has it."""

_CAP_SYS_RESOURCE = 24  # linux/capability.h

MIB = 1024 * 1024
MEMORY_RESERVE = 512 * MIB


@dataclass(frozen=True, slots=True)
class Room:
    """What nodes take of the machine, in bytes: each node, and once for building their image."""

    memory: int
    disk: int
    image_disk: int


def lab_dir() -> Path:
    """Where images and, unless told otherwise, the rack live."""
    return Path(os.environ.get(LAB_DIR_VARIABLE) or DEFAULT_LAB_DIR).absolute()


def run(
    argv: Sequence[str | Path],
    *,
    timeout: float,
    env: dict[str, str] | None = None,
    stdin: str = "",
) -> str:
    """Run a command to its end and return its standard output.

    ``timeout`` is in seconds. Raises :class:`LabError` when the command is missing, fails or takes
    too long; the message ends with what the command said.
    """
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words,
            input=stdin,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            env=None if env is None else {**os.environ, **env},
            check=False,
        )
    except FileNotFoundError as error:
        package = TOOLS.get(words[0], words[0])
        raise LabError(
            f"The command '{words[0]}' is not installed.", hint=f"apt-get install {package}"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise LabError(f"'{' '.join(words)}' did not end within {timeout:g} s.") from error
    if done.returncode != 0:
        said = printable((done.stderr or done.stdout).strip()[-800:])
        raise LabError(f"'{' '.join(words)}' failed with exit code {done.returncode}: {said}")
    return done.stdout


def printable(text: str) -> str:
    """Keep a node's output from steering the terminal it is shown on."""
    return "".join(
        char if char.isprintable() or char == "\n" else "\N{REPLACEMENT CHARACTER}" for char in text
    )


def require_root() -> None:
    """Raise :class:`LabError` unless this process is root."""
    if os.geteuid() != 0:
        raise LabError(
            "A practice rack needs root: it mounts file systems and creates network interfaces.",
            hint="Run the same command with sudo.",
        )


def may_raise_limits() -> bool:
    """Whether root may raise hard limits here (CAP_SYS_RESOURCE in the bounding set)."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("CapBnd:"):
            return bool(int(line.split()[1], 16) >> _CAP_SYS_RESOURCE & 1)
    return False


def require_tools(tools: Mapping[str, str] = TOOLS) -> None:
    """Raise :class:`LabError` naming the packages to install when a command is missing.

    ``tools`` maps each command to the Debian package that has it.
    """
    missing = sorted(tool for tool in tools if shutil.which(tool) is None)
    if missing:
        packages = " ".join(sorted({tools[tool] for tool in missing}))
        raise LabError(
            f"A practice rack needs commands that are not installed: {', '.join(missing)}.",
            hint=f"apt-get install --no-install-recommends {packages}",
        )


def require_kernel() -> None:
    """Raise :class:`LabError` saying which kernel feature or privilege is missing.

    Tries each feature in namespaces that vanish with the attempt.
    """
    features = {
        "mount and network namespaces": ["true"],
        "network bridges": ["ip", "link", "add", "hfptry", "type", "bridge"],
        "veth pairs": ["ip", "link", "add", "hfptry", "type", "veth", "peer", "name", "hfptry2"],
    }
    for feature, attempt in features.items():
        try:
            run(["unshare", "--mount", "--net", *attempt], timeout=10)
        except LabError as error:
            raise LabError(
                f"This machine does not let us use {feature}: {error.message}",
                hint="Containers need CAP_SYS_ADMIN and CAP_NET_ADMIN; otherwise use a machine "
                "or a virtual machine of your own.",
            ) from error
    if not _has_overlay():
        raise LabError("This kernel has no 'overlay' file system.", hint="modprobe overlay")
    if cgroup2_root() is None:
        raise LabError(
            "No cgroup2 hierarchy is mounted, so node processes cannot be kept track of."
        )


def require_room(directory: Path, room: Room, *, new_nodes: int, build_image: bool) -> None:
    """Raise :class:`LabError` when memory or disk will not do for ``new_nodes`` more nodes."""
    memory = room.memory * new_nodes + MEMORY_RESERVE
    free = _available_memory()
    if free < memory:
        raise LabError(
            f"For {plural(new_nodes, 'more node')} about {memory // MIB} MiB of memory are "
            f"needed, and {free // MIB} MiB are available.",
            hint="Ask for fewer nodes.",
        )
    disk = room.disk * new_nodes + (room.image_disk if build_image else 0)
    free = shutil.disk_usage(_existing(directory)).free
    if free < disk:
        raise LabError(
            f"For {plural(new_nodes, 'more node')} about {disk // MIB} MiB of disk are needed "
            f"below '{directory}', and {free // MIB} MiB are free.",
            hint=f"Set {LAB_DIR_VARIABLE} to a directory on a larger file system.",
        )


def hand_to_invoking_user(*trees: Path) -> None:
    """Give files to the user who called sudo, so that Ansible can run without it."""
    uid, gid = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    if os.geteuid() != 0 or not (uid.isdigit() and gid.isdigit()):
        return
    for tree in trees:
        for path in (tree, *tree.rglob("*")):
            os.chown(path, int(uid), int(gid), follow_symlinks=False)


def cgroup2_root() -> Path | None:
    """The mountpoint of the cgroup2 hierarchy, on pure and on hybrid hosts."""
    return next((point for kind, point, _ in _cgroup_mounts() if kind == "cgroup2"), None)


def cgroup_roots() -> list[Path]:
    """Every hierarchy a node must be moved into: cgroup2 first.

    On hybrid hosts systemd-nspawn also needs the ``name=systemd`` one, and leaving the caller's
    memory group keeps nodes alive when whatever called us is cleaned up.
    """
    mounts = _cgroup_mounts()
    legacy = [
        point
        for kind, point, options in mounts
        if kind == "cgroup" and options & {"name=systemd", "memory"}
    ]
    return [point for kind, point, _ in mounts if kind == "cgroup2"] + legacy


def mountpoints_below(directory: Path) -> list[Path]:
    """Mountpoints at or below ``directory``, deepest first."""
    points = [Path(_unescape(line.split()[4])) for line in _mountinfo()]
    inside = [point for point in points if point == directory or directory in point.parents]
    return sorted(inside, key=lambda point: len(point.parts), reverse=True)


def _cgroup_mounts() -> list[tuple[str, Path, set[str]]]:
    """Kind, mountpoint and options of each hierarchy, once: a chroot may have it bound again."""
    found: dict[tuple[str, str], tuple[str, Path, set[str]]] = {}
    for line in _mountinfo():
        left, _, right = line.partition(" - ")
        kind, _source, options = right.split()[:3]
        if kind in ("cgroup", "cgroup2"):
            point = Path(_unescape(left.split()[4]))
            found.setdefault((kind, options), (kind, point, set(options.split(","))))
    return list(found.values())


def _mountinfo() -> list[str]:
    return Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()


def _unescape(field: str) -> str:
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, char)
    return field


def _has_overlay() -> bool:
    def listed() -> bool:
        return "\toverlay\n" in Path("/proc/filesystems").read_text(encoding="ascii")

    if not listed() and shutil.which("modprobe"):
        subprocess.run(["modprobe", "overlay"], check=False, capture_output=True, timeout=20)
    return listed()


def _available_memory() -> int:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise LabError("The kernel does not say how much memory is available.")


def _existing(path: Path) -> Path:
    return path if path.exists() else _existing(path.parent)
