"""PCI functions, network interfaces and RDMA ports from sysfs files, ``{path: content}``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.cpulist import parse_cpulist
from hfprov.evidence.pcie import normal_address, parse_speed, parse_width
from hfprov.evidence.sysfs_attributes import (
    AerCounters,
    NumberedState,
    RdmaRate,
    parse_aer,
    parse_counter,
    parse_net_speed,
    parse_numa_node,
    parse_number,
    parse_rdma_rate,
    parse_state,
)
from hfprov.regex import regex

_PCI = regex(
    r".*/([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])/"
    r"(vendor|device|class|subsystem_vendor|subsystem_device|numa_node|local_cpulist"
    r"|(?:current|max)_link_(?:speed|width)|aer_dev_(?:correctable|fatal|nonfatal)|driver"
    r"|iommu_group)"
)
_NET = regex(
    r".*/net/([^/]+)/(mtu|operstate|carrier|speed|address|type|mode|statistics/[a-z0-9_]+)"
)
_RDMA = regex(
    r".*/infiniband/([^/]+)/ports/([0-9]+)/"
    r"(state|phys_state|rate|link_layer|(?:hw_)?counters/[A-Za-z0-9_]+)"
)
_RDMA_DEVICE = regex(r".*/infiniband/([^/]+)/(fw_ver|board_id|hca_type|node_type)")

T = TypeVar("T")


class PciFunction(Struct, frozen=True):
    """One PCI function in sysfs. None: no such file, or the kernel has no value."""

    address: str
    vendor_id: str | None
    device_id: str | None
    class_id: str | None
    subsystem_vendor_id: str | None
    subsystem_device_id: str | None
    current_speed_gts: float | None
    max_speed_gts: float | None
    current_width: int | None
    max_width: int | None
    numa_node: int | None
    local_cpus: tuple[int, ...] | None
    driver: str | None
    iommu_group: str | None
    correctable: AerCounters | None
    fatal: AerCounters | None
    nonfatal: AerCounters | None
    problems: tuple[str, ...]
    """Files that could not be understood; what they would have said is None."""


class NetInterface(Struct, frozen=True):
    """One network interface in sysfs."""

    name: str
    mtu_bytes: int | None
    operstate: str | None
    carrier: bool | None
    """None where the interface is administratively down: the kernel then refuses the read."""
    speed_mbit_per_s: int | None
    ipoib_mode: str | None
    statistics: Mapping[str, int]
    problems: tuple[str, ...]


class RdmaPort(Struct, frozen=True):
    """One port of an RDMA device in sysfs."""

    device: str
    port: int
    state: NumberedState | None
    phys_state: NumberedState | None
    rate: RdmaRate | None
    link_layer: str | None
    firmware: str | None
    board_id: str | None
    hca_type: str | None
    counters: Mapping[str, int | None]
    hw_counters: Mapping[str, int | None]
    problems: tuple[str, ...]


class _Reader:
    """Reads the files of one device and collects what it could not understand."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files
        self.problems: list[str] = []

    def get(self, name: str, parse: Callable[[str], T]) -> T | None:
        if name not in self._files:
            return None
        try:
            return parse(self._files[name])
        except NotUnderstoodError as error:
            self.problems.append(f"{name}: {error.message}")
            return None


def _grouped(
    files: Mapping[str, str], expression: re.Pattern[str]
) -> dict[tuple[str, ...], dict[str, str]]:
    """File contents by device (all groups of the expression but the last) and by file name.

    The same file seen through two paths must say the same; if not, the first one counts and the
    contradiction becomes a file name of its own, which no parser knows.
    """
    groups: dict[tuple[str, ...], dict[str, str]] = {}
    for path, content in files.items():
        match = expression.fullmatch(path)
        if match is not None:
            *device, name = match.groups()
            groups.setdefault(tuple(device), {}).setdefault(name, content)
    return groups


def _hex_id(text: str) -> str:
    return f"{parse_number(text, 'A PCI id'):04x}"


def _last(text: str) -> str:
    return text.rstrip("/").rsplit("/", 1)[-1]


def pci_functions(files: Mapping[str, str], links: Mapping[str, str]) -> tuple[PciFunction, ...]:
    """PCI functions in the order of their addresses."""
    groups = _grouped({**files, **links}, _PCI)
    return tuple(_pci_function(address, groups[address,]) for (address,) in sorted(groups))


