"""A sign of life from a step that takes long: how many runs are done, every few seconds at most."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_EVERY = 10.0
"""Seconds between two signs: however many hosts take part, this is as much as is said."""

OnRun = Callable[[int], None]
"""Told after each run of a tool, with how many runs are to come that were not foreseen."""


def unheard(_: int) -> None:
    """For whoever does not ask how far it is."""


class StepProgress:
    """Counts the runs of one step, told from several threads, and says how far it is."""

    def __init__(
        self,
        say: Callable[[str], None],
        title: str,
        runs: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._say = say
        self._title = title
        self._runs = runs
        self._clock = clock
        self._done = 0
        self._more = 0
        self._said_at = clock()
        self._lock = threading.Lock()

    def __call__(self, more: int) -> None:
        with self._lock:
            self._done += 1
            self._more += more
            now = self._clock()
            if now - self._said_at < _EVERY:
                return
            self._said_at = now
            text = f"{self._title}: {self._done} of {self._runs + self._more} runs"
            if self._more:
                text += f", {self._more} of them made anew"
            self._say(text)
