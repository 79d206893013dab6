"""The node stays up while jobs run: no reboot is planned but by those who drain it first."""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts, check
from hfprov.evidence.planned_reboots import PLANNED_REBOOTS
from hfprov.verdict import Finding, Impact, passed, warned


@check("boot.planned", reads=[PLANNED_REBOOTS], impact=Impact.MANUAL)
def planned(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """Neither 'shutdown' nor a crontab or unit of the site will take the node down."""
    found, expected = facts.get(PLANNED_REBOOTS), "no reboot that nobody drains for"
    for one in found:
        reason = "It ends whatever runs on the node then, whether a scheduler knows of it or not."
        yield warned(one.where, observed=one.command, expected=expected, reason=reason)
    if not found:
        yield passed(observed="none", expected=expected)
