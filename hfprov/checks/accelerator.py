"""Whether the accelerators are there, all of them, driven and answering.

What is missing is found by count: a device that fell off the bus is missing from every view of the
driver.
"""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.catalogue.accelerators import accelerators
from hfprov.catalogue.skus import NONE
from hfprov.checks.accelerator_scope import (
    SOURCES,
    Node,
    look,
    worst_of_each,
)
from hfprov.checks.registry import Facts, check
from hfprov.evidence.accelerators.adapters import adapter
from hfprov.evidence.accelerators.driver import DRIVERS, Driver
from hfprov.evidence.accelerators.model import Accelerator, Failure, Report, Severity, Vendor
from hfprov.evidence.system import Machine
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


@check("accelerator.sku", reads=SOURCES, impact=Impact.MANUAL, judges=["node_sku"])
def sku(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Somebody has declared what this node must have; else nothing can be found missing."""
    node = look(facts, baseline)
    found = _found(node)
    if node.declared == NONE:
        if node.vendors:
            reason = "The node is declared to have no accelerators, and there are some."
            yield failed("", observed=found, expected="none", reason=reason)
        else:
            reason = "The node is declared to have no accelerators, and none was found."
            yield not_applicable(NotApplicable.NO_SUCH_HARDWARE, reason)
    elif node.sku is None:
        yield unknown(
            reason=f"Nobody declared what this node must have ({found} found). Declare 'node_sku', "
            f"or '{NONE}' for a node without accelerators.",
        )
    else:
        yield passed(observed=node.sku.title, expected=node.declared)


def _found(node: Node) -> str:
    on_bus = f"{len(node.bus)} on the bus" if node.machine is not Machine.CONTAINER else ""
    reported = f"{len(node.devices)} reported" if node.devices else ""
    return ", ".join(part for part in (on_bus, reported) if part) or "nothing"


@check(
    "accelerator.count",
    reads=SOURCES,
    impact=Impact.MANUAL,
    judges=["node_sku", "node_accelerator_count"],
)
def count(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """As many on the bus as declared, and as many driven as on the bus."""
    node = look(facts, baseline)
    if node.without is not None:
        yield node.without
        return
    if node.machine is Machine.CONTAINER:
        yield not_applicable(NotApplicable.CONTAINER, "The bus belongs to the container's host.")
    elif node.expected is None:
        yield unknown("bus", reason="Nobody declared how many there must be: 'node_sku' is empty.")
    else:
        reason = "Some are missing from the bus; no driver can show them, nor say that they are."
        if len(node.bus) > node.expected:
            reason = "There are more than declared."
        yield _counted("bus", len(node.bus), node.expected, reason)
    if node.sku is not None and node.sku.switches and node.machine is not Machine.CONTAINER:
        reason = "Bridges between the accelerators are missing from the bus."
        yield _counted("switches", node.switches, node.sku.switches, reason)
    for vendor in node.vendors:
        yield _driven(node, vendor)


def _counted(subject: str, found: int, wanted: int, reason: str) -> Finding:
    if found == wanted:
        return passed(subject, observed=str(found), expected=str(wanted))
    return failed(subject, observed=str(found), expected=str(wanted), reason=reason)


def _driven(node: Node, vendor: Vendor) -> Finding:
    """Whether the driver has every device of a vendor that is on the bus."""
    report = node.report(vendor)
    on_bus = sum(one.vendor == adapter(vendor).pci_vendor for one in node.bus)
    wanted = on_bus if node.bus else (node.expected or 0)
    if report is None or (report.failure is not None and report.failure is not Failure.NO_DEVICES):
        said = report.message if report else node.heard.silent.get(vendor, "its tool is missing.")
        return unknown(vendor.value, reason=f"The driver's devices cannot be counted: {said}")
    found = _distinct(report)
    if report.incomplete and found >= wanted:
        return unknown(vendor.value, reason=f"The report is not whole: {report.incomplete}")
    if found < wanted:
        reason = "The driver does not have every device that is there."
        return failed(vendor.value, observed=str(found), expected=str(wanted), reason=reason)
    if not wanted and not found:
        return unknown(vendor.value, reason="There is no device to count.")
    return passed(vendor.value, observed=str(found), expected=str(wanted or found))


def _distinct(report: Report) -> int:
    """Devices, each once: a partitioned one may be listed once per partition."""
    addresses = {one.pci_address for one in report.devices if one.pci_address}
    return len(addresses) if addresses else len(report.devices)


@check("accelerator.model", reads=SOURCES, impact=Impact.MANUAL, judges=["node_sku"])
def model(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Every accelerator on the bus is of the model that was bought."""
    node = look(facts, baseline)
    if node.without is not None:
        yield node.without
        return
    if node.sku is None:
        reason = "No model is declared for this node."
        yield not_applicable(NotApplicable.NOT_REQUESTED, reason)
        return
    if node.machine is Machine.CONTAINER:
        yield not_applicable(NotApplicable.CONTAINER, "The bus belongs to the container's host.")
        return
    for device in node.bus:
        known = accelerators().find(device.pci_id)
        observed = known.model if known else f"PCI id {device.pci_id}"
        if known is not None and known.id == node.sku.accelerator:
            yield passed(device.address, observed=observed, expected=node.sku.accelerator)
        else:
            reason = f"It is not what '{node.sku.id}' is made of."
            expected = node.sku.accelerator
            yield failed(device.address, observed=observed, expected=expected, reason=reason)


@check("accelerator.answers", reads=SOURCES, impact=Impact.MANUAL)
def answers(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Every device on the bus answers its driver, for every value."""
    node = look(facts, baseline)
    if node.without is not None:
        yield node.without
        return
    yield from worst_of_each(_answers(node))


def _answers(node: Node) -> Iterator[Finding]:
    lost = [one for report in node.heard.reports.values() for one in report.lost]
    for one in lost:
        yield _silent(one.pci_address, one.text)
    for vendor in node.vendors:
        yield from _unanswered(node, vendor)
    yield from _undriven(node, {one.pci_address for one in lost})
    for device in node.devices:
        yield _answering(device)


def _unanswered(node: Node, vendor: Vendor) -> Iterator[Finding]:
    """What is wrong with a vendor's tool as a whole."""
    report = node.report(vendor)
    if report is None:
        reason = node.heard.silent.get(vendor, "Its tool is not installed.")
        yield unknown(vendor.value, reason=reason)
    elif report.failure is Failure.DEVICE:
        if not report.lost:
            yield _silent(vendor.value, report.message)
    elif report.failure is Failure.NO_DEVICES and node.bus:
        yield _silent(vendor.value, report.message)
    elif report.failure is not None:
        yield unknown(vendor.value, reason=f"No device can be asked: {report.message}")
    elif report.incomplete:
        yield unknown(vendor.value, reason=f"The report is not whole: {report.incomplete}")


def _undriven(node: Node, named: set[str]) -> Iterator[Finding]:
    """Devices on the bus that are in no report, or whose registers make no sense."""
    reported = {one.pci_address for one in node.devices if one.pci_address}
    for device in node.bus:
        if reported and device.address not in reported | named:
            yield _silent(device.address, "It is on the bus, and its driver does not report it.")
        elif device.unreadable:
            yield _silent(device.address, device.unreadable[0])


def _silent(subject: str, observed: str) -> Finding:
    return failed(subject, observed=observed, expected="answers", reason="It does not answer.")


def _answering(device: Accelerator) -> Finding:
    fatal = [one.text for one in device.errors if one.severity is Severity.FATAL]
    strange = [one.text for one in device.errors if one.severity is Severity.STRANGE]
    if fatal:
        observed = _first(fatal)
        reason = "Errors stand in place of its values: it has crashed, or is about to."
        return failed(device.name, observed=observed, expected="values", reason=reason)
    if strange:
        reason = f"A value of it cannot be understood: {_first(strange)}."
        return unknown(device.name, reason=reason, expected="values")
    if device.errors:
        reason = "A setting of it cannot be read. It says nothing of the device's health."
        observed = _first([one.text for one in device.errors])
        return warned(device.name, observed=observed, expected="values", reason=reason)
    return passed(device.name, observed="answers", expected="answers")


def _first(texts: list[str]) -> str:
    more = f" and {len(texts) - 1} more" if len(texts) > 1 else ""
    return f"{texts[0]}{more}"


@check("accelerator.driver", reads=[*SOURCES, DRIVERS], impact=Impact.REBOOT)
def driver(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The driver is loaded, and it is the one that is installed, libraries included."""
    node = look(facts, baseline)
    if node.without is not None:
        yield node.without
        return
    for vendor in node.vendors:
        yield _judge_driver(vendor, facts.get(DRIVERS)[vendor], node.report(vendor))


def _judge_driver(vendor: Vendor, found: Driver, report: Report | None) -> Finding:
    expected = "loaded, installed and libraries of one version"
    if not found.loaded:
        absent = found.installed is False
        observed = "not installed" if absent else "not loaded"
        reason = f"Module '{found.module}' is {observed} for the running kernel."
        return failed(vendor.value, observed=observed, expected=expected, reason=reason)
    versions = {
        "loaded": found.version,
        "installed": found.installed_version,
        "libraries": _library(found),
    }
    told = {name: version for name, version in versions.items() if version}
    observed = ", ".join(f"{name} {version}" for name, version in told.items())
    mismatch = report is not None and report.failure is Failure.MISMATCH
    if mismatch or (found.version and len(set(told.values())) > 1):
        reason = "The driver was replaced under the loaded module: the node must be rebooted."
        return failed(vendor.value, observed=observed, expected=expected, reason=reason)
    if report is not None and report.failure in (Failure.DRIVER, Failure.MISSING):
        return failed(
            vendor.value, observed=report.message, expected=expected, reason="It does not work."
        )
    return passed(vendor.value, observed=observed or "loaded", expected=expected)


def _library(found: Driver) -> str:
    """The loaded version where it is among the installed libraries, else what is installed."""
    if found.version in found.libraries:
        return found.version
    return ", ".join(found.libraries)
