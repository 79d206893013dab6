"""The practice rack: nodes to try hfprov on, made and taken down with one call each."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from hfprov.errors import LabError
from hfprov.lab import access, network, registry
from hfprov.lab.engines import ENGINES, choose_engine, make_engine
from hfprov.lab.faults import Fault, find_fault
from hfprov.lab.host import (
    hand_to_invoking_user,
    lab_dir,
    printable,
    require_room,
    require_root,
)
from hfprov.lab.image import SUITES, Say
from hfprov.lab.rack_status import NodeStatus, RackStatus
from hfprov.lab.reach import await_ssh, systemd_state
from hfprov.lab.removal import remove_rack_files
from hfprov.lab.seed import TIME_SERVER, node_files
from hfprov.lab.state import (
    MAX_NODES,
    NetworkStack,
    NodeSpec,
    RackPaths,
    RackState,
    load_state,
    node_name,
    rack_lock,
    save_state,
)
from hfprov.words import plural

DEFAULT_NETWORK = (NetworkStack.NETWORKD, NetworkStack.NETWORKD, NetworkStack.IFUPDOWN)
"""Repeated over the nodes, so that every third node's data NIC belongs to ifupdown."""

_FAULT_DEADLINE = 60.0
_PARALLEL_STARTS = 2 * (os.cpu_count() or 1)


def _silent(_: str) -> None: ...


