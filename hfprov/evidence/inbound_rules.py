"""What the rules of a firewall do with what comes in: on which interfaces they drop it as a whole.

Rules for single ports, senders or states are not looked at: only what drops, or lets in, all that
is left. Sources: ufw-framework(8), firewalld.zone(5), iptables-save(8), nft(8).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

from msgspec import Struct

from hfprov.evidence.text import clean
from hfprov.regex import regex


class Inbound(Struct, frozen=True):
    """What a firewall does with what comes in, by interface."""

    drops: bool = False
    """Whether it drops on every interface what it does not allow."""
    dropped: tuple[str, ...] = ()
    """Interfaces, or patterns of them, on which it does so by name."""
    allowed: tuple[str, ...] = ()
    """Those on which it lets everything in."""

    def blocks(self, interface: str) -> bool:
        """Whether something that comes in there may be dropped."""
        if is_named(interface, self.allowed):
            return False
        return self.drops or is_named(interface, self.dropped)


def is_named(text: str, patterns: Iterable[str]) -> bool:
    """Whether one of some shell patterns matches."""
    return any(fnmatchcase(text, one) for one in patterns)


def together(parts: Iterable[Inbound]) -> Inbound:
    """Several at once: what one of them lets in, another may still drop."""
    found = tuple(parts)
    return Inbound(
        any(one.drops for one in found),
        tuple(name for one in found for name in one.dropped),
        found[0].allowed if len(found) == 1 else (),
    )


_ASSIGNED = r'^[ \t]*{}[ \t]*=[ \t]*["\']?([A-Za-z0-9_-]*)'


def assigned(text: str, name: str) -> str:
    """The last value of a file of assignments, in lower case; "" where there is none."""
    found = re.findall(_ASSIGNED.format(name), clean(text), re.MULTILINE)
    return str(found[-1]).lower() if found else ""


_ANYWHERE = ("any", "0.0.0.0/0", "::/0")
_WHOLE: tuple[tuple[str, ...], ...] = (("any",), ("any",), _ANYWHERE, ("any",), _ANYWHERE)
"""Words of ufw's rule for all that comes in: protocol, port, to, port, from."""


def parse_ufw(defaults: str, rules: str) -> Inbound:
    """What ufw does by default (/etc/default/ufw), and its rules for whole interfaces."""
    named: dict[str, list[str]] = {"allow": [], "deny": []}
    for line in clean(rules).splitlines():
        words = line.removeprefix("### tuple ###").split()
        if not line.startswith("### tuple ###") or len(words) < 2 + len(_WHOLE):
            continue
        direction, _, interface = words[-1].partition("_")
        is_whole = all(map(tuple.__contains__, _WHOLE, words[1:]))
        if direction == "in" and interface and is_whole:
            named["allow" if words[0] == "allow" else "deny"].append(interface)
    policy = assigned(defaults, "DEFAULT_INPUT_POLICY")
    return Inbound(policy != "accept", tuple(named["deny"]), tuple(named["allow"]))


def parse_firewalld(configuration: str, zones: Mapping[str, str]) -> Inbound:
    """Interfaces by what their zone does with what it does not name; texts of zones by name.

    A zone that is not in /etc is as the package brings it: of those only 'trusted' accepts.
    """
    accepting = {"trusted"}
    named: dict[bool, list[str]] = {True: [], False: []}
    for name, text in zones.items():
        # Without comments, each of which begins a part.
        parts = clean(text).split("<!--")
        plain = parts[0] + "".join(one.partition("-->")[2] for one in parts[1:])
        head = re.search(r"<zone\b([^<>]*)>", plain)
        accepts = bool(head and re.search(r"\btarget\s*=\s*[\"']ACCEPT[\"']", head[1]))
        accepting = accepting | {name} if accepts else accepting - {name}
        named[accepts] += re.findall(r"<interface\s+name\s*=\s*[\"']([^\"']{1,15})[\"']", plain)
    default = assigned(configuration, "DefaultZone") or "public"
    accepts_rest = default in {name.lower() for name in accepting}
    return Inbound(not accepts_rest, tuple(named[False]), tuple(named[True]))


DROP, ALLOW, JUMP = "drop", "allow", "jump"


class Rule(Struct, frozen=True):
    """One rule that holds for everything, or for all of one interface."""

    verdict: str
    interface: str = ""
    """Its name, or a pattern; "" for all."""
    chain: str = ""
    """Where it goes on, for a jump."""


