"""RDMA devices of a node from sysfs: ports, what they are called, and their interfaces."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.evidence import net_counters
from hfprov.evidence.memory_node import files_of
from hfprov.evidence.sysfs_devices import RdmaPort, rdma_ports
from hfprov.evidence.text import clean
from hfprov.reading import Observation, Source, complete_text, glob, listing

_DEVICE = "/sys/class/infiniband/*"
_PORT = f"{_DEVICE}/ports/*"
PORT_READS = tuple(
    glob(path, limit=256)
    for path in (
        f"{_PORT}/state",
        f"{_PORT}/phys_state",
        f"{_PORT}/rate",
        f"{_PORT}/link_layer",
        f"{_DEVICE}/fw_ver",
        f"{_DEVICE}/board_id",
        f"{_DEVICE}/hca_type",
    )
)
PORT_COUNTERS = glob(f"{_PORT}/counters/*", limit=64, most=4096)
HARDWARE_COUNTERS = glob(f"{_PORT}/hw_counters/*", limit=64, most=4096)
INTERFACES = listing(f"{_DEVICE}/device/net/*")


class RdmaDevices(Struct, frozen=True):
    """Ports of all RDMA devices, and the network interfaces of each device."""

    ports: tuple[RdmaPort, ...]
    interfaces: Mapping[str, tuple[str, ...]]
    """Interfaces by device; a device without one (InfiniBand without IPoIB) is not in it."""

    def of(self, interface: str) -> str | None:
        """The RDMA device of an interface."""
        return next((name for name, nets in self.interfaces.items() if interface in nets), None)


def _parse(seen: Observation, _: Baseline) -> RdmaDevices:
    interfaces: dict[str, list[str]] = {}
    for result in seen.each(INTERFACES):
        parts = result.name.split("/")
        interfaces.setdefault(clean(parts[4]), []).append(clean(parts[-1]))
    return RdmaDevices(
        rdma_ports(files_of(seen, PORT_READS)),
        {device: tuple(names) for device, names in interfaces.items()},
    )


RDMA_DEVICES: Source[RdmaDevices] = Source(
    "rdma devices", lambda _: (*PORT_READS, INTERFACES), _parse
)


def _parse_counters(seen: Observation, _: Baseline) -> Mapping[str, Mapping[str, int]]:
    counters: dict[str, dict[str, int]] = {}
    for read in (PORT_COUNTERS, HARDWARE_COUNTERS):
        for result in seen.each(read):
            parts = result.name.split("/")
            port = f"{clean(parts[4])}/{clean(parts[6])}"
            # Which hardware counters can be read depends on the firmware; the port's own always.
            if result.status == "absent" or (read is HARDWARE_COUNTERS and not result.ok):
                continue
            value = net_counters.parse(complete_text(read, result))
            if value is not None:
                counters.setdefault(port, {})[clean(parts[-1])] = value
    return counters


RDMA_COUNTERS: Source[Mapping[str, Mapping[str, int]]] = Source(
    "rdma counters", lambda _: (PORT_COUNTERS, HARDWARE_COUNTERS), _parse_counters
)
"""Counters by port (``mlx5_0/1``); empty where there is no RDMA device."""
