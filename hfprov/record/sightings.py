"""Since when a subject of a host is not good, or the host is not observed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache, partial
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Select, bindparam, case, func, select

from hfprov.record.database import AnyRow
from hfprov.record.hosts import portions
from hfprov.record.model import Sighting, Since, moment
from hfprov.record.schema import judgement, run, verdict
from hfprov.verdict import Outcome

Said = dict[int, list[tuple[str, str]]]
"""By set: subjects and outcomes of one check; sets without a word of it are left out."""

_NOT_APPLICABLE = {Outcome.NOT_APPLICABLE.value}
_SEEN = (
    judgement.c.id,
    run.c.id.label("run_id"),
    judgement.c.phase,
    judgement.c.judged_at,
)
_ON_HOST = judgement.c.host_id == bindparam("host_id")
_AFTER = judgement.c.id > bindparam("after_id")
_OF_JUDGEMENTS = (
    select(*_SEEN)
    .join(run, run.c.seq == judgement.c.run_seq)
    .where(judgement.c.id.in_(bindparam("judgement_ids", expanding=True)))
)
_SAID = select(verdict.c.set_id, verdict.c.subject, verdict.c.outcome).where(
    verdict.c.check_id == bindparam("check_id"),
    verdict.c.set_id.in_(bindparam("set_ids", expanding=True)),
)
_NEWEST = (
    select(judgement.c.id, judgement.c.reason, judgement.c.evidence_id)
    .where(_ON_HOST)
    .order_by(judgement.c.id.desc())
    .limit(1)
)
_LAST_OBSERVED = (
    select(*_SEEN)
    .join(run, run.c.seq == judgement.c.run_seq)
    .where(_ON_HOST, judgement.c.evidence_id.is_not(None))
    .order_by(judgement.c.id.desc())
    .limit(1)
)
_LAST_OTHERWISE = (
    select(judgement.c.id)
    .where(_ON_HOST)
    .where(judgement.c.evidence_id.is_not(None) | (judgement.c.reason != bindparam("reason_text")))
    .order_by(judgement.c.id.desc())
    .limit(1)
)
_FIRST_AFTER = (
    select(*_SEEN)
    .join(run, run.c.seq == judgement.c.run_seq)
    .where(_ON_HOST, _AFTER)
    .order_by(judgement.c.id)
    .limit(1)
)


class Stretch(Struct, frozen=True):
    """Judgements of one host, by their ids, that follow each other and say the same."""

    first: int
    last: int
    set_id: int
    observed: bool


def _stretches() -> Select[Any]:
    """The stretches of some hosts, in order. A host that is judged every night has few of them."""
    observed = judgement.c.evidence_id.is_not(None)
    over: Any = {"partition_by": judgement.c.host_id, "order_by": judgement.c.id}
    goes_on = (func.lag(judgement.c.set_id).over(**over) == judgement.c.set_id) & (
        func.lag(observed).over(**over) == observed
    )
    each = (
        select(
            judgement.c.host_id,
            judgement.c.id,
            judgement.c.set_id,
            case((observed, 1), else_=0).label("observed"),
            case((goes_on, 0), else_=1).label("begins"),
        )
        .where(judgement.c.host_id.in_(bindparam("host_ids", expanding=True)))
        .subquery()
    )
    number = func.sum(each.c.begins).over(partition_by=each.c.host_id, order_by=each.c.id)
    numbered = select(each, number.label("number")).subquery()
    first = func.min(numbered.c.id)
    return (
        select(
            numbered.c.host_id,
            first,
            func.max(numbered.c.id),
            func.min(numbered.c.set_id),
            func.min(numbered.c.observed),
        )
        .group_by(numbered.c.host_id, numbered.c.number)
        .order_by(first)
    )


_STRETCHES = _stretches()


class Histories:
    """What was judged of some hosts, for many questions about them."""

    def __init__(self, connection: Connection, host_ids: Iterable[int]) -> None:
        self._connection = connection
        self._said: dict[str, Said] = {}
        self._of: dict[int, list[Stretch]] = {host_id: [] for host_id in host_ids}
        for some in portions(list(self._of)):
            for host_id, first, last, set_id, observed in connection.execute(
                _STRETCHES, {"host_ids": some}
            ):
                self._of[host_id].append(Stretch(first, last, set_id, bool(observed)))

    def since(self, host_ids: Iterable[int], check: str, subject: str) -> dict[int, Since]:
        """The newest good judgement of a subject and the first bad one after it, by host."""
        said = self._said_of(check)
        is_good = cache(partial(_is_good, said, subject))
        found = {}
        for host_id in host_ids:
            last_good = first_bad = 0
            for one in self._of[host_id]:
                good = is_good(one.set_id, one.observed)
                if good:
                    last_good, first_bad = one.last, 0
                elif good is False and not first_bad:
                    first_bad = one.first
            found[host_id] = last_good, first_bad
        seen = self._sightings({number for pair in found.values() for number in pair if number})
        return {host: Since(seen.get(good), seen.get(bad)) for host, (good, bad) in found.items()}

    def _said_of(self, check: str) -> Said:
        if check not in self._said:
            sets = {one.set_id for stretches in self._of.values() for one in stretches}
            found = self._said[check] = {}
            for some in portions(sorted(sets)):
                rows = self._connection.execute(_SAID, {"check_id": check, "set_ids": some})
                for set_id, subject, outcome in rows:
                    found.setdefault(set_id, []).append((subject, outcome))
        return self._said[check]

    def _sightings(self, judgement_ids: Collection[int]) -> dict[int, Sighting]:
        found: dict[int, Sighting] = {}
        for some in portions(sorted(judgement_ids)):
            rows = self._connection.execute(_OF_JUDGEMENTS, {"judgement_ids": some})
            found.update((row.id, _sighting(row)) for row in rows)
        return found


# Two numbers of the record, by which the answers are kept.
def _is_good(said: Said, subject: str, set_id: int, observed: bool) -> bool | None:  # noqa: FBT001
    """Whether a check passed a subject, or had nothing to say of it; None: neither good nor bad.

    Some subjects are there only while they are bad. Where the host was observed and the check
    judged whatever there was, without a word of such a subject, it was good.
    """
    of_check = said.get(set_id, ())
    own = {outcome for one, outcome in of_check if one == subject}
    if own:
        return True if Outcome.PASS.value in own else None if own == _NOT_APPLICABLE else False
    others = {outcome for _, outcome in of_check}
    judged = bool(others - _NOT_APPLICABLE) and Outcome.UNKNOWN.value not in others
    return True if observed and judged else None


def not_observed_since(connection: Connection, host_id: int) -> Since:
    """See :meth:`Record.not_observed_since`."""
    asked = {"host_id": host_id}
    seen = connection.execute(_LAST_OBSERVED, asked).first()
    newest = connection.execute(_NEWEST, asked).first()
    if newest is None or newest.evidence_id is not None:
        return Since(seen and _sighting(seen), None)
    otherwise = connection.execute(_LAST_OTHERWISE, {**asked, "reason_text": newest.reason})
    after = otherwise.scalar() or 0
    first = connection.execute(_FIRST_AFTER, {**asked, "after_id": after}).first()
    return Since(seen and _sighting(seen), first and _sighting(first))


def _sighting(row: AnyRow) -> Sighting:
    return Sighting(row.run_id, row.phase, moment(row.judged_at))
