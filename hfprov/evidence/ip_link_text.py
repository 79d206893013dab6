"""The text of ``ip link``, ``ip addr`` and ``ip neigh``, for nodes whose ip has no JSON.

Plain, ``-o``, ``-s``, ``-d`` and ``-br``. See :mod:`hfprov.evidence.ip_link_facts` for the facts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct, field

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.ip_link_facts import (
    Address,
    Interface,
    Interfaces,
    Neighbour,
    Neighbours,
    Traffic,
)
from hfprov.evidence.net_lines import empty, integer, lines_of, not_understood
from hfprov.regex import regex

_HEADER = regex(
    r"(?P<index>[0-9]{1,10}): (?P<name>[^\s@:]+(?::[^\s@:]+)?)(?:@(?P<parent>[^\s:]+))?:"
    r" <(?P<flags>[A-Z0-9_,-]*)> (?P<rest>mtu [0-9]{1,10}.*)"
)
_ONE_LINE_ADDRESS = regex(r"(?P<index>[0-9]{1,10}): (?P<name>\S+)\s+(?P<rest>inet6? \S.*)")
_BRIEF = regex(
    r"(?P<name>[^\s@]+)(?:@(?P<parent>\S+))?\s+"
    r"(?P<state>UP|DOWN|UNKNOWN|LOWERLAYERDOWN|DORMANT|NOTPRESENT|TESTING)(?:\s+(?P<rest>.*))?"
)
_NEIGHBOUR = regex(
    r"(?P<address>[0-9a-fA-F:.%]+) dev (?P<dev>\S+)\s+(?:lladdr (?P<mac>\S+)\s+)?(?P<rest>.*)"
)
_HARDWARE = regex(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5,31}")
_STATES = frozenset(
    {"REACHABLE", "STALE", "DELAY", "PROBE", "INCOMPLETE", "FAILED", "NOARP", "PERMANENT", "NONE"}
)
_COUNTERS = regex(r"(?P<side>RX|TX):\s+bytes\s.*")
_CUT = ("Message truncated", "Dump was interrupted")
_FLAG_WORDS = frozenset(
    {
        "nolearning",
        "learning",
        "external",
        "udpcsum",
        "noudpcsum",
        "udp6zerocsumtx",
        "noudp6zerocsumtx",
        "udp6zerocsumrx",
        "noudp6zerocsumrx",
        "nopmtudisc",
        "pmtudisc",
        "gbp",
        "gpe",
        "remcsumtx",
        "remcsumrx",
        "localbypass",
        "nolocalbypass",
        "l2miss",
        "l3miss",
        "rsc",
        "proxy",
        "dynamic",
        "noprefixroute",
    }
)
_LIMITS = regex(r"\b(?P<key>num[tr]xqueues|minmtu|maxmtu) (?P<value>[0-9]{1,10})\b")
_NEW_KINDS = regex(r"[a-z][a-z0-9_]*")


class _Draft(Struct):
    """An interface while its lines are read."""

    name: str
    words: dict[str, str] = field(default_factory=dict)
    index: int | None = None
    parent: str | None = None
    flags: tuple[str, ...] = ()
    operstate: str | None = None
    link_type: str | None = None
    hardware_address: str | None = None
    kind: str | None = None
    details: dict[str, str] = field(default_factory=dict)
    member_kind: str | None = None
    member_details: dict[str, str] = field(default_factory=dict)
    alternative_names: list[str] = field(default_factory=list)
    virtual_functions: int = 0
    addresses: list[Address] = field(default_factory=list)
    traffic: dict[str, Traffic] = field(default_factory=dict)
    brief: bool = False

    def number(self, key: str) -> int | None:
        value = self.words.get(key)
        return None if value is None else integer(value, f"ip: '{key}' of '{self.name}'")

    def finish(self) -> Interface:
        if not (self.brief or self.link_type or self.addresses):
            raise NotUnderstoodError(f"ip: the output ends before 'link/…' of '{self.name}'.")
        return Interface(
            name=self.name,
            index=self.index,
            flags=self.flags,
            mtu_bytes=self.number("mtu"),
            min_mtu_bytes=self.number("minmtu"),
            max_mtu_bytes=self.number("maxmtu"),
            operstate=self.operstate or self.words.get("state"),
            qdisc=self.words.get("qdisc"),
            master=self.words.get("master"),
            parent=self.parent,
            link_type=self.link_type,
            hardware_address=self.hardware_address,
            permanent_address=self.words.get("permaddr"),
            kind=self.kind,
            details=self.details,
            member_kind=self.member_kind,
            member_details=self.member_details,
            tx_queues=self.number("numtxqueues"),
            rx_queues=self.number("numrxqueues"),
            tx_queue_length=self.number("qlen"),
            alternative_names=tuple(self.alternative_names),
            virtual_functions=self.virtual_functions,
            addresses=tuple(self.addresses),
            received=self.traffic.get("RX"),
            sent=self.traffic.get("TX"),
        )


def parse_text(text: str) -> Interfaces | Neighbours:
    lines = lines_of(text)
    spoken = [line for line in lines if line.strip()]
    if not spoken:
        raise empty("ip")
    if all(_NEIGHBOUR.fullmatch(line.strip()) for line in spoken):
        return Neighbours(tuple(_neighbour(line) for line in spoken))
    # With -o a backslash stands where a line would end.
    if "\\" in text:
        lines = [part.rstrip() for line in lines for part in line.split("\\")]
    complete = not any(line.startswith(_CUT) for line in lines)
    numbered = [
        (number, line)
        for number, line in enumerate(lines, start=1)
        if line.strip() and not line.startswith(_CUT)
    ]
    drafts: dict[str, _Draft] = {}
    reader = iter(numbered)
    current: _Draft | None = None
    for number, line in reader:
        started = _start(line)
        if started is not None:
            current = drafts.setdefault(started.name, started)
            if started.addresses and current is not started:
                current.addresses += started.addresses
        elif current is None:
            raise not_understood("ip", number, line, "the first line of an interface")
        else:
            _continue(current, number, line.strip(), reader)
    if not drafts:
        raise NotUnderstoodError("ip: there is no interface in the output.")
    return Interfaces(tuple(draft.finish() for draft in drafts.values()), complete)


def _neighbour(line: str) -> Neighbour:
    match = _NEIGHBOUR.fullmatch(line.strip())
    words = match["rest"].split() if match else []
    states = tuple(word for word in words if word in _STATES)
    if match is None or not states:
        raise not_understood("ip neigh", 1, line, "a neighbour with its state")
    return Neighbour(match["address"], match["dev"], match["mac"], states, "router" in words)


def _start(line: str) -> _Draft | None:
    match = _HEADER.fullmatch(line)
    if match is not None:
        words, _ = _pairs(match["rest"].split())
        flags = tuple(match["flags"].split(",")) if match["flags"] else ()
        return _Draft(match["name"], words, int(match["index"]), match["parent"], flags)
    match = _ONE_LINE_ADDRESS.fullmatch(line)
    if match is not None:
        draft = _Draft(match["name"], index=int(match["index"]))
        draft.addresses.append(_address(match["rest"].split()))
        return draft
    match = _BRIEF.fullmatch(line)
    return _brief(match) if match is not None else None


def _brief(match: re.Match[str]) -> _Draft:
    draft = _Draft(match["name"], parent=match["parent"], operstate=match["state"], brief=True)
    for word in (match["rest"] or "").split():
        if word.startswith("<") and word.endswith(">"):
            draft.flags = tuple(word[1:-1].split(","))
        elif _HARDWARE.fullmatch(word):
            draft.hardware_address = word
        elif "/" in word:
            draft.addresses.append(_address(["inet6" if ":" in word else "inet", word]))
    return draft


def _pairs(words: list[str]) -> tuple[dict[str, str], str]:
    """Words as ``key value`` pairs, and the key that is left without a value, if any."""
    found: dict[str, str] = {}
    at = 0
    while at < len(words):
        word = words[at]
        # 'learning' stands alone for a vxlan and is 'learning on' for a member of a bridge.
        alone = word in _FLAG_WORDS and words[at + 1 : at + 2] not in (["on"], ["off"])
        if alone or word.startswith("<"):
            found[word.strip("<>")] = ""
            at += 1
        elif word.endswith("-qos-map") and "}" in words[at:]:
            end = words.index("}", at)
            found[word] = " ".join(words[at + 2 : end])
            at = end + 1
        elif at + 1 < len(words):
            found[word] = words[at + 1]
            # 'srcport 0 0' is the one key with two values.
            at += 3 if word == "srcport" else 2
        else:
            return found, word
    return found, ""


def _continue(draft: _Draft, number: int, line: str, reader: Iterator[tuple[int, str]]) -> None:
    words = line.split()
    first = words[0]
    counters = _COUNTERS.fullmatch(line)
    if first.startswith("link/"):
        _link_line(draft, words)
    elif first in ("inet", "inet6"):
        draft.addresses.append(_address(words))
    elif first == "altname" and len(words) == 2:
        draft.alternative_names.append(words[1])
    elif first == "vf":
        draft.virtual_functions += 1
    elif counters is not None and draft.virtual_functions:
        next(reader, None)  # those of the function above, by other names
    elif counters is not None:
        draft.traffic[counters["side"]] = _traffic(number, words[1:], next(reader, (0, "")))
    elif first in ("RX", "TX") and " errors:" in line:
        next(reader, None)
    elif first in ("valid_lft", "alias", "query_disc") or line.startswith("{"):
        return
    elif _NEW_KINDS.fullmatch(first):
        _kind_line(draft, number, line, words)
    else:
        raise not_understood("ip", number, line, "a property of an interface")


def _link_line(draft: _Draft, words: list[str]) -> None:
    draft.link_type = words[0].removeprefix("link/")
    rest = words[1:]
    if rest and rest[0] not in ("brd", "peer", "promiscuity"):
        draft.hardware_address = rest.pop(0)
    draft.words.update(_pairs(rest)[0])


def _kind_line(draft: _Draft, number: int, line: str, words: list[str]) -> None:
    kind = words[0]
    found, dangling = _pairs(words[1:])
    if dangling and kind == "bond_slave":
        raise not_understood("ip", number, line, f"whole: '{dangling}' has no value")
    # Found by name, because a word without a value may put the pairs of a kind out of step.
    for match in _LIMITS.finditer(line):
        draft.words[match["key"]] = match["value"]
    if kind.endswith(("_slave", "_port")):
        draft.member_kind = kind.rpartition("_")[0]
        draft.member_details = found
    elif kind != "addrgenmode":
        draft.kind = kind
        draft.details = found


def _address(words: list[str]) -> Address:
    local, _, prefix = words[1].partition("/") if len(words) > 1 else ("", "", "")
    found, _ = _pairs(words[2:])
    peer = found.get("peer")
    if peer is not None:
        peer, _, prefix = peer.partition("/")
    if not local:
        raise NotUnderstoodError(f"ip: '{' '.join(words)[:80]}' is no address.")
    length = integer(prefix, f"ip: the prefix length of '{local[:80]}'") if prefix else None
    return Address(words[0], local, length, scope=found.get("scope"), peer=peer)


def _traffic(number: int, names: list[str], values: tuple[int, str]) -> Traffic:
    """Counters from the line of their names and the line of their values below it."""
    figures = values[1].split()
    if len(figures) != len(names):
        raise NotUnderstoodError(
            f"ip: line {number} names {len(names)} counters, the line below it has {len(figures)}."
        )
    what = f"ip: a counter on line {values[0]}"
    found = {name: integer(figure, what) for name, figure in zip(names, figures, strict=True)}
    try:
        return Traffic(
            bytes=found["bytes"],
            packets=found["packets"],
            errors=found["errors"],
            dropped=found["dropped"],
            overruns=found.get("overrun", found.get("missed")),
            multicast=found.get("mcast"),
            carrier_errors=found.get("carrier"),
            collisions=found.get("collsns"),
        )
    except KeyError as error:
        raise NotUnderstoodError(f"ip: line {number} does not name the counter {error}.") from None
