"""What people see in a terminal: results on stdout, progress on stderr.

Everything that came from a node is cleaned of control characters and printed without markup: a
node must not be able to colour, move or rewrite what the operator reads. Times without a zone are
those of this machine's clock.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hfprov.catalogue.explanations import Explanation
from hfprov.checks.registry import Check
from hfprov.record.model import HistoryEntry, RunInfo
from hfprov.record.views import RunView
from hfprov.report.costs import who_repairs
from hfprov.report.documents import compare, summary
from hfprov.report.inert import one_line
from hfprov.report.narrow import Lines, column_widths, stacked
from hfprov.sweep import HostVerdicts
from hfprov.verdict import Outcome, Verdict, badness

STYLES = {
    Outcome.PASS: "green",
    Outcome.WARN: "yellow",
    Outcome.FAIL: "red",
    Outcome.UNKNOWN: "magenta",
    Outcome.NOT_APPLICABLE: "dim",
}


def console(stream: TextIO | None = None) -> Console:
    """A console without markup or highlighting; colours only on a terminal."""
    out = stream or sys.stdout
    # In a pipe a row is a line, whatever its length.
    width = None if out.isatty() else 4000
    return Lines(file=out, markup=False, highlight=False, width=width, soft_wrap=not out.isatty())


def print_json(document: Mapping[str, Any]) -> None:
    try:
        text = msgspec.json.format(msgspec.json.encode(document, enc_hook=str), indent=2).decode()
    except UnicodeEncodeError:  # a name of a file that is no UTF-8; as Python writes it
        text = json.dumps(document, indent=2, ensure_ascii=False, default=str)
    sys.stdout.write(f"{text}\n")


def outcome_text(outcome: Outcome) -> Text:
    return Text(outcome.value, style=STYLES[outcome])


_MOST_SUBJECTS = 4
_WORTH_SHOWING = (Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN)


def _worst_first(verdicts: Iterable[Verdict]) -> list[Verdict]:
    return sorted(verdicts, key=lambda one: -badness(one.outcome))


def print_views(views: Mapping[str, HostVerdicts], *, verbose: bool = False) -> None:
    """Every host with its outcome; below it what is not a pass (everything, when ``verbose``)."""
    out = console()
    for view in views.values():
        head = Text(view.host, style="bold")
        out.print(head, outcome_text(view.outcome))
        if not view.reachable:
            out.print(Text(f"  {one_line(view.reason)}"))
            if view.hint:
                out.print(Text(f"  {one_line(view.hint)}", style="dim"))
            continue
        for verdict in _worst_first(view.verdicts):
            if verbose or verdict.outcome in _WORTH_SHOWING:
                out.print(verdict_line(verdict))
    print_odd(views)
    counts = summary(views.values())
    out.print(Text("  ".join(f"{name}: {number}" for name, number in counts.items())))


def print_odd(views: Mapping[str, HostVerdicts]) -> None:
    """What differs from its kind across hosts: one firmware that all others have otherwise."""
    out = console()
    found = compare(views)
    for odd in found.odd:
        what = f"{odd.kind} {odd.device}".strip()
        out.print(
            Text(f"{odd.host} is the odd one: ", style="yellow"),
            Text(
                one_line(
                    f"{what} {odd.name} is {odd.value}; {odd.with_usual} of {odd.of} hosts "
                    f"have {odd.usual}"
                )
            ),
        )
    for what in found.divided:
        out.print(Text(f"The hosts are divided over {one_line(what)}.", style="yellow"))


def verdict_line(verdict: Verdict) -> Text:
    """``outcome check subject: observed X, expected Y. Reason``, in one line."""
    finding = verdict.finding
    line = Text("  ")
    line.append(f"{finding.outcome.value:<8} ", style=STYLES[finding.outcome])
    line.append(f"{verdict.check}")
    if finding.subject:
        line.append(f" {one_line(finding.subject)}", style="bold")
    parts = []
    if finding.observed:
        parts.append(f"observed {one_line(finding.observed).removesuffix('.')}")
    if finding.expected:
        parts.append(f"expected {one_line(finding.expected)}")
    if parts:
        line.append(": " + ", ".join(parts))
    if finding.reason:
        line.append(f" - {one_line(finding.reason)}", style="dim")
    if finding.waiver:
        line.append(f" [{one_line(finding.waiver.words(datetime.now(UTC)))}]", style="cyan")
    return line


def subjects_in_words(names: Sequence[str]) -> str:
    """``memlock, nofile and 3 more``; findings without a subject are only counted."""
    named = [one_line(name, 40) for name in names if name][:_MOST_SUBJECTS]
    more = len(names) - len(named)
    rest = [f"{more} more"] if more else []
    return " and ".join([*([", ".join(named)] if named else []), *rest])


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A plain table. Cells are cleaned; a Text cell keeps its style."""
    out = console()
    cells = [
        [cell if isinstance(cell, Text) else Text(one_line(cell)) for cell in row] for row in rows
    ]
    heads = [Text(name, style="bold") for name in columns]
    widths = column_widths(list(zip(heads, *cells, strict=True)), out.width)
    if widths is None:
        for row in cells:
            for line in stacked(columns, row):
                out.print(line)
        return
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold")
    for name, width in zip(columns, widths, strict=True):
        table.add_column(name, width=width)
    for row in cells:
        table.add_row(*row)
    out.print(table)


