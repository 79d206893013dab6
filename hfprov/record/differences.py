"""What a run judged of each host, beside what it is compared with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sqlalchemy import and_, func, select

from hfprov.record.database import AnySelect, Database
from hfprov.record.model import PARTIAL_PHASES, Difference
from hfprov.record.schema import host, judgement
from hfprov.verdict import Verdict


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


def differences(
    name: str, before: Sequence[Verdict], after: Sequence[Verdict]
) -> Iterator[Difference]:
    """What is not the same in two sets of verdicts on a host."""
    old = {verdict.key: verdict for verdict in before}
    new = {verdict.key: verdict for verdict in after}
    for key in dict.fromkeys((*new, *old)):
        if old.get(key) != new.get(key):
            yield Difference(name, old.get(key), new.get(key))
