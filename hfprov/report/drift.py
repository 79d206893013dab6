"""What a drift sweep found, told by causes: new since the sweep before, still there, good again.

A view of the record. For each cause: on which hosts, since when, what else changed on them in
between, which role repairs it, and what the repair costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from hfprov.judge import find_check
from hfprov.operate import Operation
from hfprov.record.model import Difference
from hfprov.record.store import Record
from hfprov.report.causes import NOT_OBSERVED, Cause, Causes, of_the_host
from hfprov.report.content import PROBLEMS, Content
from hfprov.report.documents import Document, operation_document
from hfprov.report.drift_trace import Trace, traces_of
from hfprov.rollout import LEVEL_NEEDED, LEVELS
from hfprov.verdict import Impact, Outcome, badness

Key = tuple[str, str]
"""Check and subject."""
Changed = dict[str, dict[Key, Difference]]

WHOLE_HOST: Key = ("", "")
"""What is good again on hosts that are observed again."""


@dataclass(slots=True)
class Drifted:
    """One cause in one sweep."""

    cause: Cause
    new: list[str]
    """Hosts on which it was not seen when they were observed last."""
    role: str | None
    """The role that it belongs to; None: a person repairs it."""
    impact: Impact | None
    """What the repair costs; None where no check says so: the host was not reached."""
    trace: Trace = field(default_factory=Trace)
    beside: int = 0
    """Of what a person repairs: hosts on which its role runs for something else."""

    @property
    def observed(self) -> bool:
        """Whether its hosts were observed at all."""
        return bool(self.cause.check) or self.cause.expected != NOT_OBSERVED

    @property
    def level(self) -> str:
        """How far ``--only`` must go for it to be repaired; empty: hfprov does not repair it."""
        if self.role is None or self.impact is None or self.impact is Impact.MANUAL:
            return ""
        return LEVEL_NEEDED[self.impact]


@dataclass(slots=True)
class Drift:
    """What one sweep found of a fleet."""

    run: str
    causes: list[Drifted]
    """Those with new hosts first, then worst first, then by the number of hosts, then by what
    their repair takes, most first."""
    cured: dict[Key, list[str]]
    """By check and subject: hosts on which it is good again; as ``WHOLE_HOST`` those that are
    observed again."""
    hosts: int
    first_time: int
    """Hosts with problems that are observed, or looked for, for the first time: nothing is new
    about them."""
    left_out: int
    """Verdicts whose cause was one too many to be told apart."""


def drift_of(record: Record, run: str, made_at: datetime) -> Drift:
    """Read what a run found. Raises RecordError when the record cannot be read."""
    content = Content(record, run, made_at)
    changed = {host: {_key(one): one for one in some} for host, some in content.differences()}
    causes = Causes()
    first_time = total = 0
    known: set[str] = set()
    for number, entry in enumerate(content.hosts(), start=1):
        total += 1
        causes.add(number, entry)
        if not entry.problems:
            continue
        if entry.host in changed or content.judged_before(entry):
            known.add(entry.host)
        else:
            first_time += 1
    causes.rank()
    found = [_drifted(cause, changed, known) for cause in causes.ranked]
    found.sort(key=_rank)
    for one, trace in zip(found, traces_of(record, [one.cause for one in found]), strict=True):
        one.trace = trace
    _note_roles_that_run(found)
    cured = _cured(changed, list(content.observed_again()))
    return Drift(run, found, cured, total, first_time, causes.left_out)


def _rank(one: Drifted) -> tuple[bool, int, int, int]:
    # What hfprov does not repair comes first, what it repairs without disturbing anybody last.
    trouble = LEVELS.index(one.level) if one.level else len(LEVELS)
    return (not one.new, -badness(one.cause.outcome), -len(one.cause.hosts), -trouble)


def _note_roles_that_run(found: Sequence[Drifted]) -> None:
    """A role that runs for one cause may put right another, for which it would not run."""
    running: dict[str, set[str]] = {}
    for one in found:
        if one.role and one.level and one.cause.outcome is not Outcome.WARN:
            running.setdefault(one.role, set()).update(one.cause.hosts.values())
    for one in found:
        if one.role and not one.level:
            one.beside = len(running.get(one.role, set()) & set(one.cause.hosts.values()))


def _key(one: Difference) -> Key:
    verdict = one.after or one.before
    return ("", "") if verdict is None else verdict.key


def _drifted(cause: Cause, changed: Changed, known: set[str]) -> Drifted:
    check = find_check(cause.check) if cause.check else None
    new = [host for host in cause.hosts.values() if host in known and _is_new(cause, host, changed)]
    return Drifted(cause, new, check.role if check else None, check.impact if check else None)


def _is_new(cause: Cause, host: str, changed: Changed) -> bool:
    different = changed.get(host, {})
    if not cause.check:
        # The host as a whole: all that is known of it became unknown, or is for another reason.
        return any(
            one.before and one.after and one.after.outcome is Outcome.UNKNOWN and _is_other(one)
            for one in different.values()
        )
    one = different.get((cause.check, cause.subject))
    return one is not None and _is_other(one)


def _is_other(one: Difference) -> bool:
    """Whether it is another kind of finding than before; what is unknown has its reason for one."""
    if one.before is None or one.after is None or one.before.outcome is not one.after.outcome:
        return True
    if one.after.outcome is not Outcome.UNKNOWN:
        return False
    before, after = (of_the_host(one.host, of.finding.reason) for of in (one.before, one.after))
    return before != after


def _cured(changed: Changed, again: Sequence[str]) -> dict[Key, list[str]]:
    cured: dict[Key, list[str]] = {WHOLE_HOST: list(again)} if again else {}
    for host, different in changed.items():
        for key, one in different.items():
            was_bad = one.before is not None and one.before.outcome in PROBLEMS
            if was_bad and one.after is not None and one.after.outcome is Outcome.PASS:
                cured.setdefault(key, []).append(host)
    return cured


def causes_document(found: Drift) -> list[Document]:
    """The causes, JSON-ready."""
    return [
        {
            "check": one.cause.check,
            "subject": one.cause.subject,
            "outcome": one.cause.outcome.value,
            "expected": one.cause.expected,
            "observed": dict(one.cause.observed.most_common()),
            "reasons": dict(one.cause.reasons.most_common()),
            "hosts": list(one.cause.hosts.values()),
            "new_on": one.new,
            "role": one.role,
            "impact": one.impact.value if one.impact else None,
            "repaired_with": one.level or None,
            "last_good": _iso(one.trace.last_good),
            "first_bad": _iso(one.trace.first_bad),
            "never_good": one.trace.never_good,
            "traced": one.trace.traced,
            "meanwhile": dict(one.trace.meanwhile.most_common()),
        }
        for one in found.causes
    ]


def drift_document(done: Operation, found: Drift) -> Document:
    """The sweep, JSON-ready, with what is wrong told by causes, and what is good again."""
    cured = [
        {"check": check, "subject": subject, "hosts": hosts}
        for (check, subject), hosts in found.cured.items()
    ]
    document = operation_document("drift", done)
    return {**document, "causes": causes_document(found), "cured": cured}


def _iso(when: datetime | None) -> str | None:
    return None if when is None else when.isoformat()
