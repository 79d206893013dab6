"""What stands between a host and its certificate. Pure; the caller passes the time in.

Everything starts as "not certified". A required check that is absent, skipped, unknown or failed
blocks; so does a diagnosis or a measurement that was not made, is too old, proves nothing or is not
good enough; and so does a host on which nothing was judged.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum

from hfprov.baseline import Baseline
from hfprov.catalogue.explanations import explanations
from hfprov.catalogue.profiles import Diagnosis, Profile, Required
from hfprov.catalogue.skus import NONE
from hfprov.certificate.configuration import Configuration
from hfprov.record.identity import Identity
from hfprov.record.model import Measurement
from hfprov.verdict import Outcome, Verdict, badness

PROVEN = frozenset({Outcome.PASS, Outcome.WARN})
ACCEPTABLE = PROVEN | {Outcome.NOT_APPLICABLE}
ABSENT = "absent"
_TOLERANCE = timedelta(minutes=1)
"""How far in the future something may lie that was recorded with another clock."""


class Stage(IntEnum):
    """In which order blockers are to be dealt with: what comes first may make the rest moot."""

    REACH = 0
    CHECKS = 1
    DIAGNOSIS = 2
    MEASUREMENTS = 3


@dataclass(frozen=True, slots=True)
class Blocker:
    """One reason why a node gets no certificate, and what to do about it."""

    check: str
    subject: str
    outcome: str
    reason: str
    remedy: str
    stage: Stage = Stage.CHECKS


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """The newest diagnosis of a host, and what it measured of itself."""

    run: str
    at: datetime
    verdicts: tuple[Verdict, ...]
    measurements: tuple[Measurement, ...]
    finished: bool = True
    """False: a newer diagnosis began and did not come to a judgement."""


@dataclass(frozen=True, slots=True)
class Case:
    """All that is known of one host when it is to be certified."""

    run: str
    baseline: Baseline
    identity: Identity | None
    evidence_sha256: str
    observed_at: datetime
    verdicts: tuple[Verdict, ...]
    configuration: Configuration = field(default_factory=Configuration)
    phase: str = "certify"
    diagnosed: Diagnosed | None = None
    measurements: Sequence[Measurement] = ()
    """Of this host, in the order in which they were recorded."""

    @property
    def host(self) -> str:
        return self.baseline.host

    @property
    def sku(self) -> str:
        """``node_sku`` as declared: a name, ``none``, or empty when nobody said."""
        return str(self.baseline.get("node_sku") or "")


def blockers(case: Case, profile: Profile, now: datetime) -> list[Blocker]:
    """Everything that blocks, in the order in which to deal with it."""
    found = [
        *_basis(case, profile, now),
        *_checks(case.verdicts, profile.required(case.sku), now),
    ]
    if profile.diagnosis is not None and case.sku != NONE:
        found += _diagnosis(case, profile.diagnosis, now)
    for wanted in profile.measurements:
        if case.sku != NONE or not wanted.only_with_accelerators:
            found += _measurement(case, wanted, now)
    unique = {(one.stage, one.check, one.subject): one for one in found}
    return sorted(unique.values(), key=_order)


def unreachable(reason: str, hint: str) -> Blocker:
    """The one blocker of a host that was not observed."""
    remedy = hint or "Make the host reachable and certify it again."
    return Blocker("reachable", "", Outcome.UNKNOWN.value, reason, remedy, Stage.REACH)


def excused(verdict: Verdict, now: datetime) -> bool:
    """Whether somebody answers for a finding at this time."""
    waiver = verdict.finding.waiver
    return waiver is not None and waiver.holds(now)


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
    if case.observed_at > now + _TOLERANCE:
        reason = f"It was observed {case.observed_at:%Y-%m-%d %H:%M} UTC, which is in the future."
        yield block("clock", reason, "Set the controller's clock.")
    elif now - case.observed_at > timedelta(minutes=profile.observed_within_minutes):
        reason = (
            f"It was observed {case.observed_at:%Y-%m-%d %H:%M} UTC, and the profile allows "
            f"{profile.observed_within_minutes:g} minutes."
        )
        yield block("freshness", reason, "Certify it again.")


def _checks(verdicts: Sequence[Verdict], required: Sequence[str], now: datetime) -> list[Blocker]:
    found = []
    for pattern in required:
        matching = [one for one in verdicts if fnmatch.fnmatchcase(one.check, pattern)]
        bad = [_blocker(one, Stage.CHECKS) for one in _bad(matching, now)]
        if not bad and not any(one.outcome in PROVEN or excused(one, now) for one in matching):
            bad.append(_absent(pattern, matching))
        found += bad
    return found


def _bad(verdicts: Iterable[Verdict], now: datetime) -> Iterator[Verdict]:
    for one in verdicts:
        if one.outcome not in ACCEPTABLE and not excused(one, now):
            yield one


def _absent(pattern: str, matching: Sequence[Verdict]) -> Blocker:
    if not matching:
        reason = "The profile requires it, and no such check was made."
        remedy = "Is the role that it belongs to left out ('hfprov_skip_roles')?"
        return Blocker(pattern, "", ABSENT, reason, remedy)
    why = next((one.finding.reason for one in matching if one.finding.reason), "")
    reason = f"The profile requires it, and it was skipped. {why}".strip()
    return Blocker(pattern, "", ABSENT, reason, "Use a profile that fits this kind of node.")


def _blocker(verdict: Verdict, stage: Stage) -> Blocker:
    explained = explanations().get(verdict.check)
    expired = verdict.finding.waiver
    reason = verdict.finding.reason
    if expired is not None:
        until = f"{expired.expires:%Y-%m-%d %H:%M} UTC"
        reason = f"{reason} The waiver of {expired.owner} expired {until}.".strip()
    return Blocker(
        verdict.check,
        verdict.subject,
        verdict.outcome.value,
        reason,
        explained.remedy[0] if explained else "",
        stage,
    )


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
    yield from (_blocker(one, Stage.DIAGNOSIS) for one in _bad(done.verdicts, now))
    if not any(one.outcome in PROVEN for one in done.verdicts):
        yield block(ABSENT, "The newest diagnosis tested nothing: everything was skipped.")
    late = _too_old(done.at, wanted.max_age_hours, now)
    if late:
        yield block("unknown", f"The newest diagnosis {late}.")
    levels = [one for one in done.measurements if _level(one) >= wanted.level]
    tools = {one.check for one in done.verdicts if one.check.startswith("diagnose.")}
    if not levels or len(levels) < len(tools):
        yield block(ABSENT, "The newest diagnosis was less thorough.")
    for one in done.measurements:
        if one.value is None:
            yield block("unknown", f"'{one.test}' judged nothing.")
        elif wanted.same_boot and not _same_boot(one, case.configuration):
            yield block("unknown", f"'{one.test}' ran before the node was booted last.")


def _level(one: Measurement) -> int:
    level = one.parameters.get("level")
    return level if isinstance(level, int) else 0


def _same_boot(one: Measurement, seen: Configuration) -> bool:
    boot = one.conditions.get("boot_id")
    return bool(boot) and boot == seen.boot_id


def _too_old(at: datetime | None, hours: float, now: datetime) -> str:
    if at is None:
        return "is of an unknown time"
    if at > now + _TOLERANCE:
        return f"is of {at:%Y-%m-%d %H:%M} UTC, which is in the future: a clock is wrong"
    if now - at > timedelta(hours=hours):
        return f"is of {at:%Y-%m-%d %H:%M} UTC, and the profile allows {hours:g} hours"
    return ""


def newest(measurements: Iterable[Measurement], wanted: Required) -> Measurement | None:
    """The newest measurement of what is wanted, good or bad."""
    found = None
    for one in measurements:
        same = all(one.parameters.get(name) == value for name, value in wanted.parameters.items())
        if one.test == wanted.test and same:
            found = one
    return found


def _measurement(case: Case, wanted: Required, now: datetime) -> Iterator[Blocker]:
    def block(outcome: str, reason: str, remedy: str) -> Blocker:
        return Blocker("measurement", wanted.test, outcome, reason, remedy, Stage.MEASUREMENTS)

    again = f"Measure '{wanted.test}' on the drained node."
    one = newest(case.measurements, wanted)
    if one is None:
        yield block(ABSENT, "It was never measured, and the profile requires it.", again)
        return
    late = _too_old(one.at, wanted.max_age_hours, now)
    if late:
        yield block("unknown", f"The newest measurement {late}.", again)
    if wanted.same_boot and not _same_boot(one, case.configuration):
        yield block("unknown", "It was measured before the node was booted last.", again)
    if one.value is None:
        yield block("unknown", "It was tried and gave no value.", again)
        return
    if one.unit != wanted.unit:
        reason = f"It was measured in '{one.unit}', and the profile wants '{wanted.unit}'."
        yield block("unknown", reason, again)
        return
    if len(one.samples) < wanted.min_samples:
        reason = f"It has {len(one.samples)} samples, and the profile wants {wanted.min_samples}."
        yield block("unknown", reason, again)
    gate = wanted.gate_for(case.sku)
    if gate is None:
        reason = f"The profile has no gate for the SKU '{case.sku or '(not declared)'}'."
        yield block("unknown", reason, "Add a gate with its source to a profile of the site.")
    elif not gate.holds(one.value):
        reason = f"{one.value:g} {one.unit}, expected {gate.words} {one.unit}."
        yield block("fail", reason, "Look at the link, its switch and the NUMA binding; repeat.")
