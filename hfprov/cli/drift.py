"""``hfprov drift``: what differs from the baseline, and its repair within a disruption budget."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

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
    Site,
    VaultOption,
    command_line,
    open_record,
    open_site,
    selection,
)
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
    waves: Annotated[
        str | None,
        typer.Option(
            "--waves",
            help="Sizes of the waves of a repair; the last one repeats. Default: 1,10%,100%.",
        ),
    ] = None,
    max_failures: Annotated[
        str | None,
        typer.Option(
            "--max-failures",
            help="Hosts that may fail before a repair stops. Default: 10%.",
        ),
    ] = None,
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
    given = {"--only": only, "--waves": waves, "--max-failures": max_failures}
    how = _how(given, repairs=repair or plan)
    if textfile is not None:
        from hfprov.report.textfile import require_writable

        require_writable(textfile)
    chosen = selection(inventory, limit, vault_password_file, ask_become_pass=ask_become_pass)
    site = open_site(chosen, at_once=at_once, deadline=deadline)
    from hfprov.operate import Policy

    policy = Policy(how.sizes, how.budget, allowed=how.level)
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


class _How(NamedTuple):
    """How a repair is to go, as the command line says it."""

    sizes: tuple[str, ...]
    budget: str
    level: str


def _how(given: Mapping[str, str | None], *, repairs: bool) -> _How:
    """Read what was given of a repair. Raises UsageError for what is wrong or about nothing."""
    from hfprov.rollout import DEFAULT_BUDGET, DEFAULT_WAVES, LEVELS, require_sizes

    only, waves, budget = given["--only"], given["--waves"], given["--max-failures"]
    how = _How(
        DEFAULT_WAVES if waves is None else tuple(waves.split(",")),
        DEFAULT_BUDGET if budget is None else budget,
        "restart" if only is None else only,
    )
    if how.level not in LEVELS:
        raise UsageError(f"'{only}' is no kind of repair.", hint=f"One of: {', '.join(LEVELS)}.")
    require_sizes(how.sizes, how.budget)
    for option, value in given.items():
        if value is not None and not repairs:
            raise UsageError(
                f"'{option}' is about a repair, and none was asked for.",
                hint="Add '--repair', or '--plan' to see what a repair would do.",
            )
    return how


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
