"""RDMA devices and their settings as they are now: identities, GIDs, RoCE mode, QoS, PCI registers.

GIDs are read from sysfs (Documentation/ABI/stable/sysfs-class-infiniband), where every entry has
its type and its interface: what wants one chooses by these, never by an index.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence import ibv_devinfo, rdma
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import Observation, Read, Result, Source, command, complete_text, glob, listing
from hfprov.regex import regex

_DEVICE = "/sys/class/infiniband/*"
_PORT = f"{_DEVICE}/ports/*"
_MOST = 8192
ADDRESSES = listing(f"{_DEVICE}/device")
GUIDS = glob(f"{_DEVICE}/node_guid", limit=256)
PARENTS = glob(f"{_DEVICE}/parent", limit=256)
GIDS = glob(f"{_PORT}/gids/*", limit=256, most=_MOST)
GID_TYPES = glob(f"{_PORT}/gid_attrs/types/*", limit=256, most=_MOST)
GID_INTERFACES = glob(f"{_PORT}/gid_attrs/ndevs/*", limit=256, most=_MOST)
_CONFIGFS = "/sys/kernel/config/rdma_cm/*/ports/*"
ROCE_MODES = glob(f"{_CONFIGFS}/default_roce_mode", limit=256)
ROCE_TOS = glob(f"{_CONFIGFS}/default_roce_tos", limit=256)
ECN = glob("/sys/class/net/*/ecn/roce_*/enable/*", limit=64, most=4096)
MODULES = listing("/sys/module/*", most=4096)
SYSTEM = command("rdma", "system", "show")
DEVINFO = command("ibv_devinfo", timeout=15)
PCI_ADDRESS = regex(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
ROCE_V2 = "RoCE v2"


def plain_guid(text: str) -> str:
    """Sixteen digits, of any way in which a GUID is written."""
    return re.sub("[^0-9a-f]", "", clean(text).lower().removeprefix("0x"))


class Identity(Struct, frozen=True):
    """What a device is, whatever it is called."""

    name: str
    pci: str
    """Empty for one that is no PCI function."""
    guid: str
    parent: str = ""
    """The interface of a soft-RoCE device."""


def _by_device(seen: Observation, read: Read) -> dict[str, str]:
    found = {}
    for result in seen.each(read):
        if result.status != "absent":
            found[clean(result.name.split("/")[4])] = clean(complete_text(read, result)).strip()
    return found


def _parse_identities(seen: Observation, _: Baseline) -> tuple[Identity, ...]:
    addresses = {}
    for result in seen.each(ADDRESSES):
        last = result.link.rstrip("/").rpartition("/")[2]
        if PCI_ADDRESS.fullmatch(last):
            addresses[clean(result.name.split("/")[4])] = last
    guids, parents = _by_device(seen, GUIDS), _by_device(seen, PARENTS)
    return tuple(
        Identity(name, addresses.get(name, ""), plain_guid(guids[name]), parents.get(name, ""))
        for name in sorted(guids)
    )


IDENTITIES: Source[tuple[Identity, ...]] = Source(
    "identities of RDMA devices", lambda _: (ADDRESSES, GUIDS, PARENTS), _parse_identities
)


class Gid(Struct, frozen=True):
    """One entry of a port's GID table that is in use."""

    device: str
    port: int
    index: int
    gid: str
    kind: str
    """``RoCE v2``, or ``IB/RoCE v1``, which InfiniBand has, too."""
    interface: str
    """Empty on InfiniBand."""

    @property
    def is_ipv4(self) -> bool:
        """Whether it stands for an IPv4 address, and so is routed as such."""
        return ipaddress.IPv6Address(self.gid).ipv4_mapped is not None


def _entries(seen: Observation, read: Read) -> Iterator[tuple[tuple[str, int, int], str]]:
    results = seen.each(read)
    if len(results) >= _MOST:
        raise NoEvidenceError(f"The node has more than {_MOST} GIDs: not all were read.")
    for result in results:
        parts = result.name.split("/")
        # The kernel has no type and no interface for an entry that is free, and says so by EINVAL.
        if result.ok and parts[-1].isdecimal() and parts[6].isdecimal():
            text = clean(complete_text(read, result)).strip()
            yield (clean(parts[4]), int(parts[6]), int(parts[-1])), text


def _parse_gids(seen: Observation, _: Baseline) -> tuple[Gid, ...]:
    kinds = dict(_entries(seen, GID_TYPES))
    interfaces = dict(_entries(seen, GID_INTERFACES))
    found = []
    for key, text in _entries(seen, GIDS):
        try:
            address = ipaddress.IPv6Address(text)
        except ValueError:
            raise NotUnderstoodError(f"'{excerpt(text)}' is no GID.") from None
        if int(address) and key in kinds:
            found.append(Gid(*key, text, kinds[key], interfaces.get(key, "")))
    return tuple(sorted(found, key=lambda one: (one.device, one.port, one.index)))


GID_TABLE: Source[tuple[Gid, ...]] = Source(
    "GIDs", lambda _: (GIDS, GID_TYPES, GID_INTERFACES), _parse_gids
)


def select_gid(gids: Iterable[Gid], interface: str, *, kind: str = ROCE_V2) -> Gid | None:
    """The GID of an interface for routed traffic: by type, IPv4 and interface; None for none.

    With several addresses it is the lowest index, which is the first address that the interface
    was given.
    """
    fitting = (g for g in gids if g.kind == kind and g.is_ipv4 and g.interface == interface)
    return min(fitting, key=lambda one: one.index, default=None)


