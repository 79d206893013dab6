"""Roles, packages and accounts can write what they must: nothing is locked against root."""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts, check
from hfprov.evidence.unwritable import UNWRITABLE
from hfprov.verdict import Finding, Impact, failed, passed

_MOST = 8


@check("node.immutable", reads=[UNWRITABLE], impact=Impact.MANUAL)
def immutable(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """What is right today stays as it is when it has to change: the repair fails."""
    found, expected = facts.get(UNWRITABLE), "root may write it"
    for path in found[:_MOST]:
        more = f"; {len(found) - _MOST} more" if len(found) > _MOST else ""
        reason = (
            "The next role, package or account that has to change it fails. It is immutable "
            "('lsattr -d'), or on a file system that is read-only."
        )
        yield failed(path, observed=f"locked{more}", expected=expected, reason=reason)
    if not found:
        yield passed(observed=expected, expected=expected)
