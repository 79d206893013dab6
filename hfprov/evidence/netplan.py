"""netplan files: which MTU an interface is to get, and who belongs to whom.

The YAML is read as a tree of nodes, without making Python objects of it: no type of YAML can do
harm, and a key that comes twice is noticed (YAML readers would let the last one win). Source:
netplan's YAML reference, https://netplan.readthedocs.io.
"""

from __future__ import annotations

import yaml
from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.host_values import failure_line, natural, unknown_form
from hfprov.evidence.text import clean, excerpt

_MAX_CHARACTERS = 256 * 1024
"""A netplan file has a few kilobytes; more is not parsed (YAML is slow)."""

_KINDS = {
    "ethernets": "ethernet",
    "bonds": "bond",
    "bridges": "bridge",
    "vlans": "vlan",
    "vrfs": "vrf",
    "wifis": "wifi",
    "modems": "modem",
    "tunnels": "tunnel",
    "dummy-devices": "dummy",
    "virtual-ethernets": "veth",
    "nm-devices": "nm",
}


class NetplanInterface(Struct, frozen=True):
    """One interface definition."""

    id: str
    kind: str
    mtu_bytes: int | None
    """None: the file sets none."""
    members: tuple[str, ...]
    """Interfaces of a bond, bridge or VRF, by their id."""
    link: str | None
    """Underlying interface of a VLAN or virtual function."""
    vlan_id: int | None
    mode: str | None
    """Mode of a bond."""
    match_mac: str | None
    match_name: str | None
    set_name: str | None
    renderer: str | None
    addresses: tuple[str, ...]
    ipv6_mtu_bytes: int | None
    """None: that of the interface."""
    route_mtus: tuple[int, ...]
    """Bytes, of the routes that have an MTU of their own."""

    @property
    def mtu_needs_mac_match(self) -> bool:
        """Whether the MTU may stay without effect.

        For systemd-networkd netplan writes it to a .link file, which some versions only apply with
        a match by MAC address.
        """
        return self.kind == "ethernet" and self.mtu_bytes is not None and self.match_mac is None


class NetplanFacts(Struct, frozen=True):
    """One netplan file."""

    renderer: str | None
    interfaces: tuple[NetplanInterface, ...]
    unread_sections: tuple[str, ...]
    """Sections that this parser does not know; interfaces in them are not in the facts."""


def parse(text: str) -> NetplanFacts:
    """Facts from a netplan file."""
    text = clean(text)
    if len(text) > _MAX_CHARACTERS:
        raise NotUnderstoodError(f"The netplan file is {len(text)} characters long.")
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError, IndexError) as error:
        if not any(line.startswith("network:") for line in text.splitlines()):
            raise unknown_form("netplan", text, "a YAML file with 'network:'") from None
        where = getattr(error, "problem_mark", None)
        line = f" at line {where.line + 1}" if where is not None else ""
        problem = excerpt(str(getattr(error, "problem", error)))
        raise NotUnderstoodError(f"The netplan file is not valid YAML{line}: {problem}.") from None
    if not isinstance(root, yaml.MappingNode) or "network" not in _keys(root):
        failed = failure_line(text)
        raise unknown_form("netplan", failed or text, "a YAML file with 'network:'")
    network = _mapping(_keys(root)["network"], "network")
    interfaces: list[NetplanInterface] = []
    for section, kind in _KINDS.items():
        if section in network:
            definitions = _mapping(network[section], section)
            interfaces.extend(_interface(name, kind, node) for name, node in definitions.items())
    known = {"version", "renderer", "openvswitch", *_KINDS}
    return NetplanFacts(
        renderer=_scalar(network.get("renderer"), "renderer"),
        interfaces=tuple(interfaces),
        unread_sections=tuple(excerpt(key, 40) for key in network if key not in known),
    )


def _keys(node: yaml.MappingNode) -> dict[str, yaml.Node]:
    found: dict[str, yaml.Node] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise NotUnderstoodError(
                f"A key at line {key.start_mark.line + 1} of the netplan file is not a word."
            )
        if key.value in found:
            raise NotUnderstoodError(
                f"The key '{excerpt(key.value, 40)}' comes twice, at line "
                f"{key.start_mark.line + 1} of the netplan file again."
            )
        found[key.value] = value
    return found


def _mapping(node: yaml.Node, what: str) -> dict[str, yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return _keys(node)
    if isinstance(node, yaml.ScalarNode) and node.value in ("", "~", "null"):
        return {}
    raise NotUnderstoodError(
        f"'{excerpt(what, 40)}' at line {node.start_mark.line + 1} of the netplan file should be a "
        "mapping."
    )


def _scalar(node: yaml.Node | None, what: str) -> str | None:
    if node is None:
        return None
    if not isinstance(node, yaml.ScalarNode):
        raise NotUnderstoodError(
            f"'{excerpt(what, 40)}' at line {node.start_mark.line + 1} of the netplan file should "
            "be a single value."
        )
    return str(node.value) or None


def _words(node: yaml.Node | None, what: str) -> tuple[str, ...]:
    if node is None:
        return ()
    if not isinstance(node, yaml.SequenceNode):
        raise NotUnderstoodError(
            f"'{excerpt(what, 40)}' at line {node.start_mark.line + 1} of the netplan file should "
            "be a list."
        )
    words: list[str] = []
    for item in node.value:
        # An address may be a mapping, {address: {label: …}}.
        if isinstance(item, yaml.MappingNode):
            words.extend(_keys(item))
        else:
            words.append(_scalar(item, what) or "")
    return tuple(words)


def _interface(name: str, kind: str, node: yaml.Node) -> NetplanInterface:
    fields = _mapping(node, name)
    match = _mapping(fields["match"], "match") if "match" in fields else {}
    parameters = _mapping(fields["parameters"], "parameters") if "parameters" in fields else {}
    vlan = _scalar(fields.get("id"), "id") if kind == "vlan" else None
    name_match = match.get("name")
    return NetplanInterface(
        id=name,
        kind=kind,
        mtu_bytes=_mtu(fields.get("mtu"), name),
        members=_words(fields.get("interfaces"), "interfaces"),
        link=_scalar(fields.get("link"), "link"),
        vlan_id=None if vlan is None else natural(vlan, f"The id of '{excerpt(name, 40)}'"),
        mode=_scalar(parameters.get("mode"), "mode"),
        match_mac=_scalar(match.get("macaddress"), "macaddress"),
        match_name=" ".join(_words(name_match, "name"))
        if isinstance(name_match, yaml.SequenceNode)
        else _scalar(name_match, "name"),
        set_name=_scalar(fields.get("set-name"), "set-name"),
        renderer=_scalar(fields.get("renderer"), "renderer"),
        addresses=_words(fields.get("addresses"), "addresses"),
        ipv6_mtu_bytes=_mtu(fields.get("ipv6-mtu"), name),
        route_mtus=_route_mtus(fields.get("routes"), name),
    )


def _mtu(node: yaml.Node | None, name: str) -> int | None:
    text = _scalar(node, "mtu")
    return None if text is None else natural(text, f"The MTU of '{excerpt(name, 40)}'")


def _route_mtus(node: yaml.Node | None, name: str) -> tuple[int, ...]:
    routes = node.value if isinstance(node, yaml.SequenceNode) else []
    found = [_mtu(_mapping(route, "routes").get("mtu"), name) for route in routes]
    return tuple(one for one in found if one is not None)
