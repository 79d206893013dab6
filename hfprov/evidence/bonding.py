"""``/proc/net/bonding/*``: a bond, its members, and what is wrong with it.

All seven modes, of bonding 3.2 to the kernel's own version numbers of today. Several files in one
text (``cat /proc/net/bonding/*``) give several bonds.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.net_lines import empty, integer, lines_of, value_or_none
from hfprov.evidence.text import excerpt
from hfprov.regex import regex


class BondMode(StrEnum):
    """The kernel's names of the modes, as in ``/sys/class/net/*/bonding/mode``."""

    BALANCE_RR = "balance-rr"
    ACTIVE_BACKUP = "active-backup"
    BALANCE_XOR = "balance-xor"
    BROADCAST = "broadcast"
    LACP = "802.3ad"
    BALANCE_TLB = "balance-tlb"
    BALANCE_ALB = "balance-alb"


_MODES = {
    "load balancing (round-robin)": BondMode.BALANCE_RR,
    "fault-tolerance (active-backup)": BondMode.ACTIVE_BACKUP,
    "load balancing (xor)": BondMode.BALANCE_XOR,
    "fault-tolerance (broadcast)": BondMode.BROADCAST,
    "ieee 802.3ad dynamic link aggregation": BondMode.LACP,
    "transmit load balancing": BondMode.BALANCE_TLB,
    "adaptive load balancing": BondMode.BALANCE_ALB,
}


class Member(Struct, frozen=True):
    """One interface of a bond."""

    name: str
    up: bool
    speed_mbps: int | None
    duplex: str | None
    link_failures: int | None
    permanent_address: str | None
    aggregator_id: int | None = None
    actor_churned: bool | None = None
    """True: this side of LACP has not settled. None: not told (old kernels, other modes)."""
    partner_churned: bool | None = None


class Aggregator(Struct, frozen=True):
    """The aggregator that 802.3ad uses."""

    id: int
    ports: int | None
    partner_address: str | None
    """None when there is no partner: the switch does not speak LACP (all zero)."""


class Bond(Struct, frozen=True):
    """One file of ``/proc/net/bonding``."""

    mode: BondMode
    up: bool
    members: tuple[Member, ...]
    hash_policy: str | None = None
    primary: str | None = None
    active_member: str | None = None
    polling_ms: int | None = None
    up_delay_ms: int | None = None
    down_delay_ms: int | None = None
    arp_interval_ms: int | None = None
    lacp_rate: str | None = None
    min_links: int | None = None
    aggregator: Aggregator | None = None
    driver_version: str | None = None
    problems: tuple[str, ...] = ()
    """What does not fit together, in sentences: members down, aggregators that differ, …"""


_NO_ADDRESS = "00:00:00:00:00:00"
_STARTS = "Ethernet Channel Bonding Driver:"
_SPEED = regex(r"(?P<mbps>[0-9]{1,9}) Mbps")


class _Block(Struct):
    """Pairs of the bond itself, or of one member; the first of a repeated key counts."""

    pairs: dict[str, str]
    garbled: list[str]

    def number(self, key: str) -> int | None:
        value = self.pairs.get(key)
        if value is None or value.upper() == "N/A":
            return None
        return integer(value, f"/proc/net/bonding: '{key}'")

    def up(self, what: str) -> bool:
        value = self.pairs.get("MII Status")
        if value not in ("up", "down", "going down", "going back"):
            said = "nothing" if value is None else f"'{excerpt(value)}'"
            raise NotUnderstoodError(
                f"/proc/net/bonding: 'MII Status' of {what} is {said}, not 'up' or 'down'."
            )
        return value == "up"


def parse(text: str) -> tuple[Bond, ...]:
    """One bond per file in the text. Raises NotUnderstoodError for what is no whole bond."""
    lines = lines_of(text)
    if not any(line.strip() for line in lines):
        raise empty("/proc/net/bonding")
    starts = [at for at, line in enumerate(lines) if line.startswith(_STARTS)]
    if not starts:
        raise NotUnderstoodError(f"/proc/net/bonding: there is no line '{_STARTS} …'.")
    ends = [*starts[1:], len(lines)]
    return tuple(_bond(lines[start:end]) for start, end in zip(starts, ends, strict=True))


