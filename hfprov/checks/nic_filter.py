"""No packet filter drops what data interfaces receive or send, whoever set it up.

NCCL, MPI and storage connect by any port among the nodes: a rule that lets in what is known and
drops the rest stops them, and nothing says so. The role's own table guards another interface and is
left to its checks. What is dropped by a mark, a port or a state on every interface is not told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from ipaddress import IPv4Network

from hfprov.baseline import Baseline
from hfprov.checks.mtu_address import carriers
from hfprov.checks.nic import VARIABLE, declared, not_requested
from hfprov.checks.nic_routes import own_networks, routing
from hfprov.checks.registry import Facts, check
from hfprov.errors import NotUnderstoodError
from hfprov.evidence.filter_rules import (
    ACCEPT,
    DROP,
    GOTO,
    JUMP,
    RETURN,
    Addresses,
    Chain,
    FilterRule,
    Interfaces,
)
from hfprov.evidence.local_addresses import LOCAL_ADDRESSES
from hfprov.evidence.managed_links import IPV4_ROUTES, LINKS
from hfprov.evidence.nftables import TABLE
from hfprov.evidence.packet_filter import PACKET_FILTER, PacketFilter
from hfprov.verdict import Finding, Impact, failed, passed, unknown, warned

_INWARDS = ("prerouting", "input", "ingress")
_OUTWARDS = ("output", "postrouting", "egress")
_ROLES_TABLE = TABLE.removeprefix("table ")
_DEEPEST = 16
_MOST_RULES = 20_000
_MOST_FINDINGS = 8
_EXPECTED = "nothing dropped"


@dataclass(frozen=True, slots=True)
class Traffic:
    """Packets of a data interface in one direction."""

    devices: frozenset[str]
    own: tuple[IPv4Network, ...]
    """Its addresses."""
    networks: tuple[IPv4Network, ...]
    """Where the other nodes are."""
    inwards: bool = True


@dataclass(frozen=True, slots=True)
class Path:
    """Which packets come to a chain or rule."""

    is_narrow: bool = False
    """Only some, by a port, a state, a mark."""
    is_part: bool = False
    """Only those of some nodes."""
    is_named: bool = False
    """Whether they are meant by an interface or address."""

    @property
    def is_whole(self) -> bool:
        return not (self.is_narrow or self.is_part)


@dataclass(frozen=True, slots=True)
class Dropped:
    """What drops something."""

    where: str
    """Table and chain that the kernel begins with."""
    by: str
    is_narrow: bool


@check(
    "nic.filter",
    reads=[LINKS, LOCAL_ADDRESSES, IPV4_ROUTES, PACKET_FILTER],
    impact=Impact.MANUAL,
    judges=[VARIABLE],
)
def filtered(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """No chain of netfilter drops all, or by name a part, of what data interfaces carry."""
    names = declared(baseline)
    if not names:
        yield not_requested()
        return
    links, rules, local = facts.get(LINKS), facts.get(PACKET_FILTER), facts.get(LOCAL_ADDRESSES)
    now = routing((), facts.get(IPV4_ROUTES))
    for name in names:
        link = links.find(name)
        if link is None:
            yield unknown(name, reason="There is no interface of this name.", expected=_EXPECTED)
            continue
        devices = carriers(link, links)[0]
        networks = own_networks(devices, local, now)
        own = tuple(map(IPv4Network, networks))
        found = list(drops(rules, Traffic(frozenset(devices), own, tuple(networks.values()))))
        for one in found[:_MOST_FINDINGS]:
            yield _finding(name, one)
        if not found:
            yield passed(name, observed=_EXPECTED, expected=_EXPECTED)


def _finding(name: str, one: Dropped) -> Finding:
    subject = f"{name} {one.where}"
    if one.is_narrow:
        reason = "What it matches is dropped on the data network; some program may need it."
        return warned(subject, observed=one.by, expected=_EXPECTED, reason=reason)
    reason = "Connections of jobs among the nodes wait until they give up."
    return failed(subject, observed=one.by, expected=_EXPECTED, reason=reason)


def drops(rules: PacketFilter, traffic: Traffic) -> Iterator[Dropped]:
    """What chains drop of packets, in either direction. Raises NotUnderstoodError."""
    search = _Search(rules)
    for (table, name), chain in sorted(rules.chains.items(), key=lambda one: one[0]):
        if chain.hook not in (*_INWARDS, *_OUTWARDS) or table == _ROLES_TABLE:
            continue
        if chain.devices and traffic.devices.isdisjoint(chain.devices):
            continue
        aimed = replace(traffic, inwards=chain.hook in _INWARDS)
        found, decided = search.through((table, name), aimed, Path(is_named=bool(chain.devices)))
        if chain.drops and not decided:
            found.append(("policy drop", False))
        for by, is_narrow in found:
            yield Dropped(f"{table} {name}", by, is_narrow)


class _Search:
    """Follows packets through chains; there is an end to it, whatever jumps where."""

    def __init__(self, rules: PacketFilter) -> None:
        self._chains = rules.chains
        self._left = _MOST_RULES

    def through(
        self, key: tuple[str, str], traffic: Traffic, path: Path, depth: int = 0
    ) -> tuple[list[tuple[str, bool]], bool]:
        """Rules that drop something, with whether by more than addresses; and if all is decided."""
        found: list[tuple[str, bool]] = []
        for rule in self._chains.get(key, Chain()).rules:
            self._left -= 1
            if self._left < 0 or depth > _DEEPEST:
                raise NotUnderstoodError("The packet filter has more rules than are followed here.")
            step = _step(rule, traffic, path)
            if step is None:
                continue
            if rule.verdict == DROP and not rule.is_invalid and (step.is_whole or step.is_named):
                found.append((rule.text, step.is_narrow))
            if rule.verdict in (JUMP, GOTO):
                more, decided = self.through((key[0], rule.target), traffic, step, depth + 1)
                found += more
                if decided:
                    return found, True
            if step.is_whole and rule.verdict in (ACCEPT, DROP):
                return found, True
            if step.is_whole and rule.verdict in (RETURN, GOTO):
                return found, False
        return found, False


def _step(rule: FilterRule, traffic: Traffic, path: Path) -> Path | None:
    """How packets go on by a rule; None where it holds for none of them."""
    ends = (rule.comes_in, rule.goes_out)
    here, there = ends if traffic.inwards else ends[::-1]
    # Of what comes in nobody knows yet by which interface it goes out.
    if there or (here and not _matches_device(here, traffic.devices)):
        return None
    addresses = (rule.source, rule.destination)
    peers, mine = addresses if traffic.inwards else addresses[::-1]
    shares = [
        _share(side, of)
        for side, of in ((peers, traffic.networks), (mine, traffic.own))
        if side is not None
    ]
    if _NONE in shares:
        return None
    return Path(
        path.is_narrow or rule.is_narrow,
        path.is_part or _PART in shares,
        path.is_named or here is not None or bool(shares),
    )


def _matches_device(side: Interfaces, devices: Iterable[str]) -> bool:
    # All of them carry the same packets, one above the other: one that matches is enough.
    found = any(fnmatchcase(name, one) for name in devices for one in side.patterns)
    return found != side.inverted


_ALL, _PART, _NONE = "all", "part", "none"


def _share(side: Addresses, networks: tuple[IPv4Network, ...]) -> str:
    """How much of some networks is meant."""
    whole = all(any(net.subnet_of(one) for one in side.networks) for net in networks)
    some = any(net.overlaps(one) for net in networks for one in side.networks)
    if not networks:
        return _NONE
    if side.inverted:
        return _NONE if whole else (_PART if some else _ALL)
    return _ALL if whole else (_PART if some else _NONE)
