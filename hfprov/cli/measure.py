"""``hfprov measure``: bandwidth and latency of nodes and of the network between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hfprov.cli.options import (
    AskBecomeOption,
    AtOnceOption,
    DbOption,
    DeadlineOption,
    InventoryOption,
    JsonOption,
    LimitOption,
    VaultOption,
    selection,
    started,
)
from hfprov.cli.site import open_site
from hfprov.errors import UsageError

if TYPE_CHECKING:
    from hfprov.measure.steps import MeasurePlan
    from hfprov.measure.tool import Kind

ALL = "all"


def register(app: typer.Typer) -> None:
    app.command()(measure)


def measure(
    what: Annotated[
        list[str] | None,
        typer.Argument(help="gpu, memory, network, rdma, latency, storage, collective, or all."),
    ] = None,
    only_plan: Annotated[
        bool, typer.Option("--plan", help="Say what would run where, and how long; run nothing.")
    ] = False,
    seconds: Annotated[
        int,
        typer.Option(
            "--seconds", min=1, max=600, metavar="NUMBER", help="Length of one run of a tool."
        ),
    ] = 2,
    directory: Annotated[
        str, typer.Option("--directory", help="On the nodes' disk that is to be measured.")
    ] = "/var/tmp",  # noqa: S108 - a private directory is made below it
    file_mib: Annotated[
        int,
        typer.Option(
            "--file-mib", min=16, max=1 << 20, metavar="NUMBER", help="Size of the file in MiB."
        ),
    ] = 256,
    inventory: InventoryOption = None,
    limit: LimitOption = None,
    db: DbOption = None,
    as_json: JsonOption = False,
    vault_password_file: VaultOption = None,
    ask_become_pass: AskBecomeOption = False,
    at_once: AtOnceOption = 64,
    deadline: DeadlineOption = 90.0,
) -> int:
    """Measure idle nodes with the tools of the field. Judged by nominal, peers and history."""
    from hfprov.measure.run import Request
    from hfprov.measure.run import measure as run_measure
    from hfprov.measure.tool import Settings
    from hfprov.report.measured import measured_document, print_measured
    from hfprov.report.progress import say
    from hfprov.report.terminal import print_json

    request = Request(
        kinds=kinds_of(what or [ALL]),
        settings=Settings(seconds=seconds, directory=_absolute(directory), file_mib=file_mib),
        only_plan=only_plan,
    )
    chosen = selection(inventory, limit, vault_password_file, ask_become_pass=ask_become_pass)
    site = open_site(chosen, at_once=at_once, deadline=deadline)
    with started("measure", site, db) as (record, log):
        done = run_measure(
            record,
            site.fleet,
            log,
            request,
            _print_plan,
            say,
        )
        log.finish(int(done.code))
    if as_json:
        print_json(measured_document(done))
    elif not only_plan:
        print_measured(done)
    return int(done.code)


def kinds_of(what: list[str]) -> tuple[Kind, ...]:
    """The kinds that words of a command line name. Raises UsageError."""
    from hfprov.measure.tool import Kind

    known = [kind.value for kind in Kind]
    for word in what:
        if word != ALL and word not in known:
            raise UsageError(
                f"'{word}' cannot be measured.", hint=f"One of: {', '.join(known)}, or {ALL}."
            )
    return tuple(kind for kind in Kind if ALL in what or kind.value in what)


def _absolute(directory: str) -> str:
    if not directory.startswith("/"):
        raise UsageError(f"'{directory}' is no absolute path.", hint="For example: /var/tmp")
    return directory


def _print_plan(todo: MeasurePlan) -> None:
    from hfprov.report.measured import print_measure_plan

    print_measure_plan(todo)
