"""What a report says first: how many hosts stand how, and which few causes are behind it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime

from hfprov.record.model import Certificate, HostState, RunStatus, Summary
from hfprov.report.causes import Causes, says_no_more
from hfprov.report.content import Content, HostEntry
from hfprov.report.standing import Standing, ending
from hfprov.verdict import Outcome, badness
from hfprov.words import be, plural

OUTCOMES = (Outcome.UNKNOWN, Outcome.FAIL, Outcome.WARN, Outcome.PASS)
"""What a host can be, worst first."""


@dataclass(frozen=True, slots=True)
class Row:
    """One host in the overview."""

    number: int
    """Counted from 1 in the order of names; what links in the report go by."""
    host: str
    outcome: Outcome
    note: str
    state: HostState
    summary: Summary | None
    judged_at: datetime | None
    run: str
    baseline_digest: str
    certificate: Certificate | None
    """The newest, without its document."""
    changed: int
    """Tasks of roles that changed something on it in the run."""
    different: int
    """Verdicts that are not as before the run."""

    @property
    def quiet(self) -> bool:
        """Whether there is nothing to tell of the host beyond this row."""
        return self.outcome is Outcome.PASS and not self.changed and not self.different


@dataclass(slots=True)
class Overview:
    """All hosts in short, and what is wrong with them in groups."""

    run: Standing
    """How the run itself stands; of the fleet: ``pass``."""
    status: RunStatus | None = None
    """How far the run came; None for the fleet."""
    rows: list[Row] = field(default_factory=list)
    causes: Causes = field(default_factory=Causes)
    tasks: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """How often a task (role, task, ending) did something in the run."""
    checks: set[str] = field(default_factory=set)
    """Checks that are not good on some host that was observed."""

    @property
    def counts(self) -> dict[Outcome, int]:
        """Number of hosts by outcome, worst first; every outcome is named, also with zero."""
        counted = Counter(row.outcome for row in self.rows)
        return {outcome: counted[outcome] for outcome in OUTCOMES}

    @property
    def outcome(self) -> Outcome:
        """The worst of all hosts and of the run itself; of no host, unknown."""
        found = [row.outcome for row in self.rows]
        if not found:
            return Outcome.UNKNOWN
        return max(*found, self.run.outcome, key=badness)

    @property
    def alarm(self) -> str:
        """What the end of the run says beyond its hosts; empty when their outcomes say it all."""
        ended = self.status in {None, RunStatus.COMPLETE}
        said = ended and badness(self.run.outcome) <= badness(self._worst_host)
        return "" if said else self.run.note

    @property
    def headline(self) -> str:
        """One sentence that says the worst: of the run, then of the hosts."""
        said = self._said_of_hosts()
        if self.status is not None and self.status is not RunStatus.COMPLETE:
            return f"{_RUN_WORDS[self.status]}: {said[0].lower()}{said[1:]}"
        if self.run.outcome is not Outcome.PASS and self.outcome is not self._worst_host:
            return f"{said}, but the run did not end well"
        return said

    def _said_of_hosts(self) -> str:
        total, counts = len(self.rows), self.counts
        if not total:
            return "No host was checked"
        bad = [(counts[outcome], words) for outcome, words in _BAD_WORDS if counts[outcome]]
        if bad:
            (first, words), *rest = bad
            more = "".join(f", {number} {be(number)} {what}" for number, what in rest)
            return f"{first} of {plural(total, 'host')} {be(first)} {words}{more}"
        every = "The host" if total == 1 else f"All {total} hosts"
        warned = counts[Outcome.WARN]
        warnings = f", {warned} with warnings" if warned else ""
        if self.status is None:
            verb = "was" if total == 1 else "were"
            return f"{every} {verb} as declared when last judged{warnings}"
        return f"{every} {be(total)} as declared{warnings}"

    @property
    def _worst_host(self) -> Outcome:
        return max((row.outcome for row in self.rows), key=badness, default=Outcome.UNKNOWN)

    @property
    def oldest(self) -> datetime | None:
        """When the host was judged whose judgement is the oldest."""
        return min((row.judged_at for row in self.rows if row.judged_at), default=None)

    @property
    def baselines(self) -> Counter[str]:
        """Number of hosts by the digest of their baseline."""
        return Counter(row.baseline_digest for row in self.rows)

    @property
    def untouched(self) -> dict[HostState, list[Row]]:
        """Hosts that the run did not reach or did not finish, by state."""
        found: dict[HostState, list[Row]] = {}
        for row in self.rows:
            if row.state in _UNTOUCHED or row.state.unfinished:
                found.setdefault(row.state, []).append(row)
        return found


_BAD_WORDS = ((Outcome.FAIL, "not as declared"), (Outcome.UNKNOWN, "in an unknown state"))
_RUN_WORDS = {
    RunStatus.RUNNING: "Not ended yet",
    RunStatus.INTERRUPTED: "Interrupted",
    RunStatus.CRASHED: "Crashed",
}


def counts_text(summary: Summary | None) -> str:
    """How many verdicts of a host have which outcome, those that there are."""
    if summary is None:
        return "none was judged"
    parts = (
        (summary.unknown, "unknown"),
        (summary.failed, "failed"),
        (summary.warned, "with a warning"),
        (summary.passed, "passed"),
        (summary.not_applicable, "not applicable"),
    )
    return ", ".join(f"{number} {words}" for number, words in parts if number) or "none"


_UNTOUCHED = frozenset(
    {
        HostState.UNREACHABLE,
        HostState.NOT_ATTEMPTED,
        HostState.INTERRUPTED,
        HostState.PLANNED,
        HostState.FAILED,
    }
)


def survey(content: Content) -> Overview:
    """Read everything once, and keep what the beginning of a report needs."""
    info = content.info
    found = Overview(ending(info), info.status) if info else Overview(Standing(Outcome.PASS))
    changed: Counter[str] = Counter()
    for host, change in content.changes():
        changed[host] += 1
        found.tasks[change.role, change.task, change.item] += 1
    different: Counter[str] = Counter()
    for host, differences in content.differences():
        different[host] = len(differences)
    for number, entry in enumerate(content.hosts(), start=1):
        found.rows.append(_row(content, number, entry, changed[entry.host], different[entry.host]))
        found.checks.update(one.check for one in entry.problems if not says_no_more(entry, one))
        found.causes.add(number, entry)
    found.causes.rank()
    return found


def _row(content: Content, number: int, entry: HostEntry, changed: int, different: int) -> Row:
    issued = content.certificate(entry.host)
    judged = entry.judged
    return Row(
        number=number,
        host=entry.host,
        outcome=entry.outcome,
        note=entry.note,
        state=entry.state,
        summary=None if judged is None else judged.summary,
        judged_at=None if judged is None else judged.at,
        run=entry.run,
        baseline_digest=entry.baseline_digest,
        certificate=None if issued is None else replace(issued, document=""),
        changed=changed,
        different=different,
    )
