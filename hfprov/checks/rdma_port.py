"""RDMA devices and ports: one for each adapter that can, up, and as fast as its siblings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hfprov.baseline import Baseline
from hfprov.checks.hardware import in_container, odd_ones
from hfprov.checks.magnitude import magnitude
from hfprov.checks.nic import VARIABLE, adapters, declared, not_requested
from hfprov.checks.registry import Facts, check
from hfprov.evidence.managed_links import LINKS
from hfprov.evidence.net_counters import Family, meaning_of
from hfprov.evidence.pci_devices import PCI_DEVICES
from hfprov.evidence.pcie_node import ENDPOINTS
from hfprov.evidence.rdma_node import RDMA_COUNTERS, RDMA_DEVICES
from hfprov.evidence.sysfs_devices import RdmaPort
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

_RDMA = "the RDMA devices"
ALWAYS, OFTEN = frozenset({"mlx5_core", "ionic", "efa"}), frozenset({"bnxt_en", "ice", "irdma"})
"""Drivers of adapters that are bought for RDMA, and of adapters that can do it."""
ERRORS = 100
"""Errors of a port since its counters began that are more than a cable that was plugged."""
_IDLE = frozenset({"port_rcv_switch_relay_errors", "port_rcv_remote_physical_errors"})
"""Counted when a multicast goes round, or for frames that were damaged on another link."""


def _none() -> Finding:
    return not_applicable(NotApplicable.NO_SUCH_HARDWARE, "The node has no RDMA device.")


@check(
    "rdma_port.devices",
    reads=[MACHINE, LINKS, PCI_DEVICES, ENDPOINTS, RDMA_DEVICES],
    impact=Impact.MANUAL,
    judges=[VARIABLE],
)
def devices(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Each adapter of a data interface that can do RDMA has an RDMA device."""
    if elsewhere := in_container(facts, _RDMA):
        yield elsewhere
        return
    names = declared(baseline)
    found = facts.get(RDMA_DEVICES)
    judged = []
    for name in adapters(facts.get(LINKS), names):
        driver = _driver(facts, name)
        if driver in ALWAYS | OFTEN:
            judged.append(judge_device(name, driver, found.of(name)))
    yield from judged or [_none() if names else not_requested()]


def _driver(facts: Facts, name: str) -> str:
    functions = facts.get(PCI_DEVICES)
    for address, one in facts.get(ENDPOINTS).items():
        if name in one.names and address in functions:
            return functions[address].driver
    return ""


def judge_device(name: str, driver: str, device: str | None) -> Finding:
    """``device`` is the RDMA device of an interface; None where it has none."""
    if device is not None:
        return passed(name, observed=device, expected="an RDMA device")
    reason = f"The adapter (driver '{driver}') has no RDMA device: its RDMA module is not loaded."
    judged = failed if driver in ALWAYS else warned
    return judged(name, observed="none", expected="an RDMA device", reason=reason)


@check(
    "rdma_port.state",
    reads=[MACHINE, LINKS, RDMA_DEVICES],
    impact=Impact.MANUAL,
    judges=[VARIABLE, "node_unused_ports"],
)
def state(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Ports of InfiniBand, and of declared Ethernet data interfaces, are active."""
    if elsewhere := in_container(facts, _RDMA):
        yield elsewhere
        return
    found = facts.get(RDMA_DEVICES)
    wanted = set(adapters(facts.get(LINKS), declared(baseline)))
    unused = {str(name) for name in baseline.get("node_unused_ports") or ()}
    judged = []
    for port in found.ports:
        mine = {port.device, f"{port.device}/{port.port}", *found.interfaces.get(port.device, ())}
        # A spare Ethernet port without a cable is common, one of InfiniBand is not.
        if not mine & unused and (port.link_layer != "Ethernet" or mine & wanted):
            judged.append(port)
    yield from judge_ports(judged) if judged else [_none()]


def judge_ports(ports: Sequence[RdmaPort]) -> Iterator[Finding]:
    """Ports that should be in use: each must be active, and none slower than its like."""
    rates: dict[str, dict[str, str]] = {}
    for port in ports:
        name = f"{port.device}/{port.port}"
        yield judge_port(name, port)
        if port.rate and port.hca_type and _active(port):
            kind = f"{port.hca_type} {port.link_layer or ''}"
            rates.setdefault(kind, {})[name] = f"{port.rate.gbit_per_s:g} Gbit/s"
    for alike in rates.values():
        odd = odd_ones(alike)
        if odd is None:
            continue
        for name, rate in odd.different.items():
            reason = "The port runs at another rate than its like in this node."
            yield failed(
                f"{name} rate", observed=rate, expected=odd.usual or "one rate", reason=reason
            )


def _active(port: RdmaPort) -> bool:
    # Some drivers print no physical state of their own, and repeat the logical one.
    return (
        port.state is not None
        and port.state.name == "ACTIVE"
        and port.phys_state is not None
        and port.phys_state.name in ("LinkUp", "ACTIVE")
    )


def judge_port(name: str, port: RdmaPort) -> Finding:
    expected = "ACTIVE, LinkUp"
    if port.state is None or port.phys_state is None:
        why = port.problems[0] if port.problems else "Its state was not there to read."
        return unknown(name, reason=why, expected=expected)
    observed = f"{port.state.name}, {port.phys_state.name}"
    if _active(port):
        rate = f", {port.rate.gbit_per_s:g} Gbit/s" if port.rate else ""
        return passed(name, observed=observed + rate, expected=expected)
    reasons = {
        "Polling": "It looks for a peer: no cable, a broken one, or a switch port that is off.",
        "Disabled": "It was switched off, on this side or by the fabric's management.",
        "LinkUp": "The link is there, but no subnet manager has made it active.",
    }
    reason = reasons.get(port.phys_state.name, "The port carries no data.")
    return failed(name, observed=observed, expected=expected, reason=reason)


@check("rdma_port.counters", reads=[MACHINE, RDMA_COUNTERS], impact=Impact.MANUAL)
def counters(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """Damage that ports counted since the driver was loaded."""
    if elsewhere := in_container(facts, _RDMA):
        yield elsewhere
        return
    ports = facts.get(RDMA_COUNTERS)
    for name, counts in ports.items():
        yield judge_port_counters(name, counts)
    if not ports:
        yield _none()


def judge_port_counters(name: str, counts: Mapping[str, int]) -> Finding:
    expected = f"fewer than {ERRORS} errors"
    errors = {
        counter: count
        for counter, count in counts.items()
        if meaning_of(counter).family is Family.ERROR
        # What queue pairs count is software's; notes say so.
        and not meaning_of(counter).note
        and "cqe" not in counter
        and counter not in _IDLE
        and (count >= ERRORS or _at_limit(counter, count))
    }
    if not errors:
        return passed(name, observed="nothing of note", expected=expected)
    observed = ", ".join(f"{one}: {magnitude(count)}" for one, count in sorted(errors.items()))
    reason = "The port counted damage; whether it goes on is told by the next observation."
    return warned(name, observed=observed, expected=expected, reason=reason)


def _at_limit(name: str, count: int) -> bool:
    meaning = meaning_of(name)
    return meaning.saturates and count >= 2**meaning.bits - 1