def print_runs(found: Iterable[RunInfo]) -> None:
    columns = ("run", "command", "started", "status", "exit", "hosts")
    print_table(
        columns,
        [
            (
                one.id,
                one.command,
                f"{one.started_at.astimezone():%Y-%m-%d %H:%M:%S}",
                one.status.value,
                "-" if one.exit_code is None else one.exit_code,
                one.host_count,
            )
            for one in found
        ],
    )


def print_run(view: RunView, *, verbose: bool) -> None:
    """A recorded run: hosts with their latest verdicts, changes and events."""
    out = console()
    info = view.info
    ending = "" if info.exit_code is None else f", exit code {info.exit_code}"
    out.print(Text(f"{info.id} {info.command}: {info.status.value}{ending}", style="bold"))
    for one in view.hosts():
        line = Text(f"{one.host} {one.state.value}")
        if one.latest:
            line.append(" ").append_text(outcome_text(one.latest.summary.outcome))
        out.print(line)
        if one.reason:
            out.print(Text(f"  {one_line(one.reason)}"))
        for verdict in _worst_first(one.latest.verdicts if one.latest else ()):
            if verbose or verdict.outcome in _WORTH_SHOWING:
                out.print(verdict_line(verdict))
    for host, change in view.changes():
        out.print(Text(f"{host}: {change.item}: {one_line(change.role)}: {one_line(change.task)}"))
    for event in view.events():
        about = f"{event.host}: " if event.host else ""
        at = event.at.astimezone()
        out.print(Text(f"{at:%H:%M:%S} {about}{one_line(event.message)}", style="dim"))


def print_history(entries: Iterable[HistoryEntry]) -> None:
    columns = ("run", "command", "started", "state", "verdicts")
    rows = []
    for one in entries:
        phases = ", ".join(f"{name}: {found.outcome.value}" for name, found in one.phases.items())
        rows.append(
            (
                one.run,
                one.command,
                f"{one.started_at.astimezone():%Y-%m-%d %H:%M}",
                one.state.value,
                phases,
            )
        )
    print_table(columns, rows)


def print_explanation(name: str, check: Check | None, text: Explanation) -> None:
    """``check`` is None for the result of a test, which is not read from a node."""
    out = console()
    out.print(Text(f"{name}: {text.title}", style="bold"))
    out.print(Text(f"\n{text.means.strip()}\n"))
    out.print(Text("Likely causes", style="bold"))
    for number, cause in enumerate(text.causes, start=1):
        out.print(Text(f"  {number}. {cause}"))
    out.print(Text("\nWhat to do", style="bold"))
    for number, step in enumerate(text.remedy, start=1):
        out.print(Text(f"  {number}. {step}"))
    out.print(Text(f"\n{who_repairs(check)}", style="dim"))
    if text.source:
        out.print(Text(f"Source: {text.source}", style="dim"))


def print_facts(facts: Any, depth: int = 0) -> None:
    """Facts as an indented list, one value per line."""
    indent = "  " * depth
    pairs = facts.items() if isinstance(facts, dict) else enumerate(facts)
    for key, value in pairs:
        label = f"{indent}{one_line(key)}" if isinstance(facts, dict) else f"{indent}-"
        if isinstance(value, (dict, list)) and value:
            sys.stdout.write(f"{label}:\n")
            print_facts(value, depth + 1)
        else:
            sys.stdout.write(f"{label}: {one_line(value)}\n")
