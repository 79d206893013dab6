"""What a rack asks of whatever runs its nodes."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import Protocol

from hfprov.lab.host import Room
from hfprov.lab.image import Say
from hfprov.lab.state import NodeSpec, RackState


@dataclass(frozen=True, slots=True)
class NodeFile:
    """A file to put into a new node."""

    content: str
    mode: int = 0o644


class Engine(Protocol):
    """Runs nodes. Methods raise :class:`~hfprov.errors.LabError`.

    All but ``prepare`` may be called from several threads for different nodes.
    """

    name: str
    room: Room
    ready_deadline: float
    """Seconds within which a node that was started answers over SSH."""

    def require_host(self) -> None:
        """Check tools and kernel features."""

    def find_image(self, suite: str) -> str | None:
        """Name of the image for a suite, ``None`` when it is still to be built."""

    def prepare(self, suite: str, say: Say) -> str:
        """Build the image for a suite unless it exists; return its name."""

    def start(self, state: RackState, node: NodeSpec, files: dict[str, NodeFile]) -> None:
        """Start a node. ``files`` (by absolute path) go into a node that is new."""

    def is_running(self, state: RackState, node: NodeSpec) -> bool:
        """Whether the node's init process exists."""

    def execute(
        self, state: RackState, node: NodeSpec, argv: list[str], *, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside a node without the help of its SSH server."""

    def discard(self, state: RackState, node: NodeSpec) -> None:
        """End a node and delete its disk. Does nothing for a node that never was."""

    def discard_rack(self, rack_id: str) -> None:
        """End every node of a rack and delete its disks, whether or not its state is known."""
