"""Drives: as many as were bought, at work, and healthy by what they say of themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.hardware import (
    Expected,
    expected,
    in_container,
    judged_each,
    not_bare_metal,
    odd_ones,
)
from hfprov.checks.magnitude import magnitude
from hfprov.checks.registry import Facts, check
from hfprov.evidence.nvme_health import NvmeHealth
from hfprov.evidence.smartctl import EXIT_BITS, SmartctlFacts
from hfprov.evidence.storage_node import (
    DISK_HEALTH,
    NVME_CONTROLLERS,
    NVME_HEALTH,
    Controller,
    models,
)
from hfprov.evidence.system import MACHINE
from hfprov.verdict import (
    Finding,
    Impact,
    NotApplicable,
    failed,
    not_applicable,
    passed,
    warned,
)

WORN_PERCENT, NEARLY_WORN_PERCENT = 100, 90
HOT_CELSIUS = 80
"""Most drives slow themselves down between 70 and 85 degrees; each says so by itself as well."""
_DRIVES = "the drives"


@check(
    "storage.nvme", reads=[MACHINE, NVME_CONTROLLERS], impact=Impact.MANUAL, judges=["node_nvme"]
)
def nvme(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    if elsewhere := in_container(facts, _DRIVES):
        yield elsewhere
        return
    wanted = expected(baseline, "node_nvme", lambda host: host.nvme)
    yield from judge_controllers(facts.get(NVME_CONTROLLERS), wanted)


def judge_controllers(
    controllers: tuple[Controller, ...], wanted: Expected | None
) -> Iterator[Finding]:
    """The number of local controllers, their state, and firmware that differs within a model."""
    local = tuple(one for one in controllers if one.transport in ("pcie", ""))
    if not local and wanted is None:
        reason = "The node has no NVMe drive, and none is declared."
        yield not_applicable(NotApplicable.NO_SUCH_HARDWARE, reason)
        return
    counted = Counter(one.model or "unknown model" for one in local)
    observed = ", ".join(f"{count} x {model}" for model, count in sorted(counted.items())) or "none"
    expectation = f"{wanted.count} drives, {wanted.origin}" if wanted else "not declared"
    if wanted is not None and len(local) < wanted.count:
        reason = f"{wanted.count - len(local)} drives are missing from the bus."
        yield failed("", observed=observed, expected=expectation, reason=reason)
    else:
        yield passed(observed=observed, expected=expectation)
    for one in local:
        if one.state != "live":
            state = one.state or "unknown"
            reason = "The kernel cannot use the drive: see its log for resets and time-outs."
            yield failed(one.name, observed=state, expected="live", reason=reason)
    for model, members in models(local).items():
        odd = odd_ones({one.name: one.firmware for one in members if one.firmware})
        for name, firmware in odd.different.items() if odd else ():
            reason = f"Its firmware is not that of its like ({model}) in this node."
            usual = odd.usual if odd and odd.usual else "one firmware"
            yield warned(f"{name} firmware", observed=firmware, expected=usual, reason=reason)


@check("storage.health", reads=[MACHINE, NVME_CONTROLLERS, NVME_HEALTH], impact=Impact.MANUAL)
def health(facts: Facts, _: Baseline) -> Iterator[Finding]:
    if elsewhere := in_container(facts, _DRIVES):
        yield elsewhere
        return
    names = [one.name for one in facts.get(NVME_CONTROLLERS) if one.transport in ("pcie", "")]
    if not names:
        yield not_applicable(NotApplicable.NO_SUCH_HARDWARE, "The node has no NVMe drive.")
        return
    logs = facts.get(NVME_HEALTH)
    yield from judged_each(names, lambda name: judge_health(name, logs.of(name)))


def judge_health(name: str, log: NvmeHealth) -> Finding:
    """What a drive's SMART log says; the worst first."""
    wanted = "no warning, no media error, endurance left"
    used = f"{log.used_percent // 10 * 10} % or more of its endurance used"
    broken = list(log.warnings)
    if log.spare_percent <= log.spare_threshold_percent and "available_spare" not in broken:
        broken.append("available_spare")
    if broken:
        reason = "The drive itself says that it is failing, or is out of its limits."
        return failed(name, observed=", ".join(broken), expected=wanted, reason=reason)
    reasons = []
    if log.media_errors:
        reasons.append("Data could not be read back, or was not what was written.")
    if log.used_percent >= NEARLY_WORN_PERCENT:
        over = "is used up" if log.used_percent >= WORN_PERCENT else "is nearly used up"
        reasons.append(f"The endurance that the maker promises {over}.")
    if log.temperature_celsius >= HOT_CELSIUS:
        reasons.append(f"It is hotter than {HOT_CELSIUS} degrees, and will slow down.")
    if reasons:
        observed = f"{magnitude(log.media_errors)} media errors, {used}"
        return warned(name, observed=observed, expected=wanted, reason=" ".join(reasons))
    return passed(name, observed=f"no warning, {used}", expected=wanted)


@check("storage.disks", reads=[MACHINE, DISK_HEALTH], impact=Impact.MANUAL)
def disks(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """SATA and SAS disks; what stands behind a RAID controller is not asked."""
    if elsewhere := not_bare_metal(facts, _DRIVES):
        yield elsewhere
        return
    found = facts.get(DISK_HEALTH)
    yield from judged_each(found.names, lambda name: judge_disk(name, found.of(name)))
    if not found.names:
        yield not_applicable(NotApplicable.NO_SUCH_HARDWARE, "The node has no SATA or SAS disk.")


def judge_disk(name: str, disk: SmartctlFacts) -> Finding:
    expected_words = "SMART passed, no pending or replaced sector"
    if not disk.passed:
        reason = "The disk says of itself that it is failing."
        return failed(name, observed="SMART failed", expected=expected_words, reason=reason)
    unread, replaced = disk.pending_sectors or 0, disk.reallocated_sectors or 0
    grave = [words for words in disk.findings if words.startswith(("prefail", "the self-test"))]
    damaged, lost = unread + replaced, disk.media_errors or 0
    if grave or damaged or lost:
        counted = [f"{magnitude(damaged)} damaged sectors"]
        counted += [f"{magnitude(lost)} uncorrected errors"] if lost else []
        observed = "; ".join([*grave, *counted])
        reason = "The disk has begun to fail: replace it before it does."
        return warned(name, observed=observed, expected=expected_words, reason=reason)
    unasked = [words for words in disk.findings if words == EXIT_BITS[2]]
    observed = "; ".join(["SMART passed", *unasked])
    return passed(name, observed=observed, expected=expected_words)
