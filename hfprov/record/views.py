"""Views of one run: read page by page, so that 10,000 hosts fit in little memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, Self

from sqlalchemy import Connection, func, select

from hfprov.record.database import AnyRow, AnySelect, Database
from hfprov.record.differences import (
    Pair,
    differences,
    doubted,
    last_judged,
    pairs_of,
    with_earlier,
)
from hfprov.record.events import event_data
from hfprov.record.model import (
    Change,
    Difference,
    Event,
    HostState,
    HostView,
    Judged,
    RunInfo,
    RunStatus,
    moment,
    moment_or_none,
)
from hfprov.record.schema import change, event, host, judgement, run, run_host, verdict_set
from hfprov.record.verdicts import VerdictSets, summary_from
from hfprov.verdict import Verdict

PAGE = 100
"""Hosts read at once."""
_ROWS = 1000

SUMMARY = (
    verdict_set.c.outcome,
    verdict_set.c.passed,
    verdict_set.c.warned,
    verdict_set.c.failed,
    verdict_set.c.unknown,
    verdict_set.c.not_applicable,
)
JUDGED = (
    judgement.c.id,
    judgement.c.host_id,
    judgement.c.phase,
    judgement.c.set_id,
    judgement.c.evidence_id,
    judgement.c.reason,
    judgement.c.judged_at,
    *SUMMARY,
)


class RunView:
    """One run as the record has it. Iterators read as they go and never hold the database."""

    def __init__(self, database: Database, sets: VerdictSets, seq: int, info: RunInfo) -> None:
        self.info = info
        self._database = database
        self._sets = sets
        self._seq = seq
        self._wanted: Callable[[str], bool] = lambda _: True

    @property
    def id(self) -> str:
        return self.info.id

    def only(self, wanted: Callable[[str], bool] | None) -> Self:
        """The same run, of the hosts whose name is wanted; None: of all."""
        if wanted is None:
            return self
        view = copy(self)
        view._wanted = wanted  # noqa: SLF001 - our own, of the copy
        return view

    def hosts(self) -> Iterator[HostView]:
        """All hosts of the run by name, with the newest verdicts of each phase."""
        after = ""
        while page := self._page(after):
            yield from (one for one in page if self._wanted(one.host))
            after = page[-1].host

    def host(self, name: str) -> HostView:
        """One host of the run. KeyError when it is not part of it."""
        with self._database.read() as connection:
            rows = connection.execute(self._hosts().where(host.c.name == name)).all()
            views = self._views(connection, rows)
        if not views:
            raise KeyError(name)
        return views[0]

    def changes(self, host_name: str | None = None) -> Iterator[tuple[str, Change]]:
        """Host and change, in the order in which they were recorded."""
        query = select(change, host.c.name).join(host).where(change.c.run_seq == self._seq)
        if host_name is not None:
            query = query.where(host.c.name == host_name)
        for row in paged(self._database, query, change.c.id):
            what = Change(
                row.role, row.task, row.action, row.item, row.diff, moment(row.changed_at)
            )
            if self._wanted(row.name):
                yield row.name, what

    def events(self, host_name: str | None = None) -> Iterator[Event]:
        """The run's events, in the order in which they were recorded."""
        query = event_query().where(event.c.run_seq == self._seq)
        if host_name is not None:
            query = query.where(host.c.name == host_name)
        for row in paged(self._database, query, event.c.id):
            # What is said of the run as a whole is said of every part of it.
            if row.host_name is None or self._wanted(row.host_name):
                yield event_from(row)

    def states(self) -> dict[HostState, int]:
        """How many hosts are in which state."""
        with self._database.read() as connection:
            rows = connection.execute(
                select(run_host.c.state, func.count())
                .where(run_host.c.run_seq == self._seq)
                .group_by(run_host.c.state)
            ).all()
        return {HostState(state): count for state, count in rows}

    def differences(self) -> Iterator[Difference]:
        """What is judged otherwise than in the last judgement of the same host before this run.

        What was observed is compared with the last time that the host was observed, and what a
        check judged with the last time that it could judge: of an outage, or of a tool that timed
        out in between, nothing is known that could be the same or different. Hosts that were never
        judged before, or never observed, have nothing to differ from and are left out.
        """
        for pairs in self._compared():
            changed = [pair for pair in pairs if pair.old_set not in (None, pair.new_set)]
            with self._database.read() as connection:
                sets = self._sets.load(
                    connection, (one for pair in changed for one in (pair.old_set, pair.new_set))
                )
                before = self._judged_before(connection, changed, sets)
            for pair in changed:
                yield from differences(pair.host, before[pair.host], sets[pair.new_set])

    def observed_again(self) -> Iterator[str]:
        """Hosts that were observed in this run, and were not when they were judged before it."""
        for pairs in self._compared():
            yield from (pair.host for pair in pairs if pair.again)

    def _judged_before(
        self, connection: Connection, pairs: Sequence[Pair], sets: Mapping[int, Sequence[Verdict]]
    ) -> dict[str, Sequence[Verdict]]:
        """By host: what its verdicts now are compared with."""
        before: dict[str, Sequence[Verdict]] = {pair.host: sets[pair.old_set] for pair in pairs}
        doubts: dict[str, list[str]] = {}
        for pair in pairs:
            for check in doubted(before[pair.host], sets[pair.new_set]):
                doubts.setdefault(check, []).append(pair.host)
        for check, names in doubts.items():
            earlier = last_judged(connection, self._seq, check, names)
            said = self._sets.load(connection, earlier.values())
            for name, set_id in earlier.items():
                before[name] = with_earlier(before[name], check, said[set_id])
        return before

    def _compared(self) -> Iterator[list[Pair]]:
        for page in pairs_of(self._database, self._seq, PAGE):
            yield [pair for pair in page if self._wanted(pair.host)]

    def _page(self, after: str) -> list[HostView]:
        query = self._hosts().where(host.c.name > after).order_by(host.c.name).limit(PAGE)
        with self._database.read() as connection:
            return self._views(connection, connection.execute(query).all())

    def _hosts(self) -> AnySelect:
        return (
            select(run_host, host.c.name)
            .join(host, host.c.id == run_host.c.host_id)
            .where(run_host.c.run_seq == self._seq)
        )

    def _views(self, connection: Connection, rows: Sequence[AnyRow]) -> list[HostView]:
        names = {row.host_id: row.name for row in rows}
        judged: dict[int, dict[str, Judged]] = {host_id: {} for host_id in names}
        found = connection.execute(
            select(*JUDGED)
            .join(verdict_set)
            .where(judgement.c.run_seq == self._seq, judgement.c.host_id.in_(list(names)))
            .order_by(judgement.c.id)
        ).all()
        sets = self._sets.load(connection, (row.set_id for row in found))
        for row in found:
            one = judged_from(row, self.id, names[row.host_id], sets[row.set_id])
            judged[row.host_id].pop(one.phase, None)  # so that the newest comes last
            judged[row.host_id][one.phase] = one
        return [
            HostView(
                host=row.name,
                state=HostState(row.state),
                reason=row.reason,
                baseline_digest=row.baseline_digest or "",
                updated_at=moment(row.updated_at),
                judged=judged[row.host_id],
            )
            for row in rows
        ]


