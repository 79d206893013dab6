"""``iperf3``: TCP and UDP throughput, from JSON (``-J``, ``--json-stream``) or text; and netperf.

Rates in bit/s. A test that iperf calls failed is a result with ``error`` set; it has no throughput
that may be used, whatever it measured before. For text see :mod:`hfprov.evidence.iperf_text`.
"""

from __future__ import annotations

from typing import Any

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.iperf_facts import (
    IperfResult,
    NetperfResults,
    NetperfStream,
    Throughput,
    less_losses,
)
from hfprov.evidence.iperf_text import parse_netperf, parse_text
from hfprov.evidence.net_lines import Node, json_value, starts_like_json
from hfprov.evidence.text import Pairs, excerpt
from hfprov.regex import regex

__all__ = ["IperfResult", "NetperfResults", "NetperfStream", "Throughput", "parse"]

_TEXT_START = regex(r"\[ *(?:ID|SUM|[0-9]{1,5})\](?:\[|\s)")
_MERGED = ("sum", "sum_sent", "sum_received")


def _keep_repeats(pairs: Pairs) -> Any:
    """Versions 3.7 to 3.9 wrote both directions of ``--bidir`` under the same keys."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found and key in _MERGED:
            found[f"{key}_bidir_reverse"] = value
        else:
            found[key] = value
    return found


def parse(text: str) -> IperfResult | NetperfResults:
    """Facts of one run. Raises NotUnderstoodError when no result is in the output."""
    # A text may begin with '[ ID]' or '[  4]', which is no JSON.
    if not starts_like_json(text) or _TEXT_START.match(text.lstrip()):
        return parse_text(text)
    if '"event":' in text[:200]:
        return _stream(text)
    document = json_value(text, pairs=_keep_repeats)
    if isinstance(document, list):
        return parse_netperf(Node(document, "netperf"))
    return _result(Node(document, "iperf3"))


def _stream(text: str) -> IperfResult:
    """``--json-stream``: one JSON object per line, ``{"event": …, "data": …}``."""
    parts: dict[str, Any] = {}
    intervals: list[Any] = []
    for line in text.splitlines():
        if not line.strip():
            continue
        node = Node(json_value(line, pairs=_keep_repeats), "iperf3 --json-stream")
        event = node.need("event").as_text()
        data = node.members.get("data")
        if event == "interval":
            intervals.append(data)
        elif event == "error":
            parts["error"] = data
        else:
            parts[event] = data
    return _result(Node({**parts, "intervals": intervals}, "iperf3 --json-stream"))


def _result(node: Node) -> IperfResult:
    start = node.get("start") or Node({}, f"{node.where}.start")
    end = node.get("end") or Node({}, f"{node.where}.end")
    test = start.get("test_start") or Node({}, f"{start.where}.test_start")
    error = node.text("error")
    udp = (test.text("protocol") or "").upper() == "UDP"
    if not end.members and error is None:
        raise NotUnderstoodError(f"{node.where}: there is neither a result ('end') nor an 'error'.")
    sent, received = _directions(end, "", udp=udp)
    if sent is None and received is None and error is None:
        raise NotUnderstoodError(f"{end.where} has no sum of what was sent or received.")
    reverse_sent, reverse_received = _directions(end, "_bidir_reverse", udp=udp)
    rtts = _rtts(end)
    cpu = end.get("cpu_utilization_percent")
    reverse = test.int("reverse")
    return IperfResult(
        protocol="udp" if udp else "tcp",
        sent=sent,
        received=received,
        streams=test.int("num_streams"),
        reverse=None if reverse is None else reverse == 1,
        reverse_sent=reverse_sent,
        reverse_received=reverse_received,
        error=excerpt(error, 300) if error else None,
        version=start.text("version"),
        congestion_control=end.text("sender_tcp_congestion"),
        mean_rtt_us=sum(mean for mean, _ in rtts) / len(rtts) if rtts else None,
        max_rtt_us=max(most for _, most in rtts) if rtts else None,
        cpu_local_percent=cpu.float("host_total") if cpu else None,
        cpu_remote_percent=cpu.float("remote_total") if cpu else None,
        interval_bits_per_second=_intervals(node),
    )


def _directions(
    end: Node, suffix: str, *, udp: bool
) -> tuple[Throughput | None, Throughput | None]:
    sent = end.get(f"sum_sent{suffix}")
    received = end.get(f"sum_received{suffix}")
    whole = end.get(f"sum{suffix}")
    if sent is None and received is None and whole is not None:
        # UDP before iperf 3.11: one sum, whose rate is the sender's and whose losses are not.
        total = _throughput(whole)
        return total, less_losses(total) if udp else None
    return (
        _throughput(sent) if sent else None,
        _throughput(received) if received else None,
    )


def _throughput(node: Node) -> Throughput:
    return Throughput(
        bits_per_second=node.need("bits_per_second").as_float(),
        transferred_bytes=node.int("bytes"),
        seconds=node.need("seconds").as_float(),
        retransmits=_retransmits(node),
        jitter_ms=node.float("jitter_ms"),
        lost_packets=node.int("lost_packets"),
        packets=node.int("packets"),
    )


def _retransmits(node: Node) -> int | None:
    """None as well where a system that cannot count them made iperf3 print an unsigned -1."""
    counted = node.get("retransmits")
    if counted is None or not 0 <= counted.as_float() < _UNSIGNED_MINUS_ONE:
        return None
    return counted.as_int()


_UNSIGNED_MINUS_ONE = 2**64 - 1


def _rtts(end: Node) -> list[tuple[float, float]]:
    streams = end.get("streams")
    found: list[tuple[float, float]] = []
    for stream in streams.objects() if streams else []:
        sender = stream.get("sender")
        if sender is not None and sender.has("mean_rtt"):
            mean = sender.need("mean_rtt").as_float()
            found.append((mean, sender.float("max_rtt") or mean))
    return found


def _intervals(node: Node) -> tuple[float, ...]:
    intervals = node.get("intervals")
    found: list[float] = []
    for item in intervals.objects() if intervals else []:
        total = item.get("sum")
        if total is not None and not total.bool("omitted"):
            found.append(total.need("bits_per_second").as_float())
    return tuple(found)
