"""Observations that begin while this process still loads what will judge them.

A login takes a node as long as its answer, and loading takes a command about as long: done one
after the other, each leaves the processors idle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from itertools import islice

from hfprov.declare.connection import Connection
from hfprov.errors import RemoteError
from hfprov.observe import AT_ONCE, HOST_DEADLINE, Answer, Login, log_in, observe
from hfprov.reading import Read
from hfprov.remote import has_stdin


class Ahead:
    """The first hosts of a fleet, being logged in to, and observed once it is known for what."""

    def __init__(
        self,
        connections: Mapping[str, Connection],
        *,
        at_once: int = AT_ONCE,
        deadline: float = HOST_DEADLINE,
    ) -> None:
        """Log in to as many hosts as are observed at once. ``deadline`` is in seconds.

        Hosts whose sudo asks for a password are left out: their probe has to be told what to read
        when it is started.
        """
        self._connections = connections
        self._deadline = deadline
        self._reads: Future[Mapping[str, Sequence[Read]]] = Future()
        chosen = list(
            islice((name for name, one in connections.items() if has_stdin(one)), at_once)
        )
        pool = ThreadPoolExecutor(max(1, len(chosen)))
        self._begun = {host: pool.submit(self._observe, host) for host in chosen}
        pool.shutdown(wait=False)

    def ask(self, reads: Mapping[str, Sequence[Read]]) -> None:
        """Say what is to be read, by host."""
        self._reads.set_result(reads)

    def close(self) -> None:
        """Nothing will be asked: leave the nodes as they are."""
        self._reads.cancel()

    def take(self) -> dict[str, Callable[[], Answer]]:
        """What waits for the answer of each host, once: the next sweep has to look anew."""
        taken, self._begun = self._begun, {}
        return {host: future.result for host, future in taken.items()}

    def _observe(self, host: str) -> Answer:
        connection = self._connections[host]
        login: Future[Login] = Future()
        try:
            login.set_result(log_in(connection, self._deadline))
        except RemoteError as error:
            login.set_exception(error)
        try:
            reads = self._reads.result()[host]
        except CancelledError:
            if login.exception() is None:
                login.result().command.close()
            raise
        return observe(connection, reads, deadline=self._deadline, begun=login.result)
