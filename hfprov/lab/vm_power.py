"""Switching virtual machines on and off."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from hfprov.errors import LabError
from hfprov.lab import control_groups, monitor
from hfprov.lab.host import printable
from hfprov.lab.qemu import Machine, Place, arguments

_MONITOR_DEADLINE = 120.0
"""Restoring reads the guest's memory first, which a busy disk makes slow."""
_QUIT_DEADLINE = 20.0
_JOIN = 'for group in $1; do echo $$ > "$group/cgroup.procs" || exit 1; done; shift; exec "$@"'


def switch_on(
    machine: Machine, place: Place, *, restore: bool, wrap: Sequence[str], groups: Sequence[Path]
) -> subprocess.Popen[bytes]:
    """Start QEMU and return when its monitor answers.

    ``wrap`` is put in front of QEMU's command line; the process joins ``groups``. Raises
    :class:`LabError` with what QEMU said when it ends at once.
    """
    place.sockets.mkdir(parents=True, exist_ok=True, mode=0o700)
    log = place.home / "qemu.log"
    words = [*wrap, *arguments(machine, place, restore=restore)]
    with log.open("ab") as output:
        output.write(f"{shlex.join(words)}\n".encode())
        output.flush()
        # A session of its own: Ctrl-C in the terminal is for us, not for the machine.
        process = subprocess.Popen(
            ["sh", "-c", _JOIN, "vm", " ".join(map(str, groups)), *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd="/",
        )
    deadline = time.monotonic() + _MONITOR_DEADLINE
    while True:
        if (code := process.poll()) is not None:
            said = printable(log.read_text(encoding="utf-8", errors="replace")[-600:].strip())
            raise LabError(f"QEMU ended at once with exit code {code}: {said}")
        with suppress(LabError):
            monitor.monitor(place.monitor, "query-status", timeout=5)
            return process
        if time.monotonic() > deadline:
            process.kill()
            raise LabError(
                f"QEMU does not answer on '{place.monitor}' within {_MONITOR_DEADLINE:g} s.",
                hint=f"What it said is in '{log}'.",
            )
        time.sleep(0.1)


def cut_power(place: Place, group: Path) -> None:
    """End a machine as a power cut does: the guest hears nothing of it. No error when it is off.

    QEMU is asked first, so that it leaves a sound disk file.
    """
    with suppress(LabError):
        monitor.monitor(place.monitor, "quit", timeout=5)
    deadline = time.monotonic() + _QUIT_DEADLINE
    while control_groups.processes(group) and time.monotonic() < deadline:
        time.sleep(0.05)
    control_groups.end(group)


def await_agent(place: Place, alive: Callable[[], bool], *, timeout: float) -> None:
    """Return when the agent in the guest answers.

    Raises :class:`LabError` when it does not within ``timeout`` seconds or the machine is not
    ``alive`` any more.
    """
    deadline = time.monotonic() + timeout
    while not monitor.agent_answers(place.agent, timeout=5):
        hint = f"Its console is in '{place.console}'."
        if not alive():
            raise LabError("The virtual machine went off while it started.", hint=hint)
        if time.monotonic() > deadline:
            raise LabError(
                f"The agent in the virtual machine did not answer within {timeout:g} s.", hint=hint
            )
        time.sleep(0.2)
