"""What a report tells, read from the record host by host: of one run, or of the whole fleet."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from hfprov.record.identity import Identity
from hfprov.record.model import (
    Certificate,
    Change,
    Difference,
    Event,
    HostState,
    Judged,
    Measurement,
    RunInfo,
    RunStatus,
)
from hfprov.record.store import Record
from hfprov.record.views import RunView
from hfprov.report.standing import standing
from hfprov.verdict import Outcome, Verdict, badness

FLEET = "fleet"


@dataclass(frozen=True, slots=True)
class HostEntry:
    """One host as a report shows it."""

    host: str
    outcome: Outcome
    """Never better than the verdicts say; see :func:`hfprov.report.standing.standing`."""
    note: str
    """Why the outcome is worse than the verdicts; empty when it is not."""
    state: HostState
    reason: str
    """What the run said of the host; empty when nothing is to be said."""
    judged: Judged | None
    baseline_digest: str
    run: str
    """The run in which it was judged last, or that was to judge it."""

    @property
    def observed(self) -> bool:
        """Whether it was seen. A host that was not has verdicts too, all of them unknown."""
        return self.judged is not None and self.judged.evidence_id is not None

    @property
    def not_observed_reason(self) -> str:
        """Why there is no evidence; what each of the verdicts then says."""
        return "" if self.judged is None else self.judged.reason

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        return () if self.judged is None else self.judged.verdicts

    @property
    def problems(self) -> list[Verdict]:
        """Verdicts that are neither a pass nor not applicable, worst first."""
        found = [one for one in self.verdicts if one.outcome in PROBLEMS]
        return sorted(found, key=lambda one: -badness(one.outcome))


PROBLEMS = (Outcome.UNKNOWN, Outcome.FAIL, Outcome.WARN)


class Content:
    """What is to be reported. Iterators read as they go: memory does not grow with the fleet.

    ``wanted`` is a run as :meth:`Record.run` takes it, or ``fleet`` for what was judged last of
    every host; ``hosts`` says of a name whether it is told of. Every method raises RecordError
    when the record cannot be read.
    """

    def __init__(
        self,
        record: Record,
        wanted: str,
        made_at: datetime,
        hosts: Callable[[str], bool] | None = None,
    ) -> None:
        self.made_at = made_at
        self._record = record
        self._wanted = hosts or (lambda _: True)
        self._view: RunView | None = None if wanted == FLEET else record.run(wanted).only(hosts)
        self._runs: dict[str, RunView] = {}

    @property
    def info(self) -> RunInfo | None:
        """The run; None for the fleet."""
        return None if self._view is None else self._view.info

    @property
    def label(self) -> str:
        return FLEET if self._view is None else self._view.id

    def hosts(self) -> Iterator[HostEntry]:
        """All hosts by name; of the fleet also those that were never judged."""
        if self._view is None:
            yield from self._fleet()
            return
        for one in self._view.hosts():
            found = standing(one.state, one.latest)
            yield HostEntry(
                host=one.host,
                outcome=found.outcome,
                note=found.note,
                state=one.state,
                reason=one.reason,
                judged=one.latest,
                baseline_digest=one.baseline_digest,
                run=self._view.id,
            )

    def changes(self, host: str | None = None) -> Iterator[tuple[str, Change]]:
        """What the roles did in the run. The fleet has none: they belong to a run."""
        return iter(()) if self._view is None else self._view.changes(host)

    def events(self) -> Iterator[Event]:
        return iter(()) if self._view is None else self._view.events()

    def measurements(self) -> Iterator[Measurement]:
        """What was measured in the run; of the fleet everything, oldest first."""
        run = None if self._view is None else self._view.id
        found = self._record.measurements(wanted_run=run)
        return (one for one in found if self._wanted(one.host))

    def differences(self) -> Iterator[tuple[str, list[Difference]]]:
        """By host, by name: what is not as before the run; see :meth:`RunView.differences`."""
        if self._view is None:
            return
        for host, found in itertools.groupby(self._view.differences(), lambda one: one.host):
            yield host, list(found)

    def observed_again(self) -> Iterator[str]:
        """Hosts that were observed in the run, and were not when they were judged before it."""
        return iter(()) if self._view is None else self._view.observed_again()

    def judged_before(self, entry: HostEntry) -> Judged | None:
        """The judgement that the differences of a host are told from; None: the first time."""
        if self._view is None:
            return None
        return self._record.last_verdicts(entry.host, self._view.id, observed=entry.observed)

    def identities(self) -> dict[str, Identity]:
        """By host: which machine answered, as far as it is known."""
        return {one.name: one.identity for one in self._record.hosts()}

    def certificate(self, host: str) -> Certificate | None:
        """The newest certificate of a host, valid or not."""
        return next(iter(self._record.certificates(host, limit=1)), None)

    def bad_since(self, entry: HostEntry, verdict: Verdict) -> datetime | None:
        """Since when a verdict has not been good, where that was before the run; else None."""
        if entry.judged is None:
            return None
        first = self._record.since(entry.host, *verdict.key).first_bad
        if first is None or first.run == entry.run or first.at >= entry.judged.at:
            return None
        return first.at

    def _fleet(self) -> Iterator[HostEntry]:
        known = [one.name for one in self._record.hosts() if self._wanted(one.name)]
        judged: set[str] = set()
        for one in filter(lambda found: self._wanted(found.host), self._record.fleet()):
            judged.add(one.host)
            yield self._latest(one.host, one)
        for name in known:
            if name not in judged:
                yield self._latest(name, None)

    def _latest(self, host: str, judged: Judged | None) -> HostEntry:
        """A host as the newest run that was to work on it left it."""
        newest = next(iter(self._record.history(host, limit=1)), None)
        state = HostState.PLANNED if newest is None else newest.state
        reason = "" if newest is None else newest.reason
        run = judged.run if judged else newest.run if newest else ""
        later = newest is not None and judged is not None and newest.run != judged.run
        if later and state in {HostState.PLANNED, HostState.NOT_ATTEMPTED}:
            # A later run never came to it: nothing was done to it since it was judged.
            then = self._run(run).host(host)
            state, reason = then.state, then.reason
        found = standing(state, judged)
        note = found.note
        if newest is not None and newest.status is RunStatus.CRASHED and note:
            note = f"{note} Run '{newest.run}' crashed."
        return HostEntry(
            host=host,
            outcome=found.outcome,
            note=note,
            state=state,
            reason=reason,
            judged=judged,
            baseline_digest=self._run(run).host(host).baseline_digest if run else "",
            run=run,
        )

    def _run(self, run_id: str) -> RunView:
        if run_id not in self._runs:
            self._runs[run_id] = self._record.run(run_id)
        return self._runs[run_id]
