"""``nicctl show … -j``: ports, logical interfaces, counters and queue pairs of AMD AI NICs.

The tool writes numbers as texts, begins with an empty line, and may write two logical interfaces
into one object by repeating its keys; both of them are kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.net_lines import Node, decimal, json_value
from hfprov.evidence.text import Pairs, excerpt
from hfprov.regex import regex


class QueuePair(Struct, frozen=True):
    """Counters of one queue pair, by path (``send_queue.requester_tx_statistics.num_packet``)."""

    id: str
    counters: Mapping[str, int]


class LogicalInterface(Struct, frozen=True):
    """One LIF. ``queue_pairs`` is None when they were not asked for, () when there are none."""

    id: str
    name: str | None
    hardware_address: str | None
    type: str | None
    admin_state: str | None
    oper_state: str | None
    rdma_mtu_bytes: int | None
    counters: Mapping[str, int] = field(default_factory=dict)
    queue_pairs: tuple[QueuePair, ...] | None = None


class Port(Struct, frozen=True):
    """One physical port. States in lower case."""

    id: str
    name: str | None
    admin_state: str | None
    oper_state: str | None
    speed_gbps: float | None
    """The current speed (status), not the configured one."""
    configured_speed_gbps: float | None
    mtu_bytes: int | None
    fec: str | None
    pause: str | None
    """``pfc``, ``link``, ``none``."""
    autonegotiation: bool | None
    lanes: int | None
    link_down_events: int | None
    hardware_address: str | None
    transceiver: str | None
    counters: Mapping[str, int] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)
    """``rx_bps``, ``tx_bps`` in bit/s, ``rx_pps``, ``tx_pps`` in packets/s."""


class Nic(Struct, frozen=True):
    """One card. ``properties`` holds what other ``show`` commands print, by path."""

    id: str
    ports: tuple[Port, ...] = ()
    interfaces: tuple[LogicalInterface, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)


_RATE = regex(r"(?P<number>[0-9.]+) (?P<prefix>[KMGT]?)(?:bps|pps)")
_SPEED = regex(r"(?P<number>[0-9.]+)(?P<unit>[GM])")
_SCALE = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


class _Repeated(list[dict[str, Any]]):
    """Several objects that the tool wrote as one, by repeating keys."""


def _pairs(pairs: Pairs) -> Any:
    found = _Repeated([{}])
    for key, value in pairs:
        if key in found[-1]:
            found.append({})
        found[-1][key] = value
    return found[0] if len(found) == 1 else found


def parse(text: str) -> tuple[Nic, ...]:
    """Facts by card. Raises NotUnderstoodError."""
    document = Node(json_value(text, pairs=_pairs), "nicctl")
    cards = document.need("nic")
    nics = tuple(_nic(node) for node in _objects(cards))
    if not nics:
        raise NotUnderstoodError("nicctl: the list of cards is empty.")
    return nics


def _objects(node: Node) -> list[Node]:
    """The objects of a list, with the merged ones apart; an empty text stands for no list."""
    if node.value == "":
        return []
    found: list[Node] = []
    for item in node.items():
        parts = item.value if isinstance(item.value, _Repeated) else [item.value]
        found += [Node(part, item.where) for part in parts]
    return found


def _distinct(nodes: list[Node]) -> list[Node]:
    """Without objects that say the same: a merged object repeats the one before it."""
    found: dict[str, Node] = {}
    for node in nodes:
        found.setdefault(json.dumps(node.value, sort_keys=True), node)
    return list(found.values())


def _nic(node: Node) -> Nic:
    ports = node.get("port")
    interfaces = node.get("lif")
    rest = {key: value for key, value in node.members.items() if key not in ("id", "port", "lif")}
    return Nic(
        node.need("id").as_text(),
        ports=tuple(_port(item) for item in _distinct(_objects(ports))) if ports else (),
        interfaces=(
            tuple(_interface(item) for item in _distinct(_objects(interfaces)))
            if interfaces
            else ()
        ),
        properties=_flat(Node(rest, node.where)),
    )


def _part(node: Node, key: str) -> Node:
    return node.get(key) or Node({}, f"{node.where}.{key}")


def _interface(node: Node) -> LogicalInterface:
    spec = node.need("spec")
    status = _part(node, "status")
    statistics = node.get("statistics")
    pairs = node.get("queue_pair")
    return LogicalInterface(
        spec.need("id").as_text(),
        status.text("name"),
        spec.text("mac_address"),
        spec.text("type"),
        _lower(spec.text("admin_state")),
        _lower(status.text("oper_state")),
        spec.int("rdma_mtu"),
        counters=_counters(statistics) if statistics else {},
        queue_pairs=tuple(_queue_pair(item) for item in _objects(pairs)) if pairs else None,
    )


def _queue_pair(node: Node) -> QueuePair:
    return QueuePair(node.need("spec").need("id").as_text(), _counters(node.need("statistics")))


def _port(node: Node) -> Port:
    spec = node.need("spec")
    status = _part(node, "status")
    statistics = _part(node, "statistics")
    negotiation = status.text("auto_negotiation") or spec.text("auto_negotiation")
    is_rate = any(key.endswith(("bps", "pps")) for key in statistics.members)
    return Port(
        spec.need("id").as_text(),
        spec.text("name"),
        _lower(spec.text("admin_state")),
        _lower(status.text("operational_status")),
        _speed(status.text("port_speed")),
        _speed(spec.text("port_speed")),
        spec.int("mtu"),
        _lower(status.text("fec_type")),
        _lower(spec.text("pause_type")),
        None if negotiation is None else negotiation == "enabled",
        status.int("number_of_lanes"),
        status.int("number_of_link_down_events"),
        status.text("mac_address"),
        status.text("transceiver_pid"),
        counters={} if is_rate else _counters(statistics),
        rates=_rates(statistics) if is_rate else {},
    )


def _lower(value: str | None) -> str | None:
    return value.lower() if value else None


def _speed(value: str | None) -> float | None:
    if value is None:
        return None
    match = _SPEED.fullmatch(value)
    if match is None:
        raise NotUnderstoodError(f"nicctl: the port speed '{excerpt(value)}' is no speed.")
    number = decimal(match["number"], "nicctl: the port speed")
    return number if match["unit"] == "G" else number / 1000


def _rates(node: Node) -> dict[str, float]:
    found: dict[str, float] = {}
    for key, item in node.entries():
        match = _RATE.fullmatch(item.as_text())
        if match is None:
            raise item.wrong("a rate")
        found[key] = decimal(match["number"], item.where) * _SCALE[match["prefix"]]
    return found


def _counters(node: Node) -> dict[str, int]:
    return {key: item.as_int() for key, item in _leaves(node)}


def _flat(node: Node) -> dict[str, str]:
    return {key: str(item.value)[:400] for key, item in _leaves(node)}


def _leaves(node: Node) -> list[tuple[str, Node]]:
    """Values below a node by path. The depth is bounded by what the JSON reader accepts."""
    found: list[tuple[str, Node]] = []
    waiting = [("", node)]
    while waiting:
        path, item = waiting.pop()
        if isinstance(item.value, dict):
            children = [(f"{path}.{key}" if path else key, child) for key, child in item.entries()]
            waiting += reversed(children)
        elif isinstance(item.value, list):
            children = [(f"{path}.{at}", child) for at, child in enumerate(item.items())]
            waiting += reversed(children)
        else:
            found.append((path, item))
    return found
