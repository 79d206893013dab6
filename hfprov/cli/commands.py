"""All commands of the command line, as one Typer application."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Annotated

import typer

from hfprov.cli import reference

# Typer carries a click of its own; its common base of usage errors is reached through this class.
USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[2]

MODULES = {
    "nodes": ("baseline", "provision"),
    "certificates": ("certify", "verify", "gate", "certificates", "revoke"),
    "drift": ("drift",),
    "reboot": ("reboot",),
    "path_mtu": ("path-mtu",),
    "measure": ("measure",),
    "trials": ("trial", "traffic", "record-workload"),
    "diagnose": ("diagnose",),
    "container_smoke": ("container-smoke",),
    "records": ("runs", "show", "history", "evidence", "judge", "forget", "unlock"),
    "reports": ("report",),
    "reference": ("explain", "parse", "version"),
    "schedule": ("schedule",),
    "lab": ("lab",),
}
"""The modules of this package by the commands that each registers, in the order of the help."""


def build(words: Sequence[str] = ()) -> typer.Typer:
    """The application for a command line: of the command that it names, else of all commands.

    To build all of them takes as long as to judge two hosts.
    """
    app = typer.Typer(
        name="hfprov",
        help="Bring bare-metal accelerator nodes to one declared baseline, and prove it.",
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_options)
    named = [module for module, commands in MODULES.items() if words and words[0] in commands]
    for module in named or MODULES:
        importlib.import_module(f"hfprov.cli.{module}").register(app)
    return app


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
