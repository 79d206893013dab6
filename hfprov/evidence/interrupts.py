"""``/proc/interrupts``: how often each interrupt fired on each CPU, and what it belongs to.

The number of columns is that of the header: CPUs that are off-line are not in it. Names follow the
counts behind the interrupt controller, whose spelling differs between kernels and architectures.
Source: the kernel's ``show_interrupts`` (kernel/irq/proc.c, arch/*/kernel/irq.c).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise

from msgspec import Struct

from hfprov.evidence.host_values import bad_line, numbered_lines, unknown_form
from hfprov.evidence.pcie import ADDRESS, normal_address
from hfprov.evidence.text import clean
from hfprov.regex import regex

_CPU = regex(r"CPU([0-9]{1,5})")
_LABEL = regex(r"([A-Za-z0-9_.-]{1,32}):(?=\s|$)")
_COUNT = regex(r"[0-9]{1,20}")
_TRIGGERS = frozenset({"Edge", "Level", "edge", "level", "fasteoi", "None"})
_HWIRQ = regex(r"[0-9]{1,12}(?:-(?:edge|fasteoi|level|percpu|[a-z]+))?")
_NAMED_ADDRESS = regex(rf"(.*?)(?:@pci:|\[)({ADDRESS})\]?(.*)")
_MAX_DIGITS = 20
_SINGLE = frozenset({"ERR", "MIS", "Err", "BAD"})
"""Rows with one number for the whole machine: x86, arm64, powerpc."""


class Interrupt(Struct, frozen=True):
    """One row."""

    label: str
    """The interrupt number, or what stands in its place: ``LOC``, ``NMI``, ``ERR``."""
    counts: tuple[int, ...]
    """One for each CPU of the header; a single one for ERR and MIS."""
    controller: str
    """As printed: ``IR-PCI-MSI-0000:19:00.0 3-edge``; empty for rows without a number."""
    names: tuple[str, ...]
    """The handlers (shared lines have several), or the description: ``mlx5_comp10@pci:…``."""
    pci_address: str | None
    """The PCI address inside the name (mlx5, ahci) or the controller (Linux 6.2 and later)."""

    @property
    def number(self) -> int | None:
        return int(self.label) if self.label.isdecimal() and self.label.isascii() else None

    @property
    def total(self) -> int:
        return sum(self.counts)


class InterruptFacts(Struct, frozen=True):
    """The whole file."""

    cpus: tuple[int, ...]
    """CPUs of the columns, in their order."""
    interrupts: tuple[Interrupt, ...]
    complete: bool
    """Whether the rows go on to those of the architecture (``NMI``, ``ERR``) and the last line is
    closed; False where the text was cut off or filtered."""

    def per_cpu(self, label: str) -> Mapping[int, int]:
        """Counts of one row by CPU. Raises KeyError when there is no such row."""
        for interrupt in self.interrupts:
            if interrupt.label == label:
                return dict(zip(self.cpus, interrupt.counts, strict=False))
        raise KeyError(label)


def parse(text: str) -> InterruptFacts:
    """Facts from ``/proc/interrupts``. Raises NotUnderstoodError without a header of CPUs."""
    text = clean(text)
    cpus: tuple[int, ...] = ()
    interrupts: list[Interrupt] = []
    seen: set[str] = set()
    for number, line in numbered_lines(text):
        if not line.strip():
            continue
        if not cpus:
            cpus = _header(text, number, line)
            continue
        row = _row(number, line, len(cpus))
        if row.label in seen:
            raise bad_line("/proc/interrupts", number, line, f"only one row '{row.label}'")
        seen.add(row.label)
        interrupts.append(row)
    if not cpus:
        raise unknown_form("/proc/interrupts", text, "a header 'CPU0 CPU1 …'")
    if not interrupts:
        raise bad_line("/proc/interrupts", 2, "", "rows under the header")
    return InterruptFacts(
        cpus=cpus,
        interrupts=tuple(interrupts),
        complete=bool(seen & _SINGLE) and text.endswith("\n"),
    )


def _header(text: str, number: int, line: str) -> tuple[int, ...]:
    matches = [_CPU.fullmatch(word) for word in line.split()]
    cpus = [int(match.group(1)) for match in matches if match]
    if len(cpus) != len(matches):
        if number == 1 and _LABEL.match(line.strip()):
            raise bad_line("/proc/interrupts", number, line, "a header 'CPU0 CPU1 …'")
        raise unknown_form("/proc/interrupts", text, "a header 'CPU0 CPU1 …'")
    if any(later <= earlier for earlier, later in pairwise(cpus)):
        raise bad_line("/proc/interrupts", number, line, "CPU numbers that rise")
    return tuple(cpus)


def _row(number: int, line: str, columns: int) -> Interrupt:
    plain = line.strip()
    match = _LABEL.match(plain)
    if match is None:
        raise bad_line("/proc/interrupts", number, line, "a row like '24: 0 0 … name'")
    label = match.group(1)
    words = plain[match.end() :].split()
    counts = _counts(words[:columns])
    single = label in _SINGLE and len(words) == 1
    if len(counts) != columns and not (single and counts):
        raise bad_line("/proc/interrupts", number, line, f"{columns} counts, one for each CPU")
    rest = words[len(counts) :]
    if not label.isdigit():
        return Interrupt(label, tuple(counts), "", (" ".join(rest),) if rest else (), None)
    controller, names = _controller(rest)
    return Interrupt(label, tuple(counts), controller, names, _address(controller, names))


def _counts(words: list[str]) -> list[int]:
    """The numbers that the words begin with. Hundreds of CPUs: one test for the whole row."""
    joined = "".join(words)
    if joined.isascii() and joined.isdigit() and max(map(len, words)) <= _MAX_DIGITS:
        return [int(word) for word in words]
    counts = []
    for word in words:
        if not _COUNT.fullmatch(word):
            break
        counts.append(int(word))
    return counts


def _controller(words: list[str]) -> tuple[str, tuple[str, ...]]:
    """Split ``IR-PCI-MSI 512000-edge ahci[…]`` into controller and names.

    Old kernels glue the trigger to the controller (``PCI-MSI-edge``), new ones print a hardware
    number with the trigger, arm64 prints both as words of their own (``GICv3 23 Level``).
    """
    if not words:
        return "", ()
    taken = 1
    if len(words) > 1 and _HWIRQ.fullmatch(words[1]):
        taken = 2
        if words[2:3] and words[2] in _TRIGGERS:
            taken = 3
    elif len(words) > 1 and words[0] in ("IO-APIC", "XT-PIC") and words[1] in ("edge", "fasteoi"):
        taken = 2
    names = " ".join(words[taken:])
    return " ".join(words[:taken]), tuple(part for part in names.split(", ") if part)


def _address(controller: str, names: tuple[str, ...]) -> str | None:
    for text in (*names, controller):
        match = _NAMED_ADDRESS.fullmatch(text)
        if match:
            return normal_address(match.group(2))
    found = re.search(ADDRESS, controller)
    return normal_address(found.group()) if found else None
