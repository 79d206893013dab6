"""What people see in a terminal: results on stdout, progress on stderr.

Everything that came from a node is cleaned of control characters and printed without markup: a
node must not be able to colour, move or rewrite what the operator reads.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hfprov.converge import Plan, Report
from hfprov.evidence.text import clean
from hfprov.report.documents import summary
from hfprov.sweep import HostVerdicts
from hfprov.verdict import Outcome, Verdict, badness

STYLES = {
    Outcome.PASS: "green",
    Outcome.WARN: "yellow",
    Outcome.FAIL: "red",
    Outcome.UNKNOWN: "magenta",
    Outcome.NOT_APPLICABLE: "dim",
}
_CELL = 400


def safe(text: object) -> str:
    """A node's or user's text in one line, harmless to a terminal, of bounded length."""
    line = " ".join(clean(str(text)[: 4 * _CELL]).split())
    return line if len(line) <= _CELL else line[: _CELL - 1] + "…"


def console(stream: TextIO | None = None) -> Console:
    """A console without markup or highlighting; colours only on a terminal."""
    out = stream or sys.stdout
    width = None if out.isatty() else 160
    return Console(file=out, markup=False, highlight=False, width=width, soft_wrap=not out.isatty())


def print_json(document: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False, default=str) + "\n")


def outcome_text(outcome: Outcome) -> Text:
    return Text(outcome.value, style=STYLES[outcome])


def print_views(views: Mapping[str, HostVerdicts], *, verbose: bool = False) -> None:
    """Every host with its outcome; below it what is not a pass (everything, when ``verbose``)."""
    out = console()
    for view in views.values():
        head = Text(view.host, style="bold")
        out.print(head, outcome_text(view.outcome))
        if not view.reachable:
            out.print(Text(f"  {safe(view.reason)}"))
            if view.hint:
                out.print(Text(f"  {safe(view.hint)}", style="dim"))
            continue
        for verdict in sorted(view.verdicts, key=lambda one: -badness(one.outcome)):
            if verbose or verdict.outcome in (Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN):
                out.print(verdict_line(verdict))
    counts = summary(views.values())
    out.print(Text("  ".join(f"{name}: {number}" for name, number in counts.items())))


def verdict_line(verdict: Verdict) -> Text:
    """``outcome check subject: observed X, expected Y. Reason``, in one line."""
    finding = verdict.finding
    line = Text("  ")
    line.append(f"{finding.outcome.value:<8}", style=STYLES[finding.outcome])
    line.append(f"{verdict.check}")
    if finding.subject:
        line.append(f" {safe(finding.subject)}", style="bold")
    parts = []
    if finding.observed:
        parts.append(f"observed {safe(finding.observed)}")
    if finding.expected:
        parts.append(f"expected {safe(finding.expected)}")
    if parts:
        line.append(": " + ", ".join(parts))
    if finding.reason:
        line.append(f" - {safe(finding.reason)}", style="dim")
    return line


def print_plan(plan: Plan) -> None:
    """What is going to be done, before it is done."""
    out = console(sys.stderr)
    for number, hosts in enumerate(plan.waves, start=1):
        out.print(Text(f"wave {number}:", style="bold"))
        for host in hosts:
            out.print(Text(f"  {host}: {', '.join(plan.roles[host])}"))
    for host, checks in plan.out_of_reach.items():
        out.print(Text(f"  {host}: not repaired by this run: {', '.join(checks)}", style="yellow"))


def print_report(report: Report) -> None:
    """What went wrong in a converge; nothing when nothing did."""
    out = console(sys.stderr)
    for host, reason in report.failed.items():
        out.print(Text(f"{host} failed: {safe(reason)}", style="red"))
    if report.stopped:
        out.print(Text(f"The rollout stopped. {safe(report.stopped)}", style="red"))
    if report.not_attempted:
        out.print(Text(f"Not attempted: {', '.join(report.not_attempted)}", style="yellow"))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A plain table. Cells are cleaned; a Text cell keeps its style."""
    out = console()
    table = Table(*columns, box=None, pad_edge=False, show_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(safe(cell)) for cell in row))
    out.print(table)


class Progress:
    """Progress on stderr: one live line on a terminal, plain lines otherwise, or none."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._live = sys.stderr.isatty()
        self._out = console(sys.stderr)

    def say(self, text: str, *, style: str = "") -> None:
        if not self._quiet:
            self._clear()
            self._out.print(Text(safe(text), style=style))

    def count(self, what: str, done: int, total: int, last: str = "") -> None:
        """``done`` of ``total``; the last one by name on a live terminal."""
        if self._quiet:
            return
        if self._live:
            sys.stderr.write(f"\r\x1b[2K{what} {done}/{total} {safe(last)[:60]}")
            if done >= total:
                self._clear()
            sys.stderr.flush()
        elif done == total or done % max(1, total // 4) == 0:
            self._out.print(Text(f"{what} {done}/{total}"))

    def _clear(self) -> None:
        if self._live:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
