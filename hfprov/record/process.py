"""Which process on which controller wrote a run, and whether it is still alive."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Process:
    """One orchestrator process. A pid alone is not enough: pids are reused."""

    controller: str
    """Host name of the controller, for people."""
    controller_id: str
    """The controller's machine-id: two controllers may both be called ``localhost``."""
    boot_id: str
    pid_namespace: str
    pid: int
    started: int
    """Start time in clock ticks after boot (``/proc/PID/stat``, field 22); 0 when unreadable."""

    def surely_dead(self, here: Process) -> bool:
        """Whether this process is known to be gone, as seen from the process ``here``.

        What cannot be known (another controller, another pid namespace) counts as alive.
        """
        if (self.controller, self.controller_id) != (here.controller, here.controller_id):
            return False
        if self.boot_id != here.boot_id:
            return True
        if self.pid_namespace != here.pid_namespace:
            return False
        return _start_time(self.pid) != self.started


def this_process() -> Process:
    """The process that runs this code."""
    pid = os.getpid()
    return Process(
        controller=socket.gethostname(),
        controller_id=_read("/etc/machine-id"),
        boot_id=_read("/proc/sys/kernel/random/boot_id"),
        pid_namespace=_pid_namespace(),
        pid=pid,
        started=_start_time(pid),
    )


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _pid_namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _start_time(pid: int) -> int:
    """Start time of a living process; 0 when there is none or it is a zombie."""
    # The command's name may hold spaces and brackets; fields are counted after the last bracket.
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    if not fields or fields[0] in "ZX":
        return 0
    return int(fields[19])
