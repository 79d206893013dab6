"""``ibdev2netdev`` (plain and ``-v``): which network device belongs to which RDMA port."""

from __future__ import annotations

from msgspec import Struct

from hfprov.evidence.net_lines import empty, not_understood, numbered
from hfprov.regex import regex


class NetdevLink(Struct, frozen=True):
    """One RDMA port. ``up`` is the state of the network device, not of the RDMA port."""

    device: str
    port: int
    netdev: str | None
    up: bool | None
    pci_address: str | None = None
    rdma_state: str | None = None
    """State of the port (``ACTIVE``); only ``-v`` tells."""
    description: str | None = None


_LINE = regex(
    r"(?:(?P<pci>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\s+)?(?P<device>\S+)"
    r"(?:\s+\((?P<description>.*?)\)(?P<more>.*?))?\s+port\s+(?P<port>[0-9]{1,3})"
    r"\s+(?:\((?P<state>[A-Z_ ]+)\s*\)\s+)?=+>"
    r"\s*(?P<netdev>[^\s(]+)?\s*(?:\((?P<updown>Up|Down)\))?(?:\s+#.*)?"
)


def parse(text: str) -> tuple[NetdevLink, ...]:
    """One entry per line. Raises NotUnderstoodError for a line that is none, and for no line."""
    found: list[NetdevLink] = []
    for number, line in numbered(text):
        match = _LINE.fullmatch(line.strip()) if len(line) < 1000 else None
        if match is None or (match["netdev"] and not match["updown"]):
            raise not_understood("ibdev2netdev", number, line, "'DEVICE port N ==> NETDEV (State)'")
        found.append(
            NetdevLink(
                match["device"],
                int(match["port"]),
                match["netdev"],
                up=None if match["updown"] is None else match["updown"] == "Up",
                pci_address=match["pci"],
                rdma_state=match["state"].strip() if match["state"] else None,
                description=match["description"],
            )
        )
    if not found:
        raise empty("ibdev2netdev")
    return tuple(found)
