"""What a drift sweep found, told by causes: new since the sweep before, still there, good again.

A view of the record. For each cause: on which hosts, since when, what else changed on them in
between, which role repairs it, and what the repair costs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from hfprov.judge import find_check
from hfprov.operate import Operation
from hfprov.record.between import Between
from hfprov.record.model import Difference, Sighting
from hfprov.record.store import Record
from hfprov.report.causes import Cause, Causes
from hfprov.report.content import PROBLEMS, Content
from hfprov.report.documents import Document, operation_document
from hfprov.rollout import LEVEL_NEEDED
from hfprov.sweep import BOOT, SOFTWARE
from hfprov.verdict import Impact, Outcome, badness

Key = tuple[str, str]
"""Check and subject."""
Changed = dict[str, dict[Key, Difference]]

MOST_TRACED = 50
"""Hosts of a cause whose history is read; each costs a millisecond or two."""


@dataclass(slots=True)
class Trace:
    """Since when the hosts of one cause have been like that, and what changed on them meanwhile."""

    traced: int = 0
    """Hosts whose history was read."""
    never_good: int = 0
    """Of those: hosts on which the record never saw it good."""
    last_good: datetime | None = None
    """When it was last seen good on the host on which that is longest ago."""
    first_bad: datetime | None = None
    """When it was seen first, on any of them."""
    meanwhile: Counter[str] = field(default_factory=Counter)
    """By what changed between good and bad: on how many hosts."""


@dataclass(slots=True)
class Drifted:
    """One cause in one sweep."""

    cause: Cause
    new: list[str]
    """Hosts on which the sweep before did not see it."""
    role: str | None
    """The role that repairs it; None: a person does."""
    impact: Impact | None
    """What the repair costs; None where no check says so: the host was not reached."""
    trace: Trace = field(default_factory=Trace)

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
    """Those with new hosts first, then worst first, then by the number of hosts."""
    cured: dict[Key, list[str]]
    """By check and subject: hosts on which it is good again."""
    hosts: int
    first_time: int
    """Hosts with problems that were judged for the first time: nothing is new about them."""
    left_out: int
    """Verdicts whose cause was one too many to be told apart."""


def drift_of(record: Record, run: str, made_at: datetime) -> Drift:
    """Read what a run found. Raises RecordError when the record cannot be read."""
    content = Content(record, run, made_at)
    changed = {host: {_key(one): one for one in some} for host, some in content.differences()}
    causes = Causes()
    bad: list[str] = []
    unseen: dict[str, Key] = {}
    total = 0
    for number, entry in enumerate(content.hosts(), start=1):
        total += 1
        causes.add(number, entry)
        if not entry.problems:
            continue
        bad.append(entry.host)
        if not entry.observed:
            unseen[entry.host] = entry.problems[0].key
    causes.rank()
    known = {host for host in bad if host in changed or content.judged_before(host)}
    found = [_drifted(cause, changed, known) for cause in causes.ranked]
    found.sort(key=lambda one: (not one.new, -badness(one.cause.outcome), -len(one.cause.hosts)))
    for one in found:
        one.trace = _trace(record, one.cause, unseen)
    return Drift(run, found, _cured(changed), total, len(bad) - len(known), causes.left_out)


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
        # The host as a whole: it is new when all that is known of it became unknown.
        return any(
            one.after and one.after.outcome is Outcome.UNKNOWN and _was_known(one)
            for one in different.values()
        )
    one = different.get((cause.check, cause.subject))
    if one is None:
        return False
    return one.before is None or one.before.outcome is not cause.outcome


def _was_known(one: Difference) -> bool:
    return one.before is not None and one.before.outcome is not Outcome.UNKNOWN


def _cured(changed: Changed) -> dict[Key, list[str]]:
    cured: dict[Key, list[str]] = {}
    for host, different in changed.items():
        for key, one in different.items():
            was_bad = one.before is not None and one.before.outcome in PROBLEMS
            if was_bad and one.after is not None and one.after.outcome is Outcome.PASS:
                cured.setdefault(key, []).append(host)
    return cured


def _trace(record: Record, cause: Cause, unseen: dict[str, Key]) -> Trace:
    trace = Trace()
    by_key: dict[Key, list[str]] = {}
    for host in list(cause.hosts.values())[:MOST_TRACED]:
        # Of a host that was not reached any of its checks will do.
        key = (cause.check, cause.subject) if cause.check else unseen.get(host)
        if key is not None:
            by_key.setdefault(key, []).append(host)
    found = (record.since_on(names, *key) for key, names in by_key.items())
    for host, since in (pair for some in found for pair in some.items()):
        trace.traced += 1
        if since.first_bad is not None:
            trace.first_bad = _earlier(trace.first_bad, since.first_bad)
        if since.last_good is None:
            trace.never_good += 1
            continue
        trace.last_good = _earlier(trace.last_good, since.last_good)
        if since.first_bad is not None:
            between = record.between(host, SOFTWARE, since.last_good, since.first_bad)
            trace.meanwhile.update(meanwhile(between))
    return trace


def _earlier(known: datetime | None, seen: Sighting) -> datetime:
    return seen.at if known is None else min(known, seen.at)


def meanwhile(found: Between) -> Iterator[str]:
    """What changed on a host between two sightings, a few words each."""
    for name, (old, new) in found.changed.items():
        yield "a reboot" if name == BOOT else f"{name} {old} -> {new}"
    roles: dict[tuple[str, str], list[str]] = {}
    for work in found.work:
        if work.role:
            roles.setdefault((work.command, work.run), []).append(work.role)
    for (command, run), some in roles.items():
        yield f"'{command}' {run} ran {', '.join(some)}"


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
