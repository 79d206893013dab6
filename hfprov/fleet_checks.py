"""The odd one out across hosts: facts of many hosts in, what differs from its kind out. Pure.

A node whose cards all have the same old firmware looks right from inside; only its neighbours show
that it is not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hfprov.evidence.accelerators.model import Accelerator

MAJORITY = 0.5
"""Share of a kind above which a value is the usual one; without such a value nobody is odd."""
FEWEST = 3
"""Hosts of a kind below which there is no usual value."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One device, or one host as a whole, with the values that its kind has in common."""

    host: str
    kind: str
    """What it is compared with: a model of accelerator, a model of NIC, a SKU."""
    values: Mapping[str, str]
    """By name, e.g. ``vbios``, ``driver``, ``kernel``. A value that is not known is left out."""
    device: str = ""


@dataclass(frozen=True, slots=True)
class Odd:
    """One value that differs from what most of its kind have."""

    host: str
    device: str
    kind: str
    name: str
    value: str
    """``missing`` where others have a value and this one has none."""
    usual: str
    with_usual: int
    """How many hosts have the usual value everywhere."""
    of: int
    """How many hosts of this kind there are."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the comparison of a fleet came to."""

    odd: tuple[Odd, ...]
    divided: tuple[str, ...]
    """``kind: name`` of values of which no single one is the usual one."""
    compared: int
    """How many values had enough hosts to be compared. Zero means that nothing was checked."""

    def document(self) -> dict[str, Any]:
        """JSON-ready data, with the hosts in the order of their names."""
        return {
            "schema": "hfprov.fleet/1",
            "compared": self.compared,
            "odd": [asdict(one) for one in self.odd],
            "divided": list(self.divided),
        }


def odd_ones(samples: Iterable[Sample]) -> Comparison:
    """What differs from the usual value of its kind; each host counts once for each value.

    A kind on fewer than three hosts is not compared: of two that differ, neither is the odd one.
    """
    kinds: dict[str, list[Sample]] = {}
    for sample in samples:
        kinds.setdefault(sample.kind, []).append(sample)
    odd: list[Odd] = []
    divided: list[str] = []
    compared = 0
    for kind, members in sorted(kinds.items()):
        hosts = {member.host for member in members}
        if len(hosts) < FEWEST:
            continue
        for name in sorted({name for member in members for name in member.values}):
            compared += 1
            usual, count = _usual(members, name)
            if count <= MAJORITY * len(hosts):
                divided.append(f"{kind}: {name}")
                continue
            odd += _differing(members, name, usual, count, len(hosts))
    ordered = sorted(odd, key=lambda one: (one.host, one.device, one.kind, one.name))
    return Comparison(tuple(ordered), tuple(divided), compared)


def _usual(members: Iterable[Sample], name: str) -> tuple[str, int]:
    """The value that most hosts have on every device of the kind, and on how many hosts."""
    by_host: dict[str, set[str]] = {}
    for member in members:
        by_host.setdefault(member.host, set()).add(member.values.get(name, ""))
    counted = Counter(next(iter(found)) for found in by_host.values() if len(found) == 1)
    counted.pop("", None)
    # Of equally frequent values the greater text, so that the order of hosts decides nothing.
    return max(counted.items(), key=lambda item: (item[1], item[0]), default=("", 0))


def _differing(
    members: Iterable[Sample], name: str, usual: str, count: int, hosts: int
) -> Iterable[Odd]:
    for member in members:
        value = member.values.get(name, "missing")
        if value != usual:
            yield Odd(member.host, member.device, member.kind, name, value, usual, count, hosts)


def accelerator_samples(host: str, devices: Iterable[Accelerator]) -> list[Sample]:
    """One sample per accelerator: its firmware and its driver, by its PCI id or model."""
    return [
        Sample(
            host,
            device.pci_id or device.model or device.vendor.value,
            {
                **device.firmware,
                **({"driver": device.driver_version} if device.driver_version else {}),
            },
            device.name,
        )
        for device in devices
    ]
