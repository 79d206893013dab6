"""Standard output that survives its surroundings: a reader that left, a closed descriptor."""

from __future__ import annotations

import io
import os
import sys
from typing import Any, TextIO

_STDERR = 2


class _Outlet(io.FileIO):
    """A stream whose reader may leave: what is written afterwards goes nowhere.

    So a command behind ``| head`` does all of its work, and ends with its own exit code.
    """

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return memoryview(data).nbytes


def prepare() -> None:
    """Make standard output and error usable, whatever they are. Call it before anything is open."""
    # A closed one would become the descriptor of the next file that is opened: of the record, say.
    while (opened := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass
    os.close(opened)
    sys.stdout = _text(1, sys.stdout)
    sys.stderr = _text(_STDERR, sys.stderr)


def _text(descriptor: int, before: TextIO | None) -> TextIO:
    raw = _Outlet(descriptor, "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=before.encoding if before else "utf-8",
        # A node's letters must not end a command on a terminal that cannot show them.
        errors="backslashreplace",
        line_buffering=descriptor == _STDERR or raw.isatty(),
    )
