"""``lspci -vmm``: a block of ``Tag: value`` lines for each device, made for scripts.

With ``-n`` values are numbers, with ``-nn`` names with numbers in brackets; ``-k`` adds driver and
modules. Source: lspci(8), section "Machine readable output".
"""

from __future__ import annotations

import shlex

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.host_values import bad_line, natural, numbered_lines
from hfprov.evidence.lspci_facts import PciDevice
from hfprov.evidence.pcie import normal_address
from hfprov.evidence.text import excerpt
from hfprov.regex import regex

_LINE = regex(r"([A-Za-z]+):(?:\s+(.*))?")
_NUMBERED = regex(r"(.*) \[([0-9a-f]{4})\]")
_NUMBER = regex(r"[0-9a-f]{4}")
_OPTION = regex(r"-[rp][0-9a-f]{2}")
_REPEATED = "Module"


def parse_machine(text: str) -> tuple[tuple[PciDevice, ...], bool]:
    """The devices, and whether the last block is closed by an empty line."""
    devices: list[PciDevice] = []
    block: dict[str, str] = {}
    modules: list[str] = []
    seen: set[str] = set()
    for number, line in numbered_lines(f"{text}\n\n"):
        if not line:
            if block:
                device = _device(block, tuple(modules))
                if device.address in seen:
                    raise NotUnderstoodError(f"PCI device '{device.address}' is listed twice.")
                seen.add(device.address)
                devices.append(device)
                block, modules = {}, []
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None:
            raise bad_line("lspci", number, line, "a line 'Tag: value'")
        tag, value = match.group(1), (match.group(2) or "").strip()
        if tag == _REPEATED:
            modules.append(value)
        elif tag in block and not (tag == "Device" and "Slot" not in block):
            raise bad_line("lspci", number, line, f"an empty line before another '{tag}'")
        elif tag == "Device" and "Slot" not in block and not block:
            block["Slot"] = value  # "lspci -vm" (one m) calls the address "Device"
        else:
            block[tag] = value
    return tuple(devices), text.endswith("\n\n")


def _device(block: dict[str, str], modules: tuple[str, ...]) -> PciDevice:
    missing = [tag for tag in ("Slot", "Class", "Vendor", "Device") if tag not in block]
    if missing:
        where = block.get("Slot", "without an address")
        raise NotUnderstoodError(
            f"The lspci block of device '{where}' has no '{missing[0]}': it is cut off."
        )
    address = normal_address(block["Slot"])
    class_name, class_id = _named(block["Class"])
    vendor, vendor_id = _named(block["Vendor"])
    device, device_id = _named(block["Device"])
    subsystem_vendor, subsystem_vendor_id = _named(block.get("SVendor"))
    subsystem_device, subsystem_device_id = _named(block.get("SDevice"))
    names = [name for name in (subsystem_vendor, subsystem_device) if name]
    node = block.get("NUMANode")
    group = block.get("IOMMUGroup")
    revision = block.get("Rev")
    return PciDevice(
        address=address,
        description=" ".join(name for name in (vendor, device) if name),
        class_name=class_name,
        class_id=class_id,
        vendor_id=vendor_id,
        device_id=device_id,
        subsystem=" ".join(names) or None,
        subsystem_vendor_id=subsystem_vendor_id,
        subsystem_device_id=subsystem_device_id,
        revision=revision,
        driver=block.get("Driver"),
        modules=modules,
        numa_node=None if node is None else natural(node, "NUMANode"),
        iommu_group=None if group is None else natural(group, "IOMMUGroup"),
        physical_slot=block.get("PhySlot"),
        express=None,
        access_control=None,
        errors=None,
        lane_errors=(),
        problems=("Revision ff: the device does not answer (all bits read as one).",)
        if revision == "ff"
        else (),
    )


def quoted_device(address: str, rest: str) -> PciDevice:
    """A line of ``lspci -mm``: class, vendor, device, ``-rREV``, ``-pPROGIF``, subsystem."""
    try:
        words = shlex.split(rest)
    except ValueError:
        raise NotUnderstoodError(f"A quote in '{excerpt(rest)}' is not closed.") from None
    names = [word for word in words if not _OPTION.fullmatch(word)]
    options = [word for word in words if _OPTION.fullmatch(word)]
    tags = ("Class", "Vendor", "Device", "SVendor", "SDevice")
    if len(names) != len(tags):
        raise NotUnderstoodError(f"'{excerpt(rest)}' should have five texts in quotes.")
    block = {tag: name for tag, name in zip(tags, names, strict=True) if name}
    block["Slot"] = address
    for option in options:
        if option.startswith("-r"):
            block["Rev"] = option.removeprefix("-r")
    return _device(block, ())


def _named(value: str | None) -> tuple[str | None, str | None]:
    """Name and number of ``PCI bridge [0604]``, ``0604`` or ``PCI bridge``."""
    if value is None:
        return None, None
    match = _NUMBERED.fullmatch(value)
    if match:
        return match.group(1), match.group(2)
    if _NUMBER.fullmatch(value):
        return None, value
    return value, None
