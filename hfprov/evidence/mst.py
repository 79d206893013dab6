"""``mst status`` and ``mst status -v``: the access modules of NVIDIA's firmware tools.

``-v`` is the one table that has PCI address, RDMA device, network devices and NUMA node together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.net_lines import empty, not_understood, numbered, value_or_none
from hfprov.regex import regex


class MstDevice(Struct, frozen=True):
    """One PCI function. None: not told, or ``NA``."""

    pci_address: str
    """As printed, with the domain where the tool prints one."""
    device_type: str | None = None
    """``ConnectX7(rev:0)``; None for virtual functions."""
    path: str | None = None
    """``/dev/mst/…``; None while the modules are not loaded."""
    rdma_device: str | None = None
    net_devices: tuple[str, ...] = ()
    numa_node: int | None = None


class MstStatus(Struct, frozen=True):
    """Modules (``MST PCI``, ``MST PCI configuration``) with whether loaded, and the devices."""

    modules: Mapping[str, bool]
    devices: tuple[MstDevice, ...]


_MODULE = regex(r"\s*(?P<name>MST [A-Za-z ]*?) module (?P<state>is not loaded|loaded)")
_PATH = regex(r"(?P<path>/dev/mst/\S+)\s+- .*")
_ADDRESS = regex(r".*domain:bus:dev\.fn=(?P<pci>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]).*")
_ROW = regex(
    r"(?P<type>\S+)\s+(?P<path>NA|/dev/mst/\S+)\s+"
    r"(?P<pci>(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])(?P<rest>(?:\s.*)?)"
)
_BARE = regex(r"(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
"""A row of ``PCI Devices``, which stands in the place of the table while no module is loaded."""
_HEADS = (
    "MST modules:",
    "MST devices:",
    "PCI devices:",
    "PCI Devices:",
    "DEVICE_TYPE",
    "Chip revision",
    "---",
)
_TALK = regex(r"(?:\S+[#$]|\$|#)(?: .*)?|.*\b(?:Success|skipping)\b.*|Starting MST.*|Create .*")
_NONE = ("No MST devices", "You may need to run 'mst start'", "No devices", "Device doesn't exist")


def parse(text: str) -> MstStatus:
    """Facts of either form, also of a terminal transcript. Raises NotUnderstoodError."""
    lines = list(numbered(text))
    if not lines:
        raise empty("mst")
    modules: dict[str, bool] = {}
    devices: list[MstDevice] = []
    path: str | None = None
    for number, line in lines:
        stripped = line.strip()
        module = _MODULE.fullmatch(line)
        opened = _PATH.fullmatch(stripped)
        address = _ADDRESS.fullmatch(stripped)
        row = _ROW.fullmatch(stripped)
        if module is not None:
            modules[module["name"]] = module["state"] == "loaded"
        elif opened is not None:
            _refuse_open(path)
            path = opened["path"]
        elif address is not None and path is not None:
            devices.append(MstDevice(address["pci"], path=path))
            path = None
        elif row is not None:
            devices.append(_device(row))
        elif _BARE.fullmatch(stripped):
            devices.append(MstDevice(stripped))
        elif not (stripped.startswith((*_HEADS, *_NONE)) or _TALK.fullmatch(stripped)):
            raise not_understood("mst", number, line, "a module or a device")
    _refuse_open(path)
    if not modules and not devices:
        raise NotUnderstoodError("mst: there is neither a module nor a device in the output.")
    return MstStatus(modules, tuple(devices))


def _refuse_open(path: str | None) -> None:
    if path is not None:
        raise NotUnderstoodError(f"mst: '{path[:80]}' ends before its PCI address.")


def _device(row: re.Match[str]) -> MstDevice:
    words = row["rest"].split()
    numa = words.pop() if words and re.fullmatch(r"-?[0-9]{1,3}|NA", words[-1]) else None
    nets = [
        name.removeprefix("net-")
        for word in words
        if word.startswith("net-")
        for name in word.split(",")
    ]
    rdma = [word for word in words if not word.startswith("net-")]
    return MstDevice(
        row["pci"],
        device_type=value_or_none(row["type"]),
        path=value_or_none(row["path"]),
        rdma_device=rdma[0] if rdma else None,
        net_devices=tuple(nets),
        numa_node=None if numa in (None, "NA", "-1") else int(str(numa)),
    )
