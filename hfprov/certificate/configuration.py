"""What a machine consists of and runs, as one observation saw it: what a certificate is about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from hfprov.checks.registry import Facts
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.accelerators.adapters import ACCELERATORS
from hfprov.evidence.pci_devices import PCI_DEVICES
from hfprov.evidence.system import KERNEL, MACHINE, OS, Machine
from hfprov.fleet_checks import Sample
from hfprov.reading import Source

F = TypeVar("F")

_NETWORK = 0x02
"""Class of network controllers (PCI code and ID assignment specification)."""


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator: which one it is, and what runs on it."""

    name: str
    kind: str
    """PCI id, or model where the tool does not tell it."""
    serial: str
    uuid: str
    versions: Mapping[str, str]
    """``driver`` and each firmware component."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """Empty texts are "could not be read"."""

    kernel: str = ""
    boot_id: str = ""
    system: str = ""
    devices: tuple[Device, ...] = ()
    topology: Mapping[str, str] = field(default_factory=dict)
    """``accelerators`` and ``nics``: how many of which kind; ``nics`` with their NUMA nodes."""

    def difference(self, later: Configuration) -> str:
        """What makes this another machine than it was, in words; empty when nothing does."""
        if self.kernel != later.kernel:
            return f"its kernel is '{later.kernel}' and was '{self.kernel}'"
        before = {one.uuid or one.serial or one.name: one for one in self.devices}
        after = {one.uuid or one.serial or one.name: one for one in later.devices}
        for key in sorted(before.keys() ^ after.keys()):
            gone = key in before
            name = (before if gone else after)[key].name
            return f"accelerator '{name}' ({key}) {'is gone' if gone else 'was not there'}"
        for key, one in sorted(before.items()):
            versions = after[key].versions
            for what in sorted({*one.versions, *versions}):
                old, new = one.versions.get(what, ""), versions.get(what, "")
                if old != new:
                    return f"the {what} of '{one.name}' is '{new}' and was '{old}'"
        return ""


def configuration_of(facts: Facts) -> Configuration:
    """The configuration that facts tell of. What is not known stays empty."""
    kernel, system = _known(facts, KERNEL), _known(facts, OS)
    heard = _known(facts, ACCELERATORS)
    devices = tuple(
        Device(
            one.name,
            one.pci_id or one.model or one.vendor.value,
            one.serial,
            one.uuid,
            dict(one.firmware) | ({"driver": one.driver_version} if one.driver_version else {}),
        )
        for one in (heard.devices if heard else ())
    )
    return Configuration(
        kernel=kernel.release if kernel else "",
        boot_id=kernel.boot_id if kernel else "",
        system=" ".join(system) if system else "",
        devices=devices,
        topology=_topology(facts, devices),
    )


def samples_of(host: str, seen: Configuration) -> list[Sample]:
    """What must be the same on every host of a set, in the form that hosts are compared in."""
    versions: dict[str, set[str]] = {}
    for device in seen.devices:
        for what, version in device.versions.items():
            versions.setdefault(f"{what} of {device.kind}", set()).add(version)
    values = {
        "kernel": seen.kernel,
        "system": seen.system,
        **{f"topology of {what}": value for what, value in seen.topology.items()},
        **{what: ", ".join(sorted(found)) for what, found in versions.items()},
    }
    return [Sample(host, "host", {name: value for name, value in values.items() if value})]


def _topology(facts: Facts, devices: tuple[Device, ...]) -> dict[str, str]:
    found = {"accelerators": _counted(one.kind for one in devices)}
    # The bus that a container sees is its host's.
    bus = _known(facts, PCI_DEVICES) if _known(facts, MACHINE) is not Machine.CONTAINER else None
    if bus is not None:
        found["nics"] = _counted(
            f"{one.pci_id} on node {one.numa_node}"
            for one in bus.values()
            if one.pci_class >> 16 == _NETWORK and not one.virtual
        )
    return found


def _counted(kinds: Iterable[str]) -> str:
    counts = Counter(kinds)
    return ", ".join(f"{number} x {kind}" for kind, number in sorted(counts.items())) or "none"


def _known(facts: Facts, source: Source[F]) -> F | None:
    try:
        return facts.get(source)
    except (NoEvidenceError, NotUnderstoodError):
        return None