class Rack:
    """A rack of practice nodes that lives in one directory.

    ``directory`` defaults to ``$HFPROV_LAB_DIR/rack``. Racks in different directories have nothing
    in common but the image and run side by side. Progress goes to ``say``. Every method raises
    :class:`LabError`; all but :meth:`status` need root.
    """

    def __init__(self, directory: Path | str | None = None, *, say: Say = _silent) -> None:
        lab = lab_dir()
        self.paths = RackPaths(Path(directory).absolute() if directory else lab / "rack")
        self._lab = lab
        self._say = say
        self._engine = make_engine("container", lab, self.paths)

    def _use_engine(self, name: str) -> None:
        """Take the engine that a rack was made with."""
        if name != self._engine.name:
            self._engine = make_engine(name, self._lab, self.paths)

    def check(self, engine: str = "auto") -> None:
        """Raise :class:`LabError` saying what this machine lacks for a rack."""
        require_root()
        self._use_engine(choose_engine(engine, None))
        self._engine.require_host()

    def up(
        self,
        nodes: int = 3,
        *,
        engine: str = "auto",
        suite: str = SUITES[0],
        stacks: Sequence[NetworkStack] = DEFAULT_NETWORK,
    ) -> RackStatus:
        """Bring up a rack of ``nodes`` nodes, or what is missing of it.

        More nodes than before are added. ``stacks`` repeats over the nodes and says who configures
        each new node's data NIC. Returns when every node answers over SSH with its pinned key.
        """
        _require_sane(nodes, engine, stacks)
        require_root()
        known = load_state(self.paths)
        self._use_engine(choose_engine(engine, known))
        self._engine.require_host()
        self.paths.directory.mkdir(parents=True, exist_ok=True)
        with rack_lock(self.paths):
            state = self._plan(nodes, suite, stacks)
            with registry.registry_lock():
                network.ensure_network(state, self.paths.directory)
            access.ensure_keys(self.paths, state.nodes)
            access.write_ssh_files(state, self.paths)
            access.write_inventory(state, self.paths)
            hand_to_invoking_user(self.paths.inventory, self.paths.ssh)
            missing = [n for n in state.nodes if not self._engine.is_running(state, n)]
            self._say(f"Starting {_count(missing)} ...")
            _each(missing, lambda node: self._start(state, node))
            self._say(f"Waiting for {_count(state.nodes)} to answer over SSH ...")
            _each(state.nodes, lambda node: self._await_ssh(state, node))
        return self.status()

    def down(self) -> bool:
        """Remove the rack and everything it made; ``False`` when there was none.

        Works from the directory's name, so a rack whose files were deleted is found as well.
        """
        require_root()
        directory = self.paths.directory
        if not self.paths.state.exists() and not registry.is_claimed(directory):
            return False
        directory.mkdir(parents=True, exist_ok=True)
        with rack_lock(self.paths):
            rack_id = registry.identity(directory)
            self._say(f"Taking down the rack in '{directory}' ...")
            self._engine.discard_rack(rack_id)
            with registry.registry_lock():
                network.remove_network(rack_id, directory)
                registry.release_identity(rack_id)
                registry.restore_inotify_limit()
            remove_rack_files(self.paths)
        return True

    def reset(self, names: Iterable[str]) -> None:
        """Throw nodes away and start them anew: same name, keys and addresses, nothing else."""
        require_root()
        with rack_lock(self.paths):
            state = self._state()
            nodes = [self._node(state, name) for name in names]
            _each(nodes, lambda node: self._engine.discard(state, node))
            gone = {node.name for node in nodes}
            state = replace(state, faults=tuple(f for f in state.faults if f[0] not in gone))
            save_state(self.paths, state)
            _each(nodes, lambda node: self._start(state, node))
            _each(nodes, lambda node: self._await_ssh(state, node))

    def break_node(self, name: str, fault_name: str) -> Fault:
        """Do to a node what goes wrong in real racks; see :func:`hfprov.lab.faults.faults`."""
        fault = find_fault(fault_name)
        require_root()
        with rack_lock(self.paths):
            state = self._state()
            node = self._node(state, name)
            save_state(self.paths, replace(state, faults=(*state.faults, (name, fault.name))))
            done = self._engine.execute(
                state,
                node,
                ["sh", "-eu", "-c", fault.script, fault.name],
                timeout=_FAULT_DEADLINE,
            )
            if done.returncode != 0:
                save_state(self.paths, state)
                raise LabError(
                    f"The fault '{fault.name}' could not be made on '{name}': "
                    f"{printable(done.stderr.strip()[-400:])}",
                    hint=fault.needs,
                )
        return fault

    def status(self) -> RackStatus:
        """Ask every node over SSH how it is. Needs no root."""
        state = load_state(self.paths)
        if state is None:
            return RackStatus(
                self.paths.directory,
                self.paths.inventory,
                self.paths.ssh_config,
                "",
                "",
                "",
                "",
                (),
            )
        self._use_engine(state.engine)
        with ThreadPoolExecutor(_PARALLEL_STARTS) as pool:
            nodes = tuple(pool.map(lambda n: self._node_status(state, n), state.inventory_nodes))
        return RackStatus(
            directory=self.paths.directory,
            inventory=self.paths.inventory,
            ssh_config=self.paths.ssh_config,
            engine=state.engine,
            suite=state.suite,
            management=state.management,
            data=state.data,
            nodes=nodes,
        )

    def _plan(self, count: int, suite: str, stacks: Sequence[NetworkStack]) -> RackState:
        """Decide what the rack is to be, and write it down before anything is created."""
        state = load_state(self.paths)
        if state is None:
            building = not self._engine.find_image(suite)
            require_room(self._lab, self._engine.room, new_nodes=count, build_image=building)
            state = self._new_state(suite)
        elif state.suite != suite or len(state.inventory_nodes) > count:
            raise LabError(
                f"The rack in '{self.paths.directory}' has "
                f"{plural(len(state.inventory_nodes), 'node')} of {state.suite}; "
                f"{count} of {suite} were asked for.",
                hint="Take it down first: hfprov lab down",
            )
        have = len(state.inventory_nodes)
        if count > have:
            require_room(
                self.paths.directory,
                self._engine.room,
                new_nodes=count - have,
                build_image=False,
            )
        added = tuple(
            NodeSpec(node_name(index), index, stacks[(index - 1) % len(stacks)])
            for index in range(have + 1, count + 1)
        )
        state = replace(state, nodes=(*state.nodes, *added))
        save_state(self.paths, state)
        with registry.registry_lock():
            registry.claim_identity(self.paths.directory)
            registry.raise_inotify_limit()
        return state

    def _new_state(self, suite: str) -> RackState:
        taken = [p.name for p in (self.paths.nodes, self.paths.ssh, self.paths.inventory)
                 if p.exists()]  # fmt: skip
        if taken:
            raise LabError(
                f"'{self.paths.directory}' has '{taken[0]}' but no rack that it belongs to.",
                hint="Choose another directory, or look at it and delete it.",
            )
        image = self._engine.prepare(suite, self._say)
        with registry.registry_lock():
            rack_id = registry.claim_identity(self.paths.directory)
            if network.interface_exists(rack_id) or network.namespace_file(rack_id).exists():
                raise LabError(
                    f"A network interface or namespace '{network.namespace(rack_id)}' exists that "
                    "no known rack has made."
                )
            management, data = registry.choose_subnets(rack_id)
            server = NodeSpec(TIME_SERVER, 0, NetworkStack.NETWORKD)
            name = self._engine.name
            state = RackState(rack_id, name, suite, image, management, data, (server,))
            save_state(self.paths, state)
            network.ensure_network(state, self.paths.directory)
        return state

    def _start(self, state: RackState, node: NodeSpec) -> None:
        key = access.host_key(self.paths, node)
        files = node_files(
            state,
            node,
            host_key=key.read_text(encoding="utf-8"),
            host_key_public=access.public_key(key),
            authorized=access.public_key(self.paths.key),
        )
        self._engine.start(state, node, files)

    def _await_ssh(self, state: RackState, node: NodeSpec) -> None:
        await_ssh(
            self.paths.ssh_config,
            node.name,
            timeout=self._engine.ready_deadline,
            hint=self._why_silent(state, node),
        )

    def _why_silent(self, state: RackState, node: NodeSpec) -> str:
        broken = state.faults_of(node)
        if broken:
            return f"It was broken on purpose ({', '.join(broken)}): hfprov lab reset {node.name}"
        return f"Its console is in '{self.paths.node(node) / 'console.log'}'."

    def _node_status(self, state: RackState, node: NodeSpec) -> NodeStatus:
        return NodeStatus(
            name=node.name,
            address=state.management_address(node),
            data_address=state.data_address(node),
            network=node.network,
            running=self._engine.is_running(state, node),
            systemd=systemd_state(
                self.paths.ssh_config, node.name, ready_deadline=self._engine.ready_deadline
            ),
            faults=state.faults_of(node),
        )

    def _state(self) -> RackState:
        state = load_state(self.paths)
        if state is None:
            raise LabError(f"There is no rack in '{self.paths.directory}'.", hint="hfprov lab up")
        self._use_engine(state.engine)
        return state

    def _node(self, state: RackState, name: str) -> NodeSpec:
        for node in state.inventory_nodes:
            if node.name == name:
                return node
        names = ", ".join(node.name for node in state.inventory_nodes)
        raise LabError(f"The rack has no node '{name}'.", hint=f"It has {names}.")


def _require_sane(nodes: int, engine: str, stacks: Sequence[NetworkStack]) -> None:
    if not 1 <= nodes <= MAX_NODES:
        raise LabError(f"A practice rack has 1 to {MAX_NODES} nodes, not {nodes}.")
    if engine not in ENGINES:
        raise LabError(f"There is no engine '{engine}'.", hint=f"One of {', '.join(ENGINES)}.")
    if not stacks:
        raise LabError("No network stack was given for the nodes.")


def _each(nodes: Sequence[NodeSpec], act: Callable[[NodeSpec], None]) -> None:
    """Do something for many nodes, a few at a time; the first error is raised after all ended."""
    with ThreadPoolExecutor(_PARALLEL_STARTS) as pool:
        for future in [pool.submit(act, node) for node in nodes]:
            future.result()


def _count(nodes: Sequence[NodeSpec]) -> str:
    hosts = sum(not node.is_service for node in nodes)
    return plural(hosts, "node")
