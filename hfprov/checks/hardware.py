"""What the checks of hardware share: whose hardware it is, what is expected, what is the odd one.

A container sees its host's hardware, and must not be judged by it. A virtual machine's memory,
firmware and power are the hypervisor's; a device that was passed through is its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from hfprov.baseline import Baseline
from hfprov.catalogue.skus import Host, find_sku
from hfprov.checks.accelerator_scope import vendor_of
from hfprov.checks.registry import Facts
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.pci_devices import PciDevice
from hfprov.evidence.system import MACHINE, Machine
from hfprov.verdict import Finding, NotApplicable, not_applicable, unknown


def in_container(facts: Facts, what: str) -> Finding | None:
    """The finding that ends a check in a container; None elsewhere. ``what``: ``the drives``."""
    if facts.get(MACHINE) is Machine.CONTAINER:
        return not_applicable(
            NotApplicable.CONTAINER, f"It is the container's host that has {what}."
        )
    return None


def not_bare_metal(facts: Facts, what: str) -> Finding | None:
    """As :func:`in_container`, and for virtual machines too."""
    if facts.get(MACHINE) is Machine.VIRTUAL:
        return not_applicable(
            NotApplicable.VIRTUAL_MACHINE, f"It is the hypervisor that has {what}."
        )
    return in_container(facts, what)


def has_accelerators(devices: Mapping[str, PciDevice]) -> bool:
    """Whether an accelerator is on the bus; the small display adapter of a BMC is none."""
    return any(vendor_of(device) is not None for device in devices.values())


def judged_each(names: Iterable[str], judge: Callable[[str], Finding]) -> Iterator[Finding]:
    """One finding for each name; what is not known of one leaves the others judged."""
    for name in names:
        try:
            yield judge(name)
        except (NoEvidenceError, NotUnderstoodError) as error:
            yield unknown(name, reason=error.message)


@dataclass(frozen=True, slots=True)
class Expected:
    """A number that the node was bought with."""

    count: int
    origin: str
    """Who says so, in words: ``declared in 'node_dimms'``."""


def expected(
    baseline: Baseline, variable: str, of_sku: Callable[[Host], int | None] = lambda _: None
) -> Expected | None:
    """What is declared of the node's hardware, or else what its SKU has; None where nobody says.

    Raises NoEvidenceError when the declared value is not a whole number above zero.
    """
    value = baseline.get(variable)
    if value is not None and value != "":
        return Expected(_whole(variable, value), f"declared in '{variable}'")
    name = str(baseline.get("node_sku") or "")
    sku = find_sku(name)
    count = of_sku(sku.host) if sku else None
    return None if count is None else Expected(count, f"the figure of SKU '{name}'")


def _whole(variable: str, value: object) -> int:
    try:
        count = int(str(value))
    except ValueError:
        count = 0
    if count <= 0:
        raise NoEvidenceError(f"'{variable}' is '{value}', which is not a whole number above 0.")
    return count


@dataclass(frozen=True, slots=True)
class Odd:
    """Members of a group that differ from what most of the group have."""

    usual: str
    """What most have; empty when no value has a majority."""
    different: Mapping[str, str]
    """Value by name, of those that differ; of all, when there is no majority."""


def odd_ones(values: Mapping[str, str]) -> Odd | None:
    """Who differs in a group of the same kind; None when all agree."""
    counts = Counter(values.values())
    if len(counts) <= 1:
        return None
    (usual, most), *_ = counts.most_common()
    if most * 2 <= len(values):
        return Odd("", dict(values))
    return Odd(usual, {name: value for name, value in values.items() if value != usual})
