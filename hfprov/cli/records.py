"""Commands that read the record: runs, show, history, evidence, judge, forget, unlock."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from hfprov.cli.options import (
    DbOption,
    JsonOption,
    LimitOption,
    ViewInventoryOption,
    open_record,
    wanted_hosts,
)
from hfprov.errors import UsageError

RunArgument = Annotated[
    str, typer.Argument(help="A run: its id, the beginning or end of it, or 'last'.")
]
HostArgument = Annotated[str, typer.Argument(help="A host by its inventory name.")]


def register(app: typer.Typer) -> None:
    for one in (runs, show, history, evidence, judge, forget, unlock):
        app.command()(one)


def runs(
    last: Annotated[
        int, typer.Option("--last", "-n", min=1, metavar="NUMBER", help="How many, at most.")
    ] = 20,
    inventory: ViewInventoryOption = None,
    limit: LimitOption = None,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the runs in the record, newest first. With '--limit' those of some hosts."""
    from hfprov.report.documents import runs_document
    from hfprov.report.terminal import print_json, print_runs

    wanted = wanted_hosts(inventory, limit)
    with open_record(db, create=False) as record:
        hosts = None if wanted is None else [o.name for o in record.hosts() if wanted(o.name)]
        found = record.runs(last, hosts)
    if as_json:
        print_json(runs_document(found))
    else:
        print_runs(found)


def show(
    run: RunArgument = "last",
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show passes too.")] = False,
    inventory: ViewInventoryOption = None,
    limit: LimitOption = None,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one run. Each host's state and verdicts, changes, events, and what was measured."""
    from hfprov.report.documents import run_document
    from hfprov.report.measured import print_recorded
    from hfprov.report.terminal import print_json, print_run

    wanted = wanted_hosts(inventory, limit)
    with open_record(db, create=False) as record:
        view = record.run(run).only(wanted)
        measurements = (
            one
            for one in record.measurements(wanted_run=view.id)
            if wanted is None or wanted(one.host)
        )
        if as_json:
            print_json(run_document(view, measurements))
        else:
            print_run(view, verbose=verbose)
            print_recorded(measurements)


def history(
    host: Annotated[
        str | None, typer.Argument(help="A host by its inventory name; or give '--limit'.")
    ] = None,
    last: Annotated[
        int, typer.Option("--last", "-n", min=1, metavar="NUMBER", help="How many, at most.")
    ] = 20,
    inventory: ViewInventoryOption = None,
    limit: LimitOption = None,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what every run found of a host, newest first."""
    from hfprov.report.documents import history_document
    from hfprov.report.terminal import print_history, print_json

    wanted = wanted_hosts(inventory, limit) if host is None else host.__eq__
    if wanted is None:
        raise UsageError("No host was given.", hint="Name one, or give '--limit'.")
    with open_record(db, create=False) as record:
        names = [one.name for one in record.hosts() if wanted(one.name)]
        if not names:
            which = f"no host '{host}'" if host else "none of these hosts"
            raise UsageError(f"The record knows {which}.", hint="'hfprov runs' lists the runs.")
        if as_json and len(names) > 1:
            raise UsageError(f"'--json' tells of one host, not of {len(names)}.", hint="Name it.")
        for name in names:
            entries = record.history(name, last)
            if as_json:
                print_json(history_document(name, entries))
            else:
                if len(names) > 1:
                    typer.echo(f"{name}:")
                print_history(entries)


def evidence(
    run: RunArgument,
    host: HostArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to a file instead of stdout.")
    ] = None,
    db: DbOption = None,
) -> None:
    """Write what a host answered in a run, as JSON. With the baseline it was held against."""
    from hfprov.rejudge import evidence_document

    with open_record(db, create=False) as record:
        text = json.dumps(evidence_document(record, run, host), ensure_ascii=False) + "\n"
    if output is None:
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"'{output}' cannot be written: {error.strerror}.") from error


def judge(
    evidence: Annotated[Path, typer.Option("--evidence", help="A file of 'hfprov evidence'.")],
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show passes too.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Judge recorded evidence again, offline. Contacts nothing and records nothing."""
    from hfprov.operate import exit_code_for
    from hfprov.rejudge import rejudge
    from hfprov.report.documents import sweep_document
    from hfprov.report.terminal import print_json, print_views

    try:
        document = json.loads(evidence.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"'{evidence}' cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"'{evidence}' is not a JSON document: {error}.") from error
    if not isinstance(document, dict):
        raise UsageError(f"'{evidence}' is not an evidence document.")
    view = rejudge(document)
    views = {view.host: view}
    code = exit_code_for(views)
    if as_json:
        print_json(sweep_document("judge", str(document.get("run", "")), views, code))
    else:
        print_views(views, verbose=verbose)
    return int(code)


def forget(host: HostArgument, db: DbOption = None) -> None:
    """Release the machine recorded under a name. Another name may have it then."""
    with open_record(db, create=False) as record:
        record.forget_host(host)
    typer.echo(f"Host '{host}' no longer holds a machine; its history stays.")


def unlock(
    host: HostArgument,
    reason: Annotated[str, typer.Option("--reason", help="Why this is safe; recorded.")],
    db: DbOption = None,
) -> None:
    """Break the lock of a dead run on a host. For runs of another controller."""
    with open_record(db, create=False) as record:
        holder = record.break_lock(host, reason)
    if holder is None:
        typer.echo(f"Nobody holds host '{host}'.")
    else:
        typer.echo(f"Run '{holder.run}' on '{holder.controller}' no longer holds '{host}'.")
