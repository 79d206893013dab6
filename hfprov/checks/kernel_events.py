"""What the kernel has logged since boot. "Nothing" counts only when the whole log was read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts, check
from hfprov.evidence.accelerators.amd import false_count
from hfprov.evidence.kernel_events import KERNEL_LOG, BootLog
from hfprov.evidence.kernel_log.log import KernelEvent
from hfprov.evidence.system import MACHINE, Machine
from hfprov.evidence.text import excerpt
from hfprov.evidence.xid import Severity, sxid_catalogue, xid_catalogue
from hfprov.verdict import (
    Finding,
    Impact,
    NotApplicable,
    failed,
    not_applicable,
    passed,
    unknown,
    warned,
)

MOST_SUBJECTS = 64
"""Findings of one check; a log that names more devices than a machine has is somebody's joke."""
READS = (KERNEL_LOG, MACHINE)
_WORST = {Severity.INFO: 0, Severity.WARN: 1, Severity.UNKNOWN: 2, Severity.FATAL: 3}
"""A device with a fatal event has failed, whatever else it says that nobody understands."""

Name = Callable[[KernelEvent], str]
Meaning = Callable[[KernelEvent], str]


def judge_events(
    boot: BootLog,
    categories: Iterable[str],
    *,
    what: str,
    name: Name = lambda event: event.device,
    meaning: Meaning = lambda event: excerpt(event.message, 160),
) -> Iterator[Finding]:
    """One finding per thing that happened to one device, the worst of its kind; else none at all.

    ``what`` names the events in the plural. Events of severity ``info`` are no finding.
    """
    groups: dict[str, list[KernelEvent]] = {}
    for event in boot.log.of(*categories):
        if event.severity is not Severity.INFO:
            groups.setdefault(name(event), []).append(event)
    for subject, events in list(groups.items())[:MOST_SUBJECTS]:
        yield _finding(subject, events, meaning)
    if len(groups) > MOST_SUBJECTS:
        observed = f"{len(groups)} different devices or kinds"
        reason = f"{what} of more kinds than are listed here."
        yield failed("and more", observed=observed, expected="none", reason=reason)
    if not groups and boot.gap:
        yield unknown(reason=f"No {what} were seen, but: {boot.gap}", expected="none since boot")
    elif not groups:
        yield passed(observed=f"none in {boot.log.lines} lines since boot", expected="none")


def _finding(subject: str, events: list[KernelEvent], meaning: Meaning) -> Finding:
    worst = max(events, key=lambda event: _WORST[event.severity])
    last = events[-1]
    when = f", last at {last.time_text}" if last.time_text else ""
    observed = f"{len(events)} since boot{when}"
    reason = meaning(worst)
    if worst.severity is Severity.FATAL:
        return failed(subject, observed=observed, expected="none", reason=reason)
    if worst.severity is Severity.UNKNOWN:
        return unknown(subject, reason=f"{observed}: {reason}", expected="none")
    return warned(subject, observed=observed, expected="none", reason=reason)


def _log(facts: Facts) -> BootLog | Finding:
    if facts.get(MACHINE) is Machine.CONTAINER:
        return not_applicable(
            NotApplicable.CONTAINER, "The kernel belongs to the container's host."
        )
    return facts.get(KERNEL_LOG)


def _judge(facts: Facts, categories: Iterable[str], what: str) -> Iterator[Finding]:
    found = _log(facts)
    if isinstance(found, Finding):
        yield found
    else:
        yield from judge_events(found, categories, what=what)