def paged(
    database: Database,
    query: AnySelect,
    key: Any,
    *,
    at_once: int = _ROWS,
    newest_first: bool = False,
) -> Iterator[AnyRow]:
    """The rows of a query in the order of ``key`` (a number that it selects), page by page."""
    page = query.order_by(key.desc() if newest_first else key).limit(at_once)
    rows: Sequence[AnyRow] = ()
    while True:
        after = page
        if rows:
            last = getattr(rows[-1], key.key)
            after = page.where(key < last if newest_first else key > last)
        with database.read() as connection:
            rows = connection.execute(after).all()
        yield from rows
        if len(rows) < at_once:
            return


def judged_from(row: AnyRow, run_id: str, name: str, verdicts: tuple[Verdict, ...]) -> Judged:
    """From a row of ``JUDGED``."""
    return Judged(
        run=run_id,
        host=name,
        phase=row.phase,
        at=moment(row.judged_at),
        summary=summary_from([getattr(row, column.name) for column in SUMMARY]),
        verdicts=verdicts,
        reason=row.reason,
        evidence_id=row.evidence_id,
    )


def run_from(row: AnyRow) -> RunInfo:
    """From a row of the table ``run``."""
    return RunInfo(
        id=row.id,
        command=row.command,
        argv=tuple(json.loads(row.argv)),
        controller=row.controller,
        pid=row.pid,
        version=row.version,
        started_at=moment(row.started_at),
        ended_at=moment_or_none(row.ended_at),
        status=RunStatus(row.status),
        exit_code=row.exit_code,
        host_count=row.host_count,
    )


def event_query() -> AnySelect:
    """Events with the names of their run and host."""
    return (
        select(event, run.c.id.label("run_id"), host.c.name.label("host_name"))
        .outerjoin(run, run.c.seq == event.c.run_seq)
        .outerjoin(host, host.c.id == event.c.host_id)
    )


def event_from(row: AnyRow) -> Event:
    """From a row of :func:`event_query`."""
    return Event(
        at=moment(row.happened_at),
        kind=row.kind,
        message=row.message,
        run=row.run_id,
        host=row.host_name,
        data=event_data(row.data),
    )
