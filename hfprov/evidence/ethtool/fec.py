"""``ethtool --show-fec``: forward error correction, with its counters (``-I``)."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.ethtool.pairs import Section
from hfprov.evidence.net_lines import Node, integer


class Fec(Struct, frozen=True):
    """Configured and active FEC encodings, in ethtool's words (``RS``, ``BaseR``, ``None``)."""

    interface: str | None
    configured: tuple[str, ...]
    active: tuple[str, ...]
    statistics: Mapping[str, int] = field(default_factory=dict)


def parse_fec(section: Section) -> Fec:
    configured: tuple[str, ...] | None = None
    active: tuple[str, ...] | None = None
    statistics: dict[str, int] = {}
    group = ""
    for number, key, value in section.pairs():
        lowered = key.lower()
        if lowered in ("configured fec encodings", "supported/configured fec encodings"):
            configured = tuple(value.split())
        elif lowered in ("active fec encoding", "active fec encodings"):
            active = tuple(value.split())
        elif lowered.startswith("lane "):
            lane = f"{group}_lane_{lowered.removeprefix('lane ')}"
            statistics[lane] = integer(value, f"ethtool --show-fec: line {number}: '{key}'")
        elif lowered != "statistics":
            group = lowered
            if value:
                statistics[lowered] = integer(value, f"ethtool --show-fec: line {number}: '{key}'")
    if configured is None or active is None:
        raise NotUnderstoodError(
            "ethtool --show-fec: the output ends before 'Active FEC encoding:'."
        )
    return Fec(section.interface, configured, active, statistics)


def fec_from_json(node: Node) -> Fec:
    if not node.has("active"):
        raise NotUnderstoodError(f"{node.where} has no 'active' FEC encoding.")
    return Fec(node.text("ifname"), configured=node.texts("config"), active=node.texts("active"))
