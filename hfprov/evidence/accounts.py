"""Accounts that are root, and accounts that need no password: passwd(5).

``/etc/shadow`` is not looked into: the lines that others look for are looked for in all places, and
no line with a password may leave the node.
"""

from __future__ import annotations

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.evidence.grep import grep, lines
from hfprov.evidence.text import excerpt
from hfprov.reading import Observation, Source

_USERS = "/etc/passwd"
_ROOTS = grep("^[^:#]+:[x*!]?:0+:[0-9]+:", _USERS)
_OPEN = grep("^[^:#+-][^:]*::[0-9]*:[0-9]*:", _USERS)


class Account(Struct, frozen=True):
    """One line of an account."""

    name: str
    where: str


def _parse_roots(seen: Observation, _: Baseline) -> tuple[Account, ...]:
    return tuple(
        Account(excerpt(fields[0], 60), line.where)
        for line in lines(seen, _ROOTS)
        if len(fields := line.text.split(":")) > 2 and set(fields[2]) == {"0"}
    )


def _parse_open(seen: Observation, _: Baseline) -> tuple[Account, ...]:
    return tuple(
        Account(excerpt(fields[0], 60), line.where)
        for line in lines(seen, _OPEN)
        # Lines that others look for are among them.
        if len(fields := line.text.split(":")) > 3 and fields[0] and not fields[1]
    )


ROOTS: Source[tuple[Account, ...]] = Source(
    "accounts that are root", lambda _: (_ROOTS,), _parse_roots
)
OPEN: Source[tuple[Account, ...]] = Source(
    "accounts without a password", lambda _: (_OPEN,), _parse_open
)