def _bond(lines: list[str]) -> Bond:
    head, members = _blocks(lines)
    mode_text = head.pairs.get("Bonding Mode", "")
    mode = _MODES.get(mode_text.partition(" (fail_over_mac")[0].strip().lower())
    if mode is None:
        raise NotUnderstoodError(f"/proc/net/bonding: '{excerpt(mode_text)}' is no bonding mode.")
    bond = Bond(
        mode,
        up=head.up("the bond"),
        members=tuple(_member(name, block, mode) for name, block in members),
        hash_policy=value_or_none(head.pairs.get("Transmit Hash Policy", "")),
        primary=value_or_none(head.pairs.get("Primary Slave", "").partition(" (")[0]),
        active_member=value_or_none(head.pairs.get("Currently Active Slave", "")),
        polling_ms=head.number("MII Polling Interval (ms)"),
        up_delay_ms=head.number("Up Delay (ms)"),
        down_delay_ms=head.number("Down Delay (ms)"),
        arp_interval_ms=head.number("ARP Polling Interval (ms)"),
        lacp_rate=value_or_none(head.pairs.get("LACP rate", "")),
        min_links=head.number("Min links"),
        aggregator=_aggregator(head),
        driver_version=value_or_none(head.pairs.get(_STARTS.rstrip(":"), "")),
    )
    garbled = [line for block in (head, *(block for _, block in members)) for line in block.garbled]
    return _with_problems(bond, garbled)


def _blocks(lines: list[str]) -> tuple[_Block, list[tuple[str, _Block]]]:
    head = _Block({}, [])
    members: list[tuple[str, _Block]] = []
    into = head
    for line in lines:
        stripped = line.strip()
        if not stripped:
            continue
        key, colon, value = (part.strip() for part in stripped.partition(":"))
        if colon and key == "Slave Interface":
            into = _Block({}, [])
            members.append((value, into))
        elif colon:
            # 'details … lacp pdu' repeats names such as 'port key': the member's own come first.
            into.pairs.setdefault(key, value)
        elif stripped != "802.3ad info" and "has no active aggregator" not in stripped:
            into.garbled.append(stripped)
    return head, members


def _member(name: str, block: _Block, mode: BondMode) -> Member:
    what = f"member '{excerpt(name)}'"
    if not name:
        raise NotUnderstoodError("/proc/net/bonding: a 'Slave Interface:' has no name.")
    if mode is BondMode.LACP and "Aggregator ID" not in block.pairs:
        raise NotUnderstoodError(f"/proc/net/bonding: {what} ends before its 'Aggregator ID'.")
    if "Permanent HW addr" not in block.pairs:
        raise NotUnderstoodError(f"/proc/net/bonding: {what} ends before its 'Permanent HW addr'.")
    speed = _SPEED.fullmatch(block.pairs.get("Speed", ""))
    duplex = block.pairs.get("Duplex", "").lower()
    return Member(
        name,
        up=block.up(what),
        speed_mbps=int(speed["mbps"]) if speed else None,
        duplex=duplex if duplex in ("full", "half") else None,
        link_failures=block.number("Link Failure Count"),
        permanent_address=value_or_none(block.pairs["Permanent HW addr"]),
        aggregator_id=block.number("Aggregator ID"),
        actor_churned=_churned(block.pairs, "Actor Churn State"),
        partner_churned=_churned(block.pairs, "Partner Churn State"),
    )


def _churned(pairs: Mapping[str, str], key: str) -> bool | None:
    value = pairs.get(key)
    return None if value is None else value == "churned"


def _aggregator(head: _Block) -> Aggregator | None:
    number = head.number("Aggregator ID")
    if number is None:
        return None
    partner = head.pairs.get("Partner Mac Address", _NO_ADDRESS)
    return Aggregator(
        number,
        ports=head.number("Number of ports"),
        partner_address=None if partner == _NO_ADDRESS else partner,
    )


def _with_problems(bond: Bond, garbled: list[str]) -> Bond:
    problems = [f"Line '{excerpt(line)}' is not understood." for line in garbled]
    if not bond.members:
        problems.append("The bond has no member.")
    problems += [f"Member '{member.name}' is down." for member in bond.members if not member.up]
    speeds = {member.speed_mbps for member in bond.members if member.up}
    if len(speeds) > 1:
        problems.append("The members that are up do not have the same speed.")
    if bond.mode is BondMode.LACP:
        problems += _lacp_problems(bond)
    if bond.mode is BondMode.ACTIVE_BACKUP and bond.active_member is None:
        problems.append("No member is active.")
    return replace(bond, problems=tuple(problems))


def _lacp_problems(bond: Bond) -> list[str]:
    aggregator = bond.aggregator
    ids = {member.aggregator_id for member in bond.members}
    problems: list[str] = []
    if len(ids) > 1:
        problems.append("The members are in different aggregators: only one of them carries data.")
    if aggregator is None:
        return [*problems, "There is no active aggregator, or only root may read it."]
    if aggregator.partner_address is None:
        problems.append("The other side does not speak LACP: there is no partner.")
    inside = sum(1 for member in bond.members if member.aggregator_id == aggregator.id)
    if aggregator.ports is not None and aggregator.ports != inside:
        problems.append(
            f"The aggregator has {aggregator.ports} ports, but {inside} members are listed in it."
        )
    return problems