class ConnectionManager(Struct, frozen=True):
    """What connections of rdma_cm use by default on one port; None: the file was not there."""

    mode: str | None
    tos: str | None


def _parse_manager(seen: Observation, _: Baseline) -> Mapping[tuple[str, int], ConnectionManager]:
    values: dict[tuple[str, int], dict[str, str]] = {}
    for name, read in (("mode", ROCE_MODES), ("tos", ROCE_TOS)):
        for result in seen.each(read):
            parts = result.name.split("/")
            text = clean(complete_text(read, result)).strip()
            values.setdefault((clean(parts[5]), int(parts[7])), {})[name] = text
    return {
        port: ConnectionManager(found.get("mode"), found.get("tos"))
        for port, found in values.items()
    }


MANAGER: Source[Mapping[tuple[str, int], ConnectionManager]] = Source(
    "defaults of rdma_cm", lambda _: (ROCE_MODES, ROCE_TOS), _parse_manager
)
"""By device and port, of those that the role's unit has set since boot."""


def _parse_ecn(seen: Observation, _: Baseline) -> Mapping[tuple[str, str, int], str]:
    found = {}
    for result in seen.each(ECN):
        parts = result.name.split("/")
        if parts[-1].isdecimal():
            key = (clean(parts[4]), clean(parts[6]), int(parts[-1]))
            found[key] = clean(complete_text(ECN, result)).strip()
    return found


ECN_STATES: Source[Mapping[tuple[str, str, int], str]] = Source(
    "switches of ECN", lambda _: (ECN,), _parse_ecn
)
"""``0`` or ``1`` by interface, side (``roce_np``, ``roce_rp``) and priority."""


def _parse_modules(seen: Observation, _: Baseline) -> frozenset[str]:
    return frozenset(clean(result.name.rpartition("/")[2]) for result in seen.each(MODULES))


KERNEL_MODULES: Source[frozenset[str]] = Source(
    "modules in sysfs", lambda _: (MODULES,), _parse_modules
)
"""Loaded ones, and those built in that have parameters."""


def _parse_namespaces(seen: Observation, _: Baseline) -> str:
    found = rdma.parse(seen.text(SYSTEM))
    if not isinstance(found, rdma.RdmaSystem):
        raise NotUnderstoodError("'rdma system show' did not tell the mode of namespaces.")
    return found.netns


NAMESPACES: Source[str] = Source(
    "mode of network namespaces",
    lambda baseline: () if baseline.get("rdma_netns", "leave") == "leave" else (SYSTEM,),
    _parse_namespaces,
)
"""``shared`` or ``exclusive``; asked only where one is declared."""


def _parse_devinfo(seen: Observation, _: Baseline) -> tuple[ibv_devinfo.Device, ...]:
    result: Result = seen.one(DEVINFO)
    # Without any device it ends with 255, and says so on stderr.
    if result.ok and "No IB devices found" in f"{result.text}{result.stderr}":
        return ()
    found = ibv_devinfo.parse(seen.text(DEVINFO))
    if not isinstance(found, ibv_devinfo.Devices):
        raise NotUnderstoodError("'ibv_devinfo' did not describe devices.")
    return found.devices


def _devinfo_reads(baseline: Baseline) -> tuple[Read, ...]:
    declared = baseline.get("rdma_devices", ())
    return (DEVINFO,) if any(one.get("active_mtu_bytes") for one in declared) else ()


VERBS: Source[tuple[ibv_devinfo.Device, ...]] = Source(
    "devices of libibverbs", _devinfo_reads, _parse_devinfo
)
"""Asked only where the MTU of a port is declared, which nothing else tells."""

DEVICE_CONTROL, ACCESS_CONTROL = "CAP_EXP+8.w", "ECAP_ACS+6.w"
"""Registers in setpci's words; PCI Express base specification."""


def declared_addresses(baseline: Baseline) -> tuple[str, ...]:
    """PCI addresses of declared devices."""
    found = [str(one.get("pci") or "") for one in baseline.get("rdma_devices", ())]
    return tuple(address for address in found if PCI_ADDRESS.fullmatch(address))


def _registers(baseline: Baseline) -> dict[tuple[str, str], Read]:
    bridges = [str(one) for one in baseline.get("rdma_acs_off_bridges", ())]
    wanted = [(address, DEVICE_CONTROL) for address in declared_addresses(baseline)]
    wanted += [(one, ACCESS_CONTROL) for one in bridges if PCI_ADDRESS.fullmatch(one)]
    return {key: command("setpci", "-s", *key, limit=1024) for key in wanted}


def _parse_registers(seen: Observation, baseline: Baseline) -> Mapping[tuple[str, str], int]:
    found = {}
    for key, read in _registers(baseline).items():
        text = clean(seen.text(read)).strip()
        if not re.fullmatch("[0-9a-f]{4}", text):
            raise NotUnderstoodError(f"'{excerpt(text)}' is no register of '{key[0]}'.")
        found[key] = int(text, 16)
    return found


REGISTERS: Source[Mapping[tuple[str, str], int]] = Source(
    "PCI registers", lambda baseline: tuple(_registers(baseline).values()), _parse_registers
)
"""Value by address and register, of declared devices and bridges."""
