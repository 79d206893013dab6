"""Commands that contact nodes, and the baseline that nodes are held against."""

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
    from hfprov.operate import Operation, Policy
    from hfprov.record.store import Record


def register(app: typer.Typer) -> None:
    app.command()(baseline)
    app.command()(provision)


def baseline(
    host: Annotated[str, typer.Argument(help="A host of the inventory.")],
    inventory: InventoryOption = None,
    vault_password_file: VaultOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a host's baseline. Each value with its origin, its reason, and how it is read back."""
    from hfprov.report.documents import baseline_document
    from hfprov.report.golden import golden_table, shown_value
    from hfprov.report.terminal import print_json, print_table

    site = open_site(selection(inventory, host, vault_password_file))
    if len(site.fleet.baselines) != 1:
        raise UsageError(f"'{host}' names {len(site.fleet.baselines)} hosts.", hint="Name one.")
    [one] = site.fleet.baselines.values()
    rows = golden_table(one)
    if as_json:
        print_json(baseline_document(one, rows))
        return
    columns = ("variable", "value", "origin", "reason", "read back by")
    print_table(
        columns,
        [
            (
                row["variable"],
                shown_value(row),
                row["origin"],
                row["reason"],
                ", ".join(row["read_back_by"]),
            )
            for row in rows
        ],
    )


def provision(
    inventory: InventoryOption = None,
    limit: LimitOption = None,
    full: Annotated[bool, typer.Option("--full", help="Run every role on every host.")] = False,
    waves: WavesOption = None,
    max_failures: MaxFailuresOption = None,
    db: DbOption = None,
    as_json: JsonOption = False,
    vault_password_file: VaultOption = None,
    ask_become_pass: AskBecomeOption = False,
    at_once: AtOnceOption = 64,
    deadline: DeadlineOption = 90.0,
) -> int:
    """Bring hosts to their baseline. Observe, run the roles that are needed, observe again."""
    how = rollout(waves, max_failures)
    chosen = selection(inventory, limit, vault_password_file, ask_become_pass=ask_become_pass)
    site = open_site(chosen, at_once=at_once, deadline=deadline, observing=True)
    from hfprov.operate import Policy

    policy = Policy(*how, everything=full)
    with open_record(db) as record:
        return converge_and_print("provision", record, site, policy, as_json=as_json)


def converge_and_print(
    command: str,
    record: Record,
    site: Site,
    policy: Policy,
    *,
    as_json: bool,
    verbose: bool = False,
) -> int:
    """Observe, show the plan, carry it out, observe again, and say what was not repaired."""
    from hfprov.operate import bring_to_baseline
    from hfprov.report.drift_text import Streamed
    from hfprov.report.plan import print_plan
    from hfprov.report.progress import Shown

    # What a fresh node lacks is no news: the plan says what will be done about it.
    kind = Shown if command == "provision" else Streamed
    with record.start_run(
        command, command_line(), site.fleet.baselines, secrets=site.secrets
    ) as log:
        shown = kind(len(site.fleet.baselines))
        done = bring_to_baseline(record, site.fleet, site.tools, log, policy, shown, print_plan)
        log.finish(int(done.code))
    return _print(command, done, as_json=as_json, verbose=verbose)


def _print(command: str, done: Operation, *, as_json: bool, verbose: bool) -> int:
    from hfprov.report.plan import repair_document
    from hfprov.report.repairs import print_repair
    from hfprov.report.terminal import print_json

    if as_json:
        print_json(repair_document(command, done))
    else:
        print_repair(done, verbose=verbose)
    return int(done.code)
