"""``mlnx_qos -i DEV``: trust, DSCP map, PFC, buffers and traffic classes of an NVIDIA NIC.

Old and new versions (with or without buffers), and the report of Spiderpool's ``rdma-qos`` script,
which has the same parts and adds the switches of ECN.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct, field

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.net_lines import empty, integer, not_understood, numbered
from hfprov.evidence.text import excerpt
from hfprov.regex import regex

PRIORITIES = 8
DSCPS = 64


class TrafficClass(Struct, frozen=True):
    """One traffic class. ``rate_limit_gbps`` is None when unlimited."""

    number: int
    rate_limit_gbps: float | None
    algorithm: str
    """``vendor``, ``strict``, ``ets`` or ``unknown``."""
    bandwidth_percent: int | None
    priorities: tuple[int, ...]
    """() where the tool shows none: ``-a`` lists classes without priorities too."""


class Qos(Struct, frozen=True):
    """``mlnx_qos``. None: the part is not in the output, so nothing is known of it."""

    trust: str | None
    """``dscp`` or ``pcp``."""
    pfc_enabled: tuple[bool, ...] | None
    """Priority flow control for priority 0 to 7."""
    dcbx_mode: str | None = None
    dscp_priority: Mapping[int, int] | None = None
    """Priority by DSCP; only there when ``trust`` is ``dscp``, and may lack values."""
    priority_buffer: tuple[int, ...] | None = None
    buffer_bytes: tuple[int, ...] | None = None
    cable_length_m: int | None = None
    traffic_classes: tuple[TrafficClass, ...] = ()
    ecn_enabled: Mapping[str, bool] = field(default_factory=dict)
    """By path below ``ecn/`` (``roce_np/enable/5``); only Spiderpool's script tells."""
    other: Mapping[str, str] = field(default_factory=dict)

    def priority_of(self, dscp: int) -> int | None:
        """Priority of a DSCP, or None when that is not told."""
        return None if self.dscp_priority is None else self.dscp_priority.get(dscp)


_MAP = regex(r"prio:(?P<prio>[0-7]) dscp:(?P<dscps>(?:[0-9]{2},)+)")
_TC = regex(
    r"tc: (?P<tc>[0-9]{1,2}) ratelimit: (?:(?P<unlimited>unlimited)|(?P<rate>[0-9.]{1,12})"
    r" ?(?P<unit>[GM])bps?), tsa: (?P<tsa>vendor|strict|ets|unknown)(?:, bw: (?P<bw>[0-9]{1,3})%)?"
)
_ECN = regex(r"ECN Enabled for priority [0-7]: \S*/ecn/(?P<path>\S+) = (?P<on>[01])")
_PAIR = regex(r"(?P<key>[A-Za-z][\w /()]*): ?(?P<value>.*)")
_TITLE = regex(r"=+ show configuration for device .*")


class _Draft(Struct):
    pairs: dict[str, str] = field(default_factory=dict)
    dscp: dict[int, int] = field(default_factory=dict)
    rows: dict[str, tuple[int, ...]] = field(default_factory=dict)
    classes: list[tuple[re.Match[str], list[int]]] = field(default_factory=list)
    ecn: dict[str, bool] = field(default_factory=dict)


def parse(text: str) -> Qos:
    """Facts of one device. Raises NotUnderstoodError for a part that is not whole."""
    draft = _Draft()
    seen = False
    for number, line in numbered(text):
        seen = True
        _line(draft, number, line.strip())
    if not seen:
        raise empty("mlnx_qos")
    trust = draft.pairs.pop("Priority trust state", None)
    if trust is not None and trust not in ("dscp", "pcp"):
        raise NotUnderstoodError(f"mlnx_qos: the trust state '{excerpt(trust)}' is unknown.")
    if trust is None and not draft.rows:
        raise NotUnderstoodError("mlnx_qos: there is neither a trust state nor a PFC table.")
    return _facts(draft, trust)


