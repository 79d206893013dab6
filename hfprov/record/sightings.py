"""Since when a subject of a host is not good, or the host is not observed."""

from __future__ import annotations

from sqlalchemy import Connection, and_, bindparam, select

from hfprov.record.database import AnyRow
from hfprov.record.model import Sighting, Since, moment
from hfprov.record.schema import judgement, run, verdict
from hfprov.record.verdicts import verdict_from
from hfprov.verdict import Outcome

_NEITHER = (Outcome.PASS.value, Outcome.NOT_APPLICABLE.value)
_SEEN = (
    judgement.c.id,
    run.c.id.label("run_id"),
    judgement.c.phase,
    judgement.c.judged_at,
)
_VERDICT = (
    verdict.c.check_id,
    verdict.c.subject,
    verdict.c.outcome,
    verdict.c.observed,
    verdict.c.expected,
    verdict.c.reason,
    verdict.c.not_applicable,
    verdict.c.waiver,
)
_ON_HOST = judgement.c.host_id == bindparam("host_id")
_AFTER = judgement.c.id > bindparam("after_id")
_ON_SUBJECT = (
    (verdict.c.set_id == judgement.c.set_id)
    & (verdict.c.check_id == bindparam("check_id"))
    & (verdict.c.subject == bindparam("subject_text"))
)


_OTHER = verdict.alias()
_CHECK_SAYS = (
    select(_OTHER.c.set_id)
    .where(_OTHER.c.set_id == judgement.c.set_id, _OTHER.c.check_id == bindparam("check_id"))
    .correlate(judgement)
)
# Some subjects are there only while they are bad. Where the host was observed and the check judged
# whatever there was, without a word of such a subject, it was good.
_GOOD_WITHOUT_IT = and_(
    judgement.c.evidence_id.is_not(None),
    ~_CHECK_SAYS.where(_OTHER.c.subject == bindparam("subject_text")).exists(),
    ~_CHECK_SAYS.where(_OTHER.c.outcome == Outcome.UNKNOWN.value).exists(),
    _CHECK_SAYS.where(_OTHER.c.outcome != Outcome.NOT_APPLICABLE.value).exists(),
)
# Put together once: thousands of them are asked after a sweep in which thousands drifted.
_LAST_GOOD = (
    select(*_SEEN, *_VERDICT)
    .join(run, run.c.seq == judgement.c.run_seq)
    .outerjoin(verdict, _ON_SUBJECT & (verdict.c.outcome == Outcome.PASS.value))
    .where(_ON_HOST, verdict.c.outcome.is_not(None) | _GOOD_WITHOUT_IT)
    .order_by(judgement.c.id.desc())
    .limit(1)
)
_FIRST_BAD = (
    select(*_SEEN, *_VERDICT)
    .join(run, run.c.seq == judgement.c.run_seq)
    .join(verdict, _ON_SUBJECT)
    .where(_ON_HOST, _AFTER, verdict.c.outcome.not_in(_NEITHER))
    .order_by(judgement.c.id)
    .limit(1)
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


def since(connection: Connection, host_id: int, check: str, subject: str) -> Since:
    """The newest good verdict on a subject, and the first bad one after it."""
    asked = {
        "host_id": host_id,
        "check_id": check,
        "subject_text": subject,
    }
    good = connection.execute(_LAST_GOOD, asked).first()
    bad = connection.execute(_FIRST_BAD, {**asked, "after_id": good.id if good else 0}).first()
    return Since(_sighting(good), _sighting(bad))


def not_observed_since(connection: Connection, host_id: int) -> Since:
    """See :meth:`Record.not_observed_since`."""
    asked = {"host_id": host_id}
    seen = connection.execute(_LAST_OBSERVED, asked).first()
    newest = connection.execute(_NEWEST, asked).first()
    if newest is None or newest.evidence_id is not None:
        return Since(_sighting(seen), None)
    otherwise = connection.execute(_LAST_OTHERWISE, {**asked, "reason_text": newest.reason})
    after = otherwise.scalar() or 0
    first = connection.execute(_FIRST_AFTER, {**asked, "after_id": after}).first()
    return Since(_sighting(seen), _sighting(first))


def _sighting(row: AnyRow | None) -> Sighting | None:
    if row is None:
        return None
    _, run_id, phase, judged_at, *columns = row
    said = bool(columns) and columns[0] is not None
    return Sighting(
        run_id, phase, moment(judged_at), verdict_from(tuple(columns)) if said else None
    )
