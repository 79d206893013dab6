"""The private directory of one play, and the processes that belong to it.

ansible-runner starts ansible-playbook so that a hang-up does not end it, and since 2.19 Ansible's
workers run in sessions of their own: killing ansible-playbook leaves them, and their ssh, at work
until their task ends. So every process of a play carries the play's directory in its environment,
and is found by it: when a play is stopped, and when an orchestrator died and left one behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from hfprov.record.process import Process, this_process

MARK = "HFPROV_PLAY"
"""The environment variable that names the play's directory."""
_PREFIX = "hfprov-play-"
_OWNER = "owner"
_GRACE_SECONDS = 5.0
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Stopped:
    """Processes of a play that outlived it."""

    found: int
    alive: int
    """Those that even SIGKILL has not ended yet (waiting for a device, uninterruptible)."""


@dataclass(frozen=True, slots=True)
class Abandoned:
    """What a dead orchestrator left of one play; its directory is removed now."""

    pid: int
    """The orchestrator's process id."""
    stopped: Stopped


def create() -> Path:
    """Make a directory that only this user can read, marked as this process's. Raises OSError."""
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        (directory / _OWNER).write_text(json.dumps(asdict(this_process())), encoding="utf-8")
    except OSError:
        remove(directory)
        raise
    return directory


def remove(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)


def stop_processes(directory: Path) -> Stopped:
    """End every process on this machine that belongs to the play: SIGTERM, later SIGKILL."""
    started = time.monotonic()
    seen: set[int] = set()
    while True:
        pids = _processes(directory)
        waited = time.monotonic() - started
        if not pids or waited > 2 * _GRACE_SECONDS:
            return Stopped(len(seen), len(pids))
        if waited > _GRACE_SECONDS:
            _signal(pids, signal.SIGKILL)
        else:
            _signal(pids - seen, signal.SIGTERM)
        seen |= pids
        time.sleep(_POLL_SECONDS)


def clear_abandoned() -> list[Abandoned]:
    """Stop the plays of orchestrators that are surely dead, and remove their directories.

    Nobody records what such a play does. What it had begun *on a node* goes on there; the check
    ``node.leftover_work`` looks for it.
    """
    found = []
    here = this_process()
    for directory in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        owner = _owner(directory)
        if owner is not None and owner.surely_dead(here):
            found.append(Abandoned(owner.pid, stop_processes(directory)))
            remove(directory)
    return found


def _owner(directory: Path) -> Process | None:
    """Whose play it is; None for what is not ours, or not complete yet."""
    try:
        # In a folder that everybody can write: another user's directory may have any name.
        if directory.is_symlink() or directory.stat().st_uid != os.getuid():
            return None
        return Process(**json.loads((directory / _OWNER).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _processes(directory: Path) -> set[int]:
    mark = f"{MARK}={directory}".encode()
    found = set()
    for environ in Path("/proc").glob("[0-9]*/environ"):
        # A zombie has no environment, and another user's cannot be read: neither is ours.
        with contextlib.suppress(OSError):
            if mark in environ.read_bytes().split(b"\0"):
                found.add(int(environ.parent.name))
    return found - {os.getpid()}


def _signal(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
