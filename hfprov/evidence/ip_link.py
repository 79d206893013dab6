"""``ip link``, ``ip addr`` and ``ip neigh``: interfaces, addresses, counters and neighbours.

JSON (``-j``, with ``-d`` and ``-s``) is the form to ask for. Text is read too: plain, ``-o``,
``-s``, ``-d`` and ``-br``, from iproute2 3.x on (see :mod:`hfprov.evidence.ip_link_text`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.net_lines import Node, json_value, starts_like_json


@dataclass(frozen=True, slots=True)
class Traffic:
    """Counters of one direction. ``overruns`` also holds what newer kernels call missed."""

    bytes: int
    packets: int
    errors: int
    dropped: int
    overruns: int | None = None
    multicast: int | None = None
    carrier_errors: int | None = None
    collisions: int | None = None


@dataclass(frozen=True, slots=True)
class Address:
    """An IP address of an interface; ``prefix_length`` belongs to ``peer`` where there is one."""

    family: str
    """``inet`` or ``inet6``."""
    address: str
    prefix_length: int | None
    scope: str | None = None
    peer: str | None = None


@dataclass(frozen=True, slots=True)
class Interface:
    """One network interface. None: the form that was read does not have the value."""

    name: str
    index: int | None = None
    flags: tuple[str, ...] = ()
    mtu_bytes: int | None = None
    min_mtu_bytes: int | None = None
    max_mtu_bytes: int | None = None
    """The driver's limit; 0 means that there is none."""
    operstate: str | None = None
    """``UP``, ``DOWN``, ``UNKNOWN``, … as the kernel says."""
    qdisc: str | None = None
    master: str | None = None
    parent: str | None = None
    """The interface below (``eth0`` of ``vlan10@eth0``)."""
    link_type: str | None = None
    """``ether``, ``infiniband``, ``loopback``, …"""
    hardware_address: str | None = None
    permanent_address: str | None = None
    kind: str | None = None
    """``bond``, ``vlan``, ``bridge``, ``vxlan``, …; None for a physical interface."""
    details: Mapping[str, str] = field(default_factory=dict)
    """What ``-d`` tells of the kind (``mode``, ``id``, ``protocol``), as text."""
    member_kind: str | None = None
    """The kind of ``master`` for a member (``bond``, ``bridge``)."""
    member_details: Mapping[str, str] = field(default_factory=dict)
    tx_queues: int | None = None
    rx_queues: int | None = None
    tx_queue_length: int | None = None
    alternative_names: tuple[str, ...] = ()
    virtual_functions: int = 0
    addresses: tuple[Address, ...] = ()
    received: Traffic | None = None
    sent: Traffic | None = None

    @property
    def is_up(self) -> bool:
        """Whether it was set up and has a carrier. Only flags can say so; ``UNKNOWN`` cannot."""
        return "UP" in self.flags and "LOWER_UP" in self.flags


@dataclass(frozen=True, slots=True)
class Interfaces:
    """``ip link`` or ``ip addr``."""

    interfaces: tuple[Interface, ...]
    complete: bool = True
    """False when ip said that the kernel's list was cut or changed while it was read."""

    def find(self, name: str) -> Interface | None:
        """The interface with a name or an alternative name."""
        for interface in self.interfaces:
            if name == interface.name or name in interface.alternative_names:
                return interface
        return None


@dataclass(frozen=True, slots=True)
class Neighbour:
    """One entry of ``ip neigh``."""

    address: str
    interface: str
    hardware_address: str | None
    states: tuple[str, ...]
    """``REACHABLE``, ``STALE``, ``INCOMPLETE``, ``FAILED``, …"""
    router: bool = False


@dataclass(frozen=True, slots=True)
class Neighbours:
    """``ip neigh``."""

    entries: tuple[Neighbour, ...]


def parse(text: str) -> Interfaces | Neighbours:
    """Facts of ``ip link``, ``ip addr`` or ``ip neigh``. Raises NotUnderstoodError."""
    if starts_like_json(text):
        return _from_json(text)
    from hfprov.evidence.ip_link_text import parse_text  # noqa: PLC0415 - it needs the facts above

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
