"""What a baseline declares of the time, in chrony's words. Helpers of :mod:`hfprov.checks.time`."""

from __future__ import annotations

import re

from hfprov.baseline import Baseline
from hfprov.checks.registry import require

OUR_FILES = {
    "/etc/chrony/chrony.conf": "/etc/chrony/conf.d/90-hfprov.conf",
    "/etc/chrony.conf": "/etc/chrony.d/90-hfprov.conf",
}
"""The role's file, by chrony's main file."""
OPTIONS_BY_FILE = {
    "/etc/default/chrony": ("DAEMON_OPTS", "-F 1"),
    "/etc/sysconfig/chronyd": ("OPTIONS", "-F 2"),
}
"""The variable of chronyd's options, and what it is without ours, by file."""
STEP = ("time_sync_step_threshold_seconds", "time_sync_step_updates")


def servers(baseline: Baseline) -> list[str]:
    """The declared servers. Raises NoEvidenceError when there are none: nothing can be judged."""
    names = [str(name) for name in baseline["time_sync_servers"]]
    require(names, "No server is declared in 'time_sync_servers'.")
    return names


def step(baseline: Baseline) -> str:
    return f"{float(baseline[STEP[0]])} {int(baseline[STEP[1]])}"


def is_declared(words: tuple[str, ...], declared: list[str]) -> bool:
    return words[0].lower() == "server" and words[1:] in [(name, "iburst") for name in declared]


def normal(words: tuple[str, ...]) -> str:
    """A makestep with its threshold as a plain number, so that 1 and 1.0 are one."""
    if words[0].lower() == "makestep" and len(words) > 1 and re.fullmatch(r"[\d.]+", words[1]):
        return f"makestep {float(words[1])} {' '.join(words[2:])}"
    return " ".join((words[0].lower(), *words[1:]))


def assigned(text: str, variable: str) -> str:
    """The value of the last assignment in a shell-like file; "" when there is none."""
    found = re.findall(rf"^[ \t]*{variable}=(.*)$", text, flags=re.MULTILINE)
    return found[-1].strip().strip("\"'") if found else ""
