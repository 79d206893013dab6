"""Rules of packet filters, as far as they tell by interfaces and addresses what is dropped.

Both forms are read: that of ``nft list table`` and that of ``iptables-save``. Of what a rule
matches besides (ports, states, marks, counts) it is only kept that there is something.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Network

from msgspec import Struct

from hfprov.evidence.text import clean, excerpt
from hfprov.regex import regex

DROP, ACCEPT, JUMP, GOTO, RETURN, OTHER = "drop", "accept", "jump", "goto", "return", "other"
FAMILIES = ("inet", "ip", "netdev")
"""Tables of IPv6 and of bridges see none of the packets that matter here."""


class Interfaces(Struct, frozen=True):
    """Interfaces by which packets come in or go out."""

    patterns: tuple[str, ...]
    """Names; a ``*`` at the end stands for anything."""
    inverted: bool = False


class Addresses(Struct, frozen=True):
    """Addresses that packets come from, or go to."""

    networks: tuple[IPv4Network, ...]
    inverted: bool = False


class FilterRule(Struct, frozen=True):
    """One rule."""

    verdict: str
    """One of the words above; ``other`` for what decides nothing."""
    text: str
    target: str = ""
    """The chain that a jump goes to."""
    comes_in: Interfaces | None = None
    goes_out: Interfaces | None = None
    source: Addresses | None = None
    destination: Addresses | None = None
    is_narrow: bool = False
    """Whether it matches by something else as well."""
    is_invalid: bool = False
    """Whether it matches packets that belong to no connection: those may be dropped."""


class Chain(Struct, frozen=True):
    """One chain."""

    hook: str = ""
    """``input``, ``ingress`` …; "" for one that others jump to."""
    drops: bool = False
    """Whether its policy drops what no rule decides."""
    devices: tuple[str, ...] = ()
    """Interfaces that a chain of the family netdev is bound to."""
    rules: tuple[FilterRule, ...] = ()


Chains = dict[tuple[str, str], Chain]
"""By table and name."""

_NFT_BASE = regex(
    r"type \w+ hook (\w+)(?: devices?(?: =)? (\{[^}]*\}|\S+))? priority [^;]*;(?: policy (\w+);)?"
)
_SET = r"(\{[^}]*\}|\S+)"
_NFT_MATCHES = {
    name: regex(rf"(?:^|(?<= )){words} (!= )?{_SET}(?: |$)")
    for name, words in (
        ("comes_in", "(?:meta )?iif(?:name)?"),
        ("goes_out", "(?:meta )?oif(?:name)?"),
        ("source", "ip saddr"),
        ("destination", "ip daddr"),
    )
}
_NFT_VERDICT = regex(
    r"(?:^|(?<= ))(?:(drop|accept|return)|(reject)(?: with .*)?|(jump|goto) (\S+))$"
)
_NFT_NOTHING = regex(
    r'(?:^|(?<= ))(?:counter(?: packets \d+ bytes \d+)?|comment "[^"]*"'
    r'|log(?: (?:prefix "[^"]*"|(?:level|group|snaplen|queue-threshold|flags) \S+))*)(?: |$)'
)
_TO_THE_NODE = regex(r"(?:^|(?<= ))(?:fib daddr type local|-m addrtype --dst-type LOCAL)(?= |$)")
"""True of all that a node receives for itself."""
_SOME_TYPE = 'xt match "addrtype"'
"""So nft shows the same, without which type it is, where it was built without iptables' modules."""
_INVALID = regex(r"\binvalid\b", re.IGNORECASE)


def _items(text: str) -> Iterator[str]:
    for item in text.strip("{} ").split(","):
        if plain := item.strip(' "'):
            yield plain


def _networks(items: Iterable[str]) -> tuple[IPv4Network, ...] | None:
    """None for what is not told, such as a named set."""
    found = []
    for item in items:
        try:
            found.append(IPv4Network(item, strict=False))
        except ValueError:
            return None
    return tuple(found)


def nft_chains(text: str) -> Chains:
    """Chains of tables as ``nft list table`` prints them."""
    found: Chains = {}
    table, chain, now, rules = "", "", Chain(), list[FilterRule]()
    for raw in clean(text).splitlines():
        line = " ".join(raw.split())
        if head := re.fullmatch(r"table (\S+ \S+) \{(?: #.*)?", line):
            table = head[1]
        elif head := re.fullmatch(r"chain (\S+) \{(?: #.*)?", line):
            chain, now, rules = head[1], Chain(), []
        elif line == "}" and chain:
            if table.partition(" ")[0] in FAMILIES:
                found[table, chain] = Chain(now.hook, now.drops, now.devices, tuple(rules))
            chain = ""
        elif chain and (base := _NFT_BASE.match(line)):
            hook, devices, policy = base.groups(default="")
            now = Chain(hook, policy == DROP, tuple(_items(devices)))
        elif chain and line and not line.startswith("#"):
            rules.append(_nft_rule(line))
    return found


