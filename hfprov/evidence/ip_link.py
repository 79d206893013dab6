"""``ip link``, ``ip addr`` and ``ip neigh``: interfaces, addresses, counters and neighbours.

JSON (``-j``, with ``-d`` and ``-s``) is the form to ask for. Text is read too: plain, ``-o``,
``-s``, ``-d`` and ``-br``, from iproute2 3.x on (see :mod:`hfprov.evidence.ip_link_text`).
"""

from __future__ import annotations

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.ip_link_facts import (
    Address,
    Interface,
    Interfaces,
    Neighbour,
    Neighbours,
    Traffic,
)
from hfprov.evidence.ip_link_text import parse_text
from hfprov.evidence.net_lines import Node, json_value, starts_like_json

__all__ = [
    "Address",
    "Interface",
    "Interfaces",
    "Neighbour",
    "Neighbours",
    "Traffic",
    "parse",
]


def parse(text: str) -> Interfaces | Neighbours:
    """Facts of ``ip link``, ``ip addr`` or ``ip neigh``. Raises NotUnderstoodError."""
    if starts_like_json(text):
        return _from_json(text)
    return parse_text(text)


def _from_json(text: str) -> Interfaces | Neighbours:
    document = Node(json_value(text), "ip -j")
    # ip prints an empty object for each interface that a filter leaves out.
    nodes = [node for node in document.objects() if node.members]
    if nodes and all(node.has("dst") and node.has("dev") for node in nodes):
        return Neighbours(tuple(_neighbour(node) for node in nodes))
    return Interfaces(tuple(_interface(node) for node in nodes))


def _neighbour(node: Node) -> Neighbour:
    return Neighbour(
        node.need("dst").as_text(),
        node.need("dev").as_text(),
        node.text("lladdr"),
        states=node.texts("state"),
        router=node.has("router"),
    )


def _details(node: Node | None) -> dict[str, str]:
    """The members as text: true and false as ``on`` and ``off``, lists joined with commas."""
    if node is None:
        return {}
    return {key: _word(member.value) for key, member in node.entries()}


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return ",".join(_word(item) for item in value)[:400]
    return str(value)[:400]


def _interface(node: Node) -> Interface:
    information = node.get("linkinfo")
    statistics = node.get("stats64") or node.get("stats")
    functions = node.get("vfinfo_list")
    if not (node.has("mtu") or node.has("addr_info") or node.has("operstate")):
        raise NotUnderstoodError(f"{node.where} is no interface: it has no 'mtu'.")
    return Interface(
        name=node.need("ifname").as_text(),
        index=node.int("ifindex"),
        flags=node.texts("flags"),
        mtu_bytes=node.int("mtu"),
        min_mtu_bytes=node.int("min_mtu"),
        max_mtu_bytes=node.int("max_mtu"),
        operstate=node.text("operstate"),
        qdisc=node.text("qdisc"),
        master=node.text("master"),
        parent=node.text("link"),
        link_type=node.text("link_type"),
        hardware_address=node.text("address"),
        permanent_address=node.text("permaddr"),
        kind=information.text("info_kind") if information else None,
        details=_details(information.get("info_data")) if information else {},
        member_kind=information.text("info_slave_kind") if information else None,
        member_details=_details(information.get("info_slave_data")) if information else {},
        tx_queues=node.int("num_tx_queues"),
        rx_queues=node.int("num_rx_queues"),
        tx_queue_length=node.int("txqlen"),
        alternative_names=node.texts("altnames"),
        virtual_functions=len(functions.items()) if functions else 0,
        promiscuity=node.int("promiscuity"),
        gso_max_bytes=node.int("gso_max_size"),
        tso_max_bytes=node.int("tso_max_size"),
        addresses=_addresses(node.get("addr_info")),
        received=_traffic(statistics.get("rx")) if statistics else None,
        sent=_traffic(statistics.get("tx")) if statistics else None,
    )


def _addresses(node: Node | None) -> tuple[Address, ...]:
    if node is None:
        return ()
    return tuple(
        Address(
            item.need("family").as_text(),
            item.need("local").as_text(),
            item.int("prefixlen"),
            scope=item.text("scope"),
            peer=item.text("address"),
        )
        for item in node.objects()
        if item.members
    )


def _traffic(node: Node | None) -> Traffic | None:
    if node is None:
        return None
    return Traffic(
        bytes=node.need("bytes").as_int(),
        packets=node.need("packets").as_int(),
        errors=node.need("errors").as_int(),
        dropped=node.need("dropped").as_int(),
        overruns=node.int("over_errors"),
        multicast=node.int("multicast"),
        carrier_errors=node.int("carrier_errors"),
        collisions=node.int("collisions"),
    )
