"""Under which conditions a node was measured, and whether two measurements may be compared. Pure.

A number without its conditions is compared with everything, and then explains nothing. What is in
:data:`DECISIVE` must be the same for a comparison; the rest is kept to be looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.host_hardware import CPUS
from hfprov.evidence.loaded_modules import LOADED_DRIVERS
from hfprov.evidence.system import KERNEL, MACHINE, PROCESSES
from hfprov.evidence.text import clean
from hfprov.reading import Observation, Read, command, file, glob, once

DECISIVE = (
    "machine",
    "kernel",
    "cmdline",
    "cpus",
    "governor",
    "transparent_hugepages",
    "numa_balancing",
    "mtu",
    "drivers",
    "tool_sha256",
    "argv",
)
_SETTINGS = {
    "governor": glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor", limit=64),
    "transparent_hugepages": file("/sys/kernel/mm/transparent_hugepage/enabled", limit=256),
    "numa_balancing": file("/proc/sys/kernel/numa_balancing", limit=64),
    "clock_source": file("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
    "temperatures_millidegrees": glob("/sys/class/thermal/thermal_zone*/temp", limit=64),
    "frequencies_khz": glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq", limit=64),
}
_MTU = glob("/sys/class/net/*/mtu", limit=64)
_LOAD = file("/proc/loadavg", limit=256)
_IDENTIFY = """\
path=$(command -v -- "$1") || exit 127
sha256sum -- "$path"
"$1" --version 2>&1 | head -n 2"""


def tool_read(name: str) -> Read:
    """Whether a tool is there, which one exactly, and what it says of its version."""
    return command("sh", "-c", _IDENTIFY, "sh", name, timeout=20, limit=4096)


def tool_of(seen: Observation, name: str) -> Mapping[str, str] | None:
    """``tool_sha256`` and ``tool_version`` of a tool; None when it is not installed."""
    result = seen.one(tool_read(name))
    lines = clean(result.text).splitlines()
    if result.code == 127 or not lines:  # noqa: PLR2004 - the shell's "not found"
        return None
    version = lines[1].strip()[:200] if len(lines) > 1 else ""
    return {"tool_sha256": lines[0].split()[0][:64], "tool_version": version}


def condition_reads(baseline: Baseline) -> tuple[Read, ...]:
    """What is read of a node before it is measured."""
    sources = (KERNEL, MACHINE, PROCESSES, CPUS, LOADED_DRIVERS)
    reads = [read for source in sources for read in source.reads(baseline)]
    return once([*reads, *_SETTINGS.values(), _MTU, _LOAD])


def conditions_of(seen: Observation, baseline: Baseline) -> dict[str, Any]:
    """The conditions, by name. What a node does not have is left out, and so is not known."""
    facts = Facts(seen, baseline)
    kernel, drivers = facts.get(KERNEL), facts.get(LOADED_DRIVERS)
    found: dict[str, Any] = {
        "machine": facts.get(MACHINE).value,
        "kernel": kernel.release,
        "cmdline": kernel.cmdline,
        "boot_id": kernel.boot_id,
        "cpus": len(facts.get(CPUS)),
        "mtu": {
            result.name.split("/")[4]: int(result.text)
            for result in seen.each(_MTU)
            if result.ok and result.text.strip().isdigit()
        },
        "drivers": dict(drivers),
    }
    for name, read in _SETTINGS.items():
        values = {clean(one.text).strip() for one in seen.each(read) if one.ok}
        if values:
            found[name] = sorted(values)
    load = clean(seen.one(_LOAD).text).split()
    if load:
        found["load"] = load[0]
    return found


def workloads_of(seen: Observation, baseline: Baseline) -> tuple[str, ...] | None:
    """Containers and jobs at work; None when that is not known."""
    try:
        return Facts(seen, baseline).get(PROCESSES).workloads
    except (NoEvidenceError, NotUnderstoodError):
        return None


def unlike(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    """Decisive conditions in which two measurements differ, in words. None of them: comparable.

    A condition that only one of them knows is a difference.
    """
    for name in DECISIVE:
        mine, theirs = one.get(name), other.get(name)
        if mine != theirs:
            yield f"{name}: {_shown(theirs)} before, {_shown(mine)} now"


def _shown(value: object) -> str:
    if value is None:
        return "not known"
    return str(value)[:120]
