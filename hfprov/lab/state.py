"""What a rack remembers on disk.

Every resource is written here before it is created, so that ``down`` finds it after a killed
``up``.
"""

from __future__ import annotations

import fcntl
import ipaddress
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from hfprov.errors import LabError

FORMAT = 1
MAX_NODES = 40
_FIRST_NODE_HOST = 11
_CONTROLLER_HOST = 1
_TIME_SERVER_HOST = 2
_LOCK_PATIENCE = 15.0


class NetworkStack(StrEnum):
    """Who configures a node's data NIC. The management NIC always belongs to systemd-networkd."""

    NETWORKD = "networkd"
    IFUPDOWN = "ifupdown"


def network_stacks(text: str) -> tuple[NetworkStack, ...]:
    """Read a comma list such as ``networkd,ifupdown``. Raises :class:`LabError`."""
    try:
        return tuple(NetworkStack(word.strip()) for word in text.split(","))
    except ValueError as error:
        raise LabError(
            f"'{text}' names a network stack that practice nodes do not have.",
            hint=f"A comma list of {', '.join(NetworkStack)}.",
        ) from error


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One node as it was asked for. ``index`` 0 is the rack's time server, no inventory host."""

    name: str
    index: int
    network: NetworkStack

    @property
    def is_service(self) -> bool:
        return self.index == 0


@dataclass(frozen=True, slots=True)
class RackState:
    """A rack as it was asked for, with what was chosen for it.

    ``management`` and ``data`` are /24 networks; ``faults`` lists what was broken on purpose, as
    pairs of node and fault.
    """

    rack_id: str
    engine: str
    suite: str
    image: str
    management: str
    data: str
    nodes: tuple[NodeSpec, ...]
    faults: tuple[tuple[str, str], ...] = ()

    @property
    def inventory_nodes(self) -> tuple[NodeSpec, ...]:
        return tuple(node for node in self.nodes if not node.is_service)

    @property
    def controller_address(self) -> str:
        return _host(self.management, _CONTROLLER_HOST)

    @property
    def time_server_address(self) -> str:
        return _host(self.management, _TIME_SERVER_HOST)

    def management_address(self, node: NodeSpec) -> str:
        return _host(self.management, _host_number(node.index))

    def data_address(self, node: NodeSpec) -> str:
        return _host(self.data, _host_number(node.index))

    def faults_of(self, node: NodeSpec) -> tuple[str, ...]:
        """What was broken on a node on purpose, each once; it may have been repaired since."""
        return tuple(dict.fromkeys(fault for name, fault in self.faults if name == node.name))


def _host_number(index: int) -> int:
    return _TIME_SERVER_HOST if index == 0 else _FIRST_NODE_HOST + index - 1


def _host(network: str, number: int) -> str:
    return str(ipaddress.IPv4Network(network)[number])


def node_name(index: int) -> str:
    return f"node{index:02d}"


@dataclass(frozen=True, slots=True)
class RackPaths:
    """Where a rack keeps its things."""

    directory: Path

    @property
    def state(self) -> Path:
        return self.directory / "rack.json"

    @property
    def nodes(self) -> Path:
        return self.directory / "nodes"

    @property
    def inventory(self) -> Path:
        return self.directory / "inventory"

    @property
    def ssh(self) -> Path:
        return self.directory / "ssh"

    @property
    def key(self) -> Path:
        return self.ssh / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        return self.ssh / "known_hosts"

    @property
    def ssh_config(self) -> Path:
        return self.ssh / "config"

    def node(self, node: NodeSpec) -> Path:
        return self.nodes / node.name


def load_state(paths: RackPaths) -> RackState | None:
    """Read a rack's state; ``None`` when there is no rack.

    Raises :class:`LabError` when the file is not one of ours.
    """
    try:
        text = paths.state.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LabError(f"Cannot read '{paths.state}': {error.strerror}.") from error
    try:
        data = json.loads(text)
        if data.pop("format") != FORMAT:
            raise LabError(
                f"'{paths.state}' was written by another version of hfprov.",
                hint="Take the rack down with the version that made it.",
            )
        nodes = tuple(
            NodeSpec(node["name"], node["index"], NetworkStack(node["network"]))
            for node in data.pop("nodes")
        )
        faults = tuple((node, fault) for node, fault in data.pop("faults"))
        return RackState(nodes=nodes, faults=faults, **data)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LabError(f"'{paths.state}' is not the state of a practice rack: {error}.") from error


def save_state(paths: RackPaths, state: RackState) -> None:
    text = json.dumps({"format": FORMAT, **asdict(state)}, indent=1) + "\n"
    write_atomically(paths.state, text)


def write_atomically(path: Path, text: str, *, mode: int = 0o644) -> None:
    temporary = path.with_name(f".{path.name}.new")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.chmod(mode)
    temporary.replace(path)


@contextmanager
def rack_lock(paths: RackPaths) -> Iterator[None]:
    """One command at a time per rack. Raises :class:`LabError` when another one goes on.

    A command that was just killed may leave a child that is still about to start, and holds the
    lock until then: hence the patience.
    """
    with (paths.directory / ".lock").open("w", encoding="ascii") as lock:
        until = time.monotonic() + _LOCK_PATIENCE
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > until:
                    raise LabError(
                        f"Another command is working on the rack in '{paths.directory}'.",
                        hint="Wait for it to end.",
                    ) from error
                time.sleep(0.1)
        yield
