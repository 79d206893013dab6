"""Nodes as virtual machines: a kernel, interrupts, NUMA nodes and reboots of their own.

The rack's networks are the same as for containers, and the time server still is one.
"""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import tarfile
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path

from hfprov.errors import LabError
from hfprov.lab import control_groups, monitor, network
from hfprov.lab.container import ContainerEngine
from hfprov.lab.engine import NodeFile
from hfprov.lab.host import MIB, Room, printable, require_tools, run
from hfprov.lab.image import Recipe, Say
from hfprov.lab.qemu import (
    DATA_NIC,
    TOOLS,
    Accelerator,
    Machine,
    Place,
    ports,
)
from hfprov.lab.registry import socket_directory
from hfprov.lab.state import NodeSpec, RackPaths, RackState
from hfprov.lab.vm_image import VmRecipe, ensure_vm_image
from hfprov.lab.vm_power import await_agent, cut_power, switch_on
from hfprov.lab.vm_template import choose_machine, ensure_template

_AGENT_DEADLINE = 180.0
_FILL_DEADLINE = 600.0
_READY_DEADLINE = 900.0
"""Seconds. A start takes 35 when emulated on quiet cores, and ten times that beside other work."""

_FILL = """\
date -s "@$1" > /dev/null
tar -x -p -f - -C /
hostname "$(cat /etc/hostname)"
systemctl daemon-reload
systemctl restart systemd-networkd.service
systemctl restart ssh.service
if [ -e /etc/network/interfaces.d/eth1 ]; then
    apt-get -q -y --no-install-recommends install ifupdown > /dev/null
    grep -qs '^auto eth1' /run/network/ifstate || ifup eth1
fi
sync
"""


