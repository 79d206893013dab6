"""Limits in the files that shells read when they start: they take back what pam_limits gave.

Sources: bash(1), zsh(1), csh(1), tcsh(1), each list of files that a shell reads; fish, config.fish.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.evidence.grep import Grep, grep, lines
from hfprov.evidence.limits import Resource
from hfprov.evidence.shell_commands import commands
from hfprov.evidence.text import excerpt
from hfprov.reading import Observation, Source

_FILES = (
    *("/etc/profile", "/etc/profile.d/*.sh", "/etc/bash.bashrc", "/etc/bashrc"),
    *("/etc/zsh/z*", "/etc/zshenv", "/etc/zprofile", "/etc/zshrc", "/etc/zlogin"),
    *("/etc/csh.*", "/etc/csh/login.d", "/etc/profile.d/*.csh"),
    *("/etc/fish/config.fish", "/etc/fish/conf.d/*.fish"),
)
_IN_HOMES = (
    *(".profile", ".bash_profile", ".bash_login", ".bashrc"),
    *(".zshenv", ".zprofile", ".zshrc", ".zlogin"),
    *(".login", ".cshrc", ".tcshrc", ".config/fish/config.fish"),
)
# Users keep passwords in these files: nothing but lines that some source asks for leaves the node.
_PATTERN = (
    r"(^|[^[:alnum:]_.-])([up]r?limit[[:space:]]|(un)?limit[[:space:]]+(-[A-Za-z]+[[:space:]]+)*"
    r"(mem|desc|open|maxp|stac))"
)
_OF_SYSTEM = grep(_PATTERN, *_FILES)


def _of_users(baseline: Baseline) -> Grep:
    """In the homes where the role 'comm_library' looks, too: they may be a server's that hangs."""
    homes = baseline.get("comm_library_home_directories", ("/root", "/home/*"))
    return grep(_PATTERN, *(f"{home}/{name}" for home in homes for name in _IN_HOMES))


class ShellLimit(Struct, frozen=True):
    """One limit that a line of a shell's file sets."""

    resource: Resource
    value: str
    """``unlimited``, a number in the unit of pam_limits, or what only the shell can tell."""
    hard: bool
    """Whether the hard limit is set as well."""
    path: str
    line: int
    of_user: bool
    """Whether it is a user's own file: of his sessions alone, and his own choice."""

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"


def _limits(seen: Observation, read: Grep, *, of_user: bool) -> Iterator[ShellLimit]:
    for line in lines(seen, read):
        for one in commands(line.text):
            value, path = excerpt(one.value), excerpt(line.path, 200)
            yield ShellLimit(one.resource, value, one.hard, path, line.number, of_user)


def _parse(seen: Observation, baseline: Baseline) -> tuple[ShellLimit, ...]:
    return (
        *_limits(seen, _OF_SYSTEM, of_user=False),
        *_limits(seen, _of_users(baseline), of_user=True),
    )


SHELLS: Source[tuple[ShellLimit, ...]] = Source(
    "limits set by shells", lambda baseline: (_OF_SYSTEM, _of_users(baseline)), _parse
)
