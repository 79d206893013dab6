"""Programs that the roles' services, or the next run of a role, start: whether they can be."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError
from hfprov.evidence.text import excerpt
from hfprov.reading import Observation, Read, Result, Source, file

NEEDED_BY: Mapping[str, tuple[str, ...]] = {
    "chronyd": ("time_sync",),
    "ethtool": ("irq_affinity",),
    "modprobe": ("rdma", "driver"),
    "sshd": ("hardening",),
    "sysctl": ("performance", "hardening"),
}
"""Roles by program. What the probe itself starts, as 'ip', is missed without it."""
_FOLDERS = ("/usr/sbin", "/usr/bin", "/sbin")
"""Where distributions have them."""
# Nothing of the content: one with anything in it is cut off.
_READS = {
    name: tuple(file(f"{folder}/{name}", limit=0) for folder in _FOLDERS) for name in NEEDED_BY
}


class Program(Struct, frozen=True):
    """One program, as root finds it."""

    path: str
    """Empty where there is none."""
    problem: str
    """Why it cannot be started, or by whom it may have been changed; "" for nothing."""
    link: str
    """Where it leads, for a link."""


def needed(baseline: Baseline) -> tuple[str, ...]:
    """The programs that the roles of a host need."""
    return tuple(
        name for name, roles in NEEDED_BY.items() if not set(roles).isdisjoint(baseline.roles)
    )


def _problem(result: Result) -> str:
    mode = result.mode or 0
    if result.type != "file":
        return "no regular file"
    if not result.truncated:
        return "empty"
    if mode & 0o100 == 0:
        return f"not executable, mode {mode:04o}"
    if result.uid != 0 or mode & 0o002:
        return f"others may change it, mode {mode:04o}, owner {result.uid}"
    return ""


def _find(seen: Observation, reads: tuple[Read, ...]) -> Program:
    broken = Program("", "", "")
    for read in reads:
        result = seen.one(read)
        if result.status == "absent":
            continue
        if not result.ok:
            raise NoEvidenceError(f"'{read}' could not be looked at: {result.stderr}")
        found = Program(result.name, _problem(result), excerpt(result.link, 200))
        if not found.problem:
            return found
        broken = broken if broken.path else found
    return broken


PROGRAMS: Source[Mapping[str, Program]] = Source(
    "programs of the roles",
    lambda baseline: tuple(read for name in needed(baseline) for read in _READS[name]),
    lambda seen, baseline: {name: _find(seen, _READS[name]) for name in needed(baseline)},
)
"""By name; of those that the host's roles need."""
