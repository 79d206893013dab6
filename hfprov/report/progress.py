"""Progress on stderr: one live line on a terminal, plain lines otherwise.

It is the same with '--json': that is about standard output, and who waits for it can read, too.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.text import Text

from hfprov.converge import Progress
from hfprov.play import TaskResult
from hfprov.report.inert import one_line
from hfprov.report.terminal import console
from hfprov.report.tested import required
from hfprov.sweep import HostVerdicts

_QUARTERS = 4
_NAMES = 8
_CLEAR_LINE = "\r\x1b[2K"


def say(text: str) -> None:
    """What a command is at, for commands that do not go from host to host."""
    console(sys.stderr).print(Text(one_line(text)))


class Shown(Progress):
    """Shows how far a command is with ``total`` hosts."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._what = "observed"
        self._live = sys.stderr.isatty()
        self._out = console(sys.stderr)

    def on_wave(self, number: int, hosts: Sequence[str]) -> None:
        self._total, self._done, self._what = len(hosts), 0, "observed again"
        more = f" and {len(hosts) - _NAMES} more" if len(hosts) > _NAMES else ""
        self._line(f"wave {number}: {', '.join(hosts[:_NAMES])}{more}")

    def on_task(self, task: TaskResult) -> None:
        if task.failed or task.unreachable:
            self._line(f"{task.host}: failed: {task.named}: {task.message}", style="red")
        elif task.changed:
            self._line(f"{task.host}: changed: {task.named}")
        else:
            self._status(f"{task.host}: {task.named}")

    def on_host(self, view: HostVerdicts) -> None:
        self._done += 1
        word = view.outcome.value if required({view.host: view}) else "not applicable"
        text = f"{self._what} {self._done}/{self._total}: {view.host} {word}"
        step = max(1, self._total // _QUARTERS)
        if self._live:
            self._status(text)
            if self._done == self._total:
                self._clear()
        elif self._done == self._total or self._done % step == 0:
            self._line(text)

    def _line(self, text: str, style: str = "") -> None:
        self._clear()
        self._out.print(Text(one_line(text), style=style))

    def _status(self, text: str) -> None:
        if self._live:
            sys.stderr.write(f"{_CLEAR_LINE}{one_line(text)[: self._out.width - 1]}")
            sys.stderr.flush()

    def _clear(self) -> None:
        if self._live:
            sys.stderr.write(_CLEAR_LINE)
            sys.stderr.flush()
