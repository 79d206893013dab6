"""The command line: commands, printing, exit codes. The work is done elsewhere."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from types import FrameType

import typer

from hfprov.cli import (
    certificates,
    diagnose,
    drift,
    lab,
    nodes,
    path_mtu,
    reboot,
    records,
    reference,
    reports,
    schedule,
    streams,
)
from hfprov.errors import ExitCode, HfprovError

# Typer carries a click of its own; its common base of usage errors is reached through this class.
_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[2]

app = typer.Typer(
    name="hfprov",
    help="Bring bare-metal accelerator nodes to one declared baseline, and prove it.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
nodes.register(app)
certificates.register(app)
drift.register(app)
reboot.register(app)
path_mtu.register(app)
diagnose.register(app)
records.register(app)
reports.register(app)
reference.register(app)
app.add_typer(schedule.app, name="schedule")
app.add_typer(lab.app, name="lab")


def main() -> None:
    """Run the command line; every error that is not a bug ends in one sentence and an exit code."""
    streams.prepare()
    _catch_signals()
    code: object
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except HfprovError as error:
        _complain(error.message, error.hint)
        code = error.exit_code
    except _USAGE_ERROR as error:
        error.show()  # type: ignore[attr-defined] # a ClickException, which has no public name
        code = ExitCode.USAGE
    except (KeyboardInterrupt, typer.Abort):
        code = ExitCode.INTERRUPTED
    except OSError as error:
        place = f"'{error.filename}'" if error.filename else "A file or the output"
        _complain(f"{place} cannot be read or written: {error.strerror or error}.")
        code = ExitCode.USAGE
    if code == ExitCode.INTERRUPTED:
        _complain(
            "Interrupted. What was known until then is recorded.", "See it with 'hfprov show'."
        )
    _leave(int(code) if isinstance(code, int) else 0)


def _leave(code: int) -> None:
    """End now. Threads may be waiting for nodes that hang; nothing they could say is needed."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _catch_signals() -> None:
    """End as with Ctrl-C, so that plays are stopped and the record says so."""
    signal.signal(signal.SIGTERM, _interrupt)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # else it is ignored: under nohup
        signal.signal(signal.SIGHUP, _interrupt)


def _complain(message: str, hint: str = "") -> None:
    from hfprov.evidence.text import clean

    typer.echo(f"hfprov: {clean(message)}", err=True)
    if hint:
        typer.echo(f"        {clean(hint)}", err=True)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
