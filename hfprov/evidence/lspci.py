"""PCI devices: the output of lspci in each of its forms.

``parse`` recognises the form from the text. Forms and layouts: pciutils 3.1 to 3.13, lspci(8).
"""

from __future__ import annotations

import re

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.host_values import bad_line, numbered_lines, unknown_form
from hfprov.evidence.lspci_capabilities import Capabilities
from hfprov.evidence.lspci_facts import Form, LspciFacts, PciDevice
from hfprov.evidence.lspci_machine import parse_machine, quoted_device
from hfprov.evidence.lspci_tree import parse_tree
from hfprov.evidence.pcie import ADDRESS, normal_address
from hfprov.evidence.text import clean, excerpt
from hfprov.regex import regex

_EXPECTED = "a listing of PCI devices ('19:00.0 3D controller: …')"
_DEVICE = regex(rf"({ADDRESS})[ \t]+(.+)")
_ADDRESS_ONLY = regex(ADDRESS)
_NUMERIC = regex(r"([0-9a-f]{4}): ([0-9a-f]{4}):([0-9a-f]{4})(.*)")
_NAMED_CLASS = regex(r"(.+?) \[([0-9a-f]{4})\]: (.+)")
_IDS = regex(r"(.*) \[([0-9a-f]{4}):([0-9a-f]{4})\](.*)")
_REVISION = regex(r"\(rev ([0-9a-f]{2})\)")
_TAIL = regex(r"(?: \((?:rev [0-9a-f]{2}|prog-if [^()]*(?:\([^()]*\))?[^()]*)\))+$")
_WARNING = regex(r"#|lspci: |pcilib: |WARNING|Warning|\[sudo\]")
_MACHINE = regex(r"^(?:Slot|Device):\s", re.MULTILINE)
_TREE = regex(r"^[ \t]*-(?:\[|\+-\[)", re.MULTILINE)
_LINK_OR_DETAIL = regex(
    r"^[ \t]*(?:LnkCap|LnkSta|DevCap|DevCtl|DevSta|MaxPayload|UESta|CESta|ACSCtl)\b", re.MULTILINE
)
_MAX_LINE = 1024
_FIRST_DEVICE = regex(rf"^{ADDRESS}(?:[ \t]|$)", re.MULTILINE)


def parse(text: str) -> LspciFacts:
    """Facts from any form of lspci output. Raises NotUnderstoodError when it is none."""
    text = clean(text)
    if _FIRST_DEVICE.search(text):
        return _parse_blocks(text)
    if _MACHINE.search(text):
        devices, complete = parse_machine(text)
        return LspciFacts(Form.MACHINE, devices, (), (), complete)
    if _TREE.search(text):
        return LspciFacts(Form.TREE, parse_tree(text), (), (), text.endswith("\n"))
    if _LINK_OR_DETAIL.search(text):
        return _parse_excerpt(text)
    raise unknown_form("lspci", text, _EXPECTED)


class _Block:
    """One device line and the indented lines under it."""

    __slots__ = ("address", "capabilities", "number", "rest")

    def __init__(self, address: str, rest: str, number: int) -> None:
        self.address = address
        self.rest = rest
        self.number = number
        self.capabilities: Capabilities | None = None


class _Listing:
    """Collects the blocks of a text, line by line."""

    __slots__ = ("_details", "blocks", "warnings")

    def __init__(self) -> None:
        self.blocks: list[_Block] = []
        self.warnings: list[str] = []
        self._details: Capabilities | None = None

    def feed(self, number: int, line: str) -> None:
        """Take one line that is not empty."""
        if line[0] in " \t":
            if not self.blocks:
                raise bad_line("lspci", number, line, "the line of a device first")
            if self._details is None:
                self._details = self.blocks[-1].capabilities = Capabilities()
            self._details.feed(line.lstrip())
            return
        match = _DEVICE.fullmatch(line)
        if match is not None:
            self.blocks.append(_Block(match.group(1), match.group(2), number))
        elif _ADDRESS_ONLY.fullmatch(line):
            self.blocks.append(_Block(line, "", number))
        elif _WARNING.match(line):
            self.warnings.append(excerpt(line, 200))
            return
        else:
            raise bad_line("lspci", number, line, "a line that begins with a PCI address")
        self._details = None

    @property
    def form(self) -> Form:
        if any(block.capabilities is not None for block in self.blocks):
            return Form.VERBOSE
        only_addresses = all(not block.rest for block in self.blocks)
        return Form.ADDRESSES if only_addresses else Form.LIST


