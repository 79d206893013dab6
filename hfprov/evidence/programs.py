"""Programs that the roles' services, or the next run of a role, start: whether they can be."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError
from hfprov.evidence.text import excerpt
from hfprov.reading import Observation, Read, Result, Source, file, listing


class Need(Struct, frozen=True):
    """Who needs a program, and what tells that it was installed."""

    roles: tuple[str, ...]
    traces: tuple[str, ...] = ()
    """Globs of what else its package brings; none for what every system has."""


NEEDS: Mapping[str, Need] = {
    "chronyd": Need(("time_sync",), ("/usr/lib/systemd/system/chrony*.service",)),
    "ethtool": Need(
        ("irq_affinity",), ("/var/lib/dpkg/info/ethtool.list", "/usr/share/licenses/ethtool")
    ),
    "modprobe": Need(("rdma", "driver")),
    "sshd": Need(("hardening",)),
    "sysctl": Need(("performance", "hardening")),
}
"""By program. What the probe itself starts, as 'ip', is missed without it."""
_FOLDERS = ("/usr/sbin", "/usr/bin", "/sbin")
"""Where distributions have them."""
# Nothing of the content: one with anything in it is cut off.
_READS = {name: tuple(file(f"{folder}/{name}", limit=0) for folder in _FOLDERS) for name in NEEDS}
_TRACES = {name: tuple(map(listing, need.traces)) for name, need in NEEDS.items()}


class Program(Struct, frozen=True):
    """One program, as root finds it."""

    path: str
    """Empty where there is none."""
    problem: str
    """Why it cannot be started, or by whom it may have been changed; "" for nothing."""
    link: str
    """Where it leads, for a link."""
    is_installed: bool = True
    """Whether anything of its package is there, or it is there itself."""


def needed(baseline: Baseline) -> tuple[str, ...]:
    """The programs that the roles of a host need."""
    return tuple(
        name for name, need in NEEDS.items() if not set(need.roles).isdisjoint(baseline.roles)
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


def _reads(name: str) -> tuple[Read, ...]:
    return (*_READS[name], *_TRACES[name])


def _find(seen: Observation, name: str) -> Program:
    traces = [result for read in _TRACES[name] for result in seen.each(read)]
    is_installed = not _TRACES[name] or any(one.status != "absent" for one in traces)
    broken = Program("", "", "", is_installed)
    for read in _READS[name]:
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
    lambda baseline: tuple(read for name in needed(baseline) for read in _reads(name)),
    lambda seen, baseline: {name: _find(seen, name) for name in needed(baseline)},
)
"""By name; of those that the host's roles need."""