def _line(draft: _Draft, number: int, line: str) -> None:
    mapped = _MAP.fullmatch(line)
    tc = _TC.fullmatch(line)
    ecn = _ECN.fullmatch(line)
    words = line.split()
    pair = _PAIR.fullmatch(line)
    if mapped is not None:
        for dscp in mapped["dscps"].rstrip(",").split(","):
            draft.dscp[int(dscp)] = int(mapped["prio"])
    elif tc is not None:
        draft.classes.append((tc, []))
    elif line.startswith("priority:") and draft.classes:
        what = f"mlnx_qos: line {number}: the priority"
        draft.classes[-1][1].extend(integer(word, what) for word in line.partition(":")[2].split())
    elif words[0] in ("priority", "enabled", "buffer") and ":" not in line:
        draft.rows[words[0]] = _row(number, words)
    elif ecn is not None:
        draft.ecn[ecn["path"]] = ecn["on"] == "1"
    elif pair is not None:
        draft.pairs[pair["key"].strip()] = pair["value"].strip()
    elif not _TITLE.fullmatch(line):
        raise not_understood("mlnx_qos", number, line, "a part of the QoS settings")


def _row(number: int, words: list[str]) -> tuple[int, ...]:
    what = f"mlnx_qos: line {number}: '{words[0]}'"
    values = tuple(integer(word, what) for word in words[1:])
    if len(values) != PRIORITIES:
        raise NotUnderstoodError(f"{what} has {len(values)} values instead of {PRIORITIES}.")
    return values


def _facts(draft: _Draft, trust: str | None) -> Qos:
    pairs = draft.pairs
    headed = pairs.pop("PFC configuration", None) is not None
    enabled = draft.rows.get("enabled")
    if headed and enabled is None:
        raise NotUnderstoodError("mlnx_qos: the PFC table ends before its row 'enabled'.")
    if enabled is not None and not set(enabled) <= {0, 1}:
        raise NotUnderstoodError("mlnx_qos: the row 'enabled' has a value that is not 0 or 1.")
    mapped = pairs.pop("dscp2prio mapping", None) is not None
    # An application table may lack values; only what comes after it shows that it was not cut off.
    if mapped and len(draft.dscp) != DSCPS and not (headed and draft.dscp):
        raise NotUnderstoodError(f"mlnx_qos: the map has {len(draft.dscp)} of {DSCPS} DSCP values.")
    placed = {priority for _, priorities in draft.classes for priority in priorities}
    if placed and placed != set(range(PRIORITIES)):
        raise NotUnderstoodError(
            f"mlnx_qos: the traffic classes have {len(placed)} of {PRIORITIES} priorities."
        )
    sizes = pairs.pop("Receive buffer size (bytes)", None)
    cable = pairs.pop("Cable len", None)
    return Qos(
        trust,
        pfc_enabled=None if enabled is None else tuple(value == 1 for value in enabled),
        dcbx_mode=pairs.pop("DCBX mode", None),
        dscp_priority=draft.dscp if mapped else None,
        priority_buffer=draft.rows.get("buffer"),
        buffer_bytes=None if sizes is None else _sizes(sizes),
        cable_length_m=None if cable is None else integer(cable, "mlnx_qos: 'Cable len'"),
        traffic_classes=tuple(_class(*item) for item in draft.classes),
        ecn_enabled=draft.ecn,
        other=pairs,
    )


def _sizes(value: str) -> tuple[int, ...]:
    # Newer versions end the list with 'max_buffer_size=…'.
    parts = [part for part in value.split(",") if part and "=" not in part]
    return tuple(integer(part, "mlnx_qos: the receive buffer size") for part in parts)


def _class(match: re.Match[str], priorities: list[int]) -> TrafficClass:
    rate: float | None = None
    if match["rate"] is not None:
        try:
            rate = float(match["rate"]) / (1 if match["unit"] == "G" else 1000)
        except ValueError:
            raise NotUnderstoodError(
                f"mlnx_qos: the rate limit '{match['rate']}' is no number."
            ) from None
    bandwidth = match["bw"]
    return TrafficClass(
        int(match["tc"]),
        rate,
        match["tsa"],
        bandwidth_percent=None if bandwidth is None else int(bandwidth),
        priorities=tuple(priorities),
    )
