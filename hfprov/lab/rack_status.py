"""A rack as it is now."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hfprov.lab.state import NetworkStack


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node as it is now.

    ``systemd`` is what ``systemctl is-system-running`` said over SSH, or ``unreachable``;
    ``faults`` are the names of what was broken on purpose since the node was made or reset; it may
    have been repaired since.
    """

    name: str
    address: str
    data_address: str
    network: NetworkStack
    running: bool
    systemd: str
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RackStatus:
    """A rack as it is now. ``nodes`` is empty when there is none."""

    directory: Path
    inventory: Path
    ssh_config: Path
    engine: str
    suite: str
    management: str
    data: str
    nodes: tuple[NodeStatus, ...]

    @property
    def all_running(self) -> bool:
        return bool(self.nodes) and all(node.systemd == "running" for node in self.nodes)
