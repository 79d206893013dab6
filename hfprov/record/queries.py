"""Questions about hosts across runs: history, last verdicts, evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, func, select

from hfprov.errors import RecordError
from hfprov.record.database import AnyRow
from hfprov.record.hosts import id_of, known_ids, portions
from hfprov.record.model import (
    PARTIAL_PHASES,
    HistoryEntry,
    HostState,
    Judged,
    RunStatus,
    Summary,
    moment,
    stamp,
)
from hfprov.record.schema import (
    certificate,
    host,
    judgement,
    run,
    run_host,
    verdict_set,
)
from hfprov.record.verdicts import VerdictSets, summary_from
from hfprov.record.views import JUDGED, SUMMARY, judged_from
from hfprov.verdict import Outcome


def find_run(connection: Connection, wanted: str) -> AnyRow:
    """The run with this id, or the only one whose id begins or ends so, or the ``last``."""
    newest = select(run).order_by(run.c.seq.desc())
    if wanted == "last":
        row = connection.execute(newest.limit(1)).first()
        if row is None:
            raise RecordError("The record has no run yet.", hint="Observe a host first.")
        return row
    exact = connection.execute(select(run).where(run.c.id == wanted)).first()
    if exact is not None:
        return exact
    part = run.c.id.startswith(wanted, autoescape=True) | run.c.id.endswith(
        f"-{wanted}", autoescape=True
    )
    rows = connection.execute(newest.where(part).limit(4)).all() if wanted else []
    if len(rows) == 1:
        return rows[0]
    if rows:
        several = ", ".join(f"'{row.id}'" for row in rows)
        raise RecordError(
            f"'{wanted}' may be several runs: {several}.", hint="Give more of its id."
        )
    raise RecordError(
        f"The record has no run '{wanted}'.", hint="'hfprov runs' lists the runs it has."
    )


def runs_of(connection: Connection, names: Sequence[str], most: int) -> list[int]:
    """Numbers of the newest runs that were about one of these hosts, newest first."""
    found: set[int] = set()
    for some in portions(known_ids(connection, names).values()):
        rows = connection.execute(
            select(run_host.c.run_seq)
            .where(run_host.c.host_id.in_(some))
            .distinct()
            .order_by(run_host.c.run_seq.desc())
            .limit(most)
        )
        found.update(rows.scalars())
    return sorted(found, reverse=True)[:most]


def history(connection: Connection, name: str, limit: int) -> list[HistoryEntry]:
    """The newest runs that a host was part of, newest first."""
    host_id = id_of(connection, name)
    rows = connection.execute(
        select(run.c.seq, run.c.id, run.c.command, run.c.started_at, run.c.status)
        .add_columns(run_host.c.state, run_host.c.reason)
        .join(run_host, run_host.c.run_seq == run.c.seq)
        .where(run_host.c.host_id == host_id)
        .order_by(run.c.seq.desc())
        .limit(limit)
    ).all()
    phases: dict[int, dict[str, Summary]] = {row.seq: {} for row in rows}
    judged = connection.execute(
        select(judgement.c.run_seq, judgement.c.phase, *SUMMARY)
        .join(verdict_set)
        .where(judgement.c.host_id == host_id, judgement.c.run_seq.in_(list(phases)))
        .order_by(judgement.c.id)
    )
    for run_seq, phase, *summary in judged:
        phases[run_seq][phase] = summary_from(summary)
    return [
        HistoryEntry(
            run=row.id,
            command=row.command,
            started_at=moment(row.started_at),
            status=RunStatus(row.status),
            state=HostState(row.state),
            reason=row.reason,
            phases=phases[row.seq],
        )
        for row in rows
    ]


def last_judged(
    connection: Connection,
    sets: VerdictSets,
    name: str,
    before_run: str | None,
    *,
    observed: bool = False,
) -> Judged | None:
    """See :meth:`Record.last_verdicts`."""
    host_id = id_of(connection, name)
    query = select(*JUDGED, run.c.id.label("run_id")).join(verdict_set).join(run)
    query = query.where(judgement.c.host_id == host_id, judgement.c.phase.not_in(PARTIAL_PHASES))
    if observed:
        query = query.where(judgement.c.evidence_id.is_not(None))
    if before_run is not None:
        query = query.where(_before(connection, host_id, find_run(connection, before_run).seq))
    row = connection.execute(query.order_by(judgement.c.id.desc()).limit(1)).first()
    if row is None:
        return None
    return judged_from(row, row.run_id, name, sets.load(connection, [row.set_id])[row.set_id])


def bad_after_issue(
    connection: Connection, sets: VerdictSets, when: datetime
) -> list[tuple[str, str, Judged]]:
    """See :meth:`Record.bad_after_issue`."""
    now = stamp(when)
    rows = connection.execute(
        select(*JUDGED, certificate.c.id, certificate.c.document, run.c.id, host.c.name)
        .select_from(certificate)
        .join(host, host.c.id == certificate.c.host_id)
        .join(judgement, judgement.c.host_id == certificate.c.host_id)
        .join(run, run.c.seq == judgement.c.run_seq)
        .join(verdict_set, verdict_set.c.id == judgement.c.set_id)
        .where(certificate.c.revoked_at.is_(None), certificate.c.expires_at > now)
        .where(judgement.c.judged_at > certificate.c.issued_at)
        .where(judgement.c.run_seq != certificate.c.run_seq)
        .where(verdict_set.c.outcome.in_([Outcome.FAIL.value, Outcome.UNKNOWN.value]))
        .order_by(judgement.c.id)
    ).all()
    loaded = sets.load(connection, [row.set_id for row in rows])
    return [
        (row[-4], row[-3], judged_from(row, row[-2], row[-1], loaded[row.set_id])) for row in rows
    ]


def newest_moment(connection: Connection) -> datetime | None:
    """See :meth:`Record.newest_moment`."""
    last = select(judgement.c.judged_at).order_by(judgement.c.id.desc()).limit(1000).subquery()
    found = [
        connection.execute(select(func.max(column))).scalar()
        for column in (last.c.judged_at, run.c.started_at, certificate.c.issued_at)
    ]
    return max((moment(text) for text in found if text), default=None)


def fleet_page(
    connection: Connection, sets: VerdictSets, after: str, most: int
) -> Iterator[Judged]:
    """What was judged last of the next hosts by name, from whichever run."""
    newest = judgement.alias()
    last = (
        select(func.max(newest.c.id))
        .where(newest.c.host_id == host.c.id, newest.c.phase.not_in(PARTIAL_PHASES))
        .scalar_subquery()
    )
    rows = connection.execute(
        select(*JUDGED, run.c.id.label("run_id"), host.c.name)
        .select_from(host)
        .join(judgement, judgement.c.id == last)
        .join(verdict_set, verdict_set.c.id == judgement.c.set_id)
        .join(run, run.c.seq == judgement.c.run_seq)
        .where(host.c.name > after)
        .order_by(host.c.name)
        .limit(most)
    ).all()
    loaded = sets.load(connection, (row.set_id for row in rows))
    return (judged_from(row, row.run_id, row.name, loaded[row.set_id]) for row in rows)


def _before(connection: Connection, host_id: int, run_seq: int) -> ColumnElement[bool]:
    first = connection.execute(
        select(func.min(judgement.c.id)).where(
            judgement.c.host_id == host_id, judgement.c.run_seq == run_seq
        )
    ).scalar()
    return judgement.c.run_seq < run_seq if first is None else judgement.c.id < first
