"""Whether a node may be used: from verdicts and a profile to a certificate, or to what blocks it.

Pure but for the clock that the caller passes in. Everything starts as "not certified": a required
check that is absent, unknown or failed blocks, and so does a host on which nothing was judged.
"""

from __future__ import annotations

import fnmatch
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from hfprov.baseline import Baseline
from hfprov.catalogue.explanations import explanations
from hfprov.catalogue.profiles import Profile
from hfprov.record.identity import Identity
from hfprov.verdict import Outcome, Verdict, badness

ACCEPTABLE = frozenset({Outcome.PASS, Outcome.WARN, Outcome.NOT_APPLICABLE})


@dataclass(frozen=True, slots=True)
class Blocker:
    """One reason why a node gets no certificate, and what to do about it."""

    check: str
    subject: str
    outcome: str
    reason: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Basis:
    """What a certificate rests on: one observation of one host in one run."""

    run: str
    baseline: Baseline
    identity: Identity | None
    evidence_sha256: str
    verdicts: tuple[Verdict, ...]


def blockers(verdicts: Sequence[Verdict], profile: Profile) -> list[Blocker]:
    """Everything that stands between a host and its certificate; worst first."""
    found = []
    for pattern in profile.require:
        matching = [one for one in verdicts if fnmatch.fnmatchcase(one.check, pattern)]
        if not any(one.outcome in (Outcome.PASS, Outcome.WARN) for one in matching):
            found.append(
                Blocker(pattern, "", "absent", "No check that the profile requires has passed.", "")
            )
        found += [_blocker(one) for one in matching if one.outcome not in ACCEPTABLE]
    unique = {(one.check, one.subject): one for one in found}
    return sorted(unique.values(), key=_order)


def _order(one: Blocker) -> tuple[int, str, str]:
    rank = (
        -badness(Outcome(one.outcome)) if one.outcome in set(Outcome) else -badness(Outcome.UNKNOWN)
    )
    return (rank, one.check, one.subject)


def _blocker(verdict: Verdict) -> Blocker:
    explained = explanations().get(verdict.check)
    return Blocker(
        verdict.check,
        verdict.subject,
        verdict.outcome.value,
        verdict.finding.reason,
        explained.remedy[0] if explained else "",
    )


def certificate(basis: Basis, profile_name: str, profile: Profile, now: datetime) -> dict[str, Any]:
    """The certificate document of a host without blockers. Raises ValueError if there are any."""
    if basis.identity is None or not basis.evidence_sha256 or blockers(basis.verdicts, profile):
        raise ValueError(f"'{basis.baseline.host}' is not fit for a certificate.")
    counts = Counter(one.outcome for one in basis.verdicts)
    return {
        "schema": "hfprov.certificate/1",
        "id": secrets.token_hex(8),
        "profile": profile_name,
        "host": basis.baseline.host,
        "identity": asdict(basis.identity),
        "baseline": basis.baseline.digest,
        "roles": list(basis.baseline.roles),
        "run": basis.run,
        "evidence_sha256": basis.evidence_sha256,
        "verdicts": {outcome.value: counts[outcome] for outcome in Outcome},
        "warnings": [
            {"check": one.check, "subject": one.subject, "reason": one.finding.reason}
            for one in basis.verdicts
            if one.outcome is Outcome.WARN
        ],
        "issued_at": now.isoformat(timespec="seconds"),
        "expires_at": (now + timedelta(hours=profile.validity_hours)).isoformat(timespec="seconds"),
    }
