"""Nodes as systemd-nspawn containers over an overlay file system.

A whole systemd in half a second and 20 MiB. Kernel, interrupts and hardware belong to the machine;
a node has its own network.

Every process of a node is in a control group that carries the rack's name. That group, not a
remembered process id, says what belongs to us.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from hfprov.errors import LabError
from hfprov.lab import control_groups, network
from hfprov.lab.engine import NodeFile
from hfprov.lab.host import (
    MIB,
    Room,
    mountpoints_below,
    require_kernel,
    require_tools,
    run,
)
from hfprov.lab.image import Image, Recipe, Say, ensure_image, find_image
from hfprov.lab.state import NetworkStack, NodeSpec, RackPaths, RackState

_KEEPER = Path(__file__).with_name("run_node.sh")
_NODE_ENVIRONMENT = [
    "env",
    "-i",
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG=C.UTF-8",
    "DEBIAN_FRONTEND=noninteractive",
]


class ContainerEngine:
    """Implements :class:`~hfprov.lab.engine.Engine`."""

    name = "container"
    # An idle node takes 14-20 MiB of memory and 8 MiB of disk; converging nodes and the packages
    # that roles install come on top.
    room = Room(memory=60 * MIB, disk=120 * MIB, image_disk=1500 * MIB)
    ready_deadline = 60.0

    def __init__(self, lab: Path, paths: RackPaths) -> None:
        if set(":,\\") & set(f"{lab}{paths.directory}"):
            raise LabError(
                "The path of a practice rack must not contain ':', ',' or a backslash: overlay "
                f"mounts do not take them ('{paths.directory}')."
            )
        self._lab = lab
        self._paths = paths

    def require_host(self) -> None:
        require_tools()
        require_kernel()

    def find_image(self, suite: str) -> str | None:
        image = find_image(self._lab, Recipe(suite))
        return image.directory.name if image else None

    def prepare(self, suite: str, say: Say) -> str:
        return ensure_image(self._lab, Recipe(suite), say).directory.name

    def start(self, state: RackState, node: NodeSpec, files: dict[str, NodeFile]) -> None:
        home = self._paths.node(node)
        root = home / "root"
        ready = home / "filled"
        for directory in (root, home / "upper", home / "work"):
            directory.mkdir(parents=True, exist_ok=True)
        if root not in mountpoints_below(home):
            self._mount(state, node, home)
        if not ready.exists():
            _fill(root, files)
            ready.touch()
        own, groups = _groups(state, node)
        for group in (*own, *groups):
            group.mkdir(parents=True, exist_ok=True)
        argv = [
            str(_KEEPER),
            network.namespace(state.rack_id),
            " ".join(f"{port}={bridge}={mtu}" for port, bridge, mtu, _ in _ports(node)),
            " ".join(map(str, own)),
            " ".join(map(str, groups)),
            *_nspawn(state, node, root),
        ]
        with (home / "console.log").open("ab") as log:
            # A session of its own: Ctrl-C in the terminal is for us, not for the node.
            subprocess.Popen(  # run_node.sh ends with the node; discard() ends both
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
                env={**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"},
            )

    def is_running(self, state: RackState, node: NodeSpec) -> bool:
        return _init_process(state, node) is not None

    def execute(
        self, state: RackState, node: NodeSpec, argv: list[str], *, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        init = _init_process(state, node)
        if init is None:
            raise LabError(f"'{node.name}' is not running.", hint="hfprov lab up")
        # --root: from within a chroot, the mount namespace alone leads to the machine's own root.
        enter = ["nsenter", f"--target={init}", "--all", "--root", "--wd", "--"]
        try:
            return subprocess.run(
                [*enter, *_NODE_ENVIRONMENT, *argv],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise LabError(
                f"A command in '{node.name}' did not end within {timeout:g} s."
            ) from error

    def discard(self, state: RackState, node: NodeSpec) -> None:
        own, groups = _groups(state, node)
        # The keeper first, or it would start the node again. A node that is thrown away needs no
        # orderly shutdown, and its init takes every process of the node with it.
        for group in (*own, *groups):
            control_groups.end(group)
        self._delete_disk(self._paths.node(node))
        _remove_traces(_machine(state, node))

    def discard_rack(self, rack_id: str) -> None:
        for group in control_groups.rack_groups(rack_id):
            control_groups.end(group)
        if self._paths.nodes.is_dir():
            for home in self._paths.nodes.iterdir():
                self._delete_disk(home)
        _remove_traces(f"{network.namespace(rack_id)}-*")

    def _delete_disk(self, home: Path) -> None:
        lock = _nspawn_lock(home / "root")
        for point in mountpoints_below(home):
            run(["umount", point], timeout=30)
        if mountpoints_below(home):
            raise LabError(f"Something is still mounted below '{home}'; nothing was deleted there.")
        if home.exists():
            shutil.rmtree(home)
        lock.unlink(missing_ok=True)

    def _mount(self, state: RackState, node: NodeSpec, home: Path) -> None:
        image = Image(self._lab / "images" / state.image)
        if not image.root.is_dir():
            raise LabError(
                f"The image '{image.directory}' of this rack is gone.",
                hint="hfprov lab down, then up again.",
            )
        layers = ["chrony"] if node.is_service else []
        if node.network is NetworkStack.IFUPDOWN:
            layers.append("ifupdown")
        lower = ":".join(map(str, image.lower_directories(*layers)))
        options = f"lowerdir={lower},upperdir={home / 'upper'},workdir={home / 'work'}"
        run(["mount", "-t", "overlay", "-o", options, "overlay", home / "root"], timeout=30)


def _machine(state: RackState, node: NodeSpec) -> str:
    return f"{network.namespace(state.rack_id)}-{node.name}"


def _remove_traces(machines: str) -> None:
    """Delete the empty directories that nspawn makes for each machine and leaves when killed."""
    for leftover in Path("/run/systemd/nspawn").glob(f"*/{machines}"):
        leftover.rmdir()


def _nspawn_lock(root: Path) -> Path:
    """What nspawn leaves behind for a root directory when it is killed."""
    try:
        status = root.stat()
    except FileNotFoundError:
        return Path("/nonexistent")
    return Path(f"/run/systemd/nspawn/locks/inode-{status.st_dev}:{status.st_ino}")


def _ports(node: NodeSpec) -> list[tuple[str, str, int, str]]:
    """Each cable: port name in the rack's namespace, bridge, MTU, name in the node."""
    tag = f"{node.index:02d}"
    ports = [(f"m{tag}", network.MANAGEMENT_BRIDGE, network.MANAGEMENT_MTU, "eth0")]
    if not node.is_service:
        ports.append((f"d{tag}", network.DATA_BRIDGE, network.DATA_MTU, "eth1"))
    return ports


