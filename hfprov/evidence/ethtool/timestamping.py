"""``ethtool -T``: what time stamps a NIC can give, and which clock it owns."""

from __future__ import annotations

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.ethtool.pairs import Section
from hfprov.evidence.net_lines import Node, integer, not_understood


class TimeStamping(Struct, frozen=True):
    """``ethtool -T``. ``clock_index`` N stands for ``/dev/ptpN``; None means no hardware clock."""

    interface: str | None
    capabilities: tuple[str, ...]
    clock_index: int | None
    transmit_modes: tuple[str, ...]
    receive_filters: tuple[str, ...]


_LISTS = {
    "Capabilities": "capabilities",
    "Hardware Transmit Timestamp Modes": "transmit",
    "Hardware Receive Filter Modes": "receive",
}
_CLOCK = ("PTP Hardware Clock", "Hardware timestamp provider index")


def parse_time_stamping(section: Section) -> TimeStamping:
    found: dict[str, list[str]] = {}
    clock: int | None = None
    clock_seen = False
    into: list[str] | None = None
    for number, line in section.numbered():
        key, colon, value = (part.strip() for part in line.partition(":"))
        if colon and key in _LISTS:
            into = found.setdefault(_LISTS[key], [])
        elif colon and key in _CLOCK:
            clock_seen = True
            clock = None if value == "none" else integer(value, f"ethtool -T: line {number}")
        elif colon and key.startswith("Hardware timestamp"):
            continue
        elif not colon and into is not None:
            into.append(line.split()[0])
        else:
            raise not_understood("ethtool -T", number, line, "a time stamping capability")
    if "capabilities" not in found or not clock_seen:
        raise NotUnderstoodError("ethtool -T: the output ends before 'PTP Hardware Clock:'.")
    return TimeStamping(
        section.interface,
        capabilities=tuple(found["capabilities"]),
        clock_index=clock,
        transmit_modes=tuple(found.get("transmit", ())),
        receive_filters=tuple(found.get("receive", ())),
    )


def time_stamping_from_json(node: Node) -> TimeStamping:
    clock = node.get("phc-index")
    return TimeStamping(
        node.text("ifname"),
        capabilities=node.texts("capabilities"),
        clock_index=clock.as_int() if clock is not None else None,
        transmit_modes=node.texts("tx-types"),
        receive_filters=node.texts("rx-filters"),
    )
