"""``lspci -t``: the buses as a drawing. Gives addresses, and names with ``-v``.

The drawing abbreviates: a branch ``-[0000:17-1f]--`` names the buses behind a bridge, a leaf
``19.0`` the slot and function on the bus of its branch.
"""

from __future__ import annotations

import re

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.host_values import bad_line, numbered_lines
from hfprov.evidence.lspci_facts import PciDevice
from hfprov.evidence.pcie import normal_address
from hfprov.evidence.text import excerpt

_ROOT = re.compile(r"\[([0-9a-f]{4,8}):([0-9a-f]{2})(?:-[0-9a-f]{2})?\]")
_BRANCH = re.compile(r"\[([0-9a-f]{2})(?:-[0-9a-f]{2})?\]")
_LEAF = re.compile(r"[0-9a-f]{2}\.[0-7]")
_IDS = re.compile(r"(.*?)\[?([0-9a-f]{4}):([0-9a-f]{4})\]?")
_DRAWING = re.compile(r"[ |+\\-]*")
_MAX_DEPTH = 64
_MAX_NAME = 1024


def parse_tree(text: str) -> tuple[PciDevice, ...]:
    """The devices of the drawing in its order, bridges included."""
    devices: list[PciDevice] = []
    # For each column at which a bus begins: its domain and number.
    buses: list[tuple[int, str, str]] = []
    for number, line in numbered_lines(text):
        if line:
            _parse_line(number, line, buses, devices)
    if not devices:
        raise NotUnderstoodError("The lspci tree shows no device.")
    return tuple(devices)


def _parse_line(
    number: int,
    line: str,
    buses: list[tuple[int, str, str]],
    devices: list[PciDevice],
) -> None:
    position = 0
    while position < len(line):
        drawing = _DRAWING.match(line, position)
        position = drawing.end() if drawing else position
        if position == len(line):
            return
        root, branch = _ROOT.match(line, position), _BRANCH.match(line, position)
        leaf = _LEAF.match(line, position)
        if root or branch:
            while buses and buses[-1][0] >= position:
                buses.pop()
            if len(buses) > _MAX_DEPTH:
                raise bad_line("lspci -t", number, line, "fewer levels of bridges")
        if root:
            buses[:] = [(position, root.group(1), root.group(2))]
            position = root.end()
        elif branch:
            if not buses:
                raise bad_line("lspci -t", number, line, "a root such as '-[0000:00]-'")
            buses.append((position, buses[-1][1], branch.group(1)))
            position = branch.end()
        elif leaf:
            while buses and buses[-1][0] >= position:
                buses.pop()
            if not buses:
                raise bad_line("lspci -t", number, line, "a root such as '-[0000:00]-'")
            _, domain, bus = buses[-1]
            position = leaf.end()
            name = ""
            if line[position : position + 2] == "  ":
                name = line[position:].strip()
                position = len(line)
            devices.append(_device(f"{domain}:{bus}:{leaf.group()}", name))
        else:
            raise bad_line("lspci -t", number, line[position:], "a device such as '00.0'")


def _device(address: str, name: str) -> PciDevice:
    ids = _IDS.fullmatch(name[:_MAX_NAME])
    return PciDevice(
        address=normal_address(address),
        description=excerpt(ids.group(1) if ids else name, 200),
        class_name=None,
        class_id=None,
        vendor_id=ids.group(2) if ids else None,
        device_id=ids.group(3) if ids else None,
        subsystem=None,
        subsystem_vendor_id=None,
        subsystem_device_id=None,
        revision=None,
        driver=None,
        modules=(),
        numa_node=None,
        iommu_group=None,
        physical_slot=None,
        express=None,
        access_control=None,
        errors=None,
        lane_errors=(),
        problems=(),
    )