def _followed(chains: Mapping[str, list[Rule]], starts: Iterable[str], *, drops: bool) -> Inbound:
    """What rules do that are reached from some chains, whose policy is given."""
    dropped, allowed = [], []
    seen: set[tuple[str, str]] = set()
    ahead = [(name, "") for name in starts]
    while ahead:
        name, on = one = ahead.pop()
        if one in seen:
            continue
        seen.add(one)
        for rule in chains.get(name, ()):
            interface = rule.interface or on
            if rule.verdict == JUMP:
                ahead.append((rule.chain, interface))
            elif rule.verdict == ALLOW:
                allowed += [interface] if interface else []
            elif interface:
                dropped.append(interface)
            else:
                drops = True
    return Inbound(drops, tuple(dropped), tuple(allowed))


_COMMENT = regex(r'-m comment --comment (?:"(?:[^"\\]|\\.)*"|\S+)|--reject-with \S+')
_IPTABLES = regex(r"-A (\S+)\s+(?:-i (\S+)\s+)?-[jg] (\S+)")
_CHAIN_VERDICTS = {"DROP": DROP, "REJECT": DROP, "ACCEPT": ALLOW}


def parse_iptables(text: str) -> Inbound:
    """The table 'filter' as iptables-save writes it, from its chain INPUT on."""
    chains: dict[str, list[Rule]] = {}
    drops, table = False, ""
    for raw in clean(text).splitlines():
        line = " ".join(_COMMENT.sub("", raw).split())
        table = line[1:] if line.startswith("*") else table
        if table != "filter":
            continue
        drops = drops or line.startswith(":INPUT DROP")
        if rule := _IPTABLES.fullmatch(line):
            chain, interface, target = rule.groups(default="")
            verdict = _CHAIN_VERDICTS.get(target, JUMP)
            interface = interface.replace("+", "*")
            chains.setdefault(chain, []).append(Rule(verdict, interface, target))
    return _followed(chains, ["INPUT"], drops=drops)


_HOOK = regex(r"\bhook (input|ingress|prerouting)\b")
_NFT_RULE = regex(
    r"(?:(?:meta )?iif(?:name)? (?:\{([^{}]*)\}|(\"?[\w.*-]+\"?)) ?)?"
    r"(?:counter(?: packets \d+ bytes \d+)? ?)?(?:log [^;{}]*? ?)?"
    r"(?:(drop|reject|accept)\b[^;{}]*|(?:jump|goto) (\S+))"
)


def parse_nft(text: str) -> Inbound:
    """Chains of a file of nft that see what comes in, and those that they go on to."""
    chains: dict[str, list[Rule]] = {}
    starts, drops, chain = [], False, ""
    for statement in nft_statements(text):
        if head := re.fullmatch(r"chain (\S+) \{", statement):
            chain = head[1]
        elif statement == "}":
            chain = ""
        elif chain and _HOOK.search(statement):
            starts.append(chain)
        elif chain in starts and statement == "policy drop":
            drops = True
        elif chain and (rule := _NFT_RULE.fullmatch(statement)):
            chains.setdefault(chain, []).extend(_nft_rules(*rule.groups(default="")))
    return _followed(chains, starts, drops=drops)


def _nft_rules(some: str, one: str, verdict: str, target: str) -> Iterator[Rule]:
    kind = {"accept": ALLOW, "": JUMP}.get(verdict, DROP)
    for name in (some or one).split(","):
        yield Rule(kind, name.strip(' "'), target)


_BLOCK = regex(r"\s*(?:table|chain|set|map|flowtable)\s[^{}]*\Z")
_NFT_PART = regex(r"\"[^\"\n]*\"|#[^\n]*|[{};\n]|[^\"#{};\n]+|\"")
_ENDS = ("}", ";", "\n")


def nft_statements(text: str) -> Iterator[str]:
    """Statements of nft one by one, without comments; ``chain x {`` opens a block, ``}`` ends it.

    The braces of a set, and whatever is within them, belong to the statement that they stand in.
    """
    statement, depth = "", 0
    for part in _NFT_PART.findall(clean(text).replace("\\\n", " ")):
        if part.startswith("#"):
            continue
        if part == "{" and not depth and _BLOCK.match(statement):
            yield " ".join([*statement.split(), part])
            statement = ""
        elif depth or part not in _ENDS:
            depth += (part == "{") - (part == "}")
            statement += part.replace("\n", " ")
        else:
            yield from [" ".join(statement.split())] if statement.strip() else []
            yield from [part] if part == "}" else []
            statement = ""
    if statement.strip():
        yield " ".join(statement.split())
