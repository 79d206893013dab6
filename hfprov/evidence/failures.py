"""Sentences by which a tool says that it cannot answer. They are evidence, and typed as such.

A parser looks for them only in text that is in none of the tool's own forms, and returns a
:class:`ToolFailure` instead of facts, so that nobody can take "no devices were read" for "no
device is broken".
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from hfprov.evidence.text import excerpt


class FailureKind(enum.StrEnum):
    """Why a tool could say nothing about its devices."""

    NO_DEVICES = "no_devices"
    DRIVER_NOT_LOADED = "driver_not_loaded"
    NOT_READY = "not_ready"
    """The device or its fabric is not initialised (for instance no fabric manager)."""
    DEVICE_ERROR = "device_error"
    VERSION_MISMATCH = "version_mismatch"
    PERMISSION = "permission"
    DAEMON_DOWN = "daemon_down"
    TOOL_MISSING = "tool_missing"
    TOOL_CRASHED = "tool_crashed"
    NOT_SUPPORTED = "not_supported"
    OTHER = "other"


class ToolFailure(Struct, frozen=True):
    """The tool ran, or should have run, and says that it cannot answer."""

    kind: FailureKind
    sentence: str
    """The tool's own words, made safe to quote."""


FailureTable = tuple[tuple[FailureKind, re.Pattern[str]], ...]


def failure_table(sentences: Mapping[FailureKind, Sequence[str]]) -> FailureTable:
    """Patterns of a tool's own failure sentences by kind, the most telling kind first."""
    return tuple(
        (kind, re.compile("|".join(patterns), re.IGNORECASE))
        for kind, patterns in sentences.items()
    )


_GENERAL = failure_table(
    {
        FailureKind.TOOL_MISSING: (
            "command not found",
            ": not found$",
            "no such file or directory",
        ),
        FailureKind.TOOL_CRASHED: (
            "segmentation fault",
            "core dumped",
            r"traceback \(most recent call last\)",
            "^killed$",
            "^aborted",
            "terminate called",
            "bus error",
            "symbol lookup error",
            "error while loading shared libraries",
            "cannot open shared object file",
        ),
        FailureKind.PERMISSION: (
            "permission denied",
            "operation not permitted",
            "must be root",
            "requires? root",
            "root privileges?",
            "insufficient permission",
            "access denied",
            "a password is required",
        ),
    }
)


_MOST_FAILURE_LINES = 2000


def find_failure(text: str, table: FailureTable = ()) -> ToolFailure | None:
    """The first line by which a tool says that it failed; the tool's own sentences come first.

    Only the first and the last thousand lines are looked at: a failing tool is brief.
    """
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if len(lines) > _MOST_FAILURE_LINES:
        half = _MOST_FAILURE_LINES // 2
        lines = lines[:half] + lines[-half:]
    lines = [line[:1000] for line in lines]
    for kind, pattern in (*table, *_GENERAL):
        for line in lines:
            if pattern.search(line):
                return ToolFailure(kind, excerpt(line, 200))
    return None