def _parse_blocks(text: str) -> LspciFacts:
    listing = _Listing()
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.rstrip()
        if not line:
            continue
        try:
            listing.feed(number, line)
        except NotUnderstoodError as error:
            if error.message.startswith("Line "):
                raise
            raise NotUnderstoodError(
                f"Line {number} of the lspci output: {error.message}"
            ) from None
    form = listing.form
    end = "\n\n" if form is Form.VERBOSE else "\n"
    return LspciFacts(
        form, _devices(listing.blocks), (), tuple(listing.warnings), text.endswith(end)
    )


def _devices(blocks: list[_Block]) -> tuple[PciDevice, ...]:
    devices = []
    seen: set[str] = set()
    for block in blocks:
        try:
            device = _device(block)
        except NotUnderstoodError as error:
            raise NotUnderstoodError(
                f"PCI device '{block.address}' (line {block.number}): {error.message}"
            ) from None
        if device.address in seen:
            raise NotUnderstoodError(
                f"PCI device '{block.address}' (line {block.number}) is listed twice: the text is "
                "not the output of one run of lspci."
            )
        seen.add(device.address)
        devices.append(device)
    return tuple(devices)


def _device(block: _Block) -> PciDevice:
    address = normal_address(block.address)
    if block.rest.startswith('"') and len(block.rest) <= _MAX_LINE:
        return quoted_device(address, block.rest)
    details = block.capabilities or Capabilities()
    class_name, class_id, vendor_id, device_id, description = _identity(block.rest)
    revision = _REVISION.search(block.rest)
    problems = list(details.problems)
    if revision and revision.group(1) == "ff":
        problems.insert(0, "Revision ff: the device does not answer (all bits read as one).")
    return PciDevice(
        address=address,
        description=description,
        class_name=class_name,
        class_id=class_id,
        vendor_id=vendor_id,
        device_id=device_id,
        subsystem=details.subsystem,
        subsystem_vendor_id=details.subsystem_ids[0],
        subsystem_device_id=details.subsystem_ids[1],
        revision=revision.group(1) if revision else None,
        driver=details.driver,
        modules=details.modules,
        numa_node=details.numa_node,
        iommu_group=details.iommu_group,
        physical_slot=details.physical_slot,
        express=details.express(),
        access_control=details.access_control,
        errors=details.error_reporting(),
        lane_errors=details.lane_errors,
        problems=tuple(problems),
    )


def _identity(rest: str) -> tuple[str | None, str | None, str | None, str | None, str]:
    """Class name and id, vendor and device id, and description from the rest of a device line."""
    if not rest:
        return None, None, None, None, ""
    if len(rest) > _MAX_LINE:
        raise NotUnderstoodError(f"The line of the device is {len(rest)} characters long.")
    numeric = _NUMERIC.fullmatch(rest)
    if numeric:
        return None, numeric.group(1), numeric.group(2), numeric.group(3), ""
    named = _NAMED_CLASS.fullmatch(rest)
    if named:
        class_name, class_id, tail = named.groups()
    else:
        class_name, colon, tail = rest.partition(": ")
        class_id = None
        if not colon:
            raise NotUnderstoodError(f"'{excerpt(rest)}' should be a class and a name.")
    ids = _IDS.fullmatch(tail)
    if ids and (named or "[" not in ids.group(4)):
        return class_name, class_id, ids.group(2), ids.group(3), ids.group(1).strip()
    description = _TAIL.sub("", tail).strip()
    return class_name, class_id, None, None, description


def _parse_excerpt(text: str) -> LspciFacts:
    """Capability lines without a device: one reading, which must not contradict itself."""
    details = Capabilities()
    seen: dict[str, int] = {}
    for number, line in numbered_lines(text):
        stripped = line.strip()
        if not stripped:
            continue
        name = re.match(r"LnkCap|LnkSta|DevCap|DevSta|MaxPayload|UESta|CESta|ACSCtl", stripped)
        if name and seen.setdefault(f"{name.group()}:", number) != number:
            raise NotUnderstoodError(
                f"Line {number} of the lspci excerpt shows '{name.group()}' again, and no address "
                "says which device it belongs to.",
                hint="Keep the line with the PCI address of each device.",
            )
        if stripped.startswith("MaxPayload") and ":" not in stripped:
            details.feed("DevCtl:")
        if not details.feed(stripped) and not re.match(r"[A-Z][A-Za-z0-9]+[:+-]", stripped):
            raise bad_line("lspci", number, line, "a capability line such as 'LnkSta:'")
    express = details.express()
    return LspciFacts(
        Form.EXCERPT, (), () if express is None else (express,), (), text.endswith("\n")
    )
