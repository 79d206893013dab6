"""Interrupts of network adapters: which there are, where they may come, where they came.

They are found through sysfs, by the adapter's device: names in ``/proc/interrupts`` need not
contain the interface's (``mlx5_comp10@pci:0000:81:00.0``). A virtio adapter's are those of the PCI
device around it. Sources: Linux Documentation/ABI/testing/sysfs-bus-pci (msi_irqs),
Documentation/core-api/irq/irq-affinity.rst.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.evidence import interrupts
from hfprov.evidence.cpulist import parse_cpulist
from hfprov.evidence.pcie import ADDRESS
from hfprov.evidence.sysfs_attributes import parse_numa_node, parse_number
from hfprov.evidence.text import clean
from hfprov.reading import Observation, Read, Source, command, complete_text, glob, listing
from hfprov.regex import regex

_NETS = "/sys/class/net/*/device"
_MOST = 16_384
_DEVICES = listing(_NETS)
_OWN = listing(f"{_NETS}/msi_irqs/*", most=_MOST)
_AROUND = listing(f"{_NETS}/../msi_irqs/*", most=_MOST)
_OWN_NODE = glob(f"{_NETS}/numa_node", limit=64)
_AROUND_NODE = glob(f"{_NETS}/../numa_node", limit=64)
_OWN_LINE = glob(f"{_NETS}/irq", limit=64)
_AROUND_LINE = glob(f"{_NETS}/../irq", limit=64)
_ALLOWED = glob("/proc/irq/[0-9]*/smp_affinity_list", limit=4096, most=_MOST)
_EFFECTIVE = glob("/proc/irq/[0-9]*/effective_affinity_list", limit=4096, most=_MOST)

# The whole file has a column for each CPU and a row for each of thousands of interrupts.
_ROWS = r"""{
  echo '^ *CPU'
  for path in /sys/class/net/*/device/msi_irqs/* /sys/class/net/*/device/../msi_irqs/*; do
    [ ! -e "$path" ] || echo "^ *${path##*/}:"
  done
  for path in /sys/class/net/*/device/irq /sys/class/net/*/device/../irq; do
    [ ! -e "$path" ] || sed 's/.*/^ *&:/' "$path"
  done
} | sort -u | grep -f - /proc/interrupts"""
_COUNTS = command("sh", "-c", _ROWS, timeout=15, limit=8 << 20, needs=_NETS)
_READS = (
    *(_DEVICES, _OWN, _AROUND, _OWN_NODE, _AROUND_NODE, _OWN_LINE, _AROUND_LINE),
    *(_ALLOWED, _EFFECTIVE, _COUNTS),
)


class NicInterrupt(Struct, frozen=True):
    """One interrupt that an adapter's driver uses."""

    number: int
    name: str
    queue: int | None
    """None for one that serves no queue: link changes, commands, errors."""
    allowed: tuple[int, ...]
    """CPUs that it may come to: ``smp_affinity_list``."""
    effective: tuple[int, ...] | None
    """The CPU that it is set up for now; a change takes effect when it next comes."""
    counts: Mapping[int, int]
    """How often it has come, by CPU; only CPUs where it has."""


class Adapter(Struct, frozen=True):
    """An interface with a device of its own."""

    numa_node: int | None
    """None where the firmware did not say."""
    interrupts: tuple[NicInterrupt, ...]

    @property
    def queues(self) -> Mapping[int, tuple[NicInterrupt, ...]]:
        """Interrupts by queue: receiving and sending may have one each."""
        found: dict[int, list[NicInterrupt]] = defaultdict(list)
        for one in self.interrupts:
            if one.queue is not None:
                found[one.queue].append(one)
        return {number: tuple(ones) for number, ones in sorted(found.items())}


_NO_QUEUE = regex(
    r"async|config|misc|ctrl|mgmn?t|admin|aeq|cmd|mbx|mbox|event|pages|ptp", re.IGNORECASE
)
_QUEUE_WORDS = r"tx-?rx|rx-?tx|rx|tx|input|output|fp|q|queue|ring|blk|ceq|nq"
_QUEUE = regex(rf".*(?:comp|[-_.](?:{_QUEUE_WORDS})?[-_.]?)([0-9]{{1,5}})", re.IGNORECASE)


