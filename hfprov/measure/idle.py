"""Whether a node is idle enough to be measured, and what may distort what is measured. Pure.

What would make every figure wrong is refused; what only explains a figure is said with it. A
setting that is not the best one, such as the governor, is no reason to refuse: a measurement shows
what it costs, and a comparison with another setting is refused by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hfprov.evidence.accelerators.model import Accelerator
from hfprov.evidence.system import Machine
from hfprov.measure import devices as accelerators

_LOAD = 1.0
_LOAD_OF_CPUS = 0.05
"""Share of the CPUs that may be busy beside a measurement; small machines may have one."""
_MEMORY = 0.5
"""Share of the memory that must be available; below, tools meet reclaim and swap."""
_MEMORY_USUAL = 0.9
_HOT_MILLIDEGREES = 85_000
_PERFORMANCE = "performance"


def refusal(conditions: Mapping[str, Any], devices: tuple[Accelerator, ...]) -> str:
    """Why a node must not be measured now, in a sentence; empty when it may.

    A container shows its host's load and memory, which say nothing of the node.
    """
    if reason := accelerators.in_use(devices):
        return reason
    if conditions.get("machine") == Machine.CONTAINER.value:
        return ""
    load, running = _number(conditions, "load"), _number(conditions, "running")
    most = max(_LOAD, _LOAD_OF_CPUS * int(conditions.get("cpus", 1)))
    # The load of the last minute is also that of a measurement that has just ended; what runs at
    # this very moment may be ourselves. Both together are somebody else.
    if load is not None and running is not None and load > most and running > most + 1:
        return (
            f"It is busy: {running:.0f} threads run, and its load is {load:g}; at most {most:g} "
            "may be. Find out with what, or wait."
        )
    available = _number(conditions, "memory_available")
    if available is not None and available < _MEMORY:
        return f"Only {available:.0%} of its memory are available; {_MEMORY:.0%} are needed."
    return ""


def cautions(conditions: Mapping[str, Any], devices: tuple[Accelerator, ...]) -> Iterator[str]:
    """What is not as it should be for a measurement, and does not forbid it."""
    yield from accelerators.cautions(devices)
    governors = [one for one in conditions.get("governor", ()) if one != _PERFORMANCE]
    if governors:
        yield f"Its CPUs have governor '{governors[0]}', not '{_PERFORMANCE}'."
    if devices and conditions.get("numa_balancing") not in (None, ["0"]):
        yield "The kernel balances NUMA, and moves memory under what is measured."
    hot = [int(one) for one in conditions.get("temperatures_millidegrees", ()) if one.isdigit()]
    if hot and max(hot) > _HOT_MILLIDEGREES:
        yield f"It has {max(hot) / 1000:.0f} C before it begins."
    if conditions.get("machine") == Machine.CONTAINER.value:
        return
    available = _number(conditions, "memory_available")
    if available is not None and _MEMORY <= available < _MEMORY_USUAL:
        yield f"{available:.0%} of its memory are available; an idle node has more."
    swapped = _number(conditions, "swap_used_mib")
    if swapped:
        yield f"It has {swapped:.0f} MiB in swap."


def _number(conditions: Mapping[str, Any], name: str) -> float | None:
    try:
        return float(conditions[name])
    except (KeyError, ValueError, TypeError):
        return None
