"""Rules that choose a table of routes, ``ip -j rule``: policy routing, ip-rule(8).

Only where data interfaces are declared: asking costs a process.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Network

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NotUnderstoodError
from hfprov.evidence.text import excerpt, json_document
from hfprov.reading import KIB, Observation, Read, Source, command

_RULES = command("ip", "-j", "-4", "rule", "show", limit=256 * KIB)
_FURTHER = ("fwmark", "oif", "ipproto", "sport", "dport", "tos", "uid_start", "l3mdev", "tun_id")
"""What takes a part of the packets by something else than addresses."""


class PolicyRule(Struct, frozen=True):
    """One rule for IPv4."""

    priority: int
    """Rules are asked in this order, lowest first."""
    source: IPv4Network
    destination: IPv4Network
    """``0.0.0.0/0`` stands for all."""
    table: str
    """"" where the rule names none."""
    action: str = ""
    """``prohibit``, ``blackhole``, ``unreachable``, ``nop``; "" for a table, or for a jump."""
    goto: int | None = None
    inverted: bool = False
    """Whether it holds for what does not match."""
    is_narrow: bool = False
    """Whether it holds for some packets only, by mark, port, user, or where they come in."""
    suppressed_length: int = -1
    """Routes with prefixes of at most this length are not taken from the table."""


def _network(row: Mapping[str, object], name: str, length: str) -> IPv4Network:
    address = row.get(name, "all")
    if address == "all":
        return IPv4Network("0.0.0.0/0")
    try:
        return IPv4Network(f"{address}/{row.get(length, 32)}", strict=False)
    except ValueError:
        raise NotUnderstoodError(f"'{excerpt(str(address))}' of 'ip rule' is no network.") from None


def _rule(row: object) -> PolicyRule:
    priority = row.get("priority") if isinstance(row, dict) else None
    if not isinstance(row, dict) or type(priority) is not int:
        raise NotUnderstoodError("'ip rule' did not list rules.")
    goto, suppressed = row.get("goto"), row.get("suppress_prefixlen", -1)
    if type(suppressed) is not int or (goto is not None and type(goto) is not int):
        raise NotUnderstoodError("'ip rule' told of a rule in an unknown form.")
    # What the node itself sends comes from 'lo'.
    comes_in_elsewhere = row.get("iif", "lo") != "lo"
    return PolicyRule(
        priority,
        _network(row, "src", "srclen"),
        _network(row, "dst", "dstlen"),
        excerpt(str(row.get("table", "")), 40),
        "nop" if "nop" in row else excerpt(str(row.get("action", "")), 40),
        goto,
        inverted="not" in row,
        is_narrow=comes_in_elsewhere or any(name in row for name in _FURTHER),
        suppressed_length=suppressed,
    )


def parse_rules(text: str) -> tuple[PolicyRule, ...]:
    """Rules of ``ip -j -4 rule show`` in the order of the kernel. Raises NotUnderstoodError."""
    document = json_document(text)
    if not isinstance(document, list) or not document:
        raise NotUnderstoodError("'ip rule' did not list rules.")
    return tuple(sorted(map(_rule, document), key=lambda one: one.priority))


def _reads(baseline: Baseline) -> tuple[Read, ...]:
    return (_RULES,) if baseline.get("jumbo_mtu_interfaces") else ()


def _parse(seen: Observation, _: Baseline) -> tuple[PolicyRule, ...]:
    return parse_rules(seen.text(_RULES))


IP_RULES: Source[tuple[PolicyRule, ...]] = Source("rules of routing", _reads, _parse)
