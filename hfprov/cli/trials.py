"""``hfprov trial``, ``traffic``, ``record-workload``: what a setting does, and to what traffic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from hfprov.cli.measure import kinds_of
from hfprov.cli.options import (
    AskBecomeOption,
    AtOnceOption,
    DbOption,
    DeadlineOption,
    InventoryOption,
    JsonOption,
    LimitOption,
    VaultOption,
    command_line,
    open_record,
    selection,
    started,
)
from hfprov.cli.site import open_site
from hfprov.errors import UsageError


def register(app: typer.Typer) -> None:
    app.command()(trial)
    app.command()(traffic)
    app.command("record-workload")(record_workload)


def trial(
    role: Annotated[str, typer.Argument(help="The role that is tried, e.g. jumbo_mtu.")],
    before: Annotated[
        list[str] | None,
        typer.Option(
            "--before",
            metavar="VARIABLE=VALUE",
            help="A setting of the role to compare with; may be repeated.",
        ),
    ] = None,
    after: Annotated[
        list[str] | None,
        typer.Option(
            "--after",
            metavar="VARIABLE=VALUE",
            help="A setting to try; else as the inventory declares. May be repeated.",
        ),
    ] = None,
    what: Annotated[
        list[str] | None,
        typer.Option("--measure", metavar="WHAT", help="As for 'hfprov measure'; may be repeated."),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave what was tried in place.")] = False,
    seconds: Annotated[
        int,
        typer.Option(
            "--seconds", min=1, max=600, metavar="NUMBER", help="Length of one run of a tool."
        ),
    ] = 2,
    inventory: InventoryOption = None,
    limit: LimitOption = None,
    db: DbOption = None,
    as_json: JsonOption = False,
    vault_password_file: VaultOption = None,
    ask_become_pass: AskBecomeOption = False,
    at_once: AtOnceOption = 64,
    deadline: DeadlineOption = 90.0,
) -> int:
    """Measure what a role does, before and after. Undone at the end, unless told to keep it."""
    from hfprov.measure.run import Request
    from hfprov.measure.tool import Settings
    from hfprov.measure.trial import TrialRequest, require
    from hfprov.measure.trial import trial as run_trial
    from hfprov.report.progress import say
    from hfprov.report.terminal import print_json
    from hfprov.report.trials import print_trial, trial_document
    from hfprov.resolve import require_valid

    asked = TrialRequest(
        role,
        before=_variables(before),
        after=_variables(after),
        measure=Request(kinds_of(what or ["network"]), Settings(seconds=seconds)),
        keep=keep,
    )
    chosen = selection(inventory, limit, vault_password_file, ask_become_pass=ask_become_pass)
    site = open_site(chosen, at_once=at_once, deadline=deadline)
    given = {"--before": asked.before, "--after": asked.after}
    require(site.fleet, asked)
    require_valid(role, given, site.fleet.baselines)
    with started("trial", site, db) as (record, log):
        done = run_trial(
            record,
            site.fleet,
            site.tools,
            log,
            asked,
            say,
        )
        log.finish(int(done.code))
    if as_json:
        print_json(trial_document(done))
    else:
        print_trial(done)
    return int(done.code)


def traffic(
    hosts: Annotated[str, typer.Argument(help="A host or a pattern of hosts.")],
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds", min=1, max=3600, metavar="NUMBER", help="How long it is watched."
        ),
    ] = 10.0,
    inventory: InventoryOption = None,
    db: DbOption = None,
    as_json: JsonOption = False,
    vault_password_file: VaultOption = None,
    ask_become_pass: AskBecomeOption = False,
    at_once: AtOnceOption = 64,
    deadline: DeadlineOption = 90.0,
) -> int:
    """Watch what goes over a node's interfaces. Says whether bigger frames could help it."""
    from hfprov.measure.watch import watch
    from hfprov.report.terminal import print_json
    from hfprov.report.trials import print_traffic, traffic_document

    chosen = selection(inventory, hosts, vault_password_file, ask_become_pass=ask_become_pass)
    site = open_site(chosen, at_once=at_once, deadline=deadline)
    with started("traffic", site, db) as (_, log):
        done = watch(site.fleet, log, seconds)
        log.finish(int(done.code))
    if as_json:
        print_json(traffic_document(done))
    else:
        print_traffic(done)
    return int(done.code)


def record_workload(
    file: Annotated[Path, typer.Argument(help="A result as in docs/measurements.md.")],
    inventory: InventoryOption = None,
    limit: LimitOption = None,
    db: DbOption = None,
    vault_password_file: VaultOption = None,
) -> int:
    """Record what a training or inference run came to. The next is compared with it."""
    from hfprov.measure.workload import measurements, read_workload
    from hfprov.record.model import HostState
    from hfprov.words import plural

    found = read_workload(file)
    site = open_site(selection(inventory, limit, vault_password_file))
    strangers = [host for host in found.hosts if host not in site.fleet.baselines]
    if strangers:
        raise UsageError(
            f"'{file}' names '{strangers[0]}', which the inventory does not have.",
            hint="Hosts are named as in the inventory.",
        )
    baselines = site.fleet.only(found.hosts).baselines
    with (
        open_record(db) as record,
        record.start_run("record-workload", command_line(), baselines, secrets=site.secrets) as log,
    ):
        some = measurements(found)
        for one in some:
            log.measured(one)
        # Not left as a host that the run did not come to: all that it is about has been done.
        log.states(found.hosts, HostState.OBSERVED, "Its workload was recorded as it was told.")
        log.finish(0)
    told = f"{plural(len(some), 'measurement')} of {plural(len(found.hosts), 'host')}"
    typer.echo(f"{told} recorded in run {log.id}.")
    return 0


def _variables(words: list[str] | None) -> dict[str, Any]:
    """``name=value`` words; values are read as YAML, as in an inventory."""
    found: dict[str, Any] = {}
    for word in words or ():
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"'{word}' is not of the form VARIABLE=VALUE.")
        try:
            found[name] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise UsageError(f"The value of '{name}' cannot be read: '{value}'.") from None
    return found
