"""What goes into the record and comes out of it: plain values, no database objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from hfprov.record.identity import Identity
from hfprov.verdict import Outcome, Verdict


class RunStatus(StrEnum):
    RUNNING = "running"
    COMPLETE = "complete"
    """It came to its end; its exit code says with what result."""
    INTERRUPTED = "interrupted"
    """Stopped by a person, or by an error that it could still record."""
    CRASHED = "crashed"
    """Its process is gone without a word; found by a later run."""


PARTIAL_PHASES = ("diagnose", "container_smoke")
"""Phases that look at a part of a node: what they say is not how the node as a whole stands."""


class HostState(StrEnum):
    """How far a run came with one host."""

    PLANNED = "planned"
    OBSERVING = "observing"
    OBSERVED = "observed"
    CONVERGING = "converging"
    REBOOTING = "rebooting"
    CONVERGED = "converged"
    """The roles have run; whether the host is right is not known before it is observed again."""
    MEASURING = "measuring"
    VERIFIED = "verified"
    """Observed again after it was changed."""
    UNREACHABLE = "unreachable"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    """The run ended in the middle of work on the host: its state is unknown."""
    NOT_ATTEMPTED = "not_attempted"

    @property
    def unfinished(self) -> bool:
        """Whether a run that ends here leaves the host in an unknown state."""
        return self in _UNFINISHED


_UNFINISHED = frozenset(
    {
        HostState.OBSERVING,
        HostState.CONVERGING,
        HostState.REBOOTING,
        HostState.CONVERGED,
        HostState.MEASURING,
    }
)


@dataclass(frozen=True, slots=True)
class RunInfo:
    """One run of hfprov."""

    id: str
    """Sortable by start, e.g. ``20261129-190412-k3f9``."""
    command: str
    argv: tuple[str, ...]
    controller: str
    pid: int
    version: str
    started_at: datetime
    ended_at: datetime | None
    """None while it runs, and for a crashed run: nobody saw its end."""
    status: RunStatus
    exit_code: int | None
    host_count: int


@dataclass(frozen=True, slots=True)
class Change:
    """Something that a role changed on a host."""

    role: str
    task: str
    action: str
    item: str = ""
    diff: str = ""
    at: datetime | None = None
    """When; None on the way in means now."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something worth knowing that happened in a run, or between runs."""

    at: datetime
    kind: str
    message: str
    run: str | None
    host: str | None
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Summary:
    """How many verdicts of a host have which outcome, and the worst of them."""

    outcome: Outcome
    passed: int
    warned: int
    failed: int
    unknown: int
    not_applicable: int


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdicts on one host in one phase of a run."""

    run: str
    host: str
    phase: str
    at: datetime
    summary: Summary
    verdicts: tuple[Verdict, ...]
    reason: str
    """Why there is no evidence; empty when the host was observed."""
    evidence_id: int | None


@dataclass(frozen=True, slots=True)
class HostView:
    """One host in one run."""

    host: str
    state: HostState
    reason: str
    baseline_digest: str
    updated_at: datetime
    judged: dict[str, Judged]
    """The newest judgement of each phase; what was judged last comes last."""

    @property
    def latest(self) -> Judged | None:
        """What was judged last in this run."""
        return next(reversed(self.judged.values()), None)


@dataclass(frozen=True, slots=True)
class HostInfo:
    """A host that the record knows, from whichever run."""

    name: str
    identity: Identity
    identity_digest: str
    first_seen: datetime | None
    last_seen: datetime | None


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One run from the view of one host: its state, and a summary for each judged phase."""

    run: str
    command: str
    started_at: datetime
    status: RunStatus
    state: HostState
    reason: str
    phases: Mapping[str, Summary]


@dataclass(frozen=True, slots=True)
class Sighting:
    """Where and when one subject of a host, or the host as a whole, was judged."""

    run: str
    phase: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Since:
    """Since when a check has not been good on a subject."""

    last_good: Sighting | None
    """The newest pass, or the newest judgement of the check on an observed host that has nothing
    to say of the subject; None when there never was one."""
    first_bad: Sighting | None
    """The first verdict after it that is not good; None while the newest one is good."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One verdict that is not the same as the one before this run; see ``RunView.differences``."""

    host: str
    before: Verdict | None
    """None: that question was not asked, or had no such subject, before."""
    after: Verdict | None


@dataclass(frozen=True, slots=True)
class Holder:
    """Who works on a host."""

    host: str
    run: str
    command: str
    controller: str
    pid: int
    since: datetime


@dataclass(frozen=True, slots=True)
class Acquired:
    """Which of the wanted hosts this run now holds, and who holds the others."""

    hosts: tuple[str, ...]
    busy: tuple[Holder, ...]


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate as it is kept: the signed document is stored as it was signed, to the byte."""

    id: str
    host: str
    profile: str
    issued_at: datetime
    expires_at: datetime
    baseline_digest: str
    document: str
    """JSON text, exactly what the signature is over."""
    signature: str
    run: str = ""
    """Filled in by the record."""
    revoked_at: datetime | None = None
    revoke_reason: str = ""

    def valid_at(self, when: datetime) -> bool:
        """Whether it is neither revoked nor out of its time. Says nothing of the signature."""
        return self.revoked_at is None and self.issued_at <= when < self.expires_at


@dataclass(frozen=True, slots=True)
class GroupCertificate:
    """The certificate of several hosts together, stored as it was signed."""

    id: str
    name: str
    profile: str
    issued_at: datetime
    expires_at: datetime
    document: str
    signature: str


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measured value with what is needed to compare it and to understand it later."""

    host: str
    test: str
    value: float | None
    """None: it was tried and gave no value; ``conditions`` or ``raw`` say why."""
    unit: str
    peer: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    samples: tuple[float, ...] = ()
    conditions: Mapping[str, Any] = field(default_factory=dict)
    raw: bytes = b""
    run: str = ""
    """Filled in by the record."""
    at: datetime | None = None
    """When; None on the way in means now."""

    @property
    def opinions(self) -> list[tuple[str, str, str]]:
        """Who has judged it, as what, and why; as they are kept with its conditions."""
        told = self.conditions.get("opinions")
        return [
            (str(one[0]), str(one[1]), str(one[2]))
            for one in (told if isinstance(told, list) else [])
            if isinstance(one, list) and len(one) == 3  # noqa: PLR2004 - judge, outcome, reason
        ]

    @property
    def why_no_value(self) -> str:
        """Why there is none; empty where there is one, or nobody said why."""
        return "" if self.value is not None else " ".join(reason for _, _, reason in self.opinions)


def stamp(when: datetime | None = None) -> str:
    """A time as the record stores it. Raises ValueError for a time without a zone."""
    when = when or datetime.now(UTC)
    if when.tzinfo is None:
        raise ValueError(f"The time {when} has no time zone.")
    return when.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def moment(text: str) -> datetime:
    """The time that :func:`stamp` wrote."""
    return datetime.fromisoformat(text)


def moment_or_none(text: str | None) -> datetime | None:
    return None if text is None else moment(text)
