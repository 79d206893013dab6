"""Who upgrades all packages beside unattended-upgrade: crontabs, scripts, units, hooks of apt.

Sources: apt-get(8), apt.conf(5); dnf(8); crontab(5).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.evidence.grep import grep, lines
from hfprov.evidence.text import excerpt
from hfprov.reading import Observation, Source
from hfprov.regex import regex

_READ = grep(
    r"(apt|apt-get|aptitude|dnf|yum)[[:space:]].*(upgrade|update|distro-sync)",
    *("/etc/crontab", "/etc/cron.d", "/var/spool/cron"),
    *(f"/etc/cron.{often}" for often in ("hourly", "daily", "weekly", "monthly")),
    *("/etc/rc.local", "/etc/rc.d/rc.local"),
    *("/etc/systemd/system", "/usr/local/lib/systemd/system"),
)
_OPTION = r"(?:\s+-\S+)*"
_UPGRADES = regex(
    # apt-get goes on to upgrade everything whatever packages are named.
    rf"(?<![\w-])(?:apt|apt-get|aptitude){_OPTION}\s+"
    r"(?:dist-upgrade|full-upgrade|safe-upgrade|upgrade)(?![\w-])"
    # For dnf and yum a name is a limit.
    rf"|(?<![\w-])(?:dnf|yum){_OPTION}\s+(?:upgrade|update|distro-sync)(?![\w-]){_OPTION}\s*$"
)
_HARMLESS = regex(
    r"\s(?:-s|--simulate|--just-print|--dry-run|--recon|--no-act|-[dmqy]*d[dmqy]*|--download-only"
    r"|--downloadonly|--assumeno|--print-uris)(?:\s|$)"
)
_HOOKS = (
    "APT::Update::Pre-Invoke::",
    "APT::Update::Post-Invoke::",
    "APT::Update::Post-Invoke-Success::",
    "DPkg::Pre-Invoke::",
    "DPkg::Post-Invoke::",
)


class Upgrade(Struct, frozen=True):
    """A command that upgrades all packages."""

    where: str
    """Path and line, or the name of a setting of apt."""
    command: str


def upgrades(line: str) -> str:
    """The command of a line that upgrades all packages; "" when there is none.

    >>> upgrades("0 4 * * * root apt-get update && apt-get -y dist-upgrade >/dev/null")
    'apt-get -y dist-upgrade'
    """
    if line.lstrip().startswith(";"):
        return ""
    for command in re.split(r"[;&|<>\"'`()]", re.split(r"(?:^|\s)#", line)[0]):
        # An option may take a word of its own, as '-o Name=value' does.
        plain = re.sub(r"\s(-[oct])\s+\S+", r" \1", command)
        found = _UPGRADES.search(plain.rstrip(" \t0123456789"))
        if found and not _HARMLESS.search(plain[found.start() :]):
            return excerpt(" ".join(command[command.find(found[0][:3]) :].split()), 120)
    return ""


def of_hooks(apt: Mapping[str, tuple[str, ...]]) -> tuple[Upgrade, ...]:
    """Hooks of apt's settings that upgrade, by what ``apt-config dump`` tells."""
    found = ((name, upgrades(value)) for name in _HOOKS for value in apt.get(name, ()))
    return tuple(Upgrade(name.removesuffix("::"), command) for name, command in found if command)


def _parse(seen: Observation, _: Baseline) -> tuple[Upgrade, ...]:
    found = ((line.where, upgrades(line.text)) for line in lines(seen, _READ))
    return tuple(Upgrade(where, command) for where, command in found if command)


UPGRADES: Source[tuple[Upgrade, ...]] = Source(
    "upgrades of all packages", lambda _: (_READ,), _parse
)
"""By crontabs, scripts and units of the site; scripts that those start are not looked into."""
