"""``hfprov container-smoke``: what a job will do, on every node and between them, in containers."""

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
    app.command("container-smoke")(container_smoke)


def container_smoke(
    wait: Annotated[
        float,
        typer.Option(
            "--wait",
            min=1,
            max=3600,
            metavar="SECONDS",
            help="Seconds for the nodes to find each other.",
        ),
    ] = 60.0,
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
    """Compute in containers on every device and node. Then all nodes find each other."""
    from hfprov.certificate.revocation import revoke_bad
    from hfprov.container_smoke.run import container_smoke as run_test
    from hfprov.container_smoke.run import exit_code
    from hfprov.report.documents import sweep_document
    from hfprov.report.progress import Shown, say
    from hfprov.report.terminal import print_json
    from hfprov.report.tested import print_tested

    chosen = selection(inventory, limit, vault_password_file, ask_become_pass=ask_become_pass)
    site = open_site(chosen, at_once=at_once, deadline=deadline)
    with started("container-smoke", site, db) as (record, log):
        shown = Shown(len(site.fleet.baselines))
        views = run_test(
            site.fleet,
            log,
            wait=wait,
            on_host=shown.on_host,
            say=say,
        )
        revoke_bad(record, views, log)
        code = exit_code(views)
        log.finish(int(code))
    if as_json:
        print_json(sweep_document("container-smoke", log.id, views, code))
    else:
        print_tested(views, verbose=verbose)
    return int(code)
