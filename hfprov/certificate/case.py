"""What certification knows of a host, and what it says against it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum

from hfprov.baseline import Baseline
from hfprov.catalogue.explanations import explanations
from hfprov.certificate.configuration import Configuration
from hfprov.record.identity import Identity
from hfprov.record.model import Measurement
from hfprov.verdict import Outcome, Verdict

PROVEN = frozenset({Outcome.PASS, Outcome.WARN})
ACCEPTABLE = PROVEN | {Outcome.NOT_APPLICABLE}
ABSENT = "absent"
TOLERANCE = timedelta(minutes=1)
"""How far in the future something may lie that was recorded with another clock."""


class Stage(IntEnum):
    """In which order blockers are to be dealt with: what comes first may make the rest moot."""

    REACH = 0
    CHECKS = 1
    DIAGNOSIS = 2
    CONTAINERS = 3
    MEASUREMENTS = 4


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
    """The newest diagnosis or smoke test of a host, and what it measured of itself."""

    run: str
    at: datetime
    verdicts: tuple[Verdict, ...]
    measurements: tuple[Measurement, ...]
    finished: bool = True
    """False: a newer one began and did not come to a judgement."""


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
    smoked: Diagnosed | None = None
    """The newest smoke test in containers; the same is known of it as of a diagnosis."""
    together: tuple[str, ...] = ()
    """Hosts that are to be certified with it, whose smoke tests passed: they must have met."""
    measurements: Sequence[Measurement] = ()
    """The newest of this host of each kind that the profile wants, in the order of recording."""

    @property
    def host(self) -> str:
        return self.baseline.host

    @property
    def sku(self) -> str:
        """``node_sku`` as declared: a name, ``none``, or empty when nobody said."""
        return str(self.baseline.get("node_sku") or "")


def excused(verdict: Verdict, now: datetime) -> bool:
    """Whether somebody answers for a finding at this time."""
    waiver = verdict.finding.waiver
    return waiver is not None and waiver.holds(now)


def bad(verdicts: Iterable[Verdict], now: datetime) -> Iterator[Verdict]:
    for one in verdicts:
        if one.outcome not in ACCEPTABLE and not excused(one, now):
            yield one


def blocker_of(verdict: Verdict, stage: Stage) -> Blocker:
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


def same_boot(one: Measurement, seen: Configuration) -> bool:
    boot = one.conditions.get("boot_id")
    return bool(boot) and boot == seen.boot_id


def too_old(at: datetime | None, hours: float, now: datetime) -> str:
    if at is None:
        return "is of an unknown time"
    if at > now + TOLERANCE:
        return f"is of {at:%Y-%m-%d %H:%M} UTC, which is in the future: a clock is wrong"
    if now - at > timedelta(hours=hours):
        return f"is of {at:%Y-%m-%d %H:%M} UTC, and the profile allows {hours:g} h"
    return ""
