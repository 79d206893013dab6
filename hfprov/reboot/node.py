"""Reboot one node and wait until it is up again: ask, wait for a new boot, wait for its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from hfprov.baseline import Baseline
from hfprov.declare.connection import Connection
from hfprov.errors import NoEvidenceError, NotUnderstoodError, RebootError, RemoteError
from hfprov.evidence.system import PROCESSES
from hfprov.observe import observe
from hfprov.reading import Observation, Read
from hfprov.reboot.boot import Boot, boot_of, boot_reads
from hfprov.remote import run
from hfprov.words import at_work

T = TypeVar("T")

LOOK_SECONDS = 60.0
"""For one look at a node. An emulated machine, or one that just boots, takes its time."""
ORDER_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait, in seconds."""

    boot: float = 1800.0
    """From the order to the end of the boot. Servers with terabytes of memory train it for long."""
    drain: float = 600.0
    """For work on the node to end, once the drain hook has run."""
    poll: float = 5.0


class Node:
    """One node that is to be rebooted. Methods block, within a deadline, and end early on stop."""

    def __init__(
        self, connection: Connection, baseline: Baseline, patience: Patience, stop: threading.Event
    ) -> None:
        self.host = baseline.host
        self._connection = connection
        self._baseline = baseline
        self._patience = patience
        self._stop = stop

    def boot(self) -> Boot:
        """What the node is now. Raises RemoteError, NoEvidenceError or NotUnderstoodError."""
        return self._see(boot_reads(self._baseline), lambda seen: boot_of(seen, self._baseline))

    def wait_until_idle(self) -> None:
        """Return when no container and no job is at work. Raises RebootError when some remain."""
        reads = PROCESSES.reads(self._baseline)
        end = time.monotonic() + self._patience.drain
        while True:
            left = self._see(reads, lambda seen: PROCESSES.parse(seen, self._baseline).workloads)
            if not left:
                return
            if time.monotonic() > end:
                raise RebootError(
                    f"After {self._patience.drain:g} s {at_work(len(left))} on '{self.host}', "
                    f"the first: {left[0]}",
                    hint="Wait for them or end them; a node at work is not rebooted.",
                )
            self._pause()

    def order(self) -> None:
        """Tell the node to reboot. Raises RebootError when it refuses.

        A connection that breaks meanwhile is what a reboot looks like, and is no error; only the
        next boot tells.
        """
        try:
            told = run(self._connection, ["systemctl", "reboot"], deadline=ORDER_SECONDS)
        except RemoteError:
            return
        if told.code not in (0, -1):  # -1: the session ended before the command did
            said = told.stderr.strip() or f"exit code {told.code}"
            raise RebootError(f"'{self.host}' refuses to reboot: {said}")

    def wait_for_new_boot(self, before: Boot) -> Boot:
        """The next boot, once all of it has started. Raises RebootError at the deadline."""
        started = time.monotonic()
        last = "It did not answer."
        while time.monotonic() - started < self._patience.boot:
            self._pause()
            try:
                now = self.boot()
            except (RemoteError, NoEvidenceError, NotUnderstoodError) as error:
                last = error.message
                continue
            if now.kernel.boot_id == before.kernel.boot_id:
                last = "It still answers in its old boot: something holds the shutdown up."
            elif now.up:
                return now
            else:
                last = f"It has booted '{now.kernel.release}', and systemd is '{now.state}'."
        raise RebootError(
            f"'{self.host}' did not come back within {self._patience.boot:g} s. {last}",
            hint="Look at its console (BMC). It stays out of service.",
        )

    def _see(self, reads: Sequence[Read], parse: Callable[[Observation], T]) -> T:
        answer = observe(self._connection, reads, deadline=LOOK_SECONDS)
        if answer.observation is None:
            raise RemoteError(answer.error, hint=answer.hint)
        return parse(answer.observation)

    def _pause(self) -> None:
        if self._stop.wait(self._patience.poll):
            raise RebootError(f"Stopped while '{self.host}' was being rebooted.")
