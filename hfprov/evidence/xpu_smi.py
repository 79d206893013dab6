"""Intel data-centre GPUs as ``xpu-smi`` and ``xpumcli`` report them.

Read forms: the framed tables of ``discovery``, ``health``, ``diag``, ``diag --precheck``,
``vgpu --precheck`` and ``amcsensor``; ``-j`` of discovery and health; ``ps``; CSV of ``dump``;
``discovery --listamcversions``; ``updatefw``. A table whose frame is not closed is refused.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.failures import FailureKind, ToolFailure, failure_table, find_failure
from hfprov.evidence.fields import (
    integer,
    json_value,
    looks_like_json,
    mapping,
    not_understood,
    sequence,
)
from hfprov.evidence.text import clean, excerpt
from hfprov.evidence.xpu_smi_facts import Check, FirmwareUpdate, Process, XpuSmi, passed_of
from hfprov.evidence.xpu_smi_tables import device_of, from_frames, out_of_order
from hfprov.regex import regex

TOOL = "xpu-smi"


_FAILURES = failure_table(
    {
        FailureKind.NO_DEVICES: (
            "no (?:gpu |intel )?devices? (?:discovered|found|detected)",
            "device (?:was )?not found",
            "no supported devices",
        ),
        FailureKind.DRIVER_NOT_LOADED: (
            "level.?zero initiali[sz]ation error",
            "failed to init(?:ialize)? (?:level.?zero|xpum)",
            "(?:i915|xe) .*not loaded",
        ),
        FailureKind.DAEMON_DOWN: ("fail(?:ed)? to connect", "xpum service", "daemon"),
        FailureKind.NOT_SUPPORTED: ("not supported", "unsupported"),
        FailureKind.OTHER: (r"^error\b", "fail(?:ed|ure)?"),
    }
)


def parse(text: str) -> XpuSmi | ToolFailure:
    """Facts of one xpu-smi output. Raises NotUnderstoodError when it is in no known form."""
    text = clean(text)
    if not text.strip():
        raise NotUnderstoodError(f"The output of '{TOOL}' is empty.")
    for recognises, read in _FORMS:
        if recognises(text):
            return read(text)
    failure = find_failure(text, _FAILURES)
    if failure is None:
        raise NotUnderstoodError(
            f"The output of '{TOOL}' is in no known form; it begins '{excerpt(text)}'."
        )
    return failure


_JSON_NAMES = {
    "Device Name": "device_name", "PCI BDF Address": "pci_bdf_address", "UUID": "uuid",
    "Serial Number": "serial_number", "Driver Version": "driver_version",
    "Kernel Version": "kernel_version", "ECC State": "memory_ecc_state",
    "PCIe Generation": "pcie_generation", "PCIe Max Link Width": "pcie_max_link_width",
    "Number of Tiles": "number_of_tiles", "Device State": "device_state",
}  # fmt: skip


def _from_json(text: str) -> XpuSmi | ToolFailure:
    document = mapping(json_value(text), f"The JSON of '{TOOL}'")
    if "error" in document:
        sentence = excerpt(str(document["error"]), 200)
        return find_failure(sentence, _FAILURES) or ToolFailure(FailureKind.OTHER, sentence)
    entries = [document] if "device_id" in document else document.get("device_list")
    entries = sequence(entries, f"'device_list' of '{TOOL}'")
    if not entries:
        return ToolFailure(FailureKind.NO_DEVICES, "The JSON list of devices is empty.")
    devices = []
    checks: list[Check] = []
    for entry in entries:
        values = mapping(entry, f"A device of '{TOOL}'")
        index = integer(str(values.get("device_id")))
        named = {name: str(values[key]) for name, key in _JSON_NAMES.items() if key in values}
        if "memory_physical_size_byte" in values:
            size = integer(str(values["memory_physical_size_byte"]))
            named["Memory Physical Size"] = str(size / 1024**2)
        devices.append(device_of(index, named))
        checks += _json_health(index, values)
    return XpuSmi(devices=tuple(devices), checks=(*checks, *out_of_order(devices)))


def _json_health(index: int, values: Mapping[str, Any]) -> Iterable[Check]:
    for name, value in values.items():
        if isinstance(value, dict) and "status" in value:
            status = str(value["status"])
            message = str(value.get("description", ""))
            yield Check(index, name, excerpt(status, 40), passed_of(status), message)


_PS_HEADER = regex(r"PID +Command +DeviceID +SHR +MEM *$", re.MULTILINE)


def _from_ps(text: str) -> XpuSmi:
    header = _PS_HEADER.search(text)
    processes = []
    for line in text[header.end() if header else 0 :].split("\n"):
        cells = line.rsplit(None, 3)
        if not line.strip():
            continue
        pid, _, command = cells[0].strip().partition(" ") if cells else ("", "", "")
        if len(cells) != 4 or not command.strip():
            raise NotUnderstoodError(f"'{excerpt(line)}' of '{TOOL} ps' is no process.")
        numbers = [integer(cell) for cell in cells[1:]]
        processes.append(Process(integer(pid), command.strip(), *numbers))
    return XpuSmi(processes=tuple(processes))


def _from_dump(text: str) -> XpuSmi:
    lines = text.strip().split("\n")
    start = next(n for n, line in enumerate(lines) if line.startswith("Timestamp,"))
    try:
        rows = list(csv.reader(io.StringIO("\n".join(lines[start:])), strict=True))
    except csv.Error as error:
        raise NotUnderstoodError(f"The CSV of '{TOOL}' is not valid: {error}.") from error
    header = [name.strip() for name in rows[0]]
    samples = []
    for number, row in enumerate(rows[1:], start=start + 2):
        if len(row) != len(header):
            raise not_understood(TOOL, number, ",".join(row), f"{len(header)} columns")
        samples.append(dict(zip(header, (cell.strip() for cell in row), strict=True)))
    if not samples:
        raise NotUnderstoodError(f"The CSV of '{TOOL}' has a header and no rows.")
    return XpuSmi(samples=tuple(samples))


_AMC_COUNT = regex(r"^([0-9]{1,4}) AMCs? (?:are|is) found", re.MULTILINE)
_AMC = regex(r"^AMC ([0-9]{1,4}) firmware version: (\S+)", re.MULTILINE)


def _from_amc(text: str) -> XpuSmi:
    count = _AMC_COUNT.search(text)
    versions = {int(number): version for number, version in _AMC.findall(text)}
    if count is None or int(count[1]) != len(versions):
        raise NotUnderstoodError(f"The AMC list of '{TOOL}' does not have the announced entries.")
    return XpuSmi(amc_versions=versions)


_UPDATE = regex(r"^Firmware Name: (\S+)", re.MULTILINE)


def _from_update(text: str) -> XpuSmi | ToolFailure:
    name = _UPDATE.search(text)
    succeeded = "Firmware update successful" in text
    return XpuSmi(update=FirmwareUpdate(None if name is None else name[1], succeeded))


_FORMS: tuple[tuple[Callable[[str], object], Callable[[str], XpuSmi | ToolFailure]], ...] = (
    (looks_like_json, _from_json),
    (re.compile(r"^\+-+\+-+\+[ \t]*$", re.MULTILINE).search, from_frames),
    (_PS_HEADER.search, _from_ps),
    (re.compile(r"^Timestamp,", re.MULTILINE).search, _from_dump),
    (_AMC_COUNT.search, _from_amc),
    (re.compile(r"^Starting to update firmware", re.MULTILINE).search, _from_update),
)
