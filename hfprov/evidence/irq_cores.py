"""Which CPUs a node has: those that run, their cores, their NUMA nodes, those that are kept free.

Sources: Linux Documentation/ABI/stable/sysfs-devices-system-cpu and -node, kernel-parameters.rst.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct, field

from hfprov.baseline import Baseline
from hfprov.errors import NotUnderstoodError
from hfprov.evidence.cpulist import parse_cpulist
from hfprov.evidence.sysfs_attributes import one_line
from hfprov.reading import Observation, Read, Source, complete_text, file, glob

Core = tuple[int, ...]
"""Running CPUs of one physical core, ascending."""

_CPU = "/sys/devices/system/cpu"
_NODE = "/sys/devices/system/node/node[0-9]*"
_ONLINE = file(f"{_CPU}/online", limit=16 * 1024)
_ISOLATED = file(f"{_CPU}/isolated", limit=16 * 1024)
_NOHZ_FULL = file(f"{_CPU}/nohz_full", limit=16 * 1024)
_THREADS = glob(f"{_CPU}/cpu[0-9]*/topology/thread_siblings_list", limit=4096, most=8192)
_NODE_CPUS = glob(f"{_NODE}/cpulist", limit=16 * 1024)
_DISTANCES = glob(f"{_NODE}/distance", limit=16 * 1024)
_READS = (_ONLINE, _ISOLATED, _NOHZ_FULL, _THREADS, _NODE_CPUS, _DISTANCES)


class Cores(Struct, frozen=True):
    """The CPUs of a node."""

    cores: tuple[Core, ...]
    isolated: frozenset[int]
    """By ``isolcpus`` or ``nohz_full``: the kernel itself keeps work off them."""
    nodes: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """Running CPUs by NUMA node; none for a node that is memory only."""
    distances: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """By NUMA node, to each node in ascending order."""

    def usable(self, reserved: frozenset[int]) -> tuple[Core, ...]:
        """Cores that are free as a whole: a sibling thread disturbs its core as well."""
        kept = reserved | self.isolated
        return tuple(core for core in self.cores if kept.isdisjoint(core))

    def near(self, node: int | None, reserved: frozenset[int]) -> tuple[Core, ...]:
        """Usable cores of a NUMA node, or of the nearest that has CPUs; of all where unknown."""
        usable = self.usable(reserved)
        if node is None or node not in self.nodes:
            return usable
        place = self._with_cpus(node)
        return tuple(core for core in usable if core[0] in self.nodes[place])

    def _with_cpus(self, node: int) -> int:
        if self.nodes[node]:
            return node
        distance = dict(zip(sorted(self.nodes), self.distances.get(node, ()), strict=False))
        candidates = sorted(other for other, cpus in self.nodes.items() if cpus)
        return min(candidates, key=lambda other: distance.get(other, 0))


def _number(path: str, kind: str) -> int:
    match = re.search(rf"/{kind}([0-9]{{1,6}})/", path)
    if match is None:
        raise NotUnderstoodError(f"'{path[:80]}' names no {kind}.")
    return int(match.group(1))


def _texts(seen: Observation, read: Read, kind: str) -> dict[int, str]:
    return {
        _number(result.name, kind): complete_text(read, result)
        for result in seen.each(read)
        if result.status != "absent"
    }


def _kept(seen: Observation, read: Read) -> frozenset[int]:
    """A kernel that has no such feature has no file, or says ``(null)``."""
    if not seen.exists(read):
        return frozenset()
    text = one_line(seen.text(read), str(read))
    return frozenset() if text == "(null)" else frozenset(parse_cpulist(text))


def _parse(seen: Observation, _: Baseline) -> Cores:
    online = frozenset(parse_cpulist(seen.text(_ONLINE)))
    siblings = {
        cpu: frozenset(parse_cpulist(text)) & online
        for cpu, text in _texts(seen, _THREADS, "cpu").items()
        if cpu in online
    }
    if not online or siblings.keys() != online:
        raise NotUnderstoodError("The kernel did not tell the core of each running CPU.")
    return Cores(
        cores=tuple(sorted({tuple(sorted(cpus | {cpu})) for cpu, cpus in siblings.items()})),
        isolated=_kept(seen, _ISOLATED) | _kept(seen, _NOHZ_FULL),
        nodes={
            node: frozenset(parse_cpulist(text)) & online
            for node, text in _texts(seen, _NODE_CPUS, "node").items()
        },
        distances={
            node: tuple(int(word) for word in text.split() if word.isdecimal())
            for node, text in _texts(seen, _DISTANCES, "node").items()
        },
    )


CORES: Source[Cores] = Source("cores", lambda _: _READS, _parse)
