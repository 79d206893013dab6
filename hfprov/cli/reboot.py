"""``hfprov reboot``: the hosts that only a reboot makes right, drained, proven and released."""

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
    rollout,
    selection,
    started,
)
from hfprov.cli.site import open_site

if TYPE_CHECKING:
    from hfprov.reboot.plan import RebootPlan


def register(app: typer.Typer) -> None:
    app.command()(reboot)


def reboot(
    inventory: InventoryOption = None,
    limit: LimitOption = None,
    everyone: Annotated[
        bool, typer.Option("--all", help="Also hosts that no check wants rebooted.")
    ] = False,
    only_plan: Annotated[
        bool, typer.Option("--plan", help="Say who would be rebooted and why; reboot nobody.")
    ] = False,
    drain: Annotated[
        str | None,
        typer.Option(
            "--drain", envvar="HFPROV_DRAIN", help="Command that drains '{host}' before its reboot."
        ),
    ] = None,
    release: Annotated[
        str | None,
        typer.Option(
            "--release", envvar="HFPROV_RELEASE", help="Command that gives a proven '{host}' back."
        ),
    ] = None,
    kernel: Annotated[
        str, typer.Option("--kernel", help="Release that must run afterwards, as 'uname -r' says.")
    ] = "",
    wait: Annotated[
        float,
        typer.Option("--wait", min=1, metavar="SECONDS", help="Seconds for a host to come back."),
    ] = 1800.0,
    drain_wait: Annotated[
        float,
        typer.Option(
            "--drain-wait", min=0, metavar="SECONDS", help="Seconds for work on a host to end."
        ),
    ] = 600.0,
    settle: Annotated[
        float,
        typer.Option(
            "--settle", min=0, metavar="SECONDS", help="Seconds for checks to become good again."
        ),
    ] = 180.0,
    waves: WavesOption = None,
    max_failures: MaxFailuresOption = None,
    db: DbOption = None,
    as_json: JsonOption = False,
    vault_password_file: VaultOption = None,
    ask_become_pass: AskBecomeOption = False,
    at_once: AtOnceOption = 64,
    deadline: DeadlineOption = 90.0,
) -> int:
    """Reboot the hosts that need it. Drain, reboot, wait, prove, release; never twice in a run."""
    from hfprov.operate import Policy
    from hfprov.reboot.fleet import reboot_hosts
    from hfprov.reboot.hooks import parse_hook
    from hfprov.reboot.node import Patience
    from hfprov.reboot.wave import Orders
    from hfprov.report.progress import Shown
    from hfprov.report.reboots import print_rebooted, reboot_document
    from hfprov.report.terminal import print_json

    orders = Orders(
        Policy(*rollout(waves, max_failures), everything=everyone),
        only_plan=only_plan,
        drain=parse_hook("drain", drain),
        release=parse_hook("release", release),
        patience=Patience(boot=wait, drain=drain_wait),
        kernel=kernel,
        settle=settle,
    )
    chosen = selection(inventory, limit, vault_password_file, ask_become_pass=ask_become_pass)
    site = open_site(chosen, at_once=at_once, deadline=deadline)
    with started("reboot", site, db) as (record, log):
        shown = Shown(len(site.fleet.baselines))
        done = reboot_hosts(record, site.fleet, log, orders, shown, _print_plan)
        log.finish(int(done.code))
    if as_json:
        print_json(reboot_document(done))
    else:
        print_rebooted(done)
    return int(done.code)


def _print_plan(todo: RebootPlan) -> None:
    from hfprov.report.reboots import print_reboot_plan

    print_reboot_plan(todo)
