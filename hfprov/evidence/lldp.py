"""LLDP: which switch and which port each interface of the node is plugged into.

``lldpctl -f json``, ``json0``, ``keyvalue`` and its text, and ``lldptool -t -n``
(which does not say of which interface it speaks). Names are what the switch announces of itself.
"""

from __future__ import annotations

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.lldp_text import (
    Announcement,
    keyvalue_announcements,
    lldpctl_announcements,
    lldptool_announcement,
)
from hfprov.evidence.net_lines import Node, empty, integer, json_value, lines_of, starts_like_json
from hfprov.evidence.text import clean, excerpt
from hfprov.regex import regex


class Neighbour(Struct, frozen=True):
    """What one interface hears from the other end of its cable."""

    interface: str | None
    """The node's own interface; None for ``lldptool``, which was told it on its command line."""
    chassis_id: str | None
    chassis_id_type: str | None
    """``mac``, ``local``, ``ifname``, …"""
    chassis_name: str | None
    chassis_description: str | None
    management_addresses: tuple[str, ...]
    port_id: str | None
    port_id_type: str | None
    port_description: str | None
    ttl_s: int | None
    capabilities: tuple[str, ...]
    """Those that are enabled (``Bridge``, ``Router``)."""
    port_vlan_id: int | None = None
    maximum_frame_bytes: int | None = None


class Neighbours(Struct, frozen=True):
    """Everything heard. Empty means that nothing was heard; that is no proof of a missing cable."""

    neighbours: tuple[Neighbour, ...]

    def of(self, interface: str) -> tuple[Neighbour, ...]:
        return tuple(item for item in self.neighbours if item.interface == interface)


_KEYVALUE = regex(r"lldp\.\S+=.*")


def parse(text: str) -> Neighbours:
    """Facts of any of the forms above. Raises NotUnderstoodError."""
    if starts_like_json(text):
        return _from_json(text)
    lines = lines_of(text)
    spoken = [line for line in lines if line.strip()]
    if not spoken:
        raise empty("lldp")
    if any(line.strip() == "Chassis ID TLV" for line in spoken):
        return Neighbours((_neighbour(lldptool_announcement(lines)),))
    if _KEYVALUE.fullmatch(spoken[0]):
        return Neighbours(tuple(_neighbour(item) for item in keyvalue_announcements(spoken)))
    if any(line.strip() == "LLDP neighbors:" for line in spoken):
        return Neighbours(tuple(_neighbour(item) for item in lldpctl_announcements(lines)))
    raise NotUnderstoodError(f"lldp: '{excerpt(spoken[0])}' begins no form that is known.")


def _neighbour(said: Announcement) -> Neighbour:
    """A neighbour from the plain words of one of the text forms."""

    def one(key: str) -> str | None:
        values = said.values.get(key)
        return values[0] if values else None

    def number(key: str) -> int | None:
        value = one(key)
        return None if value is None else integer(value, f"lldp: '{key}'")

    if one("chassis-id") is None or one("port-id") is None:
        raise NotUnderstoodError("lldp: a neighbour ends before its chassis and port are named.")
    return Neighbour(
        said.interface,
        chassis_id=one("chassis-id"),
        chassis_id_type=one("chassis-id-type"),
        chassis_name=one("chassis-name"),
        chassis_description=one("chassis-description"),
        management_addresses=tuple(said.values.get("management", ())),
        port_id=one("port-id"),
        port_id_type=one("port-id-type"),
        port_description=one("port-description"),
        ttl_s=number("ttl"),
        capabilities=tuple(said.values.get("capability", ())),
        port_vlan_id=number("pvid"),
        maximum_frame_bytes=number("mfs"),
    )


def _first(node: Node | None) -> Node | None:
    """The value of a member that ``json0`` wraps into a list of one."""
    if node is not None and isinstance(node.value, list):
        items = node.items()
        return items[0] if items else None
    return node


