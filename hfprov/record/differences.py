"""What a run judged of each host, beside what it is compared with."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, and_, func, select

from hfprov.record.database import AnySelect, Database
from hfprov.record.model import PARTIAL_PHASES, Difference
from hfprov.record.schema import host, judgement, verdict
from hfprov.verdict import Outcome, Verdict


class Pair(NamedTuple):
    """The last judgement of a host in a run, and the one before the run to compare it with."""

    host: str
    old_set: int
    """Number of the set of verdicts; None when there is nothing to compare with."""
    new_set: int
    again: bool | None
    """Whether it is observed now and was not before; None: not observed now, or never judged."""


def pairs_of(database: Database, run_seq: int, at_once: int) -> Iterator[list[Pair]]:
    """All judged hosts of a run by name, so many at once. The database is not held between."""
    after = ""
    while True:
        with database.read() as connection:
            page = [Pair(*row) for row in connection.execute(_page(run_seq, after, at_once))]
        if not page:
            return
        after = page[-1].host
        yield page


def _page(run_seq: int, after: str, most: int) -> AnySelect:
    first, last = func.min(judgement.c.id), func.max(judgement.c.id)
    mine = (
        select(judgement.c.host_id, host.c.name, first.label("first"), last.label("last"))
        .join(host, host.c.id == judgement.c.host_id)
        .where(judgement.c.run_seq == run_seq, host.c.name > after)
        .group_by(judgement.c.host_id, host.c.name)
        .order_by(host.c.name)
        .limit(most)
        .subquery()
    )
    older, newest = judgement.alias(), judgement.alias()
    seen_now = newest.c.evidence_id.is_not(None)
    before = (
        select(older.c.set_id)
        .where(older.c.host_id == mine.c.host_id, older.c.id < mine.c.first)
        .where(older.c.phase.not_in(PARTIAL_PHASES))
        .order_by(older.c.id.desc())
        .limit(1)
    )
    # Nothing is known of an outage that what was seen could be held against.
    comparable = before.where(older.c.evidence_id.is_not(None) | ~seen_now)
    unseen_before = before.with_only_columns(older.c.evidence_id.is_(None))
    return (
        select(mine.c.name, comparable.scalar_subquery(), newest.c.set_id)
        .add_columns(and_(seen_now, unseen_before.scalar_subquery()))
        .join(newest, newest.c.id == mine.c.last)
        .order_by(mine.c.name)
    )


def doubted(before: Sequence[Verdict], after: Sequence[Verdict]) -> set[str]:
    """Checks that judge now what they could not judge before.

    Where a tool timed out, a check has one *unknown* in the place of all of its subjects.
    """
    unsure = {one.check for one in before if one.outcome is Outcome.UNKNOWN}
    known = {one.key for one in before if one.outcome is not Outcome.UNKNOWN}
    return {
        one.check
        for one in after
        if one.check in unsure and one.outcome is not Outcome.UNKNOWN and one.key not in known
    }


def last_judged(
    connection: Connection, run_seq: int, check: str, names: Collection[str]
) -> dict[str, int]:
    """By host: the last set of verdicts before a run in which a check judged all there was.

    Hosts on which it never did are left out.
    """
    first = func.min(judgement.c.id)
    mine = (
        select(judgement.c.host_id, host.c.name, first.label("first"))
        .join(host, host.c.id == judgement.c.host_id)
        .where(judgement.c.run_seq == run_seq, host.c.name.in_(names))
        .group_by(judgement.c.host_id, host.c.name)
        .subquery()
    )
    older = judgement.alias()
    said = select(verdict.c.set_id).where(
        verdict.c.set_id == older.c.set_id, verdict.c.check_id == check
    )
    unsure = said.where(verdict.c.outcome == Outcome.UNKNOWN.value)
    found = (
        select(older.c.set_id)
        .where(older.c.host_id == mine.c.host_id, older.c.id < mine.c.first)
        .where(older.c.phase.not_in(PARTIAL_PHASES))
        .where(said.exists(), ~unsure.exists())
        .order_by(older.c.id.desc())
        .limit(1)
        .scalar_subquery()
    )
    rows = connection.execute(select(mine.c.name, found))
    return {name: set_id for name, set_id in rows if set_id is not None}


def with_earlier(
    before: Sequence[Verdict], check: str, earlier: Sequence[Verdict]
) -> list[Verdict]:
    """Verdicts with what a check said earlier in the place of its *unknown*."""
    sure = [one for one in before if one.check != check or one.outcome is not Outcome.UNKNOWN]
    known = {one.key for one in sure}
    return [*sure, *(one for one in earlier if one.check == check and one.key not in known)]


def differences(
    name: str, before: Sequence[Verdict], after: Sequence[Verdict]
) -> Iterator[Difference]:
    """What is not the same in two sets of verdicts on a host."""
    old = {one.key: one for one in before}
    new = {one.key: one for one in after}
    for key in dict.fromkeys((*new, *old)):
        if old.get(key) != new.get(key):
            yield Difference(name, old.get(key), new.get(key))
