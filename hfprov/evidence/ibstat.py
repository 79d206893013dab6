"""``ibstat`` and ``ibstatus``: RDMA adapters with their ports; ``ibnetdiscover`` is read too.

InfiniBand and RoCE. A message of ``ibpanic`` or ``ibwarn`` is kept as evidence: a device that has
gone is named nowhere else. For ``ibnetdiscover`` see :mod:`hfprov.evidence.ibnetdiscover`.
"""

from __future__ import annotations

import re

from msgspec import Struct, field

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.ibnetdiscover import Fabric, looks_like_fabric, parse_fabric
from hfprov.evidence.net_lines import decimal, empty, hexadecimal, integer, numbered, value_or_none
from hfprov.evidence.text import excerpt
from hfprov.regex import regex


class Port(Struct, frozen=True):
    """One port of an adapter. States in lower case: ``active``, ``down``, ``init``, ``armed``."""

    number: int
    state: str
    physical_state: str
    """``linkup``, ``polling``, ``disabled``, …"""
    rate_gbps: float
    link_layer: str
    """``InfiniBand`` or ``Ethernet``, as printed."""
    base_lid: int | None = None
    sm_lid: int | None = None
    guid: str | None = None
    rate_name: str | None = None
    """Width and speed in words (``4X HDR``), where told."""

    @property
    def is_active(self) -> bool:
        return self.state == "active" and self.physical_state == "linkup"


class Adapter(Struct, frozen=True):
    """One RDMA device (``CA``). None: the form that was read does not have the value."""

    name: str
    ports: tuple[Port, ...]
    type: str | None = None
    firmware_version: str | None = None
    hardware_version: str | None = None
    node_guid: str | None = None
    system_image_guid: str | None = None


class Adapters(Struct, frozen=True):
    """``ibstat`` or ``ibstatus``."""

    adapters: tuple[Adapter, ...]
    failures: tuple[str, ...] = ()

    def find(self, name: str) -> Adapter | None:
        return next((adapter for adapter in self.adapters if adapter.name == name), None)


class HostGuids(Struct, frozen=True):
    """Port GUIDs (16 hexadecimal digits) by host: ``ibstat -p`` collected from several nodes."""

    hosts: tuple[tuple[str, tuple[str, ...]], ...]


class _Draft(Struct):
    name: str
    pairs: dict[str, str] = field(default_factory=dict)
    ports: list[tuple[int, dict[str, str]]] = field(default_factory=list)


_CA = regex(r"CA '(?P<name>[^']+)'")
_PORT = regex(r"Port (?P<number>[0-9]{1,3}):")
_STATUS = regex(
    r"Infiniband device '(?P<name>[^']+)' port (?P<port>[0-9]{1,3}) status:", re.IGNORECASE
)
_FAILURE = regex(
    r"ib(?:panic|warn|error): .*|.*: (?:iberror|ibwarn|ibpanic): .*"
    r"|(?:\S+: )?(?:command not found|No such file or directory)"
)
_HOST = regex(r"VM_hostname (?P<host>\S+)")
_GUID = regex(r"(?:0x)?(?P<guid>[0-9a-f]{16})")
_RATE = regex(r"(?P<gbps>[0-9.]+)(?: Gb/sec)?(?: \((?P<name>.*)\))?")
_CODED = regex(r"[0-9]+: (?P<word>.*)")
_SAME_STATE = {"initializing": "init", "initialize": "init"}


def parse(text: str) -> Adapters | HostGuids | Fabric:
    """Facts of ``ibstat``, ``ibstatus``, ``ibstat -p`` or ``ibnetdiscover``.

    Raises NotUnderstoodError when a port or an adapter is not whole.
    """
    lines = list(numbered(text))
    if not lines:
        raise empty("ibstat")
    if any(looks_like_fabric(line) for _, line in lines):
        return parse_fabric(lines)
    if all(_HOST.fullmatch(line) or _GUID.fullmatch(line) for _, line in lines):
        return _host_guids(lines)
    drafts: list[_Draft] = []
    failures: list[str] = []
    pairs: dict[str, str] | None = None
    for number, line in lines:
        stripped = line.strip()
        if _FAILURE.fullmatch(stripped):
            failures.append(stripped)
            continue
        pairs = _line(drafts, pairs, number, stripped)
    if not drafts and not failures:
        raise NotUnderstoodError("ibstat: no adapter is named in the output.")
    return Adapters(tuple(_adapter(draft) for draft in drafts), tuple(failures))


