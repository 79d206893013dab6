"""The part of the HTML page that tells of each host: read from the record while it is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from hfprov.judge import find_check
from hfprov.record.identity import Identity
from hfprov.record.model import Change, Difference
from hfprov.report.causes import says_no_more
from hfprov.report.content import PROBLEMS, Content, HostEntry
from hfprov.report.inert import lines
from hfprov.report.overview import Overview, Row
from hfprov.verdict import Outcome, Verdict

_DIFF_LINES = 40
_DIFF_BUDGET = 1_000_000
"""Characters of diffs in one page; the record has all of them."""
_SINCE_BUDGET = 500
"""Questions to the record; each costs some milliseconds."""
_SAME_OUTCOME = 20
"""Differences shown of a host that changed no outcome."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One verdict that is not good, with since when, if that was before this run."""

    verdict: Verdict
    since: datetime | None
    waiver: str = ""
    """Who answers for it until when; empty when nobody does."""


@dataclass(slots=True)
class CheckGroup:
    """What one check found on one host."""

    check: str
    outcome: Outcome
    role: str
    """What repairs it; empty when that takes a person."""
    problems: list[Problem] = field(default_factory=list)
    told: list[tuple[int, str]] = field(default_factory=list)
    """Subjects of which a cause says all, with the number of the cause; in a long report only."""


@dataclass(slots=True)
class RoleChanges:
    """What one role did on one host."""

    role: str
    tasks: list[TaskChange] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TaskChange:
    task: str
    ending: str
    diff: Sequence[str]


@dataclass(frozen=True, slots=True)
class Detail:
    """One host with all that a report tells of it."""

    row: Row
    entry: HostEntry
    groups: Sequence[CheckGroup]
    repeated: Sequence[str]
    """Checks that are unknown because the host was not observed, and say no more than that."""
    roles: Sequence[RoleChanges]
    turned: Sequence[Difference]
    """Differences in outcome, each with its own line."""
    turned_counts: Counter[tuple[str, str]]
    """The same by outcome before and after; for a host that was not observed, instead of lines."""
    other: Sequence[Difference]
    """Differences in what was observed, the first of them."""
    more_other: int
    identity: Identity
    compared_with: str
    """The run before; empty when the host was judged for the first time."""


class Details:
    """Reads hosts one by one. Budgets are for the whole page, so that it stays fit to be sent."""

    def __init__(self, content: Content, found: Overview) -> None:
        self._content = content
        self._found = found
        self._identities = content.identities()
        self._diffs_left = _DIFF_BUDGET
        self._since_left = _SINCE_BUDGET

    def identity(self, host: str) -> Identity:
        return self._identities.get(host, Identity())

    def troubled(self) -> Iterator[Detail]:
        """Hosts that are not simply good: worst first, then by name."""
        for outcome in PROBLEMS:
            yield from self._of(
                {row.host: row for row in self._found.rows if row.outcome is outcome}
            )

    def moved(self) -> Iterator[Detail]:
        """Good hosts on which something was changed, or is not as it was."""
        rows = self._found.rows
        return self._of(
            {row.host: row for row in rows if row.outcome is Outcome.PASS and not row.quiet}
        )

    def _of(self, rows: Mapping[str, Row]) -> Iterator[Detail]:
        if not rows:
            return
        differences = _ByHost(self._content.differences())
        for entry in self._content.hosts():
            found = differences.of(entry.host)
            # A run that goes on may have judged a host otherwise since the survey: its row rules.
            if entry.host in rows:
                yield self._detail(rows[entry.host], entry, found)

    def _detail(self, row: Row, entry: HostEntry, differences: list[Difference]) -> Detail:
        repeated = [one.check for one in entry.problems if says_no_more(entry, one)]
        turned = [one for one in differences if _outcomes(one)[0] != _outcomes(one)[1]]
        other = [one for one in differences if _outcomes(one)[0] == _outcomes(one)[1]]
        before = self._content.judged_before(entry)
        return Detail(
            row=row,
            entry=entry,
            groups=self._groups(entry),
            repeated=repeated,
            roles=self._roles(entry.host) if row.changed else (),
            turned=turned if entry.observed else (),
            turned_counts=Counter(map(_outcomes, turned)),
            other=other[:_SAME_OUTCOME] if entry.observed else (),
            more_other=max(0, len(other) - (_SAME_OUTCOME if entry.observed else 0)),
            identity=self.identity(entry.host),
            compared_with=before.run if before else "",
        )

    def _groups(self, entry: HostEntry) -> list[CheckGroup]:
        groups: dict[tuple[str, Outcome], CheckGroup] = {}
        for verdict in entry.problems:
            if says_no_more(entry, verdict):
                continue
            known = find_check(verdict.check)
            group = groups.setdefault(
                (verdict.check, verdict.outcome),
                CheckGroup(verdict.check, verdict.outcome, (known.role or "") if known else ""),
            )
            number = self._found.causes.told_by(verdict)
            if number is None:
                waiver = verdict.finding.waiver
                words = waiver.words(self._content.made_at) if waiver else ""
                group.problems.append(Problem(verdict, self._since(entry, verdict), words))
            else:
                group.told.append((number, verdict.subject))
        return list(groups.values())

    def _since(self, entry: HostEntry, verdict: Verdict) -> datetime | None:
        if self._since_left <= 0 or not entry.observed:
            return None
        self._since_left -= 1
        return self._content.bad_since(entry, verdict)

    def _roles(self, host: str) -> list[RoleChanges]:
        roles: dict[str, RoleChanges] = {}
        for _, change in self._content.changes(host):
            known = roles.setdefault(change.role, RoleChanges(change.role))
            known.tasks.append(TaskChange(change.task, change.item, self._diff(change)))
        return list(roles.values())

    def _diff(self, change: Change) -> list[str]:
        if not change.diff.strip():
            return []
        if self._diffs_left <= 0:
            return ["(this report is long: 'hfprov show RUN --json' has the difference)"]
        shown = lines(change.diff, most=_DIFF_LINES)
        self._diffs_left -= sum(map(len, shown))
        return shown


class _ByHost:
    """Looks differences up by host. Both come by name, so none is read twice or kept for long."""

    def __init__(self, differences: Iterator[tuple[str, list[Difference]]]) -> None:
        self._rest = differences
        self._next = next(differences, None)

    def of(self, host: str) -> list[Difference]:
        if self._next is None or self._next[0] != host:
            return []
        found = self._next[1]
        self._next = next(self._rest, None)
        return found


def _outcomes(one: Difference) -> tuple[str, str]:
    return (
        one.before.outcome.value if one.before else "not judged",
        one.after.outcome.value if one.after else "not judged",
    )
