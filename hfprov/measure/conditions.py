"""Under which conditions a node was measured, and whether two measurements may be compared. Pure.

A number without its conditions is compared with everything, and then explains nothing. What is in
:data:`DECISIVE` must be the same for a comparison; the rest is kept to be looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.accelerators.adapters import ACCELERATORS
from hfprov.evidence.accelerators.model import Accelerator
from hfprov.evidence.comm_settings import NCCL_FILES, UCX_FILE
from hfprov.evidence.host_hardware import CPUS
from hfprov.evidence.loaded_modules import LOADED_DRIVERS
from hfprov.evidence.memory_node import MEMORY
from hfprov.evidence.system import KERNEL, MACHINE, PROCESSES
from hfprov.evidence.text import clean
from hfprov.measure.devices import (
    NIC_FIRMWARE,
    RDMA_FIRMWARE,
    accelerator_firmware,
    accelerator_modes,
    accelerator_state,
    nic_firmware,
)
from hfprov.reading import Observation, Read, command, file, glob, once

DECISIVE = (
    "machine",
    "kernel",
    "cmdline",
    "cpus",
    "governor",
    "boost",
    "no_turbo",
    "idle_latency",
    "clock_source",
    "transparent_hugepages",
    "numa_balancing",
    "mtu",
    "drivers",
    "firmware",
    "accelerators",
    "environment",
    "tool_sha256",
    "numa_binding",
    "argv",
    "hosts",
)
PEER = "peer"
"""The decisive conditions of the other end, of a measurement between two hosts."""
_SETTINGS = {
    "governor": glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor", limit=64),
    "boost": file("/sys/devices/system/cpu/cpufreq/boost", limit=64),
    "no_turbo": file("/sys/devices/system/cpu/intel_pstate/no_turbo", limit=64),
    "idle_latency": glob(
        "/sys/devices/system/cpu/cpu[0-9]*/power/pm_qos_resume_latency_us", limit=64
    ),
    "clock_source": file("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
    "transparent_hugepages": file("/sys/kernel/mm/transparent_hugepage/enabled", limit=256),
    "numa_balancing": file("/proc/sys/kernel/numa_balancing", limit=64),
}
_STATE = {
    "temperatures_millidegrees": glob("/sys/class/thermal/thermal_zone*/temp", limit=64),
    "frequencies_khz": glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq", limit=64),
}
_MTU = glob("/sys/class/net/*/mtu", limit=64)
_PASSING = re.compile(
    r"lo|(?:veth|cali|cni|docker|flannel|lxc|podman|nerdctl|tap|virbr|vnet|br-).*"
)
"""Interfaces of container runtimes, which come and go and carry nothing that is measured."""
_LOAD = file("/proc/loadavg", limit=256)
_ENVIRONMENT = file("/proc/self/environ", limit=64 * 1024)
"""Of the probe, which is started as tools are: by sshd, with what PAM adds."""
_FILES = tuple(file(path) for path in (*NCCL_FILES, UCX_FILE))
_TELLING = re.compile(
    r"(?:NCCL|RCCL|UCX|OMPI|PMIX|OMP|GOMP|KMP|MKL|CUDA|HIP|HSA|ROCR|GPU|LD|GLIBC|MALLOC)_\w{1,100}"
)
"""Variables that change what a tool measures; no other is looked at, for some hold secrets."""
_ASSIGNED = re.compile(r"^[ \t]*((?:NCCL|RCCL|UCX)_\w{1,100})[ \t]*=(.*)$", re.MULTILINE)
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
    firmware = (RDMA_FIRMWARE, NIC_FIRMWARE)
    settings = (*_SETTINGS.values(), _MTU, _ENVIRONMENT, *_FILES)
    return once([*reads, *settings, *firmware, *state_reads(baseline)])


def state_reads(baseline: Baseline) -> tuple[Read, ...]:
    """What is read once more afterwards: what a measurement itself changes."""
    reads = [read for source in (MEMORY, ACCELERATORS) for read in source.reads(baseline)]
    return once([*reads, *_STATE.values(), _LOAD])


def accelerators_of(seen: Observation, baseline: Baseline) -> tuple[Accelerator, ...]:
    """The accelerators that the vendors' tools show; none where no tool answers."""
    try:
        return Facts(seen, baseline).get(ACCELERATORS).devices
    except (NoEvidenceError, NotUnderstoodError):
        return ()