def _line(
    drafts: list[_Draft], pairs: dict[str, str] | None, number: int, line: str
) -> dict[str, str]:
    """Takes one line in; returns the pairs that the next lines belong to."""
    ca = _CA.fullmatch(line)
    if ca is not None:
        drafts.append(_Draft(ca["name"]))
        return drafts[-1].pairs
    status = _STATUS.fullmatch(line)
    if status is not None:
        if not drafts or drafts[-1].name != status["name"]:
            drafts.append(_Draft(status["name"]))
        drafts[-1].ports.append((int(status["port"]), {}))
        return drafts[-1].ports[-1][1]
    port = _PORT.fullmatch(line)
    if port is not None and drafts:
        drafts[-1].ports.append((int(port["number"]), {}))
        return drafts[-1].ports[-1][1]
    key, colon, value = (part.strip() for part in line.partition(":"))
    if not colon or pairs is None:
        raise NotUnderstoodError(
            f"ibstat: line {number} '{excerpt(line)}' is no property of an adapter or a port."
        )
    pairs[key.lower().replace("_", " ")] = value
    return pairs


def _adapter(draft: _Draft) -> Adapter:
    what = f"ibstat: adapter '{excerpt(draft.name)}'"
    announced = draft.pairs.get("number of ports")
    if announced is not None and integer(announced, f"{what}: the number of ports") != len(
        draft.ports
    ):
        raise NotUnderstoodError(
            f"{what} has {announced} ports, but {len(draft.ports)} are described."
        )
    if not draft.ports:
        raise NotUnderstoodError(f"{what} ends before its first port.")
    return Adapter(
        draft.name,
        ports=tuple(_port(what, number, pairs) for number, pairs in draft.ports),
        type=value_or_none(draft.pairs.get("ca type", "")),
        firmware_version=value_or_none(draft.pairs.get("firmware version", "")),
        hardware_version=value_or_none(draft.pairs.get("hardware version", "")),
        node_guid=draft.pairs.get("node guid"),
        system_image_guid=draft.pairs.get("system image guid"),
    )


def _port(what: str, number: int, pairs: dict[str, str]) -> Port:
    what = f"{what}, port {number}"

    def need(*keys: str) -> str:
        for key in keys:
            if pairs.get(key):
                return pairs[key]
        raise NotUnderstoodError(f"{what} ends before its '{keys[0]}'.")

    rate = _RATE.fullmatch(need("rate"))
    if rate is None:
        raise NotUnderstoodError(f"{what}: the rate '{excerpt(pairs['rate'])}' is no rate.")
    return Port(
        number,
        state=_state(need("state")),
        physical_state=_state(need("physical state", "phys state")),
        rate_gbps=decimal(rate["gbps"], f"{what}: the rate"),
        link_layer=need("link layer"),
        base_lid=_lid(pairs, "base lid", what),
        sm_lid=_lid(pairs, "sm lid", what),
        guid=pairs.get("port guid"),
        rate_name=rate["name"],
    )


def _state(value: str) -> str:
    coded = _CODED.fullmatch(value)
    word = (coded["word"] if coded else value).strip().lower()
    return _SAME_STATE.get(word, word)


def _lid(pairs: dict[str, str], key: str, what: str) -> int | None:
    value = pairs.get(key)
    return None if value is None else hexadecimal(value, f"{what}: '{key}'")


def _host_guids(lines: list[tuple[int, str]]) -> HostGuids:
    hosts: list[tuple[str, list[str]]] = []
    for _, line in lines:
        host = _HOST.fullmatch(line)
        guid = _GUID.fullmatch(line)
        if host is not None:
            hosts.append((host["host"], []))
        elif guid is not None:
            if not hosts:
                hosts.append(("", []))
            hosts[-1][1].append(guid["guid"])
    silent = [host for host, guids in hosts if not guids]
    if silent:
        raise NotUnderstoodError(f"ibstat -p: host '{excerpt(silent[0])}' has no port GUID.")
    return HostGuids(tuple((host, tuple(guids)) for host, guids in hosts))
