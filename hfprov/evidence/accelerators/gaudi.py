"""Intel Gaudi accelerators: hl-smi's query with the table's error counter and the ports' states."""

from __future__ import annotations

from msgspec.structs import replace

from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence import hl_smi
from hfprov.evidence.accelerators.model import (
    Accelerator,
    DeviceError,
    Ecc,
    Interconnect,
    PcieLink,
    Process,
    Report,
    Severity,
    Temperatures,
    Vendor,
)
from hfprov.evidence.accelerators.tool_failures import failed_report
from hfprov.evidence.failures import ToolFailure
from hfprov.evidence.hl_smi_query import Aip, HlSmi
from hfprov.evidence.pcie import normal_address
from hfprov.reading import Observation, command, complete_text
from hfprov.regex import regex

QUERY = command("hl-smi", "-q", timeout=30, limit=2 << 20)
TABLE = command("hl-smi", timeout=30)
_ADDRESS_FILES = "/sys/bus/pci/drivers/habanalabs/[0-9a-f]*:*"
PORTS = command("hl-smi", "-n", "link", "-i", "{name}", each=_ADDRESS_FILES, timeout=15)
READS = (QUERY, TABLE, PORTS)
_DIGITS = regex(r"\d{1,3}")


def report(seen: Observation) -> Report:
    """What hl-smi says of the node: from ``-q``, completed from the table and the ports."""
    table = hl_smi.parse(seen.text(TABLE, codes=range(256)))
    if isinstance(table, ToolFailure):
        return from_facts(table)
    try:
        query = hl_smi.parse(seen.text(QUERY))
    except (NoEvidenceError, NotUnderstoodError):
        query = table
    found = from_facts(query if isinstance(query, HlSmi) and query.aips else table)
    others = {one.pci_address: one for one in from_facts(table).devices}
    ports = _ports(seen)
    devices = tuple(
        replace(
            one,
            ecc=others[one.pci_address].ecc if one.pci_address in others else one.ecc,
            processes=others[one.pci_address].processes if one.pci_address in others else None,
            interconnect=ports.get(one.pci_address),
        )
        for one in found.devices
    )
    return replace(found, devices=devices, incomplete=found.incomplete)


def _ports(seen: Observation) -> dict[str, Interconnect]:
    found = {}
    for result in seen.results.get(PORTS.id, ()):
        try:
            facts = hl_smi.parse(complete_text(PORTS, result))
            address = normal_address(result.name)
        except (NoEvidenceError, NotUnderstoodError):
            continue
        if isinstance(facts, HlSmi) and facts.ports:
            up = sum(port.up for port in facts.ports)
            found[address] = Interconnect("Gaudi ports", up, len(facts.ports))
    return found


def from_facts(facts: object) -> Report:
    """A report from one output of hl-smi, or from its failure."""
    if isinstance(facts, ToolFailure):
        return failed_report(Vendor.GAUDI, facts)
    if not isinstance(facts, HlSmi):
        raise NotUnderstoodError(f"This output shows no Gaudi ({type(facts).__name__}).")
    return Report(
        Vendor.GAUDI,
        tuple(_aip(aip, facts) for aip in facts.aips),
        driver_version=facts.driver_version or "",
        incomplete="" if facts.complete else "hl-smi's output has no end: devices may be missing.",
    )


def _aip(aip: Aip, facts: HlSmi) -> Accelerator:
    return Accelerator(
        Vendor.GAUDI,
        normal_address(aip.bdf) if aip.bdf else "",
        index=aip.index,
        model=aip.name or "",
        serial=aip.serial or "",
        uuid=aip.uuid or "",
        memory_mib=aip.memory_total_mib,
        memory_used_mib=aip.memory_used_mib,
        utilization=aip.utilisation_percent,
        driver_version=facts.driver_version or "",
        firmware={"spi": aip.firmware_version} if aip.firmware_version else {},
        pcie=PcieLink(
            _number(aip.pcie_generation),
            _number(aip.pcie_max_generation),
            _number(aip.pcie_width),
            _number(aip.pcie_max_width),
        ),
        ecc=Ecc(volatile_uncorrected=aip.uncorrectable_ecc),
        temperatures=Temperatures(core=aip.temperature_c),
        power_w=aip.power_w,
        power_limit_w=aip.power_cap_w,
        processes=_processes(aip, facts),
        errors=tuple(
            DeviceError(f"{one.field} is '{one.text}'", _severity(one.text)) for one in aip.errors
        ),
    )


def _severity(text: str) -> Severity:
    return Severity.FATAL if "err" in text.lower() or "lost" in text.lower() else Severity.STRANGE


def _number(text: str | None) -> int | None:
    """``Gen5`` as 5, ``16x`` as 16."""
    match = _DIGITS.search(text or "")
    return int(match.group()) if match else None


def _processes(aip: Aip, facts: HlSmi) -> tuple[Process, ...] | None:
    if facts.processes is None:
        return None
    return tuple(Process(one.pid, one.name) for one in facts.processes if one.index == aip.index)
