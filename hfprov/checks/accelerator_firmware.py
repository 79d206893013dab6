"""Firmware and driver: sound, the same on every device of a node, and known to go together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime

from hfprov.baseline import Baseline
from hfprov.catalogue.accelerators import Model, accelerators
from hfprov.catalogue.compatibility import Installed, Match, Status, compatibility, matches
from hfprov.checks.accelerator_scope import SOURCES, Node, look, model_of, of_each_device
from hfprov.checks.registry import Facts, check
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.accelerators.driver import DRIVERS
from hfprov.evidence.accelerators.model import Accelerator, Vendor
from hfprov.evidence.nvidia_node import FABRIC_MANAGER
from hfprov.evidence.system import KERNEL, OS
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


@check("accelerator.firmware_state", reads=SOURCES, impact=Impact.MANUAL)
def firmware_state(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Firmware is whole, and the vendor's tool does not call it incompatible."""

    def judge(device: Accelerator, _: Model | None) -> Iterator[Finding]:
        if device.firmware_faults:
            observed = "; ".join(device.firmware_faults)
            reason = "Its firmware is damaged, or does not fit."
            yield failed(device.name, observed=observed, expected="sound", reason=reason)
        elif device.firmware:
            yield passed(device.name, observed=_listed(device.firmware), expected="sound")
        else:
            reason = "No version of its firmware is reported."
            yield unknown(device.name, reason=reason, expected="sound")

    yield from of_each_device(facts, baseline, judge)


def _listed(firmware: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(firmware.items())[:6])


@check("accelerator.firmware_same", reads=SOURCES, impact=Impact.MANUAL)
def firmware_same(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Devices of one model in one node have the same firmware: the odd one is the slow one."""
    node = look(facts, baseline)
    if node.without is not None:
        yield node.without
        return
    yield from node.unheard()
    if len(node.devices) == 1:
        reason = "There is one accelerator, and none to compare it with."
        yield not_applicable(NotApplicable.NO_SUCH_HARDWARE, reason)
        return
    groups: dict[str, list[Accelerator]] = {}
    for device in node.devices:
        groups.setdefault(device.pci_id or device.model, []).append(device)
    for group in groups.values():
        if len(group) > 1:
            yield from _compared(group)


def _compared(group: list[Accelerator]) -> Iterator[Finding]:
    odd = odd_versions({device.name: device.firmware for device in group})
    usual = usual_versions(device.firmware for device in group)
    if not usual:
        yield unknown(reason="No version of their firmware is reported.")
        return
    for device in group:
        mine = odd.get(device.name, {})
        expected = _listed(usual)
        if mine:
            observed = ", ".join(f"{name} {version}" for name, version in sorted(mine.items()))
            wanted = ", ".join(f"{name} {usual[name]}" for name in sorted(mine))
            reason = "It has other firmware than the devices beside it."
            yield failed(device.name, observed=observed, expected=wanted, reason=reason)
        else:
            yield passed(device.name, observed=_listed(device.firmware), expected=expected)


def usual_versions(firmwares: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """The most frequent version of each component; of equally frequent ones, the first seen."""
    counted: dict[str, Counter[str]] = {}
    for firmware in firmwares:
        for name, version in firmware.items():
            counted.setdefault(name, Counter())[version] += 1
    return {name: versions.most_common(1)[0][0] for name, versions in counted.items()}


def odd_versions(firmwares: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """By name of a device: the components whose version is not the usual one, ``missing`` too."""
    usual = usual_versions(firmwares.values())
    odd: dict[str, dict[str, str]] = {}
    for device, firmware in firmwares.items():
        for name, version in usual.items():
            mine = firmware.get(name, "missing")
            if mine != version:
                odd.setdefault(device, {})[name] = mine
    return odd


@check(
    "accelerator.compatibility",
    reads=[*SOURCES, DRIVERS, KERNEL, OS, FABRIC_MANAGER],
    impact=Impact.REBOOT,
)
def matrix(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Driver, firmware, kernel and libraries are a combination that somebody vouches for."""
    node = look(facts, baseline)
    if node.without is not None:
        yield node.without
        return
    for vendor in node.vendors:
        yield from judge_matrix(_installed(vendor, node, facts), _today())


def _today() -> date:
    return datetime.now(UTC).date()


def _installed(vendor: Vendor, node: Node, facts: Facts) -> Installed:
    report = node.report(vendor)
    kernel = facts.get(KERNEL).release
    os_id, version = facts.get(OS)
    driver = facts.get(DRIVERS)[vendor].version or (report.driver_version if report else "")
    devices = [one for one in node.devices if one.vendor is vendor]
    models = {model.id for one in devices if (model := model_of(one)) is not None}
    models |= {found.id for one in node.bus if (found := accelerators().find(one.pci_id))}
    return Installed(
        versions={
            "driver": driver,
            "kernel": kernel,
            "cuda": report.cuda_version if report else "",
            "fabric_manager": _manager_version(facts) if vendor is Vendor.NVIDIA else "",
        },
        words={
            "vendor": vendor.value,
            "os": f"{os_id} {version}".strip(),
            "kernel_flavour": kernel,
        },
        accelerators=frozenset(models),
        open_module=facts.get(DRIVERS)[vendor].open_module,
        firmware=devices[0].firmware if devices else {},
    )


def _manager_version(facts: Facts) -> str:
    try:
        return facts.get(FABRIC_MANAGER).version
    except (NoEvidenceError, NotUnderstoodError):
        return ""


def judge_matrix(have: Installed, today: date) -> Iterator[Finding]:
    """One finding per row that applies; ``unknown`` where no row knows the driver."""
    vendor, driver = have.words["vendor"], have.versions["driver"]
    known = False
    for match in matches(compatibility(), have):
        known = known or (match.row.about == "driver" and match.row.status is not Status.FORBIDDEN)
        yield _row(f"{vendor} {match.row.id}", match, have, today)
    if not driver:
        yield unknown(vendor, reason="The version of its driver is not known.")
    elif not known:
        reason = f"The matrix has no row for driver {driver} here: nobody vouches for it."
        yield unknown(vendor, reason=reason)


def _row(subject: str, match: Match, have: Installed, today: date) -> Finding:
    row = match.row
    observed = ", ".join(f"{name} {value}" for name, value in have.versions.items() if value)
    needs = ", ".join(f"{name} {value}" for name, value in row.require.items())
    expected = needs or row.title
    if row.status is Status.FORBIDDEN:
        return failed(subject, observed=observed, expected="not this", reason=f"{row.title}.")
    if match.violated:
        reason = f"{row.title}. Not so: {'; '.join(match.violated)}."
        return failed(subject, observed=observed, expected=expected, reason=reason)
    if match.open:
        return unknown(subject, reason=f"{row.title}. Not known: {'; '.join(match.open)}.")
    if row.eol is not None and row.eol < today:
        reason = f"{row.title} has not been maintained since {row.eol}."
        return warned(subject, observed=observed, expected="a maintained branch", reason=reason)
    if row.status is Status.TOLERATED:
        reason = f"{row.title} works, and is not what to install."
        return warned(subject, observed=observed, expected="a certified branch", reason=reason)
    return passed(subject, observed=observed, expected=expected)