def _nspawn(state: RackState, node: NodeSpec, root: Path) -> list[str]:
    return [
        "systemd-nspawn",
        "--quiet",
        "--boot",
        f"--directory={root}",
        f"--machine={_machine(state, node)}",
        f"--hostname={node.name}",
        *(f"--network-veth-extra={port}:{inside}" for port, _, _, inside in _ports(node)),
        "--keep-unit",
        "--register=no",
        "--console=pipe",
        "--resolv-conf=off",
        "--timezone=off",
        "--link-journal=no",
        # What runc needs to start a container in a node: keyrings, and bpf for its devices.
        "--system-call-filter=@keyring bpf",
    ]


def _fill(root: Path, files: dict[str, NodeFile]) -> None:
    for name, file in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.touch(mode=0o600)
        path.write_text(file.content, encoding="utf-8")
        path.chmod(file.mode)


def _groups(state: RackState, node: NodeSpec) -> tuple[list[Path], list[Path]]:
    """Control groups of the keeper and of the node itself, one per hierarchy, cgroup2 first."""
    return (
        control_groups.node_groups(state.rack_id, f"{node.name}.keeper"),
        control_groups.node_groups(state.rack_id, node.name),
    )


def _init_process(state: RackState, node: NodeSpec) -> int | None:
    """The node's process 1, seen from here: the process that is number 1 in its innermost space."""
    group = control_groups.node_group(state.rack_id, node.name)
    if group is None:
        return None
    for procs in (group / "payload/init.scope", group / "payload", group):
        for pid in control_groups.processes(procs):
            if _innermost_pid(pid) == 1:
                return pid
    return None


def _innermost_pid(pid: int) -> int | None:
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    for line in status.splitlines():
        if line.startswith("NSpid:"):
            numbers = line.split()[1:]
            return int(numbers[-1]) if len(numbers) > 1 else None
    return None
