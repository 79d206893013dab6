"""``ibv_devinfo`` (plain, ``-v``, ``-vv``) and ``ibv_devices``: what libibverbs sees.

The one place that tells the active MTU of RoCE and the width and speed of a port.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct, field

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.net_lines import decimal, empty, integer, numbered, value_or_none
from hfprov.evidence.text import excerpt
from hfprov.regex import regex


class Gid(Struct, frozen=True):
    """One entry of a port's GID table; ``type`` is ``RoCE v1``, ``RoCE v2`` or None (IB)."""

    index: int
    gid: str
    type: str | None


class Port(Struct, frozen=True):
    """One port."""

    number: int
    state: str
    """``PORT_ACTIVE``, ``PORT_DOWN``, ``PORT_INIT``, …"""
    max_mtu_bytes: int | None
    active_mtu_bytes: int | None
    """None where the device says ``invalid MTU``."""
    link_layer: str
    sm_lid: int | None = None
    lid: int | None = None
    width_lanes: int | None = None
    lane_speed_gbps: float | None = None
    physical_state: str | None = None
    gids: tuple[Gid, ...] = ()

    @property
    def rate_gbps(self) -> float | None:
        """Lanes times the speed of one, where both are told (``-v``)."""
        if self.width_lanes is None or self.lane_speed_gbps is None:
            return None
        return self.width_lanes * self.lane_speed_gbps


class Device(Struct, frozen=True):
    """One RDMA device. ``ibv_devices`` tells only ``name`` and ``node_guid``, ``-l`` the name."""

    name: str
    node_guid: str | None
    firmware_version: str | None = None
    system_image_guid: str | None = None
    vendor_id: str | None = None
    vendor_part_id: int | None = None
    board_id: str | None = None
    """The PSID of NVIDIA adapters."""
    transport: str | None = None
    ports: tuple[Port, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)


class Devices(Struct, frozen=True):
    """Everything that was listed, and what the tool complained about."""

    devices: tuple[Device, ...]
    failures: tuple[str, ...] = ()

    def find(self, name: str) -> Device | None:
        return next((device for device in self.devices if device.name == name), None)


_HCA = regex(r"hca_id:\s*(?P<name>\S+)")
_PORT = regex(r"port:\s*(?P<number>[0-9]{1,3})")
_GID = regex(r"GID\[\s*(?P<index>[0-9]{1,4})\]:\s*(?P<gid>[0-9a-fA-F:.]+)(?:, (?P<type>.+))?")
_PAIR = regex(r"(?P<key>[A-Za-z][\w ]*):\s*(?P<value>.*)")
_FAILURE = regex(
    r"(?:No IB devices found|Failed to .*|Unable to .*|IB device '.*' wasn't found"
    r"|libibverbs: .*|ibv_devinfo: .*)"
)
_LIST_HEAD = regex(r"\s*device\s+node GUID\s*")
_NAMES_HEAD = regex(r"[0-9]{1,3} HCAs? found:")
_LIST_ROW = regex(r"\s*(?P<name>[A-Za-z]\S*)\s+(?P<guid>[0-9a-f]{16})\s*")
_MTU = regex(r"(?P<bytes>[0-9]{3,5}) \([0-9]+\)|invalid MTU \([0-9-]+\)")
_WIDTH = regex(r"(?P<lanes>[0-9]{1,2})X \([0-9]+\)|invalid width \([0-9-]+\)")
_SPEED = regex(r"(?P<gbps>[0-9.]+) Gbps \([0-9]+\)|invalid speed \([0-9-]+\)")
_CODED = regex(r"(?P<word>[A-Za-z_]+) \([0-9-]+\)")


class _Draft(Struct):
    name: str
    pairs: dict[str, str] = field(default_factory=dict)
    ports: list[tuple[int, dict[str, str], list[Gid]]] = field(default_factory=list)


def parse(text: str) -> Devices:
    """Facts of all devices listed. Raises NotUnderstoodError for a device that is not whole."""
    lines = list(numbered(text))
    if not lines:
        raise empty("ibv_devinfo")
    if any(_LIST_HEAD.fullmatch(line) for _, line in lines):
        return _listing(lines)
    if _NAMES_HEAD.fullmatch(lines[0][1].strip()):
        return _names(lines)
    drafts: list[_Draft] = []
    failures: list[str] = []
    for number, line in lines:
        stripped = line.strip()
        if _FAILURE.fullmatch(stripped):
            failures.append(stripped)
        else:
            _line(drafts, number, stripped)
    if not drafts and not failures:
        raise NotUnderstoodError("ibv_devinfo: no device is named in the output.")
    return Devices(tuple(_device(draft) for draft in drafts), tuple(failures))


def _listing(lines: list[tuple[int, str]]) -> Devices:
    rows = [_LIST_ROW.fullmatch(line) for _, line in lines]
    return Devices(tuple(Device(row["name"], row["guid"]) for row in rows if row is not None))


