"""Every error hfprov raises on purpose.

Messages are full sentences with quoted names; ``hint`` says what to do next. Only the command line
prints them. An exception that is not an :class:`HfprovError` is a bug in hfprov.
"""

from __future__ import annotations

import copy
from enum import IntEnum
from typing import TypeVar


class ExitCode(IntEnum):
    """Exit codes of the command line, documented in the README."""

    GOOD = 0
    """All that was asked for is good."""
    BAD = 1
    """Something is drifted or failed."""
    USAGE = 2
    """Wrong usage, configuration or inventory."""
    UNKNOWN = 3
    """A host could not be reached or judged."""
    NOTHING = 4
    """Nothing was checked: no host matched."""
    INTERRUPTED = 130
    """Stopped by Ctrl-C or SIGTERM."""


class HfprovError(Exception):
    """The root of every error that hfprov raises on purpose."""

    exit_code: ExitCode = ExitCode.USAGE

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


E = TypeVar("E", bound=Exception)


def anew(error: E) -> E:
    """The same error without its traceback, to be kept, or raised of one that is kept.

    A kept traceback keeps what its functions worked on, such as all that a node answered; and what
    keeps the error is part of that, so that nothing of it goes before Python looks for cycles.
    """
    try:
        return copy.copy(error)
    except Exception:  # noqa: BLE001 - not every class of a library can be copied
        return error.with_traceback(None)


class UsageError(HfprovError):
    """The command line asks for something that cannot be done."""


class InventoryError(HfprovError):
    """The inventory cannot be read, or names something that does not exist."""


class NoHostsError(HfprovError):
    """No host matched what was asked for. An empty run is never a success."""

    exit_code = ExitCode.NOTHING


class Problem:
    """One thing wrong with a file of the user's: where, what, and what was probably meant."""

    __slots__ = ("hint", "message", "where")

    def __init__(self, where: str, message: str, *, hint: str = "") -> None:
        self.where = where
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        hint = f" {self.hint}" if self.hint else ""
        return f"{self.where}: {self.message}{hint}"


class BaselineError(HfprovError):
    """The declared baseline is invalid. Carries every problem found, not only the first."""

    def __init__(self, problems: list[Problem]) -> None:
        noun = "problem" if len(problems) == 1 else "problems"
        super().__init__(
            f"The declared baseline has {len(problems)} {noun}:\n"
            + "\n".join(f"  {problem}" for problem in problems),
            hint="No host was contacted.",
        )
        self.problems = problems


class UnsupportedSettingError(HfprovError):
    """A connection setting of the inventory that observation cannot honour. Never ignored."""


class RemoteError(HfprovError):
    """A node could not be reached, or did not answer in the agreed form."""

    exit_code = ExitCode.UNKNOWN


class RecordError(HfprovError):
    """The record cannot be opened, read or written."""


class HostBusyError(HfprovError):
    """Another orchestrator is working on a host."""


class PlayError(HfprovError):
    """Ansible could not be run, or its outcome cannot be trusted."""

    exit_code = ExitCode.UNKNOWN


class RebootError(HfprovError):
    """A node could not be drained, rebooted or proven to be the same machine afterwards."""

    exit_code = ExitCode.UNKNOWN


class LabError(HfprovError):
    """The practice rack cannot be built, started or stopped."""


class NotUnderstoodError(HfprovError):
    """A tool's output is not in a form that its parser knows. Says precisely why."""

    exit_code = ExitCode.UNKNOWN


class NoEvidenceError(HfprovError):
    """What a check needs was not observed: tool missing, file absent, time-out, truncated."""

    exit_code = ExitCode.UNKNOWN
