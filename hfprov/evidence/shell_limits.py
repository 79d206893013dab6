"""``ulimit`` in the files that login shells read: it takes back what pam_limits gave.

Sources: bash(1), ``ulimit``, and its list of files that a shell reads when it starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hfprov.baseline import Baseline
from hfprov.evidence.limits import MEMLOCK, NOFILE, NPROC, STACK, Resource
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import Observation, Source, complete_text, glob

_FILES = tuple(
    glob(pattern)
    for pattern in ("/etc/profile", "/etc/profile.d/*.sh", "/etc/bash.bashrc", "/etc/bashrc")
)
_LETTERS = {"l": MEMLOCK, "n": NOFILE, "u": NPROC, "s": STACK}
_COMMAND = re.compile(r"(?:^|[;&|{(]|\b(?:then|do|else)\b)\s*(?:builtin\s+)?ulimit\s+([^;&|#})]*)")
_TO_WHAT_IS_THERE = ("hard", "soft")
"""Values of ``ulimit`` that give nothing but what pam_limits gave."""


@dataclass(frozen=True, slots=True)
class ShellLimit:
    """One limit that a line of a shell's file sets."""

    resource: Resource
    value: str
    """``unlimited``, a number in the unit of pam_limits, or what only the shell can tell."""
    hard: bool
    """Whether the hard limit is set as well."""
    path: str
    line: int

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"


def settings(line: str) -> Iterator[tuple[Resource, str, bool]]:
    """Resource, value and whether the hard limit is set too, of each ``ulimit`` of a line.

    >>> [(one.name, value, hard) for one, value, hard in settings("ulimit -S -n 100")]
    [('nofile', '100', False)]
    """
    if line.lstrip().startswith("#"):
        return
    for command in _COMMAND.finditer(line):
        letters, asked = "", ""
        for word in command[1].split():
            if word.startswith("-") and not word[1:].isdigit():
                letters, asked = letters + word[1:], word[-1]
            elif asked in _LETTERS and word not in _TO_WHAT_IS_THERE:
                yield _LETTERS[asked], word.strip("\"'"), "S" not in letters or "H" in letters


def _parse(seen: Observation, _: Baseline) -> tuple[ShellLimit, ...]:
    return tuple(
        ShellLimit(resource, excerpt(value), hard, result.name, number)
        for read in _FILES
        for result in seen.each(read)
        if result.status != "absent"
        for number, line in enumerate(clean(complete_text(read, result)).splitlines(), start=1)
        for resource, value, hard in settings(line)
    )


SHELLS: Source[tuple[ShellLimit, ...]] = Source("limits set by shells", lambda _: _FILES, _parse)
