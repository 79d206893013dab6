"""All commands of the command line, as one Typer application."""

from __future__ import annotations

from typing import Annotated

import typer

from hfprov.cli import (
    certificates,
    container_smoke,
    diagnose,
    drift,
    lab,
    measure,
    nodes,
    path_mtu,
    reboot,
    records,
    reference,
    reports,
    schedule,
    trials,
)

# Typer carries a click of its own; its common base of usage errors is reached through this class.
USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[2]

app = typer.Typer(
    name="hfprov",
    help="Bring bare-metal accelerator nodes to one declared baseline, and prove it.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def _options(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", is_eager=True, callback=reference.print_version
        ),
    ] = False,
) -> None:
    del version  # its callback has ended the command


nodes.register(app)
certificates.register(app)
drift.register(app)
reboot.register(app)
path_mtu.register(app)
measure.register(app)
trials.register(app)
diagnose.register(app)
container_smoke.register(app)
records.register(app)
reports.register(app)
reference.register(app)
app.add_typer(schedule.app, name="schedule")
app.add_typer(lab.app, name="lab")
