"""Reaching nodes the way a user does: OpenSSH with the pinned key."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from hfprov.errors import LabError
from hfprov.lab.host import printable

UNREACHABLE = "unreachable"

_SSH_DEADLINE = 20.0
_SSH_FAILED = 255
_STARTED = ["systemctl", "is-system-running", "--wait"]


def ssh(
    config: Path, name: str, argv: list[str], *, timeout: float = _SSH_DEADLINE
) -> subprocess.CompletedProcess[str]:
    """Run a command on a node. Exit code 255 means that SSH failed or ``timeout`` s were over."""
    connect = f"ConnectTimeout={max(5, int(timeout / 4))}"
    command = ["ssh", "-F", str(config), "-o", connect, name, *argv]
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        said = f"no answer within {timeout:g} s"
        return subprocess.CompletedProcess(command, _SSH_FAILED, "", said)


def await_ssh(config: Path, name: str, *, timeout: float, hint: str) -> None:
    """Return when the node runs a command for us and its start-up is over, well or not.

    Raises :class:`LabError` after ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    patience = _patience(timeout)
    while (
        done := ssh(config, name, _STARTED, timeout=patience)
    ).returncode == _SSH_FAILED or not done.stdout:
        if time.monotonic() > deadline:
            said = printable(done.stderr.strip()[-300:])
            raise LabError(f"'{name}' does not answer over SSH: {said}", hint=hint)
        time.sleep(0.3)


def systemd_state(config: Path, name: str, *, ready_deadline: float) -> str:
    """What ``systemctl is-system-running`` says, or ``unreachable``.

    ``ready_deadline`` is the engine's: nodes that take long to start take long to answer.
    """
    patience = _patience(ready_deadline)
    done = ssh(config, name, ["systemctl", "is-system-running"], timeout=patience)
    lines = done.stdout.split()
    if done.returncode == _SSH_FAILED or not lines:
        return UNREACHABLE
    return printable(lines[-1][:40])


def _patience(ready_deadline: float) -> float:
    """Seconds for one command, of nodes that have ``ready_deadline`` seconds to start."""
    return max(_SSH_DEADLINE, ready_deadline / 10)
