"""What can be said of a check: five outcomes, their order, and the finding that carries one.

The order is the policy: what could not be judged ranks worst, because a green run that means
nothing is worse than a red one.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

from msgspec import Struct, structs


class Outcome(StrEnum):
    """The outcome of one check on one subject. :func:`worst` defines their order."""

    PASS = "pass"  # noqa: S105 - not a password
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"
    """Could not be judged: unreachable, tool missing, output not understood, time-out."""
    NOT_APPLICABLE = "not_applicable"
    """Does not apply here, for a typed reason. Says nothing, good or bad."""


GOOD_ENOUGH = (Outcome.PASS, Outcome.WARN)
"""Outcomes that stop nobody from using a node."""


class NotApplicable(StrEnum):
    """Why a check does not apply. A closed list: anything else is ``unknown``."""

    NO_SUCH_HARDWARE = "no_such_hardware"
    CONTAINER = "container"
    """The kernel and the devices belong to the container's host."""
    VIRTUAL_MACHINE = "virtual_machine"
    NOT_REQUESTED = "not_requested"


_BADNESS = {
    Outcome.NOT_APPLICABLE: 0,
    Outcome.PASS: 1,
    Outcome.WARN: 2,
    Outcome.FAIL: 3,
    Outcome.UNKNOWN: 4,
}


def badness(outcome: Outcome) -> int:
    """Rank of an outcome; higher is worse. For sorting, never for arithmetic."""
    return _BADNESS[outcome]


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the worst of some outcomes; of none at all, ``unknown``.

    Nothing observed is not success, and a host on which nothing applied was not checked either.
    """
    top = max(outcomes, key=badness, default=Outcome.UNKNOWN)
    return Outcome.UNKNOWN if top is Outcome.NOT_APPLICABLE else top


class Impact(StrEnum):
    """What repairing a drift costs the node's users, mildest first."""

    NONE = "none"
    RESTART = "restart"
    """A daemon is restarted, or people must log in anew."""
    REBOOT = "reboot"
    DRAIN = "drain"
    """Work on the node is disturbed: drain it first."""
    MANUAL = "manual"
    """Never done by hfprov: hardware, firmware, or a decision that belongs to a person."""


class Waived(Struct, frozen=True):
    """Somebody answers for a finding that is not good, for a time. It changes no outcome."""

    owner: str
    reason: str
    expires: datetime

    def holds(self, now: datetime) -> bool:
        return now < self.expires

    def words(self, now: datetime) -> str:
        """What is shown beside the finding, wherever it is shown."""
        until = f"{self.expires:%Y-%m-%d %H:%M %Z}".strip()
        if self.holds(now):
            return f"waived until {until} by {self.owner}: {self.reason}"
        return f"the waiver of {self.owner} expired {until}: {self.reason}"


class Finding(Struct, frozen=True):
    """What a check found about one subject of a host (an interface, a GPU, a service, ``""``)."""

    outcome: Outcome
    subject: str = ""
    observed: str = ""
    expected: str = ""
    reason: str = ""
    not_applicable: NotApplicable | None = None
    waiver: Waived | None = None


class Verdict(Struct, frozen=True):
    """A finding with the name of its check: what is recorded, reported and compared."""

    check: str
    finding: Finding

    @property
    def outcome(self) -> Outcome:
        return self.finding.outcome

    @property
    def subject(self) -> str:
        return self.finding.subject

    @property
    def key(self) -> tuple[str, str]:
        """Identifies the same question on the same host in another run."""
        return (self.check, self.finding.subject)

    def waived_by(self, waived: Waived | None) -> Verdict:
        """The same verdict, with whoever answers for it; None: nobody does."""
        return structs.replace(self, finding=structs.replace(self.finding, waiver=waived))


def passed(subject: str = "", *, observed: str = "", expected: str = "") -> Finding:
    return Finding(Outcome.PASS, subject, observed, expected)


def failed(subject: str, *, observed: str, expected: str, reason: str) -> Finding:
    return Finding(Outcome.FAIL, subject, observed, expected, reason)


def warned(subject: str, *, observed: str, expected: str, reason: str) -> Finding:
    return Finding(Outcome.WARN, subject, observed, expected, reason)


def unknown(subject: str = "", *, reason: str, expected: str = "") -> Finding:
    return Finding(Outcome.UNKNOWN, subject, expected=expected, reason=reason)


def not_applicable(why: NotApplicable, reason: str, subject: str = "") -> Finding:
    return Finding(Outcome.NOT_APPLICABLE, subject, reason=reason, not_applicable=why)


def compared(subject: str, *, observed: str, expected: str, reason: str) -> Finding:
    """Pass when observed equals expected; otherwise fail with the reason given."""
    if observed == expected:
        return passed(subject, observed=observed, expected=expected)
    return failed(subject, observed=observed, expected=expected, reason=reason)
