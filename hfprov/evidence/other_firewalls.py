"""Firewalls beside the role's table: ufw, firewalld, saved iptables rules, nftables' own service.

Sources: ufw(8), firewalld(1), netfilter-persistent(8), nft(8).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.evidence.inbound_rules import (
    Inbound,
    assigned,
    is_named,
    nft_statements,
    parse_firewalld,
    parse_iptables,
    parse_nft,
    parse_ufw,
    together,
)
from hfprov.evidence.systemd import Properties, property_of
from hfprov.evidence.systemd_units import shown_units, units
from hfprov.reading import KIB, Observation, Read, Source, complete_text, file, glob
from hfprov.regex import regex

UFW, FIREWALLD, NFTABLES = "ufw.service", "firewalld.service", "nftables.service"
RESTORING = ("netfilter-persistent.service", "iptables.service", "ip6tables.service")
"""What loads saved rules at boot: Debian's iptables-persistent, EL's iptables-services."""
_UNITS = units(UFW, FIREWALLD, NFTABLES, *RESTORING, properties=("ActiveState", "UnitFileState"))
_UFW = file("/etc/ufw/ufw.conf")
_UFW_DEFAULTS = file("/etc/default/ufw")
_UFW_RULES = file("/etc/ufw/user.rules", limit=256 * KIB)
_FIREWALLD = file("/etc/firewalld/firewalld.conf")
_ZONES = glob("/etc/firewalld/zones/*.xml")
_SAVED: Mapping[str, tuple[Read, ...]] = {
    RESTORING[0]: tuple(
        file(f"/etc/iptables/{name}", limit=256 * KIB) for name in ("rules.v4", "rules.v6")
    ),
    RESTORING[1]: (file("/etc/sysconfig/iptables", limit=256 * KIB),),
    RESTORING[2]: (file("/etc/sysconfig/ip6tables", limit=256 * KIB),),
}
"""The files that each of them loads."""
_NFT = tuple(
    file(path, limit=256 * KIB) for path in ("/etc/nftables.conf", "/etc/sysconfig/nftables.conf")
)
"""Debian's and EL's: the service loads the one that there is."""
_NFT_INCLUDED = (glob("/etc/nftables.d/*", limit=64 * KIB), glob("/etc/nftables/*", limit=64 * KIB))
_READ_INCLUDES = regex(r"/etc/nftables(?:\.d)?/[\w.*-]+")


class NftFile(Struct, frozen=True):
    """What nftables' own service loads."""

    path: str
    inbound: Inbound
    flushes: bool
    """Whether it takes away every table, the role's too, whenever it is loaded."""
    unread: tuple[str, ...]
    """What it includes from places that are not read."""


class OtherFirewalls(Struct, frozen=True):
    """Every firewall that is known here, as far as a node has it."""

    units: Mapping[str, Properties]
    ufw: Inbound | None
    """None: it is switched off in the file that it goes by, or is not there."""
    firewalld: Inbound
    saved: Mapping[str, Inbound]
    """By the unit that loads the rules; only where there are files of them."""
    nft: NftFile | None

    def is_there(self, unit: str) -> bool:
        return property_of(self.units[unit], "LoadState") != "not-found"

    def is_on(self, unit: str) -> bool:
        """Whether it is at work, or will be after the next boot."""
        active = property_of(self.units[unit], "ActiveState")
        enabled = property_of(self.units[unit], "UnitFileState").startswith("enabled")
        return self.is_there(unit) and (active in ("active", "activating", "reloading") or enabled)

    def state(self, unit: str) -> str:
        """What systemd says of it, as ``active, enabled``."""
        words = (property_of(self.units[unit], key) for key in ("ActiveState", "UnitFileState"))
        return ", ".join(word for word in words if word)


def _texts(seen: Observation, *reads: Read) -> dict[str, str]:
    """Texts by path of files that are there. Raises NoEvidenceError when one is not whole."""
    return {
        result.name: complete_text(read, result)
        for read in reads
        for result in seen.each(read)
        if result.status != "absent" and result.type == "file"
    }


def _all(seen: Observation, *reads: Read) -> str:
    return "\n".join(_texts(seen, *reads).values())


def _nft(seen: Observation) -> NftFile | None:
    mains = _texts(seen, *_NFT)
    if not mains:
        return None
    path, text = next(iter(mains.items()))
    found = [re.fullmatch(r"include [\"'](.+)[\"']", one) for one in nft_statements(text)]
    # nft looks for a relative one below /etc.
    included = [f"/etc/{one[1]}".replace("/etc//", "/") for one in found if one]
    more = _texts(seen, *_NFT_INCLUDED)
    text = "\n".join([text, *(more[place] for place in more if is_named(place, included))])
    return NftFile(
        path,
        parse_nft(text),
        "flush ruleset" in nft_statements(text),
        tuple(one for one in included if not _READ_INCLUDES.fullmatch(one)),
    )


def _parse(seen: Observation, _: Baseline) -> OtherFirewalls:
    is_ufw_on = assigned(_all(seen, _UFW), "ENABLED") == "yes"
    zones = _texts(seen, _ZONES)
    saved = {unit: _texts(seen, *reads) for unit, reads in _SAVED.items()}
    return OtherFirewalls(
        shown_units(seen, _UNITS)[1],
        parse_ufw(_all(seen, _UFW_DEFAULTS), _all(seen, _UFW_RULES)) if is_ufw_on else None,
        parse_firewalld(
            _all(seen, _FIREWALLD),
            {path.rpartition("/")[2].removesuffix(".xml"): text for path, text in zones.items()},
        ),
        {unit: together(map(parse_iptables, one.values())) for unit, one in saved.items() if one},
        _nft(seen),
    )


def _reads(baseline: Baseline) -> tuple[Read, ...]:
    if not baseline.get("hardening_firewall"):
        return ()
    saved = tuple(read for reads in _SAVED.values() for read in reads)
    others = (_UFW, _UFW_DEFAULTS, _UFW_RULES, _FIREWALLD, _ZONES)
    return (_UNITS, *others, *saved, *_NFT, *_NFT_INCLUDED)


OTHER_FIREWALLS: Source[OtherFirewalls] = Source("other firewalls", _reads, _parse)
"""Not read where no firewall is declared."""
