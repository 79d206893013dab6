"""``iperf3`` and iperf 2 as text, and netperf results as PerfKit Benchmarker stores them.

Units of iperf's text: transfers in powers of 1024, rates in powers of 1000.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.iperf_facts import (
    IperfResult,
    NetperfResults,
    NetperfStream,
    Throughput,
    less_losses,
)
from hfprov.evidence.net_lines import Node, decimal, empty, integer, lines_of
from hfprov.evidence.text import excerpt
from hfprov.regex import regex

_ROW = regex(
    r"\[ *(?P<id>[0-9]{1,5}|SUM)\](?:\[(?P<role>[TR]X-[CS])\])?\s+"
    r"(?P<start>[0-9.]+)-(?P<end>[0-9.]+)\s+sec\s+"
    r"(?P<transfer>[0-9.]+) (?P<transfer_unit>[KMGT]?)Bytes\s+"
    r"(?P<rate>[0-9.]+) (?P<rate_unit>[KMGT]?)(?P<kind>bits|Bytes)/sec(?P<rest>.*)"
)
_UDP = regex(
    r"(?P<jitter>[0-9.]+) ms\s+(?P<lost>[0-9]{1,15})/ *(?P<packets>[0-9]{1,15})(?:\s+\([^)]*\))?"
)
_RETRANSMITS = regex(r"(?P<count>[0-9]{1,15})\b(?!\.)")
_ERROR = regex(r"iperf3?: (?:error|interrupt)\s*-\s*(?P<message>.*)")
_IPERF2_SERVER = regex(r"Server listening on (?:TCP|UDP) port ")
_BINARY = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
_DECIMAL = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}

Total = tuple[str, str, str, Throughput]
"""Stream id, direction (``TX``, ``RX`` or empty), side (``sender``, ``receiver``), and figures."""


def parse_text(text: str) -> IperfResult:
    """The totals at the end of the text. Raises NotUnderstoodError when they are not there."""
    lines = [line.strip() for line in lines_of(text) if line.strip()]
    if not lines:
        raise empty("iperf3")
    error = next((match["message"] for line in lines if (match := _ERROR.fullmatch(line))), None)
    totals = [total for line in lines if (total := _total(line)) is not None]
    client = any(line.startswith("Client connecting to ") for line in lines)
    server = any(_IPERF2_SERVER.match(line) for line in lines)
    of_iperf2 = not totals and (client or server)
    if of_iperf2 and client and server:
        raise NotUnderstoodError("iperf: client and server of iperf 2 are mixed in one text.")
    if of_iperf2:
        totals = _iperf2_totals(lines, "sender" if client else "receiver")
    elif not totals:
        totals = _old_udp_totals(lines)
    if not totals and error is None:
        raise NotUnderstoodError(
            "iperf3: no total ('… sender' or '… receiver') is in the output; it may be cut off."
        )
    forward = "TX" if any(direction == "TX" for _, direction, _, _ in totals) else ""
    received = _side(totals, forward, "receiver")
    if totals and received is None and error is None and not of_iperf2:
        raise NotUnderstoodError("iperf3: the output ends before what the receiver counted.")
    udp = any(total[3].jitter_ms is not None for total in totals)
    return IperfResult(
        protocol="udp" if udp else "tcp",
        sent=_side(totals, forward, "sender"),
        received=received,
        streams=len({stream for stream, direction, _, _ in totals if stream != "SUM"}) or None,
        reverse_sent=_side(totals, "RX", "sender"),
        reverse_received=_side(totals, "RX", "receiver"),
        error=excerpt(error, 300) if error else None,
    )


def _total(line: str) -> Total | None:
    """A line of the summary, which ends with the side that counted; None for any other line."""
    match = _ROW.fullmatch(line)
    if match is None:
        return None
    words = match["rest"].split()
    if not words or words[-1] not in ("sender", "receiver"):
        return None
    return match["id"], (match["role"] or "")[:2], words[-1], _figures(match)


def _old_udp_totals(lines: list[str]) -> list[Total]:
    """UDP before iperf 3.6: one line per stream below the rule, without the side that counted."""
    rules = [at for at, line in enumerate(lines) if line.replace(" ", "").startswith("-----")]
    below = lines[rules[-1] + 1 :] if rules else []
    found: list[Total] = []
    for line in below:
        match = _ROW.fullmatch(line)
        figures = _figures(match) if match is not None else None
        if match is not None and figures is not None and figures.packets is not None:
            arrived = less_losses(figures)
            found.append((match["id"], "", "sender", figures))
            found += [(match["id"], "", "receiver", arrived)] if arrived else []
    return found


def _iperf2_totals(lines: list[str], side: str) -> list[Total]:
    """What one side of iperf 2 counted: of each stream the row that begins at 0 and ends last.

    A UDP client also prints the server's report, whose row has jitter and losses. Raises
    NotUnderstoodError where a stream's later interval shows that its whole row is not there.
    """
    whole: dict[tuple[str, str], re.Match[str]] = {}
    last: dict[tuple[str, str], float] = {}
    for line in lines:
        match = _ROW.fullmatch(line)
        if match is None:
            continue
        said = "receiver" if _UDP.match(match["rest"].strip()) else side
        of = (match["id"], said)
        last[of] = max(last.get(of, 0.0), float(match["end"]))
        if float(match["start"]) == 0.0:
            whole[of] = match
    if any(of not in whole or float(whole[of]["end"]) < end for of, end in last.items()):
        raise NotUnderstoodError("iperf: the output ends before the row of the whole run.")
    return [
        # The columns behind the rate are others than iperf3's.
        (stream, "", said, replace(_figures(match), retransmits=None))
        for (stream, said), match in whole.items()
    ]


def _figures(match: re.Match[str]) -> Throughput:
    rest = match["rest"].strip()
    udp = _UDP.match(rest)
    retransmits = _RETRANSMITS.match(rest) if udp is None else None
    what = "iperf3: a figure of the summary"
    scale = _DECIMAL[match["rate_unit"]] * (1.0 if match["kind"] == "bits" else 8.0)
    transferred = decimal(match["transfer"], what) * _BINARY[match["transfer_unit"]]
    return Throughput(
        bits_per_second=decimal(match["rate"], what) * scale,
        transferred_bytes=round(transferred),
        seconds=decimal(match["end"], what) - decimal(match["start"], what),
        retransmits=int(retransmits["count"]) if retransmits else None,
        jitter_ms=decimal(udp["jitter"], what) if udp else None,
        lost_packets=int(udp["lost"]) if udp else None,
        packets=int(udp["packets"]) if udp else None,
    )


def _side(totals: list[Total], direction: str, side: str) -> Throughput | None:
    """The figures of one side: the tool's own sum, or that of its only stream.

    Raises NotUnderstoodError for several streams without a sum: the text was cut off before it.
    """
    mine = [
        (stream, figures)
        for stream, found, said, figures in totals
        if found == direction and said == side
    ]
    sums = [figures for stream, figures in mine if stream == "SUM"]
    if sums:
        return sums[-1]
    if len(mine) > 1:
        raise NotUnderstoodError(
            f"iperf3: the output ends before the [SUM] of {len(mine)} streams."
        )
    return mine[0][1] if mine else None


_TEST = regex(r"(?:MIGRATED )?(?P<test>(?:TCP|UDP|SCTP) [A-Z_/]+) TEST from .*")
_HEAD = "Throughput,Throughput Units,"
_NETPERF_UNITS = {"10^6bits/s": 1e6, "10^9bits/s": 1e9, "10^3bits/s": 1e3}
_PERCENTILES = {
    "50th Percentile Latency Microseconds": "p50_us",
    "90th Percentile Latency Microseconds": "p90_us",
    "99th Percentile Latency Microseconds": "p99_us",
    "Maximum Latency Microseconds": "max_us",
}
_MOST_DEPTH = 20


def parse_netperf(node: Node) -> NetperfResults:
    """All netperf outputs among the texts of a JSON list; other values are passed over."""
    streams = [_netperf(text) for text in _texts(node) if _HEAD in text]
    if not streams:
        raise NotUnderstoodError("iperf3: the JSON list holds no output of netperf.")
    return NetperfResults(tuple(streams))


def _texts(node: Node) -> list[str]:
    found: list[str] = []
    waiting: list[tuple[int, object]] = [(0, node.value)]
    while waiting:
        depth, value = waiting.pop()
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, list) and depth < _MOST_DEPTH:
            waiting += [(depth + 1, item) for item in reversed(value)]
    return found


def _netperf(text: str) -> NetperfStream:
    lines = [line for line in lines_of(text) if line.strip()]
    test = _TEST.fullmatch(lines[0].partition(" : ")[0])
    at = next((at for at, line in enumerate(lines) if line.startswith(_HEAD)), len(lines))
    rows = lines[at + 1 :]
    if test is None or len(rows) != 1:
        raise NotUnderstoodError(f"netperf: '{excerpt(lines[0])}' is not followed by one result.")
    names, values = lines[at].split(","), rows[0].split(",")
    if len(names) != len(values):
        raise NotUnderstoodError(f"netperf: {len(names)} columns, but {len(values)} values.")
    row = dict(zip(names, values, strict=True))
    unit = row["Throughput Units"]
    if unit not in _NETPERF_UNITS:
        raise NotUnderstoodError(f"netperf: the unit '{excerpt(unit)}' is not known.")
    latencies = {
        name: float(integer(row[column], f"netperf: '{column}'"))
        for column, name in _PERCENTILES.items()
        if column in row
    }
    return NetperfStream(
        test["test"],
        decimal(row["Throughput"], "netperf: the throughput") * _NETPERF_UNITS[unit],
        p50_us=latencies.get("p50_us"),
        p90_us=latencies.get("p90_us"),
        p99_us=latencies.get("p99_us"),
        max_us=latencies.get("max_us"),
    )