def _nft_rule(line: str) -> FilterRule:
    rest = _NFT_NOTHING.sub("", line).strip()
    verdict, target = OTHER, ""
    if told := _NFT_VERDICT.search(rest):
        word, reject, jump, target = told.groups(default="")
        verdict = word or jump or (DROP if reject else OTHER)
        rest = rest[: told.start()].strip()
    sides, rest = _sides(_NFT_MATCHES, rest)
    return _rule(verdict, excerpt(line, 120), target, sides, rest)


def _sides(
    patterns: Mapping[str, re.Pattern[str]], text: str
) -> tuple[dict[str, Interfaces | Addresses], str]:
    """Interfaces and addresses that a rule matches, and what is left of its text."""
    found: dict[str, Interfaces | Addresses] = {}
    for name, pattern in patterns.items():
        while match := pattern.search(text):
            side = _side(name, match[2], inverted=bool(match[1]))
            known = found.get(name)
            if side is None or (known and not (known.inverted and side.inverted)):
                break
            found[name] = _both(known, side) if known else side
            text = f"{text[: match.start()]}{text[match.end() :]}".strip()
    return found, text


def _side(name: str, text: str, *, inverted: bool) -> Interfaces | Addresses | None:
    items = tuple(_items(text))
    if name in ("comes_in", "goes_out"):
        return Interfaces(tuple(one.replace("+", "*") for one in items), inverted)
    networks = _networks(items)
    return None if networks is None else Addresses(networks, inverted)


def _both(one: Interfaces | Addresses, other: Interfaces | Addresses) -> Interfaces | Addresses:
    """Neither of two: a rule may name several that it does not hold for."""
    if isinstance(one, Interfaces) and isinstance(other, Interfaces):
        return Interfaces((*one.patterns, *other.patterns), inverted=True)
    if isinstance(one, Addresses) and isinstance(other, Addresses):
        return Addresses((*one.networks, *other.networks), inverted=True)
    return one


def _rule(
    verdict: str, text: str, target: str, sides: dict[str, Interfaces | Addresses], rest: str
) -> FilterRule:
    rest = _TO_THE_NODE.sub("", rest).strip()
    if verdict == RETURN:
        rest = rest.replace(_SOME_TYPE, "").strip()
    comes_in, goes_out = sides.get("comes_in"), sides.get("goes_out")
    source, destination = sides.get("source"), sides.get("destination")
    return FilterRule(
        verdict,
        text,
        target,
        comes_in if isinstance(comes_in, Interfaces) else None,
        goes_out if isinstance(goes_out, Interfaces) else None,
        source if isinstance(source, Addresses) else None,
        destination if isinstance(destination, Addresses) else None,
        is_narrow=bool(rest),
        is_invalid=bool(_INVALID.search(rest)),
    )


LEGACY = "iptables filter"
_LEGACY_HOOKS = {"INPUT": "input", "OUTPUT": "output"}
_LEGACY_MATCHES = {
    "comes_in": regex(r"(?:^|(?<= ))(! )?-i (\S+)(?: |$)"),
    "goes_out": regex(r"(?:^|(?<= ))(! )?-o (\S+)(?: |$)"),
    "source": regex(r"(?:^|(?<= ))(! )?-s (\S+)(?: |$)"),
    "destination": regex(r"(?:^|(?<= ))(! )?-d (\S+)(?: |$)"),
}
_LEGACY_TARGET = regex(r"(?:^|(?<= ))-([jg]) (\S+)(?: .*)?$")
_LEGACY_COMMENT = regex(r'-m comment --comment (?:"(?:[^"\\]|\\.)*"|\S+) ?')
_LEGACY_VERDICTS = {"DROP": DROP, "REJECT": DROP, "ACCEPT": ACCEPT, "RETURN": RETURN}
_LEGACY_NOTHING = ("LOG", "NFLOG", "MARK", "CONNMARK", "TRACE", "NOTRACK", "CT", "AUDIT")


def iptables_chains(text: str) -> Chains:
    """Chains of the table 'filter' as ``iptables-save`` prints it."""
    heads: dict[str, bool] = {}
    rules: dict[str, list[FilterRule]] = {}
    for raw in clean(text).splitlines():
        line = " ".join(_LEGACY_COMMENT.sub("", raw).split())
        if head := re.fullmatch(r":(\S+) (\S+)(?: \[.*)?", line):
            heads[head[1]] = head[2] == "DROP"
        elif rule := re.fullmatch(r"(?:\[\d+:\d+\] )?-A (\S+) ?(.*)", line):
            rules.setdefault(rule[1], []).append(_iptables_rule(rule[2], line))
    return {
        (LEGACY, name): Chain(_LEGACY_HOOKS.get(name, ""), drops, (), tuple(rules.get(name, ())))
        for name, drops in heads.items()
    }


def _iptables_rule(rest: str, line: str) -> FilterRule:
    verdict, target = OTHER, ""
    if told := _LEGACY_TARGET.search(rest):
        how, word = told.groups()
        rest = rest[: told.start()].strip()
        verdict = _LEGACY_VERDICTS.get(word, "")
        if not verdict:
            verdict = OTHER if word in _LEGACY_NOTHING else {"j": JUMP, "g": GOTO}[how]
            target = word if verdict != OTHER else ""
    sides, rest = _sides(_LEGACY_MATCHES, rest)
    return _rule(verdict, excerpt(line, 120), target, sides, rest)