def conditions_of(seen: Observation, baseline: Baseline) -> dict[str, Any]:
    """The conditions, by name. What a node does not have is left out, and so is not known."""
    facts = Facts(seen, baseline)
    kernel, drivers = facts.get(KERNEL), facts.get(LOADED_DRIVERS)
    devices = accelerators_of(seen, baseline)
    found: dict[str, Any] = {
        "machine": facts.get(MACHINE).value,
        "kernel": kernel.release,
        "cmdline": kernel.cmdline,
        "boot_id": kernel.boot_id,
        "cpus": len(facts.get(CPUS)),
        "mtu": {
            name: int(result.text)
            for result in seen.each(_MTU)
            if result.ok
            and result.text.strip().isdigit()
            and not _PASSING.fullmatch(name := result.name.split("/")[4])
        },
        "drivers": dict(drivers),
        "firmware": {**nic_firmware(seen), **accelerator_firmware(devices)},
        "accelerators": accelerator_modes(devices),
        "environment": _environment(seen),
        **_values(seen, _SETTINGS),
    }
    return {**found, **state_of(seen, baseline)}


def state_of(seen: Observation, baseline: Baseline) -> dict[str, Any]:
    """Load, memory, temperatures and clocks at one moment."""
    found = _values(seen, _STATE)
    load = clean(seen.one(_LOAD).text).split()
    if len(load) == 5:  # noqa: PLR2004 - proc_loadavg(5)
        found["load"] = load[0]
        found["running"] = load[3].partition("/")[0]
    try:
        memory = Facts(seen, baseline).get(MEMORY)
    except (NoEvidenceError, NotUnderstoodError):
        memory = None
    if memory is not None and memory.available_kib is not None:
        found["memory_available"] = round(memory.available_kib / memory.total_kib, 3)
        free = memory.kib.get("SwapFree", 0)
        found["swap_used_mib"] = (memory.kib.get("SwapTotal", 0) - free) // 1024
    found["accelerator_state"] = accelerator_state(accelerators_of(seen, baseline))
    return found


def _values(seen: Observation, reads: Mapping[str, Read]) -> dict[str, Any]:
    """What CPUs or zones say, each value once."""
    found = {}
    for name, read in reads.items():
        values = {clean(one.text).strip() for one in seen.each(read) if one.ok}
        if values:
            found[name] = sorted(values)
    return found


def _environment(seen: Observation) -> dict[str, str]:
    """Variables and settings in files that change what communication and compute tools do."""
    found = {}
    for entry in seen.one(_ENVIRONMENT).text.split("\0"):
        name, _, value = entry.partition("=")
        if _TELLING.fullmatch(name):
            found[name] = clean(value)[:500]
    for read in _FILES:
        result = seen.one(read)
        for name, value in _ASSIGNED.findall(clean(result.text)) if result.ok else ():
            found.setdefault(f"{read.request['path']} {name}", value.strip()[:500])
    return found


def workloads_of(seen: Observation, baseline: Baseline) -> tuple[str, ...] | None:
    """Containers and jobs at work; None when that is not known."""
    try:
        return Facts(seen, baseline).get(PROCESSES).workloads
    except (NoEvidenceError, NotUnderstoodError):
        return None


def decisive(conditions: Mapping[str, Any]) -> dict[str, Any]:
    """Those that must be the same for a comparison."""
    return {name: conditions[name] for name in DECISIVE if name in conditions}


def unlike(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    """Decisive conditions in which two measurements differ, in words. None of them: comparable.

    A condition that only one of them knows is a difference. Between two hosts, the other end's
    conditions count as well.
    """
    for name in DECISIVE:
        mine, theirs = one.get(name), other.get(name)
        if mine != theirs:
            yield f"{name}: {_difference(theirs, mine)}"
    mine, theirs = one.get(PEER), other.get(PEER)
    if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
        yield from (f"the other end's {text}" for text in unlike(mine, theirs))
    elif mine != theirs:
        yield f"the other end: {_shown(theirs)} before, {_shown(mine)} now"


def _difference(before: object, now: object) -> str:
    """Of tables only the entries that differ: the rest would hide them."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
        before, now = ({name: table.get(name) for name in names} for table in (before, now))
    return f"{_shown(before)} before, {_shown(now)} now"


def _shown(value: object) -> str:
    if value is None:
        return "not known"
    return str(value)[:120]
