"""The command line: commands, printing, exit codes. The work is done elsewhere."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from types import FrameType
from typing import Any

from hfprov.cli import streams
from hfprov.errors import ExitCode, HfprovError, UsageError

_GARBAGE = 1_000_000
"""Objects made and not yet freed that Python looks for garbage after; its default is 700. While all
is loaded none is found."""


def main() -> None:
    """Run the command line; every error that is not a bug ends in one sentence and an exit code."""
    streams.prepare()
    _catch_signals()
    # What is loaded at the start stays: looking through it for garbage costs a tenth of a start.
    gc.set_threshold(_GARBAGE)
    if sys.argv[1:2] == ["gate"]:
        _leave(_gate(sys.argv[2:]))
    import typer

    from hfprov.cli.commands import USAGE_ERROR, build

    code: object
    try:
        _require_words_to_complete()
        code = build(sys.argv[1:])(standalone_mode=False)
        sys.stdout.flush()
    except HfprovError as error:
        _complain(error.message, error.hint)
        code = error.exit_code
    except USAGE_ERROR as error:
        _show_usage(error)
        code = ExitCode.USAGE
    except (KeyboardInterrupt, typer.Abort):
        code = ExitCode.INTERRUPTED
    except OSError as error:
        place = f"'{error.filename}'" if error.filename else "A file or the output"
        _complain(f"{place} cannot be read or written: {error.strerror or error}.")
        code = ExitCode.USAGE
    if code == ExitCode.INTERRUPTED:
        _say_what_is_left()
    _leave(int(code) if isinstance(code, int) else 0)


def _require_words_to_complete() -> None:
    """Typer takes for granted that the shell that asks it for a completion says of what."""
    place = os.environ.get("COMP_CWORD", "")
    asked = os.environ.get("_HFPROV_COMPLETE") == "complete_bash"
    if asked and not ("COMP_WORDS" in os.environ and place.isdecimal()):
        raise UsageError(
            "'_HFPROV_COMPLETE' is set, and 'COMP_WORDS' and 'COMP_CWORD' do not say what for.",
            hint="Only bash sets them, to complete a command: unset it.",
        )


def _show_usage(error: Any) -> None:
    """What Typer says of a wrong word; its ClickException has no public name."""
    # Pydantic, which reads values for it, begins each reason of its own with these words.
    error.message = error.message.replace("Value error, ", "")
    error.show()


def _gate(arguments: list[str]) -> int:
    """The gate, which runs before every job: it must not wait for the other commands to load."""
    from hfprov.certificate.gate import main as gate

    try:
        return gate(arguments)
    except SystemExit as end:  # '--help'
        return end.code if isinstance(end.code, int) else int(ExitCode.USAGE)
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)


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


def _say_what_is_left() -> None:
    from hfprov.record import begun

    if run := begun.latest():
        said = "Interrupted. What was known until then is recorded."
        _complain(said, f"See it with 'hfprov show {run}'.")
    else:
        _complain("Interrupted before anything was recorded.")


def _complain(message: str, hint: str = "") -> None:
    from hfprov.evidence.text import clean

    sys.stderr.write(f"hfprov: {clean(message)}\n")
    if hint:
        sys.stderr.write(f"        {clean(hint)}\n")


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
