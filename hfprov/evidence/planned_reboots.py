"""Reboots and shutdowns that are planned on a node: one that was ordered, and those of crontabs.

Sources: shutdown(8), systemd-logind.service(8) (``/run/systemd/shutdown/scheduled``); crontab(5).
"""

from __future__ import annotations

import re

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.evidence.grep import grep, lines
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import KIB, Observation, Source, file
from hfprov.regex import regex

_ORDERED = file("/run/systemd/shutdown/scheduled", limit=KIB)
_NAMES = "reboot|poweroff|halt|shutdown"
_READ = grep(
    # What is told apart more finely costs each node a millisecond, in the files of all.
    "reboot|poweroff|shutdown[[:space:]]",
    *("/etc/crontab", "/etc/cron.d", "/var/spool/cron"),
    *(f"/etc/cron.{often}" for often in ("hourly", "daily", "weekly", "monthly")),
    *("/etc/systemd/system", "/usr/local/lib/systemd/system"),
)
# What comes before a command: a schedule, maybe with a user, or another command.
_TIME = r"(?:@\w+|(?:[\d*/,a-zA-Z-]+[ \t]+){4}[\d*/,a-zA-Z-]+)"
_SCHEDULE = regex(rf"\s*{_TIME}[ \t]+(?:root[ \t]+)?")
_UNIT = regex(r"\s*Exec\w+\s*=\s*[-@:+!|]*")
_BEFORE = regex(
    r"(?:(?:sudo|exec|nohup|then|do|else|if|nice|ionice|-n|-?[0-9]+)[ \t]+|[({!][ \t]*)*"
)
_COMMAND = regex(
    rf"(?:/(?:usr/)?s?bin/)?(?:systemctl(?:[ \t]+-\S+)*[ \t]+)?(?:/(?:usr/)?s?bin/)?({_NAMES})"
    r"(?![\w./=-])(.*)"
)
_HARMLESS = regex(r"[ \t](?:-c|-k|--help|--version|--wtmp-only|-w|cancel)\b")


class PlannedReboot(Struct, frozen=True):
    """One reboot or shutdown that will come."""

    where: str
    """The file, with the line of a crontab, script or unit."""
    command: str
    """What will be run, or the mode that was ordered."""


def reboots(line: str) -> str:
    """The command of a line that reboots the node or shuts it down; "" when there is none.

    >>> reboots("0 3 * * 0 root /sbin/shutdown -r now")
    '/sbin/shutdown -r now'
    """
    plain = re.split(r"(?:^|\s)[#;]", line)[0]
    begun = _UNIT.match(plain) or _SCHEDULE.match(plain)
    for part in re.split(r"\|\||&&|[;&|]", plain[begun.end() :] if begun else plain):
        text = part.strip()
        before = _BEFORE.match(text)
        found = _COMMAND.match(text, before.end() if before else 0)
        if found and not _HARMLESS.search(found[2]):
            return excerpt(text[found.start() :], 120)
    return ""


def _parse(seen: Observation, _: Baseline) -> tuple[PlannedReboot, ...]:
    found = []
    if seen.exists(_ORDERED):
        told = dict(
            line.partition("=")[::2] for line in clean(seen.text(_ORDERED)).splitlines() if line
        )
        mode = excerpt(told.get("MODE", "unknown mode"), 40)
        found.append(PlannedReboot(str(_ORDERED.request["path"]), f"{mode} ordered"))
    commands = ((line.where, reboots(line.text)) for line in lines(seen, _READ))
    return (*found, *(PlannedReboot(where, command) for where, command in commands if command))


PLANNED_REBOOTS: Source[tuple[PlannedReboot, ...]] = Source(
    "planned reboots", lambda _: (_ORDERED, _READ), _parse
)
"""Scripts that crontabs start are looked into only in the folders of cron itself."""
