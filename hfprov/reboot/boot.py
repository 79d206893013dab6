"""One boot of a node, and what must be the same after the next one. Pure.

That a node answers again proves nothing: a slow shutdown answers too. Only a new ``boot_id``
(random(4), made anew by the kernel at every boot) shows that the node was rebooted, and only its
devices and its kernel show that it came back whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts
from hfprov.evidence.host_hardware import CPUS, MEMORY_GIB
from hfprov.evidence.loaded_modules import LOADED_DRIVERS
from hfprov.evidence.pci_devices import PCI_DEVICES, PciDevice
from hfprov.evidence.system import KERNEL, UNITS, Kernel
from hfprov.reading import Observation, Read, Source, once

_KINDS = {
    0x0108: "NVMe controllers",
    0x0200: "Ethernet controllers",
    0x0207: "InfiniBand controllers",
    0x0300: "display controllers",
    0x0302: "3D controllers",
    0x0380: "display controllers",
    0x1200: "processing accelerators",
}
"""PCI classes that are counted; PCI Code and ID Assignment Specification, section 1."""
MEMORY_TOLERANCE = 0.01
"""Share of the memory that may come and go: what a kernel reserves for itself varies."""


@dataclass(frozen=True, slots=True)
class Boot:
    """What a node is in one boot."""

    kernel: Kernel
    state: str
    """systemd's own: ``running``, ``degraded``, ``starting`` …"""
    devices: Mapping[str, int]
    """Physical PCI functions by kind, and CPUs."""
    memory_gib: float
    drivers: Mapping[str, str]
    """Version by name; of the drivers that are loaded."""

    @property
    def up(self) -> bool:
        """Whether it has come up as far as it will: all that starts at boot has been started."""
        return self.state in ("running", "degraded")


_SOURCES: tuple[Source[Any], ...] = (KERNEL, UNITS, CPUS, MEMORY_GIB, PCI_DEVICES, LOADED_DRIVERS)


def boot_reads(baseline: Baseline) -> tuple[Read, ...]:
    """What must be observed to know a boot."""
    return once(read for source in _SOURCES for read in source.reads(baseline))


def boot_of(seen: Observation, baseline: Baseline) -> Boot:
    """The boot that was observed. Raises NoEvidenceError or NotUnderstoodError."""
    facts = Facts(seen, baseline)
    devices = _count(facts.get(PCI_DEVICES))
    devices["CPUs"] = len(facts.get(CPUS))
    return Boot(
        kernel=facts.get(KERNEL),
        state=facts.get(UNITS).state,
        devices=devices,
        memory_gib=facts.get(MEMORY_GIB),
        drivers=facts.get(LOADED_DRIVERS),
    )


def _count(devices: Mapping[str, PciDevice]) -> dict[str, int]:
    return dict(
        Counter(
            _KINDS[one.kind] for one in devices.values() if one.kind in _KINDS and not one.virtual
        )
    )


def differences(before: Boot, after: Boot, *, release: str = "") -> Iterator[str]:
    """What a reboot has broken, a sentence each; nothing when the same machine is back.

    ``release`` is the kernel that must run now; empty: any. A driver of another version is no
    fault, since an update is a common reason to reboot; a driver that is gone is.
    """
    if after.kernel.boot_id == before.kernel.boot_id:
        yield "It was not rebooted: the boot id is the same."
    if release and after.kernel.release != release:
        yield f"It runs kernel '{after.kernel.release}' and not '{release}'."
    for kind in sorted({*before.devices, *after.devices}):
        then, now = before.devices.get(kind, 0), after.devices.get(kind, 0)
        if now < then:
            yield f"It had {then} {kind} and has {now} now."
    if after.memory_gib < before.memory_gib * (1 - MEMORY_TOLERANCE):
        yield f"It had {before.memory_gib:.1f} GiB of memory and has {after.memory_gib:.1f} now."
    for name in before.drivers:
        if name not in after.drivers:
            yield f"Module '{name}' was loaded and is not any more."
