"""What an interface answers and knows about addresses of IPv4 on its network.

Sources: proc_net(5), ``/proc/net/arp``; Linux, include/uapi/linux/if_arp.h (``ATF_PERM``) and
Documentation/networking/ip-sysctl.rst (``arp_ignore``, ``proxy_arp``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NotUnderstoodError
from hfprov.evidence.grep import grep, lines
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import Observation, Read, Source, file
from hfprov.regex import regex

# Of thousands of neighbours only those that stay whatever happens: complete (2) and permanent (4).
_READ = grep(r"^[0-9.]+ +0x[0-9a-f]+ +0x[46] ", "/proc/net/arp")
_ROW = regex(r"([0-9.]{7,15}) +0x[0-9a-f]+ +0x[46] +(\S{1,100}) +\S+ +(\S{1,15}) *")


class ArpEntry(Struct, frozen=True):
    """An address whose owner was set by hand: it stays, whoever has the address now."""

    ip: str
    hardware_address: str
    device: str


def _parse(seen: Observation, _: Baseline) -> tuple[ArpEntry, ...]:
    found = []
    for line in lines(seen, _READ):
        match = _ROW.fullmatch(line.text)
        if match is None:
            raise NotUnderstoodError(f"'{excerpt(line.text)}' is no row of '/proc/net/arp'.")
        found.append(ArpEntry(*match.groups()))
    return tuple(found)


PERMANENT: Source[tuple[ArpEntry, ...]] = Source(
    "permanent neighbours of IPv4", lambda _: (_READ,), _parse
)

ARP_IGNORE, PROXY_ARP = "arp_ignore", "proxy_arp"
ALL = "all"
"""Stands for the least that each interface has."""


def _reads(baseline: Baseline) -> tuple[Read, ...]:
    names = map(str, baseline.get("jumbo_mtu_interfaces") or ())
    found = [name for name in names if re.fullmatch(r"[\w:.@-]{1,15}", name) and name.strip(".")]
    return tuple(
        file(f"/proc/sys/net/ipv4/conf/{name}/{setting}", limit=64)
        for name in dict.fromkeys((*found, ALL) if found else ())
        for setting in (ARP_IGNORE, PROXY_ARP)
    )


def _parse_settings(seen: Observation, baseline: Baseline) -> Mapping[tuple[str, str], int]:
    found = {}
    for read in _reads(baseline):
        if seen.exists(read):
            text = clean(seen.text(read)).strip()
            if not re.fullmatch("[0-9]{1,9}", text):
                raise NotUnderstoodError(f"'{excerpt(text)}' is no setting of ARP.")
            name, setting = str(read.request["path"]).split("/")[-2:]
            found[name, setting] = int(text)
    return found


ARP_SETTINGS: Source[Mapping[tuple[str, str], int]] = Source(
    "answers to ARP", _reads, _parse_settings
)
"""Values by declared data interface, or :data:`ALL`, and setting."""
