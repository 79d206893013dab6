"""On how many CPUs, and in how much memory, the work of a node may run at all.

systemd hands the affinity of PID 1 (``CPUAffinity=``) on to all that it starts, and bounds slices
by control groups (``AllowedCPUs=``, ``CPUQuota=``, ``MemoryMax=`` …); systemd.resource-control(5).
Whoever writes into the control groups, or uses taskset, goes past systemd: both are read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NotUnderstoodError
from hfprov.evidence.bound_values import Amount, Kind, Whole, numbers, time_per_second
from hfprov.evidence.limits import amount
from hfprov.evidence.memory_node import MEMINFO
from hfprov.evidence.proc_system import parse_meminfo
from hfprov.evidence.system import CMDLINE, CPUS_ONLINE, VIRTUALIZATION, Machine, parse_virt
from hfprov.evidence.systemd import Properties, property_of
from hfprov.evidence.systemd_units import ShowUnits, shown_manager, shown_units, units
from hfprov.evidence.text import clean, excerpt
from hfprov.evidence.unit_limits import USER_UNIT
from hfprov.reading import Observation, Read, Source, complete_text, file, glob

_PROCESSES = {
    "this login": file("/proc/self/status", limit=16 * 1024),
    "PID 1": file("/proc/1/status", limit=16 * 1024),
}
_KEPT_FREE = tuple(
    file(f"/sys/devices/system/cpu/{name}", limit=16 * 1024) for name in ("isolated", "nohz_full")
)
"""What ``isolcpus=`` and ``nohz_full=`` keep free of ordinary work."""
_WITH_MEMORY = glob("/sys/devices/system/node/has_memory", limit=4096)
"""A kernel without NUMA has no such file."""
_GROUPS = "/sys/fs/cgroup"


_OF_GROUP = {
    "cpuset.cpus": Kind.CPUS,
    "cpuset.mems": Kind.NODES,
    "cpu.max": Kind.QUOTA,
    "memory.max": Kind.MEMORY,
    "memory.high": Kind.MEMORY,
}
_LIVE = tuple(
    glob(f"{_GROUPS}/{group}/{name}", limit=16 * 1024)
    for group in ("system.slice", "user.slice", "user.slice/user-*.slice")
    for name in _OF_GROUP
)
_TOPMOST = {
    name: glob(f"{_GROUPS}/{name}", limit=16 * 1024)
    for name in ("cpuset.cpus.effective", "cpuset.mems.effective", "memory.max")
}
"""Of the topmost group that is to be seen: in a container what its host lets it have."""


class Bound(Struct, frozen=True):
    """One bound that is in effect."""

    subject: str
    """``user.slice cpu.max``, ``ssh.service AllowedCPUs``."""
    kind: Kind
    text: str
    """As the node says it."""
    amount: Amount


class WorkBounds(Struct, frozen=True):
    """What is there for work, and everything that bounds how much of it work may use."""

    whole: Whole
    bounds: tuple[Bound, ...]


def _allowed(read: Read, seen: Observation) -> Iterator[tuple[Kind, str]]:
    lines = dict(line.split(":", 1) for line in clean(seen.text(read)).splitlines() if ":" in line)
    if not (cpus := lines.get("Cpus_allowed_list", "").strip()):
        raise NotUnderstoodError(f"'{read}' does not tell on which CPUs the process may run.")
    yield Kind.CPUS, cpus
    if nodes := lines.get("Mems_allowed_list", "").strip():
        yield Kind.NODES, nodes


def _processes(seen: Observation) -> Iterator[Bound]:
    for name, read in _PROCESSES.items():
        for kind, text in _allowed(read, seen):
            yield Bound(f"{name} {kind}", kind, text, numbers(text))


def _kept(seen: Observation, read: Read) -> frozenset[int]:
    text = clean(seen.text(read)).strip() if seen.exists(read) else ""
    return frozenset() if text == "(null)" else numbers(text)


def _machine(seen: Observation) -> tuple[frozenset[int], frozenset[int]]:
    """CPUs and NUMA nodes of a machine that has a kernel of its own."""
    online = numbers(clean(seen.text(CPUS_ONLINE)))
    declared = re.findall(r"(?:^|\s)systemd\.cpu_affinity=(\S+)", clean(seen.text(CMDLINE)))
    if declared:
        online &= numbers(declared[-1])
    free = frozenset[int]().union(*(_kept(seen, read) for read in _KEPT_FREE))
    if not online:
        raise NotUnderstoodError("The kernel did not tell which CPUs run.")
    return online - free or online, _first(seen, _WITH_MEMORY) or frozenset()


def _first(seen: Observation, read: Read) -> frozenset[int] | None:
    texts = [clean(complete_text(read, result)) for result in seen.each(read)]
    return numbers(texts[0]) if texts and texts[0].strip() else None


def _whole(seen: Observation) -> Whole:
    virtualization = shown_manager(seen, VIRTUALIZATION)[0]["Virtualization"]
    memory = float(parse_meminfo(seen.text(MEMINFO)).total_kib * 1024)
    if parse_virt(virtualization) is not Machine.CONTAINER:
        return Whole(*_machine(seen), memory)
    of_process: dict[Kind, frozenset[int]] = {}
    for bound in _processes(seen):
        # What one of them may use, the container's host gives to all.
        more = bound.amount if isinstance(bound.amount, frozenset) else frozenset()
        of_process[bound.kind] = of_process.get(bound.kind, frozenset()) | more
    cpus, nodes = (_first(seen, _TOPMOST[f"cpuset.{one}.effective"]) for one in ("cpus", "mems"))
    top = [
        _of_group("memory.max", complete_text(_TOPMOST["memory.max"], one).strip())
        for one in seen.each(_TOPMOST["memory.max"])
    ]
    return Whole(
        cpus=cpus or of_process[Kind.CPUS],
        nodes=nodes or of_process.get(Kind.NODES, frozenset()),
        memory=min([memory, *(one for one in top if isinstance(one, float))]),
    )


def _of_group(name: str, text: str) -> Amount:
    kind = _OF_GROUP[name]
    if kind in (Kind.CPUS, Kind.NODES):
        return numbers(text)
    quota, _, period = text.partition(" ")
    if quota == "max":
        return math.inf
    if kind is Kind.MEMORY:
        return float(amount(text))
    if not re.fullmatch(r"[1-9][0-9]{0,9}", period):
        raise NotUnderstoodError(f"'{excerpt(text)}' is not a quota of a control group.")
    return amount(quota) / int(period)


def _groups(seen: Observation) -> Iterator[Bound]:
    for read in _LIVE:
        for result in seen.each(read):
            # A user's group may go between listing and reading.
            if result.status == "absent":
                continue
            group, _, name = result.name.removeprefix(f"{_GROUPS}/").rpartition("/")
            text = clean(complete_text(read, result)).strip()
            # An empty set is that of the group above.
            if text or not name.startswith("cpuset."):
                yield Bound(f"{group} {name}", _OF_GROUP[name], text, _of_group(name, text))


_TOLD = ("CPUQuotaPerSecUSec", "MemoryMax", "MemoryHigh")
_TOLD_IF_SET = {
    "CPUAffinity": Kind.CPUS,
    "AllowedCPUs": Kind.CPUS,
    "AllowedMemoryNodes": Kind.NODES,
    "NUMAPolicy": Kind.POLICY,
}
"""Older versions of systemd do not know all of them, and pass over empty ones."""


def _show(baseline: Baseline) -> ShowUnits:
    names = (f"{name}.service" for name in baseline.get("limits_services", ()))
    return units(USER_UNIT, *names, properties=(*_TOLD, *_TOLD_IF_SET))


def _of_unit(unit: Properties) -> Iterator[Bound]:
    name = property_of(unit, "Id")
    quota, *sizes = (property_of(unit, key) for key in _TOLD)
    yield Bound(f"{name} CPUQuota", Kind.QUOTA, quota, time_per_second(quota))
    for key, text in zip(_TOLD[1:], sizes, strict=True):
        yield Bound(f"{name} {key}", Kind.MEMORY, text, float(amount(text)))
    for key, kind in _TOLD_IF_SET.items():
        if text := unit.get(key, ""):
            value = text if kind is Kind.POLICY else numbers(text)
            yield Bound(f"{name} {key}", kind, text, value)


def _services(seen: Observation, baseline: Baseline) -> Iterator[Bound]:
    _, found = shown_units(seen, _show(baseline))
    # By Id: an alias and its unit are one.
    for unit in {property_of(unit, "Id"): unit for unit in found.values()}.values():
        if property_of(unit, "LoadState") not in ("not-found", "masked"):
            yield from _of_unit(unit)


def _parse(seen: Observation, baseline: Baseline) -> WorkBounds:
    bounds = (*_processes(seen), *_groups(seen), *_services(seen, baseline))
    return WorkBounds(_whole(seen), bounds)


def _reads(baseline: Baseline) -> tuple[Read, ...]:
    return (
        *_PROCESSES.values(),
        *_KEPT_FREE,
        *_TOPMOST.values(),
        *_LIVE,
        CPUS_ONLINE,
        _WITH_MEMORY,
        MEMINFO,
        CMDLINE,
        VIRTUALIZATION,
        _show(baseline),
    )


WORK_BOUNDS: Source[WorkBounds] = Source("bounds of work", _reads, _parse)
