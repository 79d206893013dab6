"""Limits in the files that shells read when they start: they take back what pam_limits gave.

Sources: bash(1), zsh(1), csh(1), tcsh(1), each list of files that a shell reads; fish, config.fish.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hfprov.baseline import Baseline
from hfprov.errors import NotUnderstoodError
from hfprov.evidence.limits import Resource
from hfprov.evidence.shell_commands import commands
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import Observation, Source, command, complete_text, glob

_FILES = tuple(
    glob(pattern)
    for pattern in (
        "/etc/profile",
        "/etc/profile.d/*.sh",
        "/etc/bash.bashrc",
        "/etc/bashrc",
        "/etc/zsh/z*",
        *("/etc/zshenv", "/etc/zprofile", "/etc/zshrc", "/etc/zlogin"),
        "/etc/csh.*",
        "/etc/csh/login.d/*",
        "/etc/profile.d/*.csh",
        "/etc/fish/config.fish",
        "/etc/fish/conf.d/*.fish",
    )
)
_HOMES = ("/root", "/home/*")
_IN_HOMES = (
    *(".profile", ".bash_profile", ".bash_login", ".bashrc"),
    *(".zshenv", ".zprofile", ".zshrc", ".zlogin"),
    *(".login", ".cshrc", ".tcshrc", ".config/fish/config.fish"),
)
_PATTERN = r"(^|[^[:alnum:]_.-])(ulimit|unlimit|limit|prlimit)([[:space:]]|$)"
# Users keep passwords in these files: nothing but the lines that matter leaves the node, and a few
# of them are enough. What root may not read is on a server that shuts root out: it is passed over.
# grep ends with 1 when it finds nothing, and with 2 when it could not look.
_SCRIPT = """\
IFS=
for pattern; do
  shift
  for place in $pattern; do
    [ ! -f "$place" ] || [ ! -r "$place" ] || set -- "$@" "$place"
  done
done
[ $# != 0 ] || exit 0
grep -HnasZE -m 32 -e "$0" -- "$@" || [ $? -eq 1 ] || exit 2
exit 0"""
_OF_USERS = command(
    *("sh", "-c", _SCRIPT, _PATTERN),
    *(f"{home}/{name}" for home in _HOMES for name in _IN_HOMES),
    timeout=20,
)


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
    of_user: bool = False
    """Whether it is a user's own file: of his sessions alone, and his own choice."""

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"


def _limits(text: str, path: str, line: int, *, of_user: bool = False) -> Iterator[ShellLimit]:
    for one in commands(text):
        yield ShellLimit(one.resource, excerpt(one.value), one.hard, path, line, of_user)


def of_users(text: str) -> Iterator[ShellLimit]:
    """From lines of ``grep -HnZ``: path, NUL, number, colon, text. Raises NotUnderstoodError."""
    for raw in text.split("\n"):
        path, nul, rest = raw.partition("\0")
        number, colon, line = rest.partition(":")
        if raw and not (nul and colon and re.fullmatch(r"[0-9]{1,9}", number)):
            raise NotUnderstoodError(f"'{excerpt(raw)}' is not a line of grep.")
        if raw:
            # What is behind a NUL is of a program, or of nothing.
            said = clean(line.partition("\0")[0])
            yield from _limits(said, excerpt(path, 200), int(number), of_user=True)


def _parse(seen: Observation, _: Baseline) -> tuple[ShellLimit, ...]:
    found: list[ShellLimit] = []
    for read in _FILES:
        for result in seen.each(read):
            text = "" if result.status == "absent" else clean(complete_text(read, result))
            for number, line in enumerate(text.splitlines(), start=1):
                found += _limits(line, result.name, number)
    return (*found, *of_users(seen.text(_OF_USERS)))


SHELLS: Source[tuple[ShellLimit, ...]] = Source(
    "limits set by shells", lambda _: (*_FILES, _OF_USERS), _parse
)
