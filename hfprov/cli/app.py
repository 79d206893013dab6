"""The command line: commands, printing, exit codes. The work is done elsewhere."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

import typer

from hfprov.cli import lab, nodes, records, reference, reports
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
records.register(app)
reports.register(app)
reference.register(app)
app.add_typer(lab.app, name="lab")


def main() -> None:
    """Run the command line; every error that is not a bug ends in one sentence and an exit code."""
    signal.signal(signal.SIGTERM, _terminate)
    code: object
    try:
        code = app(standalone_mode=False)
    except HfprovError as error:
        _complain(error.message, error.hint)
        code = error.exit_code
    except _USAGE_ERROR as error:
        error.show()  # type: ignore[attr-defined] # a ClickException, which has no public name
        code = ExitCode.USAGE
    except (KeyboardInterrupt, typer.Abort):
        _complain(
            "Interrupted. What was known until then is recorded.", "See it with 'hfprov show'."
        )
        code = ExitCode.INTERRUPTED
    except BrokenPipeError:
        code = ExitCode.GOOD  # whoever read our output has seen enough
    _leave(int(code) if isinstance(code, int) else 0)


def _leave(code: int) -> None:
    """End now. Threads may be waiting for nodes that hang; nothing they could say is needed."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (BrokenPipeError, ValueError):
            code = code or 0
    os._exit(code)


def _complain(message: str, hint: str = "") -> None:
    from hfprov.evidence.text import clean

    typer.echo(f"hfprov: {clean(message)}", err=True)
    if hint:
        typer.echo(f"        {clean(hint)}", err=True)


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
