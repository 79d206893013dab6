"""``hfprov diagnose``: the vendor's own tests of the accelerators, recorded and judged."""

from __future__ import annotations

from typing import Annotated

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


def register(app: typer.Typer) -> None:
    app.command()(diagnose)


def diagnose(
    level: Annotated[
        int,
        typer.Option(
            "--level",
            min=1,
            max=4,
            metavar="NUMBER",
            help="How thorough: 1 takes seconds, 2 minutes, 4 hours.",
        ),
    ] = 1,
    inventory: InventoryOption = None,
    limit: LimitOption = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show passes too.")] = False,
    db: DbOption = None,
    as_json: JsonOption = False,
    vault_password_file: VaultOption = None,
    ask_become_pass: AskBecomeOption = False,
    at_once: AtOnceOption = 64,
    deadline: DeadlineOption = 90.0,
) -> int:
    """Run the vendor's own diagnosis. Refuses nodes whose accelerators are in use: drain first."""
    from hfprov.certificate.revocation import revoke_bad
    from hfprov.diagnose import diagnose as run_diagnosis
    from hfprov.operate import exit_code_for
    from hfprov.report.documents import sweep_document
    from hfprov.report.progress import Shown
    from hfprov.report.terminal import print_json
    from hfprov.report.tested import print_tested, required

    chosen = selection(inventory, limit, vault_password_file, ask_become_pass=ask_become_pass)
    site = open_site(chosen, at_once=at_once, deadline=deadline)
    with started("diagnose", site, db) as (record, log):
        shown = Shown(len(site.fleet.baselines))
        views = run_diagnosis(site.fleet, log, level, on_host=shown.on_host)
        revoke_bad(record, views, log)
        code = exit_code_for(required(views))
        log.finish(int(code))
    if as_json:
        print_json(sweep_document("diagnose", log.id, views, code))
    else:
        print_tested(views, verbose=verbose)
    return int(code)
