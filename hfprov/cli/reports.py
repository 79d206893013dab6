"""The command that hands the record on: ``hfprov report``, in five formats."""

from __future__ import annotations

import io
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from hfprov.cli.options import (
    DbOption,
    LimitOption,
    ViewInventoryOption,
    open_record,
    wanted_hosts,
)
from hfprov.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from hfprov.report.content import Content
    from hfprov.report.overview import Overview


class Format(StrEnum):
    HTML = "html"
    MARKDOWN = "markdown"
    JUNIT = "junit"
    CSV = "csv"
    PROMETHEUS = "prometheus"


_SUFFIXES = {
    ".html": Format.HTML,
    ".htm": Format.HTML,
    ".md": Format.MARKDOWN,
    ".xml": Format.JUNIT,
    ".csv": Format.CSV,
    ".prom": Format.PROMETHEUS,
}


def register(app: typer.Typer) -> None:
    app.command()(report)


def report(
    run: Annotated[
        str,
        typer.Argument(
            help="A run: its id, the beginning or end of it, 'last', or 'fleet' for what was "
            "judged last of every host."
        ),
    ] = "last",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write to this file; without it, or '-', to stdout."),
    ] = None,
    kind: Annotated[
        Format | None,
        typer.Option("--format", "-f", help="Default: by the file's name; else html."),
    ] = None,
    fleet: Annotated[bool, typer.Option("--fleet", help="The same as RUN 'fleet'.")] = False,
    inventory: ViewInventoryOption = None,
    limit: LimitOption = None,
    db: DbOption = None,
) -> int:
    """Write a report of a run or of the whole fleet. For people, or for other programs."""
    from datetime import UTC, datetime

    from hfprov.report.content import FLEET, Content
    from hfprov.report.textfile import replacing

    if fleet and run not in {"last", FLEET}:
        raise UsageError(f"'--fleet' and run '{run}' are two different reports.", hint="Ask twice.")
    target = None if output is None or str(output) == "-" else output
    chosen = kind or _format_of(target)
    if target is None and chosen is Format.HTML and sys.stdout.isatty():
        raise UsageError("An HTML page is not for a terminal.", hint="Add '-o report.html'.")
    wanted = wanted_hosts(inventory, limit)
    with open_record(db, create=False) as record:
        content = Content(record, FLEET if fleet else run, datetime.now(UTC), wanted)
        if target is None:
            found = _write(chosen, content, _stdout())
        else:
            with replacing(target) as out:
                found = _write(chosen, content, out)
    if target is not None:
        typer.echo(f"{found.headline}. The report is in '{target}'.", err=True)
    return int(ExitCode.GOOD if found.rows else ExitCode.NOTHING)


def _format_of(target: Path | None) -> Format:
    if target is None or not target.suffix:
        return Format.HTML
    try:
        return _SUFFIXES[target.suffix.lower()]
    except KeyError:
        raise UsageError(
            f"The format of '{target}' does not follow from its name.",
            hint=f"Add '--format' with one of: {', '.join(Format)}.",
        ) from None


def _write(kind: Format, content: Content, out: TextIO) -> Overview:
    from hfprov.report.csv_export import write_csv
    from hfprov.report.html_page import write_html
    from hfprov.report.junit import write_junit
    from hfprov.report.markdown import write_markdown
    from hfprov.report.prometheus import write_prometheus

    writers = {
        Format.HTML: write_html,
        Format.MARKDOWN: write_markdown,
        Format.JUNIT: write_junit,
        Format.CSV: write_csv,
        Format.PROMETHEUS: write_prometheus,
    }
    return writers[kind](content, out)


def _stdout() -> TextIO:
    """Standard output in UTF-8, whatever the locale: a report says in its head what it is in."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    return sys.stdout