@check("kernel_events.xid", reads=READS, impact=Impact.DRAIN)
def xid(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """NVIDIA's driver reports no error of a GPU. Codes are judged by the catalogue."""
    found = _log(facts)
    if isinstance(found, Finding):
        yield found
    else:
        yield from judge_events(found, ["xid"], what="Xids", name=_xid_name, meaning=_xid_meaning)


def _xid_name(event: KernelEvent) -> str:
    return f"{event.device} Xid {event.xid.code if event.xid else 'unreadable'}".strip()


def _xid_meaning(event: KernelEvent) -> str:
    entry = xid_catalogue().get(event.xid.code) if event.xid else None
    if entry is None:
        return f"Its code is not in the catalogue: {excerpt(event.message, 120)}"
    action = event.xid.recovery_action if event.xid and event.xid.recovery_action else entry.action
    return f"{entry.meaning} ({entry.name}). NVIDIA's advice: {action or 'none'}."


@check("kernel_events.sxid", reads=READS, impact=Impact.DRAIN)
def sxid(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """No NVSwitch reports an error."""
    found = _log(facts)
    if isinstance(found, Finding):
        yield found
    else:
        yield from judge_events(
            found, ["sxid"], what="SXids", name=_sxid_name, meaning=_sxid_meaning
        )


def _sxid_name(event: KernelEvent) -> str:
    return f"{event.device} SXid {event.sxid.code if event.sxid else 'unreadable'}".strip()


def _sxid_meaning(event: KernelEvent) -> str:
    entry = sxid_catalogue().get(event.sxid.code) if event.sxid else None
    known = f"{entry.meaning} ({entry.name}): " if entry else ""
    return f"{known}{excerpt(event.message, 120)}"


@check("kernel_events.accelerator_lost", reads=READS, impact=Impact.MANUAL)
def accelerator_lost(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """No accelerator has fallen off the bus."""
    yield from _judge(facts, ["gpu_lost"], "lost accelerators")


@check("kernel_events.accelerator_driver", reads=READS, impact=Impact.DRAIN)
def accelerator_driver(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """The accelerators' drivers report no failure."""
    categories = [
        "nvidia_driver",
        "nvidia_peermem",
        "nvlink",
        "nvswitch",
        "amdgpu_driver",
        "habanalabs_driver",
        "intel_gpu_driver",
    ]
    yield from _judge(facts, categories, "failures of accelerator drivers")


@check("kernel_events.ras", reads=READS, impact=Impact.DRAIN)
def ras(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """No AMD GPU reports a memory or hardware error."""
    found = _log(facts)
    if isinstance(found, Finding):
        yield found
        return
    categories = ("amdgpu_ras", "amdgpu_hardware")
    events = tuple(_doubted(event) for event in found.log.of(*categories))
    doubted = replace(found, log=replace(found.log, events=events))
    yield from judge_events(doubted, categories, what="hardware errors of GPUs")


def _doubted(event: KernelEvent) -> KernelEvent:
    """The event, as unknown where its count is what a suspended GPU reads as."""
    count = event.details.get("count", "")[:18]
    noise = count.isdigit() and false_count(int(count))
    return replace(event, severity=Severity.UNKNOWN) if noise else event


@check("kernel_events.pcie", reads=READS, impact=Impact.MANUAL)
def pcie(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """No PCIe link had an error, was cut off, or is slower than it could be."""
    categories = ["aer", "aer_message", "dpc", "pcie_link", "pcie_bandwidth"]
    yield from _judge(facts, categories, "PCIe errors")


@check("kernel_events.memory", reads=READS, impact=Impact.MANUAL)
def memory(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """Neither the CPUs nor the memory modules reported an error."""
    categories = ["edac", "mce", "hardware_error"]
    yield from _judge(facts, categories, "errors of CPUs and memory")


@check("kernel_events.out_of_memory", reads=READS)
def out_of_memory(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """No process was killed for want of memory, and no limit of files was reached."""
    yield from _judge(facts, ["oom", "file_limit"], "kills for want of memory")


@check("kernel_events.hangs", reads=READS, impact=Impact.REBOOT)
def hangs(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """The kernel did not hang, stumble or panic."""
    categories = ["panic", "kernel_bug", "soft_lockup", "hard_lockup", "rcu_stall", "hung_task"]
    yield from _judge(facts, categories, "hangs and faults of the kernel")


@check("kernel_events.storage", reads=READS, impact=Impact.MANUAL)
def storage(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """No drive or file system reported an error."""
    yield from _judge(facts, ["nvme", "io_error", "filesystem"], "errors of drives")


@check("kernel_events.nic", reads=READS, impact=Impact.MANUAL)
def nic(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """No network adapter reported a fault; links do not come and go."""
    categories = ["nic_firmware", "nic_module", "nic_power", "nic_link"]
    yield from _judge(facts, categories, "faults of network adapters")


@check("kernel_events.platform", reads=READS, impact=Impact.MANUAL)
def platform(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """CPUs were not throttled for heat, and no device reached for memory that is not its own."""
    yield from _judge(facts, ["thermal", "iommu_fault"], "heat or IOMMU faults")