def _plain(node: Node, key: str) -> str | None:
    """A text, which ``json0`` writes as ``[{"value": text}]``."""
    found = _first(node.get(key))
    if found is None:
        return None
    if isinstance(found.value, dict):
        return found.text("value")
    return found.as_text()


def _from_json(text: str) -> Neighbours:
    document = Node(json_value(text), "lldpctl")
    root = _first(document.get("lldp"))
    if root is None:
        raise NotUnderstoodError("lldpctl: the JSON has no 'lldp'.")
    found: list[Neighbour] = []
    for name, node in _interfaces(root.get("interface")):
        found.append(_json_neighbour(name, node))
    return Neighbours(tuple(found))


def _interfaces(node: Node | None) -> list[tuple[str, Node]]:
    """Interface names with their nodes: an object, a list of objects of one, or ``json0``."""
    if node is None:
        return []
    if isinstance(node.value, dict):
        return [pair for name, item in node.entries() for pair in _repeated(name, item)]
    pairs: list[tuple[str, Node]] = []
    for item in node.objects():
        name = item.text("name") if "chassis" in item.members else None
        if name is not None:
            pairs.append((name, item))
        else:
            pairs += [pair for key, inner in item.entries() for pair in _repeated(key, inner)]
    return pairs


def _repeated(name: str, node: Node) -> list[tuple[str, Node]]:
    if isinstance(node.value, list):
        return [(name, item) for item in node.objects()]
    return [(name, node)]


def _json_neighbour(interface: str, node: Node) -> Neighbour:
    chassis_name, chassis = _chassis(_first(node.need("chassis")))
    port = _first(node.need("port"))
    if port is None or chassis is None:
        raise NotUnderstoodError(f"{node.where} has no chassis or no port.")
    chassis_id = _first(chassis.get("id"))
    port_id = _first(port.get("id"))
    vlan = _port_vlan(node.get("vlan"))
    ttl = _plain(port, "ttl")
    frame = _plain(port, "mfs")
    return Neighbour(
        interface,
        chassis_id=chassis_id.text("value") if chassis_id else None,
        chassis_id_type=chassis_id.text("type") if chassis_id else None,
        chassis_name=chassis_name or _plain(chassis, "name"),
        chassis_description=_plain(chassis, "descr"),
        management_addresses=_management(chassis),
        port_id=port_id.text("value") if port_id else None,
        port_id_type=port_id.text("type") if port_id else None,
        port_description=_plain(port, "descr"),
        ttl_s=integer(ttl, f"{port.where}.ttl") if ttl is not None else None,
        capabilities=_capabilities(chassis),
        port_vlan_id=vlan,
        maximum_frame_bytes=integer(frame, f"{port.where}.mfs") if frame is not None else None,
    )


def _chassis(node: Node | None) -> tuple[str | None, Node | None]:
    """``{"NAME": {…}}`` for a chassis with a name, ``{"id": …}`` for one without."""
    if node is None or "id" in node.members or not node.members:
        return None, node
    name, inner = node.entries()[0]
    return clean(name), _first(inner)


def _port_vlan(node: Node | None) -> int | None:
    """The VLAN of untagged frames: the one that is marked ``pvid``, among several."""
    if node is None:
        return None
    nodes = node.objects() if isinstance(node.value, list) else [node]
    return next((item.int("vlan-id") for item in nodes if item.bool("pvid")), None)


def _management(chassis: Node) -> tuple[str, ...]:
    found = chassis.get("mgmt-ip")
    if found is not None and isinstance(found.value, list):
        return tuple(
            str(item.text("value")) if isinstance(item.value, dict) else item.as_text()
            for item in found.items()
        )
    return chassis.texts("mgmt-ip")


def _capabilities(chassis: Node) -> tuple[str, ...]:
    found = chassis.get("capability")
    if found is None:
        return ()
    nodes = found.objects() if isinstance(found.value, list) else [found]
    return tuple(node.need("type").as_text() for node in nodes if node.bool("enabled"))