def queue_of(name: str, interface: str, *, alone: bool = False) -> int | None:
    """The queue that an interrupt serves, from the name that its driver gave it.

    ``alone``: it is the adapter's only one, and serves the only queue whatever its name.
    """
    plain = re.sub(ADDRESS, "", name.partition("@")[0].replace(interface, ""))
    match = _QUEUE.fullmatch(plain)
    if match and not _NO_QUEUE.search(plain):
        return int(match.group(1))
    return 0 if alone else None


def _net_of(path: str) -> str:
    return clean(path.split("/")[4])


def _values(
    seen: Observation, reads: tuple[Read, Read], virtio: frozenset[str]
) -> Iterator[tuple[str, str]]:
    """(interface, text) from an adapter's own device, or the device around a virtio one."""
    for read, around in zip(reads, (False, True), strict=True):
        for result in seen.each(read):
            name = _net_of(result.name)
            if (name in virtio) is around and result.status != "absent":
                yield name, complete_text(read, result)


def _lists(seen: Observation, read: Read) -> dict[int, tuple[int, ...]]:
    """A list of CPUs by number of the interrupt. One that went away meanwhile has none."""
    return {
        parse_number(result.name.split("/")[3], "an interrupt"): parse_cpulist(
            complete_text(read, result)
        )
        for result in seen.each(read)
        if result.status != "absent"
    }


def _rows(seen: Observation) -> dict[int, tuple[str, Mapping[int, int]]]:
    """(name, counts by CPU) of each interrupt of ``/proc/interrupts`` that has a handler."""
    if not seen.each(_DEVICES):
        return {}
    text = seen.text(_COUNTS)
    if len(clean(text).strip().splitlines()) == 1:
        return {}  # the heading alone: none of them has come, or has a handler
    found = interrupts.parse(text)
    return {
        one.number: (
            one.names[0],
            {cpu: count for cpu, count in zip(found.cpus, one.counts, strict=True) if count},
        )
        for one in found.interrupts
        if one.number is not None and one.names
    }


def _parse(seen: Observation, _: Baseline) -> Mapping[str, Adapter]:
    targets = {_net_of(one.name): one.link.rpartition("/")[2] for one in seen.each(_DEVICES)}
    virtio = frozenset(name for name, target in targets.items() if target.startswith("virtio"))
    numbers: dict[str, set[int]] = {name: set() for name in targets}
    for read, around in ((_OWN, False), (_AROUND, True)):
        for result in seen.each(read):
            name = _net_of(result.name)
            if (name in virtio) is around and name in numbers:
                number = parse_number(result.name.rpartition("/")[2], "an interrupt")
                numbers[name].add(number)
    for name, text in _values(seen, (_OWN_LINE, _AROUND_LINE), virtio):
        line = parse_number(text, "irq")
        if line > 0 and not numbers.get(name):
            numbers[name] = {line}
    nodes = {
        name: parse_numa_node(text)
        for name, text in _values(seen, (_OWN_NODE, _AROUND_NODE), virtio)
    }
    rows, allowed, effective = _rows(seen), _lists(seen, _ALLOWED), _lists(seen, _EFFECTIVE)
    found = {}
    for name, listed in numbers.items():
        used = sorted(listed & rows.keys() & allowed.keys())
        found[name] = Adapter(
            nodes.get(name),
            tuple(
                NicInterrupt(
                    number=one,
                    name=rows[one][0],
                    queue=queue_of(rows[one][0], name, alone=len(used) == 1),
                    allowed=allowed[one],
                    effective=effective.get(one),
                    counts=rows[one][1],
                )
                for one in used
            ),
        )
    return found


ADAPTERS: Source[Mapping[str, Adapter]] = Source("interrupts of adapters", lambda _: _READS, _parse)
"""By interface; only interfaces that have a device."""
