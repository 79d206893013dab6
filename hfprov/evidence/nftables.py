"""nftables: the table that guards the management interface, its file and its unit."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError
from hfprov.evidence import systemd
from hfprov.evidence.packet_filter import NFT, OWN_TABLE, nft_tables
from hfprov.evidence.systemd import Properties
from hfprov.evidence.systemd_units import together
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import Observation, Result, Source, command, file

TABLE = f"table inet {OWN_TABLE}"
RULES_FILE = file("/etc/hfprov/management.nft")
UNIT = "hfprov-firewall.service"
UNIT_FILE = file(f"/etc/systemd/system/{UNIT}")
_LIST = command("nft", "--stateless", "list", "table", "inet", OWN_TABLE)
_UNIT_READ = together(
    command("systemctl", "show", "--property=LoadState,UnitFileState,NeedDaemonReload", "--", UNIT)
)


def parse_rules(text: str) -> tuple[str, ...]:
    """Lines of a ruleset in order, without comments; elements of sets sorted, networks as nft does.

    nft lists a set of one element without braces, in the versions that we met.
    """
    found = []
    for line in clean(text).splitlines():
        plain = " ".join(line.split())
        if plain and not plain.startswith("#"):
            found.append(re.sub(r"\{ ([^{}]*) \}", lambda match: _sorted_set(match[1]), plain))
    return tuple(found)


def _sorted_set(elements: str) -> str:
    parts = sorted(_network(part.strip()) for part in elements.split(","))
    return parts[0] if len(parts) == 1 else f"{{ {', '.join(parts)} }}"


def _network(text: str) -> str:
    """A network as nft writes it: a single address has no length."""
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return text
    is_one = network.prefixlen == network.max_prefixlen
    return str(network.network_address if is_one else network)


def _parse_live(seen: Observation, baseline: Baseline) -> tuple[str, ...] | None:
    if NFT.id in seen.results:
        found = re.search(rf"^{TABLE} \{{\n.*?^\}}", nft_tables(seen), re.MULTILINE | re.DOTALL)
        return parse_rules(found[0]) if found else None
    return _parse_listed(seen, baseline)


def _parse_listed(seen: Observation, _: Baseline) -> tuple[str, ...] | None:
    """As evidence has it that was recorded before other tables were listed with it."""
    result = seen.one(_LIST)
    no_table = result.code == 1 and "No such file or directory" in result.stderr
    if result.status == "absent" or no_table:
        return None
    if result.code == 1 and not result.text:
        raise NoEvidenceError(f"nft does not list its rules: {excerpt(result.stderr)}")
    return parse_rules(seen.text(_LIST))


LIVE_RULES: Source[tuple[str, ...] | None] = Source(
    "rules of the management interface", lambda _: (NFT,), _parse_live
)
"""Rules in the kernel; None when there is no such table, or no nft to load one."""


class AtBoot(Struct, frozen=True):
    """What is loaded at boot."""

    files: Mapping[str, Result]
    unit: Properties


def _parse_at_boot(seen: Observation, _: Baseline) -> AtBoot:
    results = [seen.one(read) for read in (RULES_FILE, UNIT_FILE)]
    (unit,) = systemd.parse(seen.text(_UNIT_READ))
    return AtBoot({one.name: one for one in results if one.status != "absent"}, unit)


AT_BOOT: Source[AtBoot] = Source(
    "firewall at boot", lambda _: (RULES_FILE, UNIT_FILE, _UNIT_READ), _parse_at_boot
)

GUARD_UNIT = "hfprov-guard.timer"
_GUARD_READ = together(command("systemctl", "show", "--property=ActiveState", "--", GUARD_UNIT))
GUARD: Source[Properties] = Source(
    "guard of unconfirmed changes",
    lambda _: (_GUARD_READ,),
    lambda seen, _: systemd.parse(seen.text(_GUARD_READ))[0],
)
