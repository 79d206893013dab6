"""Nothing in the kernel slows the whole node: its clock, and what it does to memory and PCIe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts, check, require
from hfprov.evidence.kernel_state import ASPM, CLOCK_SOURCE, DEFRAG, KERNEL_STATE, KSM
from hfprov.evidence.system import MACHINE, Machine
from hfprov.verdict import Finding, Impact, NotApplicable, not_applicable, passed, warned


class _Slow(NamedTuple):
    """Values of one thing that slow a node."""

    values: tuple[str, ...]
    better: str
    why: str


_SLOW: Mapping[str, _Slow] = {
    CLOCK_SOURCE: _Slow(
        ("hpet", "acpi_pm", "pit", "jiffies", "refined-jiffies"),
        "one that the CPU has, as tsc",
        "To read the time takes a microsecond or more: the kernel gave up the CPUs' own clock.",
    ),
    ASPM: _Slow(
        ("powersave", "powersupersave"),
        "default or performance",
        "Links of adapters and accelerators sleep between transfers, and take long to wake.",
    ),
    DEFRAG: _Slow(
        ("always",),
        "madvise or defer",
        "A program that asks for memory waits until the kernel has made huge pages.",
    ),
    KSM: _Slow(("1",), "0", "A CPU compares the memory of programs all the time."),
}


@check("node.kernel_state", reads=[MACHINE, KERNEL_STATE], impact=Impact.MANUAL)
def kernel_state(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """As kernels come; each of these is set by a hand, a recipe, or a fault of the firmware."""
    if facts.get(MACHINE) is Machine.CONTAINER:
        yield not_applicable(NotApplicable.CONTAINER, "The kernel belongs to the container's host.")
        return
    found = facts.get(KERNEL_STATE)
    require(CLOCK_SOURCE in found, "The kernel does not tell its clock source.")
    for name, slow in _SLOW.items():
        value = found.get(name)
        if value in slow.values:
            yield warned(name, observed=str(value), expected=slow.better, reason=slow.why)
        elif value is not None:
            yield passed(name, observed=value, expected=slow.better)
