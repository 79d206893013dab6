"""PCIe of network adapters and drives: full width and speed, no errors, no detour of data.

Accelerators have checks of their own. A link is held against what both of its ends can do: a card
in a short slot is no broken card.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from hfprov.baseline import Baseline
from hfprov.checks.hardware import has_accelerators, in_container, not_bare_metal, odd_ones
from hfprov.checks.magnitude import magnitude
from hfprov.checks.registry import Facts, check
from hfprov.evidence.lspci_facts import PciDevice as LspciDevice
from hfprov.evidence.memory_node import UPTIME_SECONDS
from hfprov.evidence.nic_node import data_nics
from hfprov.evidence.pci_devices import AER, PCI_DEVICES, AerCounts, PciDevice
from hfprov.evidence.pcie import Link
from hfprov.evidence.pcie_node import (
    ADAPTER_DETAILS,
    BRIDGE_DETAILS,
    ENDPOINTS,
    IOMMU_TYPES,
    Endpoint,
)
from hfprov.evidence.system import MACHINE
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

N = TypeVar("N", int, float)

KINDS = frozenset({0x0108, 0x0200, 0x0207, 0x0208})
"""PCI classes that are judged here: NVMe drives, Ethernet, InfiniBand, other fabrics."""
CORRECTABLE_PER_DAY = 100
"""Corrected errors of a link in a day that are more than noise. No authority gives a number."""
_DAY = 86_400.0
_BUS = "the PCI devices"
BENIGN = frozenset({"UnsupReq"})
"""Counted while the firmware and the kernel probe for what is not there."""
_REDIRECTS = frozenset({"ReqRedir", "CmpltRedir"})


def _endpoints(facts: Facts) -> dict[str, Endpoint]:
    """Adapters and drives by address, those that no driver drives too; no virtual functions."""
    named = facts.get(ENDPOINTS)
    return {
        address: named.get(address, Endpoint(address, (f"{device.pci_id} without a driver",), ""))
        for address, device in facts.get(PCI_DEVICES).items()
        if device.kind in KINDS and not device.virtual
    }


def _none() -> Finding:
    return not_applicable(NotApplicable.NO_SUCH_HARDWARE, "No adapter or drive is on a PCI bus.")


@check("pcie.links", reads=[MACHINE, PCI_DEVICES, ENDPOINTS], impact=Impact.MANUAL)
def links(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    if elsewhere := in_container(facts, _BUS):
        yield elsewhere
        return
    devices = facts.get(PCI_DEVICES)
    wanted = set(data_nics(baseline))
    judged = [
        finding
        for address, one in _endpoints(facts).items()
        if (finding := _link(devices[address], devices.get(one.parent), one, wanted))
    ]
    yield from judged or [_none()]


def _link(
    device: PciDevice, above: PciDevice | None, one: Endpoint, wanted: set[str]
) -> Finding | None:
    if device.unreadable:
        reason = "It answers with nonsense, as a device does that fell off the bus."
        observed = "; ".join(device.unreadable)[:200]
        return failed(one.subject, observed=observed, expected="a PCIe link", reason=reason)
    if device.link_max is None:
        return None  # a function inside a processor has no link
    slot = above.link_max if above else None
    is_data = bool(wanted & set(one.names))
    return judge_link(one.subject, device.link, device.link_max, slot, is_data=is_data)


def judge_link(
    subject: str, now: Link | None, card: Link, slot: Link | None, *, is_data: bool
) -> Finding:
    """A link against what the card and the slot can do; ``is_data``: of a declared data interface.

    Narrow is broken. Slow may be: some devices save power while idle. What the slot cannot do is a
    matter of how the machine was built, and is worth a word only where data passes.
    """
    width = _least(card.width, slot.width if slot else None)
    speed = _least(card.speed_gts, slot.speed_gts if slot else None)
    if width is None or speed is None:
        return unknown(subject, reason="The device does not tell what its link can do.")
    expected = _words(width, speed)
    if now is None or now.width is None or now.speed_gts is None:
        return unknown(subject, reason="The device does not tell its link.", expected=expected)
    observed = _words(now.width, now.speed_gts)
    if now.width < width:
        reason = "Lanes are lost: a badly seated card, a riser, a cable, or a damaged slot."
        return failed(subject, observed=observed, expected=expected, reason=reason)
    if now.speed_gts < speed:
        reason = "The link runs slower than both of its ends can, unless it is saving power."
        return warned(subject, observed=observed, expected=expected, reason=reason)
    full = _words(card.width or width, card.speed_gts or speed)
    if is_data and expected != full:
        reason = "The slot is slower or narrower than the card."
        return warned(subject, observed=observed, expected=full, reason=reason)
    return passed(subject, observed=observed, expected=expected)


def _least(card: N | None, slot: N | None) -> N | None:
    return card if slot is None or card is None else min(card, slot)


def _words(width: int, speed: float) -> str:
    return f"x{width} at {speed:g} GT/s"


@check(
    "pcie.errors",
    reads=[MACHINE, PCI_DEVICES, ENDPOINTS, AER, UPTIME_SECONDS],
    impact=Impact.MANUAL,
)
def errors(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """Errors since boot of adapters, drives and the ports that they are plugged into."""
    if elsewhere := in_container(facts, _BUS):
        yield elsewhere
        return
    endpoints = _endpoints(facts)
    if not endpoints:
        yield _none()
        return
    counts = facts.get(AER)
    days = max(1.0, facts.get(UPTIME_SECONDS) / _DAY)
    found = False
    for address, subject in _watched(endpoints).items():
        if address in counts:
            found = True
            yield judge_errors(subject, counts[address], days)
    if not found:
        yield unknown(reason="The kernel counts no PCIe errors: AER is off, or the firmware's.")


def _watched(endpoints: Mapping[str, Endpoint]) -> dict[str, str]:
    watched = {address: one.subject for address, one in endpoints.items()}
    for one in endpoints.values():
        if one.parent:
            watched.setdefault(one.parent, f"port {one.parent} above {one.names[0]}")
    return watched


def judge_errors(subject: str, counts: AerCounts, days: float) -> Finding:
    """Errors of one function in ``days`` (at least one)."""
    serious = {**counts.nonfatal, **counts.fatal}
    corrected = sum(counts.correctable.values())
    expected = f"none uncorrected, at most {CORRECTABLE_PER_DAY} corrected a day"
    observed = ", ".join(f"{name}: {magnitude(count)}" for name, count in sorted(serious.items()))
    if set(serious) - BENIGN:
        reason = "Packets on the bus were lost for good."
        return failed(subject, observed=observed, expected=expected, reason=reason)
    if serious:
        reason = "Requests were refused: often only the firmware that probes what is not there."
        return warned(subject, observed=observed, expected=expected, reason=reason)
    if corrected > CORRECTABLE_PER_DAY * days:
        kinds = ", ".join(sorted(counts.correctable))
        reason = f"The link is repaired all the time ({kinds}): it is slow, and may soon fail."
        observed = f"{magnitude(corrected)} corrected"
        return warned(subject, observed=observed, expected=expected, reason=reason)
    return passed(subject, observed="none uncorrected", expected=expected)


@check(
    "pcie.iommu",
    reads=[MACHINE, ENDPOINTS, IOMMU_TYPES],
    impact=Impact.REBOOT,
    judges=["jumbo_mtu_interfaces"],
)
def iommu(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Data adapters are not translated: the IOMMU is off, or passes their addresses through."""
    if elsewhere := not_bare_metal(facts, "the IOMMU"):
        yield elsewhere
        return
    types = facts.get(IOMMU_TYPES)
    on_bus = {name for one in facts.get(ENDPOINTS).values() for name in one.names}
    expected = "identity, or no IOMMU"
    judged = False
    for name in data_nics(baseline):
        if name not in on_bus:
            continue
        judged = True
        kind = types.get(name, "no IOMMU")
        if kind in ("identity", "no IOMMU"):
            yield passed(name, observed=kind, expected=expected)
        else:
            reason = "Each transfer is translated; the kernel parameter 'iommu=pt' avoids that."
            yield warned(name, observed=kind, expected=expected, reason=reason)
    if not judged:
        yield _none()


