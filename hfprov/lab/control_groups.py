"""Control groups say which processes belong to a rack; a remembered process id cannot.

Every hierarchy that matters has a group per rack (the name of its network namespace) with one per
node in it.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from hfprov.errors import LabError
from hfprov.lab import network
from hfprov.lab.host import cgroup2_root, cgroup_roots

_END_DEADLINE = 30.0


def rack_groups(rack_id: str) -> list[Path]:
    """A rack's group in each hierarchy, cgroup2 first."""
    return [root / network.namespace(rack_id) for root in cgroup_roots()]


def node_groups(rack_id: str, name: str) -> list[Path]:
    """A node's group in each hierarchy, cgroup2 first."""
    return [parent / name for parent in rack_groups(rack_id)]


def node_group(rack_id: str, name: str) -> Path | None:
    """A node's group in the cgroup2 hierarchy; ``None`` on a machine without one."""
    root = cgroup2_root()
    return None if root is None else root / network.namespace(rack_id) / name


def processes(group: Path) -> list[int]:
    """Process ids in a group, dead ones left out; none when there is no such group."""
    try:
        return [int(pid) for pid in (group / "cgroup.procs").read_text(encoding="ascii").split()]
    except OSError:
        return []


def end(group: Path) -> None:
    """Kill every process at and below a control group and delete it.

    Raises :class:`LabError` when it does not become empty.
    """
    kill = group / "cgroup.kill"
    if kill.exists():
        kill.write_text("1", encoding="ascii")
    deadline = time.monotonic() + _END_DEADLINE
    while group.exists():
        try:
            for directory, _, _ in os.walk(group, topdown=False):
                os.rmdir(directory)  # noqa: PTH106 - os.walk goes bottom-up, Path.walk is 3.12
        except FileNotFoundError:
            continue  # the node's own systemd removes its groups as well
        except OSError as error:
            if time.monotonic() > deadline:
                raise LabError(f"Processes are left in '{group}': {error.strerror}.") from error
            time.sleep(0.05)
