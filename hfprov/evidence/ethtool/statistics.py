"""``ethtool -S``: counters of a NIC and its driver, whatever the driver calls them.

Understood: mlx5, bnxt, ice, i40e, ixgbe, ionic, ena, hinic3, virtio and others, excerpts cut out by
``grep``, ``--all-groups`` and ``--json``. An absent counter is absent, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.ethtool.pairs import Section
from hfprov.evidence.net_lines import Node, hexadecimal, not_understood
from hfprov.regex import regex


class Statistics(Struct, frozen=True):
    """Counters by the driver's names."""

    interface: str | None
    counters: Mapping[str, int]
    whole: bool
    """False for an excerpt without ``NIC statistics:`` above it; more counters may exist."""

    def get(self, name: str) -> int | None:
        """One counter, or None when the driver (or the excerpt) does not have it."""
        return self.counters.get(name)


COUNTER = regex(
    r"\s*(?P<name>\S(?:.{0,200}?\S)?)\s*:\s*(?P<value>-?[0-9]{1,20}|0x[0-9a-fA-F]{1,16})"
)


def parse_statistics(section: Section, *, whole: bool = True) -> Statistics:
    """Counters below ``NIC statistics:``; the same name twice (one per queue) is added up."""
    counters: dict[str, int] = {}
    for number, line in section.numbered():
        if line.strip().strip("-=") == "":
            continue
        match = COUNTER.fullmatch(line)
        if match is None:
            raise not_understood("ethtool -S", number, line, "'counter: number'")
        value = hexadecimal(match["value"], f"ethtool -S: line {number}")
        counters[match["name"]] = counters.get(match["name"], 0) + value
    if not counters:
        raise NotUnderstoodError("ethtool -S: there is no counter below the heading.")
    return Statistics(section.interface, counters, whole)


def statistics_from_json(node: Node) -> Statistics:
    """Counters of ``--json -S``: the group (``eth-mac``) goes before the name of a counter."""
    counters: dict[str, int] = {}
    for key, member in node.entries():
        if key == "ifname":
            continue
        if not isinstance(member.value, dict):
            counters[key] = member.as_int()
            continue
        for name, counter in member.entries():
            if isinstance(counter.value, list):
                counters.update(_histogram(f"{key}-{name}", counter))
            else:
                counters[f"{key}-{name}"] = counter.as_int()
    if not counters:
        raise NotUnderstoodError(f"ethtool -S: {node.where} has no counter.")
    return Statistics(node.text("ifname"), counters, whole=True)


def _histogram(name: str, ranges: Node) -> dict[str, int]:
    """Counters of frames by size: one per range, ``…-64-127`` for 64 to 127 bytes."""
    counters: dict[str, int] = {}
    for item in ranges.objects():
        low, high = item.need("low").as_int(), item.need("high").as_int()
        counters[f"{name}-{low}-{high}"] = item.need("val").as_int()
    return counters
