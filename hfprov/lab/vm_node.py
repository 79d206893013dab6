"""One virtual machine in a test's hands: SSH, power, cables, what it boots next.

``Rack`` makes and removes nodes; this drives one that exists. Nothing here is remembered: a rack's
``reset`` undoes it all.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import time
from dataclasses import dataclass

from hfprov.errors import LabError
from hfprov.lab import monitor, reach
from hfprov.lab.host import lab_dir, printable
from hfprov.lab.qemu import DATA_NIC, MANAGEMENT_NIC, Place
from hfprov.lab.state import NodeSpec, RackPaths, RackState, load_state
from hfprov.lab.vm import VmEngine

_POLL = 0.5
_MENU_ENTRY = re.compile(
    r"^\s*(?:menuentry|submenu) .*\$menuentry_id_option '([^']+)'", re.MULTILINE
)
_SLOW_UNIT = """\
[Unit]
Description=Takes its time to stop
After=ssh.service systemd-networkd.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true
ExecStop=/bin/sleep {seconds}
TimeoutStopSec={patience}
"""
"""Stops before what it is 'After'. In /run, so that it is gone after the boot."""


@dataclass(frozen=True, slots=True)
class VmNode:
    """A node of a rack of virtual machines. Methods raise :class:`LabError`; most need root."""

    paths: RackPaths
    state: RackState
    spec: NodeSpec

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def address(self) -> str:
        return self.state.management_address(self.spec)

    @property
    def data_address(self) -> str:
        return self.state.data_address(self.spec)

    def ssh(self, argv: list[str], timeout: float = 120.0) -> subprocess.CompletedProcess[str]:
        """Run a command as a user would; exit code 255 when SSH fails or ``timeout`` s are over.

        The node's shell sees each word quoted: for shell syntax use ``["sh", "-c", ...]``.
        """
        return reach.ssh(self.paths.ssh_config, self.name, [shlex.join(argv)], timeout=timeout)

    def run(self, argv: list[str], timeout: float = 120.0, *, codes: tuple[int, ...] = (0,)) -> str:
        """Standard output of a command over SSH that must end with one of ``codes``."""
        done = self.ssh(argv, timeout)
        if done.returncode not in codes:
            said = printable((done.stderr or done.stdout).strip()[-400:])
            raise LabError(f"'{argv[0]}' on '{self.name}' ended with {done.returncode}: {said}")
        return done.stdout

    def agent(self, argv: list[str], timeout: float = 120.0) -> subprocess.CompletedProcess[str]:
        """Run a command without network and SSH server, through the agent in the guest."""
        return monitor.run_in_guest(self._place.agent, argv, timeout=timeout)

    def write_file(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        """Put a file of up to some MiB onto the node, without network and SSH server."""
        script = 'umask 077; cat > "$1.new"; chmod "$2" "$1.new"; mv "$1.new" "$1"; sync'
        argv = ["sh", "-eu", "-c", script, "write", path, f"{mode:o}"]
        done = monitor.run_in_guest(self._place.agent, argv, timeout=300.0, stdin=content)
        if done.returncode != 0:
            raise LabError(
                f"'{path}' was not written on '{self.name}': {printable(done.stderr[-300:])}"
            )

    def is_on(self) -> bool:
        return self._engine.is_running(self.state, self.spec)

    def boot_id(self) -> str:
        return self.run(["cat", "/proc/sys/kernel/random/boot_id"]).strip()

    def kernel_release(self) -> str:
        return self.run(["uname", "-r"]).strip()

    def wait_for_ssh(self, timeout: float = VmEngine.ready_deadline) -> None:
        """Return when the node answers over SSH and its start-up is over, well or not."""
        hint = f"Its console is in '{self._place.console}'."
        reach.await_ssh(self.paths.ssh_config, self.name, timeout=timeout, hint=hint)

    def wait_for_boot(self, before: str, timeout: float = VmEngine.ready_deadline) -> str:
        """Return the new boot id once the node has started anew since boot id ``before``."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            done = self.ssh(["cat", "/proc/sys/kernel/random/boot_id"], timeout=20)
            if done.returncode == 0 and done.stdout.strip() not in ("", before):
                self.wait_for_ssh(max(1.0, deadline - time.monotonic()))
                return done.stdout.strip()
            time.sleep(_POLL)
        raise LabError(f"'{self.name}' did not start anew within {timeout:g} s.")

    def wait_until_off(self, timeout: float = 300.0) -> None:
        """Return when the machine is switched off, by itself or by us."""
        deadline = time.monotonic() + timeout
        while self.is_on():
            if time.monotonic() > deadline:
                raise LabError(f"'{self.name}' did not switch itself off within {timeout:g} s.")
            time.sleep(_POLL)

    def power_off(self) -> None:
        """What pulling the plug does: the guest hears nothing of it."""
        self._engine.cut_power(self.state, self.spec)

    def power_on(self) -> None:
        """Switch on a machine that is off; does not wait for it to start."""
        if not self.is_on():
            self._engine.start(self.state, self.spec, {})

    def stay_off_at_next_reboot(self) -> None:
        """Make the machine switch off where it would reboot: a node that does not come back.

        Holds until it is switched on again.
        """
        monitor.monitor(self._place.monitor, "set-action", reboot="shutdown")

    def hold_shutdown(self, seconds: int) -> None:
        """Make the next shutdown or reboot wait, with the SSH server still answering."""
        unit = _SLOW_UNIT.format(seconds=seconds, patience=seconds + 60)
        script = (
            'printf "%s" "$1" > /run/systemd/system/hfprov-slow.service\n'
            "systemctl daemon-reload\nsystemctl start hfprov-slow.service"
        )
        done = self.agent(["sh", "-eu", "-c", script, "slow", unit])
        if done.returncode != 0:
            raise LabError(f"'{self.name}' took no slow unit: {printable(done.stderr[-300:])}")

    def set_cable(self, *, connected: bool, nic: str = DATA_NIC) -> None:
        """Plug a NIC's cable in or out: ``mgmt`` (eth0) or ``data`` (eth1)."""
        if nic not in (MANAGEMENT_NIC, DATA_NIC):
            raise LabError(f"There is no NIC '{nic}'.", hint=f"{MANAGEMENT_NIC} or {DATA_NIC}")
        monitor.monitor(self._place.monitor, "set_link", name=nic, up=connected)

    def boot_next(self, release: str) -> str:
        """Choose the kernel of the next boot, once, by its release; return the menu entry.

        Raises :class:`LabError` when GRUB's menu has no such kernel.
        """
        entry = find_entry(self.run(["cat", "/boot/grub/grub.cfg"]), release)
        self.run(["grub-reboot", entry])
        self.run(["sync"])
        return entry

    def break_boot_loader(self) -> None:
        """Make GRUB stop at its rescue prompt at every boot from now on."""
        self.run(["sh", "-c", "rm /boot/grub/i386-pc/normal.mod && sync"])

    def console(self) -> str:
        """The end of what the node has printed on its console since it was made."""
        text = self._place.console.read_text(encoding="utf-8", errors="replace")
        return printable(text[-4000:])

    @property
    def _engine(self) -> VmEngine:
        return VmEngine(lab_dir(), self.paths)

    @property
    def _place(self) -> Place:
        return self._engine.place(self.state, self.spec)


def vm_nodes(paths: RackPaths) -> tuple[VmNode, ...]:
    """The nodes of a rack of virtual machines. Raises :class:`LabError` for any other rack."""
    state = load_state(paths)
    if state is None or state.engine != VmEngine.name:
        raise LabError(
            f"There is no rack of virtual machines in '{paths.directory}'.",
            hint="hfprov lab up --engine vm",
        )
    return tuple(VmNode(paths, state, spec) for spec in state.inventory_nodes)


def find_entry(menu: str, release: str) -> str:
    """GRUB's name ('submenu>entry') for a kernel release in the text of a ``grub.cfg``.

    Raises :class:`LabError` naming what there is.
    """
    names = _MENU_ENTRY.findall(menu)
    submenu = next((name for name in names if name.startswith("gnulinux-advanced-")), None)
    wanted = f"gnulinux-{release}-advanced-"
    entry = next((name for name in names if name.startswith(wanted)), None)
    if submenu is None or entry is None:
        raise LabError(
            f"GRUB's menu has no kernel '{release}'.", hint=f"It has {', '.join(names) or 'none'}."
        )
    return f"{submenu}>{entry}"
