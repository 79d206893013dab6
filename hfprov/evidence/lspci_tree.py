"""``lspci -t``: the buses as a drawing. Gives addresses, and names with ``-v``.

The drawing abbreviates: a branch ``-[0000:17-1f]--`` names the buses behind a bridge, a leaf
``19.0`` the slot and function on the bus of its branch.
"""

from __future__ import annotations

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.host_values import bad_line, numbered_lines
from hfprov.evidence.lspci_facts import PciDevice
from hfprov.evidence.pcie import normal_address
from hfprov.evidence.text import excerpt
from hfprov.regex import regex

_ROOT = regex(r"\[([0-9a-f]{4,8}):([0-9a-f]{2})(?:-[0-9a-f]{2})?\]")
_BRANCH = regex(r"\[([0-9a-f]{2})(?:-[0-9a-f]{2})?\]")
_LEAF = regex(r"[0-9a-f]{2}\.[0-7]")
_IDS = regex(r"(.*?)\[?([0-9a-f]{4}):([0-9a-f]{4})\]?")
_DRAWING = regex(r"[ |+\\-]*")
_MAX_DEPTH = 64
_MAX_NAME = 1024


class _Tree:
    """Reads the drawing line by line; remembers at which column each bus begins."""

    __slots__ = ("_buses", "devices")

    def __init__(self) -> None:
        self.devices: list[PciDevice] = []
        self._buses: list[tuple[int, str, str]] = []

    def feed(self, number: int, line: str) -> None:
        """Take one line: some drawing, then buses in brackets or devices, and again."""
        position = 0
        while True:
            drawing = _DRAWING.match(line, position)
            position = drawing.end() if drawing else position
            if position == len(line):
                return
            position = self._item(number, line, position)

    def _item(self, number: int, line: str, position: int) -> int:
        while self._buses and self._buses[-1][0] >= position:
            self._buses.pop()
        if root := _ROOT.match(line, position):
            self._buses[:] = [(position, root.group(1), root.group(2))]
            return root.end()
        if not self._buses or len(self._buses) > _MAX_DEPTH:
            raise bad_line("lspci -t", number, line, "a root such as '-[0000:00]-'")
        _, domain, bus = self._buses[-1]
        if branch := _BRANCH.match(line, position):
            self._buses.append((position, domain, branch.group(1)))
            return branch.end()
        leaf = _LEAF.match(line, position)
        if leaf is None:
            raise bad_line("lspci -t", number, line[position:], "a device such as '00.0'")
        end, name = leaf.end(), ""
        if line[end : end + 2] == "  ":
            end, name = len(line), line[end:].strip()
        self.devices.append(_device(f"{domain}:{bus}:{leaf.group()}", name))
        return end


def parse_tree(text: str) -> tuple[PciDevice, ...]:
    """The devices of the drawing in its order, bridges included."""
    tree = _Tree()
    for number, line in numbered_lines(text):
        if line:
            tree.feed(number, line)
    if not tree.devices:
        raise NotUnderstoodError("The lspci tree shows no device.")
    return tuple(tree.devices)


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
