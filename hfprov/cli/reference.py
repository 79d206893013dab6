"""Commands that look things up: explain, checks, parse, version. They contact nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hfprov.cli.options import JsonOption
from hfprov.errors import UsageError


def register(app: typer.Typer) -> None:
    app.command()(explain)
    app.command()(parse)
    app.command()(version)


def explain(
    check: Annotated[str | None, typer.Argument(help="A check, e.g. 'limits.session'.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Say what a check means, why it fails, and what to do. Without a name: list all checks."""
    from hfprov.catalogue.explanations import explanations
    from hfprov.checks.registry import all_checks
    from hfprov.judge import find_check
    from hfprov.report.documents import explanation_document, explanations_document
    from hfprov.report.terminal import print_explanation, print_json, print_table
    from hfprov.verdict import Impact

    texts = explanations()
    if check is None:
        checks = {one.id: one for one in all_checks()}
        if as_json:
            print_json(explanations_document(checks, texts))
            return
        rows = [
            (name, one.role or "-", one.impact, texts[name].title) for name, one in checks.items()
        ]
        # Results of tests that are not read from a node have no check of their own.
        others = [name for name in texts if name not in checks]
        rows += [(name, "-", Impact.MANUAL, texts[name].title) for name in others]
        print_table(("check", "role", "repair costs", "about"), rows)
        return
    found = find_check(check)
    if check not in texts:
        raise UsageError(f"There is no check '{check}'.", hint=_nearest(check))
    if as_json:
        print_json(explanation_document(check, found, texts[check]))
    else:
        print_explanation(check, found, texts[check])


def _nearest(name: str) -> str:
    from hfprov.catalogue.explanations import explanations
    from hfprov.report.nearest import nearest

    close = nearest(name, list(explanations()))
    if not close:
        return "'hfprov explain' lists them."
    quoted = [f"'{one}'" for one in close]
    listed = " or ".join([", ".join(quoted[:-1]), quoted[-1]] if quoted[1:] else quoted)
    return f"Did you mean {listed}?"


def parse(
    tool: Annotated[str, typer.Argument(help="The tool that printed it, e.g. 'nvidia-smi'.")],
    file: Annotated[Path, typer.Argument(help="A file with its output; '-' for standard input.")],
    as_json: JsonOption = False,
) -> None:
    """Read a tool's recorded output, and print the facts in it."""
    from hfprov.evidence.tools import find_tool, plain
    from hfprov.report.terminal import print_facts, print_json

    parser = find_tool(tool)
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise UsageError(f"'{file}' cannot be read: {error.strerror}.") from error
    facts = parser.parse(data.decode("utf-8", "backslashreplace"))
    document = {"schema": "hfprov.facts/1", "tool": tool, "facts": plain(facts)}
    if as_json:
        print_json(document)
    else:
        print_facts(document["facts"])


def print_version(context: typer.Context, wanted: bool) -> None:
    """For ``--version``, which other programs have."""
    if wanted and not context.resilient_parsing:  # a shell that completes is told words only
        version()
        raise typer.Exit


def version() -> None:
    """Print the version."""
    from hfprov.record.migrate import hfprov_version

    typer.echo(f"hfprov {hfprov_version()}")