def _pci_function(address: str, files: Mapping[str, str]) -> PciFunction:
    reader = _Reader(files)
    return PciFunction(
        address=normal_address(address),
        vendor_id=reader.get("vendor", _hex_id),
        device_id=reader.get("device", _hex_id),
        class_id=reader.get("class", lambda text: f"{parse_number(text, 'class'):06x}"[:4]),
        subsystem_vendor_id=reader.get("subsystem_vendor", _hex_id),
        subsystem_device_id=reader.get("subsystem_device", _hex_id),
        current_speed_gts=reader.get("current_link_speed", parse_speed),
        max_speed_gts=reader.get("max_link_speed", parse_speed),
        current_width=reader.get("current_link_width", parse_width),
        max_width=reader.get("max_link_width", _max_width),
        numa_node=reader.get("numa_node", parse_numa_node),
        local_cpus=reader.get("local_cpulist", parse_cpulist),
        driver=reader.get("driver", _last),
        iommu_group=reader.get("iommu_group", _last),
        correctable=reader.get("aer_dev_correctable", _aer),
        fatal=reader.get("aer_dev_fatal", _aer),
        nonfatal=reader.get("aer_dev_nonfatal", _aer),
        problems=tuple(reader.problems),
    )


def _max_width(text: str) -> int | None:
    # Devices without a link (functions inside a processor) have 255 here: "unknown".
    return None if text.strip() == "255" else parse_width(text)


def _aer(text: str) -> AerCounters:
    return parse_aer(text, "AER counters")


def net_interfaces(files: Mapping[str, str]) -> tuple[NetInterface, ...]:
    """Network interfaces in the order of their names."""
    groups = _grouped(files, _NET)
    return tuple(_net_interface(name, groups[name,]) for (name,) in sorted(groups))


def _net_interface(name: str, files: Mapping[str, str]) -> NetInterface:
    reader = _Reader(files)
    statistics = {}
    for key in files:
        if key.startswith("statistics/"):
            value = reader.get(key, lambda text: parse_counter(text, "A network counter"))
            if value is not None:
                statistics[key.removeprefix("statistics/")] = value
    return NetInterface(
        name=name,
        mtu_bytes=reader.get("mtu", lambda text: parse_counter(text, "mtu")),
        operstate=reader.get("operstate", lambda text: text.strip() or None),
        carrier=reader.get("carrier", _carrier),
        speed_mbit_per_s=reader.get("speed", parse_net_speed),
        ipoib_mode=reader.get("mode", lambda text: text.strip() or None),
        statistics=statistics,
        problems=tuple(reader.problems),
    )


def _carrier(text: str) -> bool | None:
    plain = text.strip()
    if plain not in ("", "0", "1"):
        raise NotUnderstoodError(f"carrier should be 0 or 1, but is '{plain[:40]}'.")
    return None if not plain else plain == "1"


def rdma_ports(files: Mapping[str, str]) -> tuple[RdmaPort, ...]:
    """RDMA ports in the order of device name and port number."""
    groups = _grouped(files, _RDMA)
    devices = _grouped(files, _RDMA_DEVICE)
    return tuple(
        _rdma_port(device, port, groups[device, port], devices.get((device,), {}))
        for device, port in sorted(groups)
    )


def _rdma_port(
    device: str, port: str, files: Mapping[str, str], about: Mapping[str, str]
) -> RdmaPort:
    reader = _Reader({**files, **about})
    counters: dict[str, dict[str, int | None]] = {"counters": {}, "hw_counters": {}}
    for key in files:
        group, slash, name = key.partition("/")
        if slash:
            before = len(reader.problems)
            value = reader.get(key, lambda text: parse_counter(text, "A port counter"))
            if len(reader.problems) == before:
                counters[group][name] = value
    return RdmaPort(
        device=device,
        port=int(port),
        state=reader.get("state", lambda text: parse_state(text, "state")),
        phys_state=reader.get("phys_state", lambda text: parse_state(text, "phys_state")),
        rate=reader.get("rate", parse_rdma_rate),
        link_layer=reader.get("link_layer", lambda text: text.strip() or None),
        firmware=reader.get("fw_ver", lambda text: text.strip() or None),
        board_id=reader.get("board_id", lambda text: text.strip() or None),
        hca_type=reader.get("hca_type", lambda text: text.strip() or None),
        counters=counters["counters"],
        hw_counters=counters["hw_counters"],
        problems=tuple(reader.problems),
    )
