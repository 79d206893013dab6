"""``ibnetdiscover``: switches, adapters and cables of an InfiniBand fabric."""

from __future__ import annotations

import re

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.net_lines import not_understood
from hfprov.regex import regex


class Cable(Struct, frozen=True):
    """One end of a cable, as seen from the node that lists it."""

    port: int
    peer: str
    """Node id of the other end (``S-…`` a switch, ``H-…`` an adapter)."""
    peer_port: int
    width_speed: str | None
    """``4xHDR``; None where not told."""


class FabricNode(Struct, frozen=True):
    """A switch or an adapter."""

    id: str
    kind: str
    """``Switch``, ``Ca`` or ``Rt``."""
    port_count: int
    description: str
    cables: tuple[Cable, ...]


class Fabric(Struct, frozen=True):
    """Everything found from one node of the fabric."""

    nodes: tuple[FabricNode, ...]

    @property
    def one_sided(self) -> tuple[tuple[str, int], ...]:
        """Ends of cables (node, port) whose other end is not listed: the text may be cut off."""
        listed = {(node.id, cable.port) for node in self.nodes for cable in node.cables}
        return tuple(
            (node.id, cable.port)
            for node in self.nodes
            for cable in node.cables
            if (cable.peer, cable.peer_port) not in listed
        )


_NODE = regex(
    r"(?P<kind>Switch|Ca|Rt)\s+(?P<ports>[0-9]{1,4}) \"(?P<id>[SHR]-[0-9a-f]+)\"\s*"
    r"#\s*\"(?P<description>[^\"]*)\".*"
)
_WIDTH = regex(r"\s(?P<width>[0-9]{1,2}x[A-Z]{2,4}[0-9]{0,3})(?:\s|$)")
_ATTRIBUTE = regex(r"(?:vendid|devid|sysimgguid|switchguid|caguid|rtguid)=\S+")
_CABLE = regex(
    r"\[(?P<port>[0-9]{1,4})\](?:\([0-9a-fA-F]+\))?\s+\"(?P<peer>[SHR]-[0-9a-f]+)\""
    r"\[(?P<peer_port>[0-9]{1,4})\](?:\([0-9a-fA-F]+\))?(?P<rest>\s*#.*)?"
)


def looks_like_fabric(line: str) -> bool:
    """Whether a line is one that only ``ibnetdiscover`` prints."""
    return _NODE.fullmatch(line) is not None


def parse_fabric(lines: list[tuple[int, str]]) -> Fabric:
    """Nodes from numbered lines. Raises NotUnderstoodError for a line of no known kind."""
    nodes: list[FabricNode] = []
    cables: list[Cable] = []
    header: re.Match[str] | None = None
    for number, line in lines:
        node = _NODE.fullmatch(line)
        cable = _CABLE.fullmatch(line)
        if node is not None:
            _close(nodes, header, cables)
            header, cables = node, []
        elif cable is not None and header is not None:
            width = _WIDTH.search(cable["rest"] or "")
            cables.append(
                Cable(
                    int(cable["port"]),
                    cable["peer"],
                    int(cable["peer_port"]),
                    width["width"] if width else None,
                )
            )
        elif not line.startswith("#") and _ATTRIBUTE.fullmatch(line) is None:
            raise not_understood("ibnetdiscover", number, line, "a node or a cable")
    _close(nodes, header, cables)
    return Fabric(tuple(nodes))


def _close(nodes: list[FabricNode], header: re.Match[str] | None, cables: list[Cable]) -> None:
    if header is None:
        return
    if not cables:
        raise NotUnderstoodError(
            f"ibnetdiscover: the node '{header['id']}' ends before its cables."
        )
    nodes.append(
        FabricNode(
            header["id"],
            header["kind"],
            int(header["ports"]),
            header["description"],
            tuple(cables),
        )
    )
