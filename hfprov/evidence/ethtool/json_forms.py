"""``ethtool --json``: the forms that have JSON since 5.x, by the keys they use.

Written from the key names in ethtool's sources; no recorded output was at hand. Each element of the
list is one interface.
"""

from __future__ import annotations

from collections.abc import Callable

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.ethtool.fec import Fec, fec_from_json
from hfprov.evidence.ethtool.settings import (
    Channels,
    Coalescing,
    Feature,
    Features,
    Pause,
    Rings,
)
from hfprov.evidence.ethtool.statistics import Statistics, statistics_from_json
from hfprov.evidence.ethtool.timestamping import TimeStamping, time_stamping_from_json
from hfprov.evidence.ethtool.transceiver import Transceiver
from hfprov.evidence.ethtool.transceiver_json import keep_thresholds, transceiver_from_json
from hfprov.evidence.net_lines import Node, json_value

JsonFacts = (
    Rings | Channels | Pause | Coalescing | Features | Fec | Statistics | TimeStamping | Transceiver
)

_RING_NAMES = {"rx-mini": "rx mini", "rx-jumbo": "rx jumbo"}
_SIZES = ("rx", "rx-mini", "rx-jumbo", "tx", "other", "combined")


def parse_json(text: str) -> JsonFacts | tuple[JsonFacts, ...]:
    """Facts of one interface, or a tuple for several. Raises NotUnderstoodError."""
    document = Node(json_value(text, pairs=keep_thresholds), "ethtool --json")
    nodes = document.objects() if isinstance(document.value, list) else [document]
    if not nodes:
        raise NotUnderstoodError("ethtool --json: the list is empty.")
    facts = tuple(_facts(node) for node in nodes)
    return facts[0] if len(facts) == 1 else facts


def _facts(node: Node) -> JsonFacts:
    members = node.members
    for keys, read in _BY_KEYS:
        if any(key in members for key in keys):
            return read(node)
    others = [value for key, value in members.items() if key != "ifname"]
    if others and all(isinstance(value, dict) and "active" in value for value in others):
        return _features(node)
    counted = "ifname" in members and "port" not in members
    if counted and others and all(isinstance(value, (dict, int)) for value in others):
        return statistics_from_json(node)
    raise NotUnderstoodError(
        f"{node.where}: no form of ethtool's JSON has the keys "
        f"'{', '.join(list(members)[:8])[:200]}'."
    )


def _sizes(node: Node, kind: Callable[..., Rings | Channels]) -> Rings | Channels:
    maximum: dict[str, int | None] = {}
    current: dict[str, int | None] = {}
    for key in _SIZES:
        name = _RING_NAMES.get(key, key)
        if node.has(f"{key}-max"):
            maximum[name] = node.int(f"{key}-max")
        if node.has(key):
            current[name] = node.int(key)
    if not current:
        raise NotUnderstoodError(f"{node.where} has no current sizes.")
    other = {
        key: str(value)[:80]
        for key, value in node.members.items()
        if key != "ifname" and key.removesuffix("-max") not in _SIZES
    }
    return kind(node.text("ifname"), maximum=maximum, current=current, other=other)


def _pause(node: Node) -> Pause:
    negotiated = node.get("negotiated")
    statistics = node.get("statistics")
    return Pause(
        node.text("ifname"),
        autonegotiate=node.bool("autonegotiate"),
        rx=node.bool("rx"),
        tx=node.bool("tx"),
        rx_negotiated=negotiated.bool("rx") if negotiated else None,
        tx_negotiated=negotiated.bool("tx") if negotiated else None,
        statistics=(
            {key: counter.as_int() for key, counter in statistics.entries()} if statistics else {}
        ),
    )


def _coalescing(node: Node) -> Coalescing:
    values: dict[str, int | None] = {}
    for key, member in node.entries():
        if isinstance(member.value, int) and not isinstance(member.value, bool):
            values[key] = member.as_int()
    return Coalescing(
        node.text("ifname"),
        adaptive_rx=node.bool("adaptive-rx"),
        adaptive_tx=node.bool("adaptive-tx"),
        values=values,
        cqe_mode_rx=node.bool("cqe-mode-rx"),
        cqe_mode_tx=node.bool("cqe-mode-tx"),
    )


def _features(node: Node) -> Features:
    features: dict[str, Feature] = {}
    for key, member in node.entries():
        if key != "ifname":
            active = member.need("active").as_bool()
            requested = member.bool("requested")
            features[key] = Feature(
                active,
                fixed=member.bool("fixed") or False,
                requested=requested if requested is not None and requested != active else None,
            )
    return Features(node.text("ifname"), features)


_BY_KEYS: tuple[tuple[tuple[str, ...], Callable[[Node], JsonFacts]], ...] = (
    (("identifier", "vendor_pn"), transceiver_from_json),
    (("autonegotiate",), _pause),
    (("adaptive-rx", "adaptive-tx", "rx-usecs", "tx-usecs", "rx-frames"), _coalescing),
    (("combined-max", "other-max", "combined"), lambda node: _sizes(node, Channels)),
    (("rx-max", "tx-max"), lambda node: _sizes(node, Rings)),
    (("config",), fec_from_json),
    (("phc-index", "capabilities"), time_stamping_from_json),
)
"""Keys that only one form has, in the order in which they are looked for."""
