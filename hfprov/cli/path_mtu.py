"""``hfprov path-mtu``: whether the network between nodes carries what their interfaces promise."""

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
    app.command("path-mtu")(path_mtu)


def path_mtu(
    inventory: InventoryOption = None,
    limit: LimitOption = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every path.")] = False,
    db: DbOption = None,
    as_json: JsonOption = False,
    vault_password_file: VaultOption = None,
    ask_become_pass: AskBecomeOption = False,
    at_once: AtOnceOption = 64,
    deadline: DeadlineOption = 90.0,
) -> int:
    """Test what packets pass between data interfaces. Both ways, and what stops them is named."""
    from hfprov.path_mtu.run import path_mtu as test_paths
    from hfprov.report.paths import path_mtu_document, print_path_mtu
    from hfprov.report.progress import say
    from hfprov.report.terminal import print_json

    chosen = selection(inventory, limit, vault_password_file, ask_become_pass=ask_become_pass)
    site = open_site(chosen, at_once=at_once, deadline=deadline)
    with started("path-mtu", site, db) as (_, log):
        found = test_paths(site.fleet, log, say)
        log.finish(int(found.code))
    if as_json:
        print_json(path_mtu_document(found))
    else:
        print_path_mtu(found, verbose=verbose)
    return int(found.code)
