"""``hfprov drift``: what differs from the baseline, and its repair within a disruption budget."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hfprov.cli.nodes import converge_and_print
from hfprov.cli.options import (
    AskBecomeOption,
    AtOnceOption,
    DbOption,
    DeadlineOption,
    InventoryOption,
    JsonOption,
    LimitOption,
    MaxFailuresOption,
    VaultOption,
    WavesOption,
    command_line,
    open_record,
    rollout,
    selection,
)
from hfprov.cli.site import Site, open_site
from hfprov.errors import UsageError

if TYPE_CHECKING:
    from hfprov.operate import Policy
    from hfprov.record.store import Record

TextfileOption = Annotated[
    Path | None,
    typer.Option(
        "--textfile",
        help="Also write Prometheus metrics: a folder of node_exporter's textfile collector, or "
        "a file.",
    ),
]


def register(app: typer.Typer) -> None:
    app.command()(drift)


def drift(
    inventory: InventoryOption = None,
    limit: LimitOption = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Repair what a role can repair.")
    ] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only show what '--repair' would do.")
    ] = False,
    only: Annotated[
        str | None,
        typer.Option(
            "--only",
            help="Costliest repair allowed: safe, restart (the default) or reboot.",
        ),
    ] = None,
    waves: WavesOption = None,
    max_failures: MaxFailuresOption = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show every host with passes, too.")
    ] = False,
    textfile: TextfileOption = None,
    db: DbOption = None,
    as_json: JsonOption = False,
    vault_password_file: VaultOption = None,
    ask_become_pass: AskBecomeOption = False,
    at_once: AtOnceOption = 64,
    deadline: DeadlineOption = 90.0,
) -> int:
    """Say what is different from the baseline on which host. Changes nothing without --repair."""
    level = _level(only)
    how = rollout(waves, max_failures)
    if not (repair or plan):
        _require_nothing_of_a_repair(
            {"--only": only, "--waves": waves, "--max-failures": max_failures}
        )
    if textfile is not None:
        from hfprov.report.textfile import require_writable

        require_writable(textfile)
    chosen = selection(inventory, limit, vault_password_file, ask_become_pass=ask_become_pass)
    site = open_site(chosen, at_once=at_once, deadline=deadline, observing=True)
    from hfprov.operate import Policy

    policy = Policy(*how, allowed=level)
    with open_record(db) as record:
        if plan:
            return _foresee(record, site, policy, as_json=as_json)
        if repair:
            code = converge_and_print(
                "drift", record, site, policy, as_json=as_json, verbose=verbose
            )
        else:
            code = _look(record, site, as_json=as_json, verbose=verbose)
        if textfile is not None:
            from hfprov.report.textfile import write_textfile

            write_textfile(record, textfile)
    return code


def _level(only: str | None) -> str:
    """The costliest repair that is allowed. Raises UsageError for a word that is none."""
    from hfprov.rollout import LEVELS

    level = "restart" if only is None else only
    if level not in LEVELS:
        raise UsageError(f"'{only}' is no kind of repair.", hint=f"One of: {', '.join(LEVELS)}.")
    return level


def _require_nothing_of_a_repair(given: Mapping[str, str | None]) -> None:
    """Raises UsageError for an option about a repair that nobody asked for."""
    for option, value in given.items():
        if value is not None:
            raise UsageError(
                f"'{option}' is about a repair, and none was asked for.",
                hint="Add '--repair', or '--plan' to see what a repair would do.",
            )


def _look(record: Record, site: Site, *, as_json: bool, verbose: bool) -> int:
    from datetime import UTC, datetime

    from hfprov import operate
    from hfprov.report.drift import drift_document, drift_of
    from hfprov.report.drift_text import Streamed, print_drift, print_hosts
    from hfprov.report.terminal import print_json, print_views

    with record.start_run(
        "drift", command_line(), site.fleet.baselines, secrets=site.secrets
    ) as log:
        shown = Streamed(len(site.fleet.baselines))
        done = operate.drift(record, site.fleet, log, shown)
        log.finish(int(done.code))
    found = drift_of(record, done.run, datetime.now(UTC))
    if as_json:
        print_json(drift_document(done, found))
    else:
        print_drift(found, {view.host: view.hint for view in done.views.values()})
        if verbose:
            print_views(done.views, verbose=True)
        else:
            print_hosts(done.views)
    return int(done.code)


def _foresee(record: Record, site: Site, policy: Policy, *, as_json: bool) -> int:
    from hfprov import operate
    from hfprov.report.drift_text import Streamed
    from hfprov.report.plan import plan_document, print_plan
    from hfprov.report.terminal import print_json

    with record.start_run(
        "drift", command_line(), site.fleet.baselines, secrets=site.secrets
    ) as log:
        shown = Streamed(len(site.fleet.baselines))
        done = operate.foresee(record, site.fleet, log, policy, shown)
        log.finish(int(done.code))
    if as_json:
        print_json(plan_document("drift", done, policy))
    elif done.plan is not None:
        print_plan(done.plan, done.views)
        if not done.plan.roles:
            typer.echo("There is nothing that a role would repair.")
    return int(done.code)