@check("pcie.acs", reads=[MACHINE, PCI_DEVICES, BRIDGE_DETAILS], impact=Impact.MANUAL)
def acs(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """Access control that sends traffic between devices through the processor."""
    if elsewhere := not_bare_metal(facts, "the PCI bridges"):
        yield elsewhere
        return
    if not has_accelerators(facts.get(PCI_DEVICES)):
        reason = "No accelerator is on the bus that could talk to a network adapter."
        yield not_applicable(NotApplicable.NO_SUCH_HARDWARE, reason)
        return
    bridges = facts.get(BRIDGE_DETAILS)
    yield judge_acs(bridges)


def judge_acs(bridges: Sequence[LspciDevice]) -> Finding:
    """One finding for all bridges: only all of them together make a path."""
    if not bridges:
        return unknown(reason="'lspci' shows no bridge, though accelerators are on the bus.")
    hidden = [one.address for one in bridges if one.problems]
    if hidden:
        return unknown(reason=f"'lspci' could not read '{hidden[0]}': it needs root.")
    redirecting = [one.address for one in bridges if _REDIRECTS & set(one.access_control or ())]
    expected = "no bridge redirects requests"
    if redirecting:
        shown = ", ".join(redirecting[:4])
        reason = (
            f"Data between accelerators and adapters takes the way through the processor ({shown}"
            f"{' …' if len(redirecting) > 4 else ''})."  # noqa: PLR2004 - as many as are shown
        )
        observed = f"{len(redirecting)} of {len(bridges)} bridges redirect"
        return warned("", observed=observed, expected=expected, reason=reason)
    return passed(observed=f"none of {len(bridges)} bridges redirects", expected=expected)


@check("pcie.read_request", reads=[MACHINE, PCI_DEVICES, ADAPTER_DETAILS], impact=Impact.MANUAL)
def read_request(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """Adapters of one model ask for data in pieces of one size."""
    if elsewhere := in_container(facts, _BUS):
        yield elsewhere
        return
    adapters = [one for one in facts.get(PCI_DEVICES).values() if one.kind in KINDS - {0x0108}]
    if not adapters:
        yield not_applicable(NotApplicable.NO_SUCH_HARDWARE, "No adapter is on a PCI bus.")
        return
    details = facts.get(ADAPTER_DETAILS)
    yield from judge_read_requests(details)


def judge_read_requests(adapters: Sequence[LspciDevice]) -> Iterator[Finding]:
    by_model: dict[str, dict[str, str]] = {}
    for one in adapters:
        size = one.express.max_read_request_bytes if one.express else None
        if size is not None:
            model = f"{one.vendor_id}:{one.device_id}" if one.vendor_id else one.description
            by_model.setdefault(model, {})[one.address] = f"{size} bytes"
    if not by_model:
        yield unknown(reason="'lspci' does not tell the size of read requests: it needs root.")
    for model, sizes in by_model.items():
        odd = odd_ones(sizes)
        if odd is None:
            (common,) = set(sizes.values())
            yield passed(model, observed=common, expected="one size for adapters of one model")
            continue
        reason = "Adapters of one model are set differently; the smaller size may be slower."
        for address, other in odd.different.items():
            yield warned(address, observed=other, expected=odd.usual or "one size", reason=reason)