def _names(lines: list[tuple[int, str]]) -> Devices:
    """``ibv_devinfo -l``: the number of devices, and their names below it."""
    names = [line.strip() for _, line in lines[1:]]
    announced = int(lines[0][1].split()[0])
    if announced != len(names):
        raise NotUnderstoodError(
            f"ibv_devinfo: {announced} devices were found, but {len(names)} are listed."
        )
    return Devices(tuple(Device(name, None) for name in names))


def _line(drafts: list[_Draft], number: int, line: str) -> None:
    hca = _HCA.fullmatch(line)
    if hca is not None:
        drafts.append(_Draft(hca["name"]))
        return
    if not drafts:
        raise NotUnderstoodError(
            f"ibv_devinfo: line {number} '{excerpt(line)}' is not 'hca_id: …', which comes first."
        )
    draft = drafts[-1]
    port = _PORT.fullmatch(line)
    gid = _GID.fullmatch(line)
    pair = _PAIR.fullmatch(line)
    if port is not None:
        draft.ports.append((int(port["number"]), {}, []))
    elif gid is not None and draft.ports:
        draft.ports[-1][2].append(Gid(int(gid["index"]), gid["gid"].lower(), gid["type"]))
    elif pair is not None:
        into = draft.ports[-1][1] if draft.ports else draft.pairs
        into.setdefault(pair["key"].strip(), pair["value"].strip())
    # What is left are the names of capability bits, one per line, which -v adds.


def _device(draft: _Draft) -> Device:
    what = f"ibv_devinfo: device '{excerpt(draft.name)}'"
    pairs = draft.pairs
    announced = pairs.get("phys_port_cnt")
    if announced is None:
        raise NotUnderstoodError(f"{what} ends before its 'phys_port_cnt'.")
    if integer(announced, f"{what}: 'phys_port_cnt'") != len(draft.ports):
        raise NotUnderstoodError(
            f"{what} has {announced} ports, but {len(draft.ports)} are described."
        )
    part = pairs.get("vendor_part_id")
    return Device(
        draft.name,
        node_guid=value_or_none(pairs.get("node_guid", "")),
        firmware_version=value_or_none(pairs.get("fw_ver", "")),
        system_image_guid=value_or_none(pairs.get("sys_image_guid", "")),
        vendor_id=value_or_none(pairs.get("vendor_id", "")),
        vendor_part_id=None if part is None else integer(part, f"{what}: 'vendor_part_id'"),
        board_id=value_or_none(pairs.get("board_id", "")),
        transport=value_or_none(pairs.get("transport", "")),
        ports=tuple(_port(what, *port) for port in draft.ports),
        attributes=pairs,
    )


def _port(what: str, number: int, pairs: Mapping[str, str], gids: list[Gid]) -> Port:
    what = f"{what}, port {number}"
    for key in ("state", "active_mtu", "link_layer"):
        if not pairs.get(key):
            raise NotUnderstoodError(f"{what} ends before its '{key}'.")
    width = _value(_WIDTH, pairs, "active_width", "lanes", what)
    speed = _value(_SPEED, pairs, "active_speed", "gbps", what)
    active = _value(_MTU, pairs, "active_mtu", "bytes", what)
    most = _value(_MTU, pairs, "max_mtu", "bytes", what)
    return Port(
        number,
        state=_word(pairs["state"], f"{what}: 'state'"),
        max_mtu_bytes=int(most) if most else None,
        active_mtu_bytes=int(active) if active else None,
        link_layer=pairs["link_layer"],
        sm_lid=_lid(pairs, "sm_lid", what),
        lid=_lid(pairs, "port_lid", what),
        width_lanes=int(width) if width else None,
        lane_speed_gbps=decimal(speed, f"{what}: 'active_speed'") if speed else None,
        physical_state=_physical_state(pairs),
        gids=tuple(gids),
    )


def _value(
    pattern: re.Pattern[str], pairs: Mapping[str, str], key: str, group: str, what: str
) -> str | None:
    value = pairs.get(key)
    if value is None:
        return None
    match = pattern.fullmatch(value)
    if match is None:
        raise NotUnderstoodError(f"{what}: '{key}: {excerpt(value)}' is not understood.")
    return match[group]


def _word(value: str, what: str) -> str:
    match = _CODED.fullmatch(value)
    if match is None:
        raise NotUnderstoodError(f"{what}: '{excerpt(value)}' is no state.")
    return match["word"]


def _physical_state(pairs: Mapping[str, str]) -> str | None:
    """None also for ``invalid physical state``, which drivers without one lead to."""
    match = _CODED.fullmatch(pairs.get("phys_state", ""))
    return match["word"] if match else None


def _lid(pairs: Mapping[str, str], key: str, what: str) -> int | None:
    value = pairs.get(key)
    return None if value is None else integer(value, f"{what}: '{key}'")
