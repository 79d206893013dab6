"""How each accelerator is set up and used: persistence, partitions, sharing, processes."""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.catalogue.accelerators import Model
from hfprov.checks.accelerator_scope import SOURCES, of_each_device, untold
from hfprov.checks.registry import Facts, check
from hfprov.evidence.accelerators.model import Accelerator, Vendor
from hfprov.verdict import Finding, Impact, failed, passed, unknown, warned

LEFTOVER_SHARE = 0.1
"""Share of a device's memory in use, without a process, that is more than any driver's own need."""


@check("accelerator.persistence", reads=SOURCES)
def persistence(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """NVIDIA's driver keeps its state when nobody uses a GPU."""

    def judge(device: Accelerator, model: Model | None) -> Iterator[Finding]:
        if device.persistence is None:
            wanted = model is not None and device.vendor is Vendor.NVIDIA
            yield untold(device, model, "persistence mode", expected=wanted)
        elif device.persistence:
            yield passed(device.name, observed="on", expected="on")
        else:
            reason = "The driver forgets the GPU's settings and errors whenever nobody uses it."
            yield failed(device.name, observed="off", expected="on", reason=reason)

    yield from of_each_device(facts, baseline, judge)


@check(
    "accelerator.partitions",
    reads=SOURCES,
    impact=Impact.DRAIN,
    judges=["node_accelerator_partitions", "node_accelerator_mps"],
)
def partitions(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Devices are whole, and nobody shares them out, unless that is declared."""
    cut_up = bool(baseline.get("node_accelerator_partitions", False))
    shared = bool(baseline.get("node_accelerator_mps", False))

    def judge(device: Accelerator, _: Model | None) -> Iterator[Finding]:
        mps = any(one.mps for one in device.processes or ())
        observed = f"{'partitioned' if device.partitioned else 'whole'}{', MPS' if mps else ''}"
        expected = f"{'partitioned' if cut_up else 'whole'}{', MPS allowed' if shared else ''}"
        if device.compute_mode.lower() == "prohibited":
            reason = "Its compute mode prohibits any use."
            yield failed(device.name, observed="prohibited", expected=expected, reason=reason)
        elif bool(device.partitioned) is not cut_up and device.partitioned is not None:
            reason = "It is divided in another way than declared."
            yield failed(device.name, observed=observed, expected=expected, reason=reason)
        elif mps and not shared:
            reason = "MPS shares it out, which is not declared."
            yield failed(device.name, observed=observed, expected=expected, reason=reason)
        elif device.partitioned is None and cut_up:
            yield unknown(device.name, reason="It does not tell whether it is partitioned.")
        else:
            yield passed(device.name, observed=observed, expected=expected)

    yield from of_each_device(facts, baseline, judge)


@check("accelerator.processes", reads=SOURCES)
def processes(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Who uses each device. Memory that nobody holds is a process that did not die."""

    def judge(device: Accelerator, _: Model | None) -> Iterator[Finding]:
        if device.processes is None:
            yield untold(device, None, "processes", expected=False)
            return
        used, total = device.memory_used_mib, device.memory_mib
        idle = not device.processes and not device.loaded
        if idle and used and total and used > LEFTOVER_SHARE * total and not device.partitioned:
            reason = "Memory is in use and no process holds it: something did not die."
            observed = f"{used} MiB in use, no process"
            yield warned(device.name, observed=observed, expected="memory free", reason=reason)
            return
        names = sorted({one.name for one in device.processes if one.name})
        observed = f"{len(device.processes)} processes"
        yield passed(device.name, observed=f"{observed}: {', '.join(names[:3])}".strip(": "))

    yield from of_each_device(facts, baseline, judge)
