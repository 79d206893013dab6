"""Updates that install themselves: apt's settings as apt resolves them, dnf-automatic, timers."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NotUnderstoodError
from hfprov.evidence import systemd
from hfprov.evidence.systemd import Properties, property_of
from hfprov.evidence.systemd_units import together
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import Observation, Read, Result, Source, command, file

APT_FILE = file("/etc/apt/apt.conf.d/90hfprov-updates")
DNF_FILE = file("/etc/dnf/automatic.conf")
TIMERS = {
    APT_FILE.request["path"]: ("apt-daily.timer", "apt-daily-upgrade.timer"),
    DNF_FILE.request["path"]: ("dnf-automatic.timer",),
}
"""The timers that start the updates, by the role's file."""


def service_of(timer: str) -> str:
    """What a timer starts."""
    return timer.replace(".timer", ".service")


PROGRAM = {
    APT_FILE.request["path"]: file("/usr/bin/unattended-upgrade", limit=0),
    DNF_FILE.request["path"]: file("/usr/bin/dnf-automatic", limit=0),
}
_DUMP = command("apt-config", "dump")


def parse_dump(text: str) -> Mapping[str, tuple[str, ...]]:
    """Values by name, of ``apt-config dump``; ``Name::`` stands for the elements of a list."""
    found: dict[str, list[str]] = {}
    for line in clean(text).splitlines():
        match = re.fullmatch(r"(\S+) \"(.*)\";", line)
        if match is None:
            raise NotUnderstoodError(f"'{excerpt(line)}' is not a line of 'apt-config dump'.")
        found.setdefault(match[1], []).append(match[2])
    return {name: tuple(values) for name, values in found.items()}


class Updates(Struct, frozen=True):
    """How a node updates itself."""

    path: str
    """The role's file on a distribution of this kind."""
    file: Result
    apt: Mapping[str, tuple[str, ...]] | None
    """What apt resolves its files to; None on a node without apt."""
    is_installed: bool
    """Whether the program that installs the updates is there and can be run."""


def _can_run(seen: Observation, read: Read) -> bool:
    """Whether a program is there, may be run, and is not empty."""
    if not seen.exists(read):
        return False
    result = seen.one(read)
    # Nothing of it was asked for: one with anything in it is cut off.
    return bool((result.mode or 0) & 0o111) and result.truncated


def _parse_updates(seen: Observation, _: Baseline) -> Updates:
    has_apt = seen.one(_DUMP).status != "absent"
    read = APT_FILE if has_apt else DNF_FILE
    path = str(read.request["path"])
    return Updates(
        path,
        seen.one(read),
        parse_dump(seen.text(_DUMP)) if has_apt else None,
        _can_run(seen, PROGRAM[path]),
    )


UPDATES: Source[Updates] = Source(
    "automatic updates", lambda _: (_DUMP, APT_FILE, DNF_FILE, *PROGRAM.values()), _parse_updates
)

_TIMER_READ = together(
    command(
        "systemctl",
        "show",
        "--property=Id,LoadState,ActiveState,UnitFileState",
        "--",
        *(name for names in TIMERS.values() for name in names),
        *(service_of(name) for names in TIMERS.values() for name in names),
    )
)
TIMER_UNITS: Source[Mapping[str, Properties]] = Source(
    "timers of updates",
    lambda _: (_TIMER_READ,),
    lambda seen, _: {property_of(one, "Id"): one for one in systemd.parse(seen.text(_TIMER_READ))},
)