class VmEngine:
    """Implements :class:`~hfprov.lab.engine.Engine`."""

    name = "vm"
    room = Room(memory=1472 * MIB, disk=1500 * MIB, image_disk=5000 * MIB)
    ready_deadline = _READY_DEADLINE

    def __init__(self, lab: Path, paths: RackPaths) -> None:
        self._lab = lab
        self._paths = paths
        self._containers = ContainerEngine(lab, paths)
        self._say: Say = lambda _: None
        self._choice = threading.Lock()
        self._machine: Machine | None = None

    def require_host(self) -> None:
        require_tools(TOOLS)
        self._containers.require_host()
        if not Path("/dev/net/tun").exists():
            raise LabError("This machine has no '/dev/net/tun'.", hint="modprobe tun")

    def find_image(self, suite: str) -> str | None:
        name = VmRecipe(Recipe(suite)).name
        return name if (self._lab / "images" / name).is_dir() else None

    def prepare(self, suite: str, say: Say) -> str:
        self._say = say
        image = ensure_vm_image(self._lab, VmRecipe(Recipe(suite)), say)
        (image / "containers").write_text(self._containers.prepare(suite, say), encoding="utf-8")
        return image.name

    def start(self, state: RackState, node: NodeSpec, files: dict[str, NodeFile]) -> None:
        if node.is_service:
            self._containers.start(self._service(state), node, files)
            return
        place = self.place(state, node)
        filled = place.home / "filled"
        new = not filled.exists()
        machine = self._new_disk(state, place) if new else _remembered(place)
        groups = control_groups.node_groups(state.rack_id, node.name)
        for group in groups:
            group.mkdir(parents=True, exist_ok=True)
        for nic, (tap, queues) in ports(node.index, machine).items():
            _plug_in(state.rack_id, nic, tap, queues)
        namespace = network.namespace_file(state.rack_id)
        wrap = ["nsenter", f"--net={namespace}", "--"]
        switch_on(machine, place, restore=new, wrap=wrap, groups=groups)
        if new:
            await_agent(place, lambda: self.is_running(state, node), timeout=_AGENT_DEADLINE)
            _fill(place, node, files)
            filled.touch()

    def is_running(self, state: RackState, node: NodeSpec) -> bool:
        if node.is_service:
            return self._containers.is_running(state, node)
        group = control_groups.node_group(state.rack_id, node.name)
        return group is not None and bool(control_groups.processes(group))

    def execute(
        self, state: RackState, node: NodeSpec, argv: list[str], *, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        if node.is_service:
            return self._containers.execute(state, node, argv, timeout=timeout)
        if not self.is_running(state, node):
            raise LabError(f"'{node.name}' is not running.", hint="hfprov lab up")
        return monitor.run_in_guest(self.place(state, node).agent, argv, timeout=timeout)

    def discard(self, state: RackState, node: NodeSpec) -> None:
        if node.is_service:
            self._containers.discard(state, node)
            return
        for group in control_groups.node_groups(state.rack_id, node.name):
            control_groups.end(group)
        home = self.place(state, node).home
        if home.exists():
            shutil.rmtree(home)

    def discard_rack(self, rack_id: str) -> None:
        # Ends every process and deletes every disk, whatever kind of node they belong to.
        self._containers.discard_rack(rack_id)

    def place(self, state: RackState, node: NodeSpec) -> Place:
        """Where a node's disk, console and sockets are."""
        return Place(self._paths.node(node), socket_directory(state.rack_id), node.index)

    def cut_power(self, state: RackState, node: NodeSpec) -> None:
        """What pulling the plug does. Does nothing to a node that is off."""
        group = control_groups.node_group(state.rack_id, node.name)
        if group is not None:
            cut_power(self.place(state, node), group)

    def _new_disk(self, state: RackState, place: Place) -> Machine:
        image = self._lab / "images" / state.image
        if not image.is_dir():
            raise LabError(
                f"The image '{image}' of this rack is gone.",
                hint="hfprov lab down, then up again.",
            )
        with self._choice:
            if self._machine is None:
                self._machine = choose_machine(image, self._say)
                self._say(_shortcomings(self._machine))
            machine = self._machine
        template = ensure_template(image, machine, place.index, self._say)
        if place.home.exists():
            shutil.rmtree(place.home)  # left by a start that was interrupted
        place.home.mkdir(parents=True)
        run(["cp", "--reflink=auto", "--sparse=auto", template, place.disk], timeout=300)
        text = json.dumps(asdict(machine), indent=1) + "\n"
        (place.home / "machine.json").write_text(text, encoding="utf-8")
        return machine

    def _service(self, state: RackState) -> RackState:
        """The rack as the containers' engine knows it."""
        name = self._lab / "images" / state.image / "containers"
        return replace(state, image=name.read_text(encoding="utf-8"))


def _shortcomings(machine: Machine) -> str:
    kind = f"QEMU {machine.version}, {machine.accelerator}"
    if machine.data_nic == "igb":
        return f"{kind}."
    return (
        f"{kind}: no 'igb', so data NICs are virtio ones, without 'numa_node' and 'msi_irqs' in "
        "sysfs and without an adapter's queue sizes. QEMU 8.0 or newer has it."
    )


def _remembered(place: Place) -> Machine:
    document = json.loads((place.home / "machine.json").read_text(encoding="utf-8"))
    accelerator = Accelerator(document.pop("accelerator"))
    return Machine(accelerator=accelerator, **document)


def _plug_in(rack_id: str, nic: str, tap: str, queues: int) -> None:
    if nic == DATA_NIC:
        bridge, mtu = network.DATA_BRIDGE, network.DATA_MTU
    else:
        bridge, mtu = network.MANAGEMENT_BRIDGE, network.MANAGEMENT_MTU
    network.ensure_tap(rack_id, tap, bridge=bridge, mtu=mtu, queues=queues)


def _fill(place: Place, node: NodeSpec, files: dict[str, NodeFile]) -> None:
    """Make the copy of a template this node of this rack."""
    # The machine id stays: programs that run already have it in use.
    wanted = {name: file for name, file in files.items() if name != "/etc/machine-id"}
    done = monitor.run_in_guest(
        place.agent,
        ["sh", "-eu", "-c", _FILL, "fill", f"{time.time():.0f}"],
        timeout=_FILL_DEADLINE,
        stdin=_archive(wanted),
    )
    if done.returncode != 0:
        raise LabError(
            f"'{node.name}' could not be set up: {printable(done.stderr.strip()[-400:])}",
            hint=f"Its console is in '{place.console}'.",
        )


def _archive(files: dict[str, NodeFile]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, file in sorted(files.items()):
            content = file.content.encode()
            entry = tarfile.TarInfo(name.lstrip("/"))
            entry.size, entry.mode, entry.mtime = len(content), file.mode, int(time.time())
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
