"""A node's own name leads to itself, by an address that others can use, and localhost to itself."""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts, check
from hfprov.evidence.local_addresses import LOCAL_ADDRESSES
from hfprov.evidence.name_resolution import LOCALHOST, NAMES, HostAddress, NameResolution
from hfprov.verdict import (
    Finding,
    Impact,
    NotApplicable,
    failed,
    not_applicable,
    passed,
    warned,
)

_OWN, _ORDER = "own name", "/etc/nsswitch.conf hosts"


@check("node.names", reads=[NAMES, LOCAL_ADDRESSES], impact=Impact.MANUAL)
def names(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """What /etc/hosts says of the node itself, and whether programs are told of it."""
    found = facts.get(NAMES)
    mine = {one.ip for one in facts.get(LOCAL_ADDRESSES)}
    yield from _own(found, mine)
    yield _localhost(found)
    yield _order(found)


def _own(found: NameResolution, mine: set[HostAddress]) -> Iterator[Finding]:
    expected = "an address of the node"
    if not found.own:
        reason = "'/etc/hosts' does not know it: it is left to DNS or to the resolver."
        yield not_applicable(NotApplicable.NOT_REQUESTED, reason, _OWN)
        return
    problems = 0
    for entry in found.own:
        subject, observed = f"{_OWN} {entry.where}", str(entry.address)
        if entry.address.is_loopback:
            reason = (
                "Programs that offer others the address of their own name (Gloo, MPI) offer one "
                "that only this node reaches."
            )
            yield warned(subject, observed=observed, expected=expected, reason=reason)
        elif entry.address not in mine:
            reason = (
                "The node has no such address: its own name leads to another machine, or nowhere."
            )
            yield failed(subject, observed=observed, expected=expected, reason=reason)
        else:
            continue
        problems += 1
    if not problems:
        yield passed(_OWN, observed=expected, expected=expected)


def _localhost(found: NameResolution) -> Finding:
    expected = "the loopback"
    wrong = next((one for one in found.local if not one.address.is_loopback), None)
    if wrong:
        reason = f"'{wrong.where}' has what is meant for the node itself sent elsewhere."
        return failed(LOCALHOST, observed=str(wrong.address), expected=expected, reason=reason)
    if not found.local and not found.knows_localhost:
        reason = "'/etc/hosts' does not know it: programs of one node do not find each other by it."
        return failed(LOCALHOST, observed="unknown", expected=expected, reason=reason)
    return passed(LOCALHOST, observed=expected, expected=expected)


def _order(found: NameResolution) -> Finding:
    expected = "'files' before what ends the search"
    if found.asks_files or not (found.others or found.own):
        return passed(_ORDER, observed="as it should be", expected=expected)
    observed = "no such line" if found.sources is None else " ".join(found.sources)[:120]
    reason = "Names of '/etc/hosts' are not resolved, though it has some."
    if found.sources is None:
        reason = "Names of '/etc/hosts' are resolved only where DNS does not answer at all."
    return failed(_ORDER, observed=observed, expected=expected, reason=reason)
