"""Chains of netfilter that see what comes in and what goes out: nft's, and those of older iptables.

Only tables that filter there are asked for: those of address translation have thousands of lines
where containers are. ``iptables-legacy-save`` would make its table where there is none, so the
kernel's list is looked at first. Sources: nft(8), iptables-save(8), netfilter's hooks.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError
from hfprov.evidence.filter_rules import Chain, iptables_chains, nft_chains
from hfprov.evidence.text import clean
from hfprov.reading import KIB, Observation, Source, command

OWN_TABLE = "hfprov_management"
"""The role's; it is listed whatever is in it, as one that is left over has no chains."""
_TABLES_MARK = "hfprov-tables"
# Debian's iptables keeps its rules in nft's tables, and does not need nft to be there.
_NFT_SCRIPT = f"""\
if ! command -v nft >/dev/null; then
  echo {_TABLES_MARK}
  command -v iptables-nft-save >/dev/null || exit 0
  exec iptables-nft-save -t filter
fi
chains=$(nft --stateless list chains) || exit
printf '%s\\n{_TABLES_MARK}\\n' "$chains"
listed=' '
while read -r word kind name hook rest; do
  case "$word $kind $hook" in
    'table '*)
      family=$kind table=$name
      [ "$table" = {OWN_TABLE} ] || continue ;;
    'type filter '*|'type route output')
      case "$hook $listed " in forward*|*" $family/$table "*) continue ;; esac ;;
    *) continue ;;
  esac
  listed="$listed$family/$table "
  nft --stateless list table "$family" "$table" </dev/null || exit
done <<END
$chains
END"""
NFT = command(
    "sh", "-c", _NFT_SCRIPT, timeout=15, limit=1024 * KIB, needs="/usr/sbin/*nft*"
)  # fmt: skip
_LEGACY_SCRIPT = """\
while read -r table; do
  [ "$table" != filter ] || exec iptables-legacy-save -t filter
done </proc/net/ip_tables_names"""
_LEGACY = command(
    "sh", "-c", _LEGACY_SCRIPT, limit=1024 * KIB, needs="/proc/net/ip_tables_names"
)  # fmt: skip


class PacketFilter(Struct, frozen=True):
    """Chains by table (``inet filter``) and name."""

    chains: Mapping[tuple[str, str], Chain]


def nft_tables(seen: Observation) -> str:
    """The tables that filter what comes in or goes out, as nft or iptables lists them.

    "" without either. Raises NoEvidenceError.
    """
    result = seen.one(NFT)
    if result.status == "absent":
        return ""
    _, mark, tables = clean(seen.text(NFT)).partition(f"{_TABLES_MARK}\n")
    if not mark:
        raise NoEvidenceError("nft did not list its chains.")
    return tables


def _parse(seen: Observation, _: Baseline) -> PacketFilter:
    tables = nft_tables(seen)
    chains = nft_chains(tables) | iptables_chains(tables)
    if seen.one(_LEGACY).status != "absent":
        chains |= iptables_chains(seen.text(_LEGACY))
    return PacketFilter(chains)


PACKET_FILTER: Source[PacketFilter] = Source("packet filter", lambda _: (NFT, _LEGACY), _parse)
