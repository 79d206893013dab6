"""Data interfaces find other nodes, and are found, as these are now: nothing of ARP is set by hand.

Only for IPv4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hfprov.baseline import Baseline
from hfprov.checks.mtu_address import carriers
from hfprov.checks.nic import VARIABLE, declared, not_requested
from hfprov.checks.registry import Facts, check
from hfprov.evidence.arp import ALL, ARP_IGNORE, ARP_SETTINGS, PERMANENT, PROXY_ARP, ArpEntry
from hfprov.evidence.managed_links import LINKS
from hfprov.evidence.text import excerpt
from hfprov.verdict import Finding, Impact, failed, passed, unknown, warned

_MOST_ANSWERED = 2
"""``arp_ignore`` up to this answers for the interface's own addresses; 8 for none."""
_MOST = 8
_LEARNED = "asked for and answered"


@check("nic.arp", reads=[LINKS, PERMANENT, ARP_SETTINGS], impact=Impact.MANUAL, judges=[VARIABLE])
def arp(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Owners of addresses are learned, and the node answers for its own addresses alone."""
    names = declared(baseline)
    if not names:
        yield not_requested()
        return
    links, settings = facts.get(LINKS), facts.get(ARP_SETTINGS)
    for name in names:
        link = links.find(name)
        if link is None:
            yield unknown(name, reason="There is no interface of this name.", expected=_LEARNED)
            continue
        devices = carriers(link, links)[0]
        fixed = [one for one in facts.get(PERMANENT) if one.device in devices]
        found = [*_fixed(name, fixed), *_answers(name, settings)]
        yield from found
        if not found:
            yield passed(name, observed=_LEARNED, expected=_LEARNED)


def _fixed(name: str, entries: list[ArpEntry]) -> Iterator[Finding]:
    for one in entries[:_MOST]:
        more = f"; {len(entries) - _MOST} more" if len(entries) > _MOST else ""
        yield warned(
            f"{name} {excerpt(one.ip)}",
            observed=f"always {excerpt(one.hardware_address)}{more}",
            expected=_LEARNED,
            reason="When that node's adapter or address changes, nothing sent to it arrives.",
        )


def _answers(name: str, settings: Mapping[tuple[str, str], int]) -> Iterator[Finding]:
    def highest(setting: str) -> int:
        # An interface has its own value and that of all, whichever is higher.
        return max(settings.get((one, setting), 0) for one in (name, ALL))

    if (ALL, ARP_IGNORE) not in settings:
        yield unknown(f"{name} {ARP_IGNORE}", reason="The kernel did not tell it.")
    if (ignored := highest(ARP_IGNORE)) > _MOST_ANSWERED:
        yield failed(
            f"{name} {ARP_IGNORE}",
            observed=str(ignored),
            expected=f"at most {_MOST_ANSWERED}",
            reason="It does not answer for its own addresses: other nodes cannot find it.",
        )
    if highest(PROXY_ARP):
        reason = "It answers for addresses of others that it has a route to, and takes their data."
        yield warned(f"{name} {PROXY_ARP}", observed="on", expected="off", reason=reason)
