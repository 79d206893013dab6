"""PTP and chrony do not both set the clock."""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts, check
from hfprov.evidence.ptp import SETTING_CLOCK
from hfprov.verdict import Finding, Impact, NotApplicable, failed, not_applicable, passed


@check(
    "time.ptp",
    reads=[SETTING_CLOCK],
    role="time_sync",
    impact=Impact.MANUAL,
    judges=["time_sync_control_clock"],
)
def ptp(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Neither phc2sys nor ptp4l sets the clock that chronyd is declared to set."""
    if not baseline["time_sync_control_clock"]:
        reason = "chronyd is declared to leave the clock alone."
        yield not_applicable(NotApplicable.NOT_REQUESTED, reason)
        return
    found = facts.get(SETTING_CLOCK)
    for line in found:
        reason = (
            "It sets the clock beside chronyd: they work against each other. No role stops it. "
            "Where PTP is to lead, it can be a source of chrony's ('-E ntpshm')."
        )
        subject = line.split(" ", 1)[0].rpartition("/")[2]
        yield failed(subject, observed=line, expected="chronyd alone", reason=reason)
    if not found:
        yield passed(observed="none", expected="chronyd alone")
