"""Firmware and drivers of network adapters: what runs is what is stored, and alike models agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hfprov.baseline import Baseline
from hfprov.checks.hardware import in_container, odd_ones
from hfprov.checks.registry import Facts, check
from hfprov.evidence.devlink import DeviceInfo
from hfprov.evidence.nic_node import DEVLINK_INFO, NET_SPEEDS
from hfprov.evidence.pci_devices import PCI_DEVICES, PciDevice
from hfprov.evidence.pcie_node import ENDPOINTS, Endpoint
from hfprov.evidence.rdma_node import RDMA_DEVICES
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

_ADAPTERS = "the network adapters"
_NETWORK = 0x02
_FIRMWARE = ("fw.version", "fw", "fw.mgmt")
"""How drivers call the version of the firmware as a whole (devlink-info of the kernel)."""
_WITHOUT_DEVLINK = frozenset(
    {"e1000", "e1000e", "igb", "igc", "r8169", "tg3", "virtio-pci", "vmxnet3"}
)
"""Drivers of on-board and virtual adapters that have no devlink: Documentation/networking/devlink
of the kernel has no page for them. Of any other driver silence is a question, not an answer."""


def _adapters(facts: Facts) -> dict[str, tuple[Endpoint, PciDevice]]:
    """Network adapters that a driver drives, by address; no virtual functions."""
    devices = facts.get(PCI_DEVICES)
    return {
        address: (one, devices[address])
        for address, one in facts.get(ENDPOINTS).items()
        if address in devices
        and devices[address].pci_class >> 16 == _NETWORK
        and not devices[address].virtual
    }


def _none() -> Finding:
    return not_applicable(NotApplicable.NO_SUCH_HARDWARE, "No network adapter is on a PCI bus.")


@check(
    "nic_firmware.pending",
    reads=[MACHINE, PCI_DEVICES, ENDPOINTS, DEVLINK_INFO],
    impact=Impact.REBOOT,
)
def pending(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """No adapter runs another firmware than the one that was written to it."""
    if elsewhere := in_container(facts, _ADAPTERS):
        yield elsewhere
        return
    found = _adapters(facts)
    told = (
        {one.device.removeprefix("pci/"): one for one in facts.get(DEVLINK_INFO)} if found else {}
    )
    for address, (one, device) in found.items():
        info = told.get(address)
        if info is None and device.driver in _WITHOUT_DEVLINK:
            reason = (
                f"The driver '{device.driver}' has no devlink, and knows of no firmware that waits."
            )
            yield not_applicable(NotApplicable.NO_SUCH_HARDWARE, reason, one.subject)
        elif info is None or not info.running:
            reason = f"The driver '{device.driver}' does not tell its firmware by devlink."
            yield unknown(one.subject, reason=reason)
        else:
            yield judge_firmware(one.subject, info.running, info.stored)


def judge_firmware(subject: str, running: Mapping[str, str], stored: Mapping[str, str]) -> Finding:
    """Versions by component. A driver that does not tell what is stored has nothing waiting."""
    versions = next((running[name] for name in _FIRMWARE if name in running), "")
    waiting = {
        name: version
        for name, version in stored.items()
        if name in running and running[name] != version
    }
    if not waiting:
        observed = versions or ", ".join(f"{k} {v}" for k, v in sorted(running.items()))
        return passed(subject, observed=observed, expected="what is stored runs")
    observed = ", ".join(f"{name} {running[name]}" for name in sorted(waiting))
    expected = ", ".join(f"{name} {version}" for name, version in sorted(waiting.items()))
    reason = "New firmware was written, and waits for a reset of the adapter or a reboot."
    return warned(subject, observed=observed, expected=expected, reason=reason)


@check(
    "nic_firmware.alike",
    reads=[MACHINE, PCI_DEVICES, ENDPOINTS, DEVLINK_INFO, RDMA_DEVICES, NET_SPEEDS],
    impact=Impact.MANUAL,
)
def alike(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """Adapters of one model have one driver, firmware and speed; one that differs is suspicious."""
    if elsewhere := in_container(facts, _ADAPTERS):
        yield elsewhere
        return
    found = _adapters(facts)
    if not found:
        yield _none()
        return
    told = {one.device.removeprefix("pci/"): one for one in facts.get(DEVLINK_INFO)}
    boards = {
        port.device: (port.board_id or "", port.firmware or "")
        for port in facts.get(RDMA_DEVICES).ports
    }
    speeds = facts.get(NET_SPEEDS).facts
    models: dict[str, dict[str, Mapping[str, str]]] = {}
    for address, (one, device) in found.items():
        board, firmware = _firmware(told.get(address), one, boards)
        fast = max((speeds.get(name) or 0 for name in one.names), default=0)
        models.setdefault(f"{device.pci_id} {board}".strip(), {})[one.subject] = {
            "driver": device.driver,
            "firmware": firmware,
            "speed": f"{fast / 1000:g} Gbit/s" if fast else "",
        }
    for model, members in models.items():
        yield from judge_alike(model, members)


def _firmware(
    info: DeviceInfo | None, one: Endpoint, boards: Mapping[str, tuple[str, str]]
) -> tuple[str, str]:
    """Board (PSID) and running firmware, of devlink or else of the RDMA device."""
    if info is not None:
        version = next((info.running[name] for name in _FIRMWARE if name in info.running), "")
        return info.fixed.get("fw.psid", info.fixed.get("board.id", "")), version
    return next((boards[name] for name in one.names if name in boards), ("", ""))


def judge_alike(model: str, members: Mapping[str, Mapping[str, str]]) -> Iterator[Finding]:
    """Adapters of one model and board: ``{name: {"firmware": …, "driver": …, "speed": …}}``.

    An empty text is not known, or no link, and is judged elsewhere.
    """
    differs = False
    for what in ("driver", "firmware", "speed"):
        values = {name: facts[what] for name, facts in members.items() if facts.get(what)}
        odd = odd_ones(values)
        if odd is None:
            continue
        differs = True
        judged = failed if what == "speed" and odd.usual else warned
        reason = f"Its {what} is not that of its like ({model}) in this node."
        for name, value in odd.different.items():
            expected = odd.usual or "the same for all"
            yield judged(f"{name} {what}", observed=value, expected=expected, reason=reason)
    if not differs:
        firmware = next((facts["firmware"] for facts in members.values() if facts["firmware"]), "?")
        observed = f"{len(members)} x {firmware}"
        yield passed(model, observed=observed, expected="one driver, firmware and speed")
