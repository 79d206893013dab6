"""What a site declares, read in a process of its own while this one loads what it will need.

Reading needs Ansible and nothing of what observes and judges; each takes about as long to load as
the other, and Python loads one module at a time.
"""

from __future__ import annotations

import io
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hfprov.baseline import Baseline
    from hfprov.declare.connection import Connection
    from hfprov.inventory import Inventory


@dataclass(frozen=True, slots=True)
class Declared:
    """An inventory, resolved and validated; hosts are in its order."""

    baselines: Mapping[str, Baseline]
    connections: Mapping[str, Connection]
    playbook: Path
    warnings: tuple[str, ...]
    secrets: tuple[str, ...] = field(repr=False)
    """Every secret of the inventory, none of which must reach the record."""


def read(
    inventory: Sequence[Path], limit: str | None, vault_password_files: Sequence[Path]
) -> Declared:
    """Read the inventory and resolve every baseline. Contacts nothing; raises on any problem."""
    from hfprov.inventory import load
    from hfprov.resolve import resolve

    found = load(inventory, limit=limit, vault_password_files=vault_password_files)
    baselines = resolve(found)
    connections = {host.name: host.connection for host in found.hosts}
    secrets = _secrets(found, baselines, connections)
    return Declared(baselines, connections, found.playbook, found.warnings, secrets)


def _secrets(
    inventory: Inventory, baselines: Mapping[str, Baseline], connections: Mapping[str, Connection]
) -> tuple[str, ...]:
    from hfprov.declare.secrets import encrypted_texts

    found = set(encrypted_texts(inventory.engine))
    for connection in connections.values():
        found.update(one for one in (connection.password, connection.become_password) if one)
    for baseline in baselines.values():
        found.update(str(one.value) for one in baseline.values.values() if one.secret)
    return tuple(found)


def read_beside(
    reading: Callable[[], Declared],
    meanwhile: Callable[[], None],
    once_known: Callable[[Declared], None] = lambda _: None,
) -> Declared:
    """What ``reading`` returns, or raises; ``meanwhile`` is called while that takes its time.

    ``once_known`` is called with it as soon as it is there, in a thread, so that something can be
    done about it before ``meanwhile`` returns; it is not where this process reads. Where reading
    does not end well in the other process it is done once more in this one, so that whatever it
    raises is raised here, as it is.
    """
    if "ansible" in sys.modules or threading.active_count() > 1:
        # Nothing would be won, or a lock might be held that nobody will ever let go.
        return reading()
    begin, end = os.pipe()
    try:
        child = os.fork()
    except OSError:  # no further process is allowed; it goes without one
        os.close(begin)
        os.close(end)
        return reading()
    if child == 0:
        os.close(begin)
        _tell(reading, end)
    os.close(end)
    try:
        hearing = _Hearing(begin, once_known)
        meanwhile()
        declared = hearing.declared()
    except BaseException:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    _, status = os.waitpid(child, 0)
    return reading() if status or declared is None else declared


class _Hearing(threading.Thread):
    """Waits for what the other process tells."""

    def __init__(self, begin: int, once_known: Callable[[Declared], None]) -> None:
        super().__init__(daemon=True)
        self._begin = begin
        self._once_known = once_known
        self._declared: Declared | None = None
        self.start()

    def run(self) -> None:
        with os.fdopen(self._begin, "rb") as told:
            answer = told.read()
        try:
            self._declared = pickle.loads(answer)  # noqa: S301 - of our own process
        except (EOFError, pickle.UnpicklingError):
            return  # it ended before it had told all
        self._once_known(self._declared)

    def declared(self) -> Declared | None:
        """What was told; None where the other process ended without a word."""
        self.join()
        return self._declared


def _tell(reading: Callable[[], Declared], end: int) -> None:
    """In the other process: tell, and end without anything that belongs to the first one."""
    code = 1
    try:
        answer = _pickled(reading())
        with os.fdopen(end, "wb") as out:
            out.write(answer)
        code = 0
    finally:
        os._exit(code)


def _pickled(declared: Declared) -> bytes:
    out = io.BytesIO()
    pickler = pickle.Pickler(out, pickle.HIGHEST_PROTOCOL)
    # Hosts of one kind share their values; they still do when they have arrived.
    pickler.dispatch_table = {MappingProxyType: _reduce}
    pickler.dump(declared)
    return out.getvalue()


def _reduce(values: MappingProxyType[str, Any]) -> tuple[Any, ...]:
    return _frozen, (dict(values),)


def _frozen(values: dict[str, Any]) -> MappingProxyType[str, Any]:
    return MappingProxyType(values)
