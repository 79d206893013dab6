"""What stands between a host and its certificate. Pure; the caller passes the time in.

Everything starts as "not certified". A required check that is absent, skipped, unknown or failed
blocks; so does a diagnosis or a measurement that was not made, is too old, proves nothing or is not
good enough; and so does a host on which nothing was judged.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from hfprov.catalogue.profiles import Diagnosis, Profile, Required
from hfprov.catalogue.skus import NONE
from hfprov.certificate.case import (
    ABSENT,
    PROVEN,
    TOLERANCE,
    Blocker,
    Case,
    Stage,
    bad,
    blocker_of,
    excused,
    same_boot,
    too_old,
)
from hfprov.certificate.smoke import smoke_blockers
from hfprov.record.model import Measurement
from hfprov.verdict import Outcome, Verdict, badness
from hfprov.words import plural


def blockers(case: Case, profile: Profile, now: datetime) -> list[Blocker]:
    """Everything that blocks, in the order in which to deal with it."""
    found = [
        *_basis(case, profile, now),
        *_checks(case.verdicts, profile.required(case.sku), now),
    ]
    if profile.diagnosis is not None and case.sku != NONE:
        found += _diagnosis(case, profile.diagnosis, now)
    if profile.container_smoke is not None:
        found += smoke_blockers(case, profile.container_smoke, now)
    for wanted in profile.measurements:
        if case.sku != NONE or not wanted.only_with_accelerators:
            found += _measurement(case, wanted, now)
    unique = {(one.stage, one.check, one.subject): one for one in found}
    return sorted(unique.values(), key=_order)


def unreachable(reason: str, hint: str) -> Blocker:
    """The one blocker of a host that was not observed."""
    remedy = hint or "Make the host reachable and certify it again."
    return Blocker("reachable", "", Outcome.UNKNOWN.value, reason, remedy, Stage.REACH)


def _order(one: Blocker) -> tuple[int, int, str, str]:
    known = {outcome.value for outcome in Outcome}
    rank = -badness(Outcome(one.outcome) if one.outcome in known else Outcome.UNKNOWN)
    return (one.stage, rank, one.check, one.subject)


def _basis(case: Case, profile: Profile, now: datetime) -> Iterator[Blocker]:
    def block(check: str, reason: str, remedy: str) -> Blocker:
        return Blocker(check, "", Outcome.UNKNOWN.value, reason, remedy, Stage.REACH)

    if case.identity is None or not case.identity.digest:
        reason = "Nothing identifies the machine, so a certificate could be that of any other."
        yield block("identity", reason, "Give the node a machine-id: systemd-machine-id-setup.")
    if not case.evidence_sha256:
        yield block("evidence", "There is no evidence of this host.", "Certify it again.")
    if case.observed_at > now + TOLERANCE:
        reason = f"It was observed {case.observed_at:%Y-%m-%d %H:%M} UTC, which is in the future."
        yield block("clock", reason, "Set the controller's clock.")
    elif now - case.observed_at > timedelta(minutes=profile.observed_within_minutes):
        reason = (
            f"It was observed {case.observed_at:%Y-%m-%d %H:%M} UTC, and the profile allows "
            f"{profile.observed_within_minutes:g} min."
        )
        yield block("freshness", reason, "Certify it again.")


def _checks(verdicts: Sequence[Verdict], required: Sequence[str], now: datetime) -> list[Blocker]:
    found = []
    for pattern in required:
        matching = [one for one in verdicts if fnmatch.fnmatchcase(one.check, pattern)]
        mine = [blocker_of(one, Stage.CHECKS) for one in bad(matching, now)]
        if not mine and not any(one.outcome in PROVEN or excused(one, now) for one in matching):
            mine.append(_absent(pattern, matching))
        found += mine
    return found


def _absent(pattern: str, matching: Sequence[Verdict]) -> Blocker:
    if not matching:
        reason = "The profile requires it, and no such check was made."
        remedy = "Is the role that it belongs to left out ('hfprov_skip_roles')?"
        return Blocker(pattern, "", ABSENT, reason, remedy)
    why = next((one.finding.reason for one in matching if one.finding.reason), "")
    reason = f"The profile requires it, and it was skipped. {why}".strip()
    return Blocker(pattern, "", ABSENT, reason, "Use a profile that fits this kind of node.")


def _diagnosis(case: Case, wanted: Diagnosis, now: datetime) -> Iterator[Blocker]:
    what = f"level {wanted.level}"
    remedy = f"Drain the node and run 'hfprov diagnose --level {wanted.level}'."

    def block(outcome: str, reason: str) -> Blocker:
        return Blocker("diagnosis", what, outcome, reason, remedy, Stage.DIAGNOSIS)

    done = case.diagnosed
    if done is None:
        yield block(ABSENT, "The node was never diagnosed.")
        return
    if not done.finished:
        yield block("unknown", "The newest diagnosis did not come to a judgement.")
        return
    yield from (blocker_of(one, Stage.DIAGNOSIS) for one in bad(done.verdicts, now))
    if not any(one.outcome in PROVEN for one in done.verdicts):
        yield block(ABSENT, "The newest diagnosis tested nothing: everything was skipped.")
    late = too_old(done.at, wanted.max_age_hours, now)
    if late:
        yield block("unknown", f"The newest diagnosis {late}.")
    levels = [one for one in done.measurements if _level(one) >= wanted.level]
    tools = {one.check for one in done.verdicts if one.check.startswith("diagnose.")}
    if not levels or len(levels) < len(tools):
        yield block(ABSENT, "The newest diagnosis was less thorough.")
    for one in done.measurements:
        if one.value is None:
            yield block("unknown", f"'{one.test}' judged nothing.")
        elif wanted.same_boot and not same_boot(one, case.configuration):
            yield block("unknown", f"'{one.test}' ran before the node was booted last.")


def _level(one: Measurement) -> int:
    level = one.parameters.get("level")
    return level if isinstance(level, int) else 0


def answers(one: Measurement, wanted: Required) -> bool:
    """Whether a measurement is one of what is wanted, good or bad."""
    same = all(one.parameters.get(name) == value for name, value in wanted.parameters.items())
    return one.test == wanted.test and same


def newest(measurements: Sequence[Measurement], wanted: Required) -> Measurement | None:
    """The newest measurement of what is wanted, good or bad."""
    return next((one for one in reversed(measurements) if answers(one, wanted)), None)


def _measurement(case: Case, wanted: Required, now: datetime) -> Iterator[Blocker]:
    def block(outcome: str, reason: str, remedy: str) -> Blocker:
        return Blocker("measurement", wanted.test, outcome, reason, remedy, Stage.MEASUREMENTS)

    again = f"Measure '{wanted.test}' on the drained node."
    one = newest(case.measurements, wanted)
    if one is None:
        yield block(ABSENT, "It was never measured, and the profile requires it.", again)
        return
    late = too_old(one.at, wanted.max_age_hours, now)
    if late:
        yield block("unknown", f"The newest measurement {late}.", again)
    if wanted.same_boot and not same_boot(one, case.configuration):
        yield block("unknown", "It was measured before the node was booted last.", again)
    if one.value is None:
        yield block("unknown", "It was tried and gave no value.", again)
        return
    if one.unit != wanted.unit:
        reason = f"It was measured in '{one.unit}', and the profile wants '{wanted.unit}'."
        yield block("unknown", reason, again)
        return
    if len(one.samples) < wanted.min_samples:
        reason = (
            f"It has {plural(len(one.samples), 'sample')}, and {wanted.min_samples} are wanted."
        )
        yield block("unknown", reason, again)
    gate = wanted.gate_for(case.sku)
    if gate is None:
        reason = f"The profile has no gate for the SKU '{case.sku or '(not declared)'}'."
        yield block("unknown", reason, "Add a gate with its source to a profile of the site.")
    elif not gate.holds(one.value):
        reason = f"{one.value:g} {one.unit}, expected {gate.words} {one.unit}."
        yield block("fail", reason, "Look at the link, its switch and the NUMA binding; repeat.")
