"""Verdict sets: all verdicts of one host, stored once however many hosts and runs share them.

A set is content-addressed. A rack of equal hosts that is judged every night adds one row per host
and night (a judgement), not one per host, night and check.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Generic, TypeVar

from sqlalchemy import Connection, insert, select

from hfprov.record.database import Database
from hfprov.record.hosts import portions
from hfprov.record.model import Summary
from hfprov.record.redaction import Redactor
from hfprov.record.schema import verdict as verdict_table
from hfprov.record.schema import verdict_set
from hfprov.verdict import Finding, NotApplicable, Outcome, Verdict, Waived, worst

Row = tuple[str, str, str, str, str, str, str, str]
"""Check, subject, outcome, observed, expected, reason, not_applicable, waiver; all storable."""

V = TypeVar("V")

_CACHED_DIGESTS = 4096
_CACHED_SETS = 256
_CACHED_ROWS = 8192


class Recent(Generic[V]):
    """The values used last, by key. Safe to use from several threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[int | str, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: int | str) -> V | None:
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key]

    def put(self, key: int | str, value: V) -> None:
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            if len(self._values) > self._most:
                self._values.popitem(last=False)


class Packer:
    """Makes rows of verdicts. What hosts share is the same object, and is packed once."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._lock = threading.Lock()
        # By id, with the objects themselves: an id means nothing once its object is gone.
        self._rows: dict[int, tuple[Verdict, Row]] = {}
        self._digests: dict[tuple[int, ...], tuple[list[Row], str]] = {}
        self._same: dict[Row, Row] = {}

    def pack(self, verdicts: Iterable[Verdict]) -> tuple[list[Row], str]:
        """The rows of a set and its digest. Done outside of a transaction."""
        with self._lock:
            if len(self._rows) > _CACHED_ROWS or len(self._digests) > _CACHED_SETS:
                self._rows, self._digests, self._same = {}, {}, {}
            rows = [self._known(verdict) for verdict in verdicts]
            key = tuple(map(id, rows))
            if key not in self._digests:
                self._digests[key] = rows, digest_of(rows)
            return self._digests[key]

    def _known(self, verdict: Verdict) -> Row:
        known = self._rows.get(id(verdict))
        if known is None:
            row = self._row(verdict)
            known = self._rows[id(verdict)] = verdict, self._same.setdefault(row, row)
        return known[1]

    def _row(self, verdict: Verdict) -> Row:
        text = self._redactor.text
        found = verdict.finding
        return (
            text(verdict.check),
            text(found.subject),
            found.outcome.value,
            text(found.observed),
            text(found.expected),
            text(found.reason),
            found.not_applicable.value if found.not_applicable else "",
            _waiver_text(found.waiver, self._redactor),
        )


def pack(verdicts: Iterable[Verdict], redactor: Redactor) -> tuple[list[Row], str]:
    """The rows of one set and its digest."""
    return Packer(redactor).pack(verdicts)


def digest_of(rows: Iterable[Row]) -> str:
    """SHA-256 of a set. A row without a waiver counts as it did before there were any."""
    plain = [row if row[-1] else row[:-1] for row in rows]
    return hashlib.sha256(json.dumps(plain).encode()).hexdigest()


def _waiver_text(waiver: Waived | None, redactor: Redactor) -> str:
    if waiver is None:
        return ""
    kept = {"owner": waiver.owner, "reason": waiver.reason, "expires": waiver.expires.isoformat()}
    return redactor.json(kept)


class VerdictSets:
    """Stores sets, and loads them; keeps the ones used last in memory."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._ids: Recent[int] = Recent(_CACHED_DIGESTS)
        self._sets: Recent[tuple[Verdict, ...]] = Recent(_CACHED_SETS)

    def store(self, connection: Connection, rows: Sequence[Row], digest: str) -> int:
        """The id of the set with these rows, which is stored unless it is there."""
        known = self._ids.get(digest)
        if known is not None:
            return known
        by_digest = select(verdict_set.c.id).where(verdict_set.c.digest == digest)
        found = connection.execute(by_digest).scalar()
        if found is not None:
            return int(found)
        added = connection.execute(
            self._database.insert_new(verdict_set).returning(verdict_set.c.id),
            {"digest": digest, **_counts(rows)},
        ).scalar()
        if added is None:  # by another process, in between
            return int(connection.execute(by_digest).scalar_one())
        if rows:
            connection.execute(insert(verdict_table), _as_parameters(int(added), rows))
        return int(added)

    def remember(self, digest: str, set_id: int) -> None:
        """Note the id of a set; only after its transaction was committed."""
        self._ids.put(digest, set_id)

    def load(
        self, connection: Connection, set_ids: Iterable[int]
    ) -> dict[int, tuple[Verdict, ...]]:
        """The verdicts of some sets, in the order in which they were given."""
        loaded: dict[int, tuple[Verdict, ...]] = {}
        missing: list[int] = []
        for set_id in dict.fromkeys(set_ids):
            known = self._sets.get(set_id)
            if known is None:
                missing.append(set_id)
            else:
                loaded[set_id] = known
        for some in portions(missing):
            for set_id, verdicts in _read(connection, some).items():
                loaded[set_id] = verdicts
                self._sets.put(set_id, verdicts)
        return loaded


def _counts(rows: Sequence[Row]) -> dict[str, str | int]:
    counts = Counter(Outcome(row[2]) for row in rows)
    return {
        "outcome": worst(counts).value,
        "passed": counts[Outcome.PASS],
        "warned": counts[Outcome.WARN],
        "failed": counts[Outcome.FAIL],
        "unknown": counts[Outcome.UNKNOWN],
        "not_applicable": counts[Outcome.NOT_APPLICABLE],
    }


def _as_parameters(set_id: int, rows: Sequence[Row]) -> list[dict[str, str | int]]:
    return [
        {
            "set_id": set_id,
            "check_id": check,
            "subject": subject,
            "position": position,
            "outcome": outcome,
            "observed": observed,
            "expected": expected,
            "reason": reason,
            "not_applicable": not_applicable,
            "waiver": waiver,
        }
        for position, (
            check,
            subject,
            outcome,
            observed,
            expected,
            reason,
            not_applicable,
            waiver,
        ) in enumerate(rows)
    ]


def _read(connection: Connection, set_ids: Sequence[int]) -> dict[int, tuple[Verdict, ...]]:
    rows = connection.execute(
        select(verdict_table)
        .where(verdict_table.c.set_id.in_(set_ids))
        .order_by(verdict_table.c.set_id, verdict_table.c.position)
    )
    found: dict[int, list[Verdict]] = {set_id: [] for set_id in set_ids}
    for set_id, check, subject, _, *rest in rows:
        found[set_id].append(verdict_from((check, subject, *rest)))
    return {set_id: tuple(verdicts) for set_id, verdicts in found.items()}


def verdict_from(row: Row) -> Verdict:
    """The verdict of one row."""
    check, subject, outcome, observed, expected, reason, not_applicable, waiver = row
    why = NotApplicable(not_applicable) if not_applicable else None
    finding = Finding(
        Outcome(outcome), subject, observed, expected, reason, why, _waiver_from(waiver)
    )
    return Verdict(check, finding)


def _waiver_from(text: str) -> Waived | None:
    if not text:
        return None
    kept = json.loads(text)
    expires = datetime.fromisoformat(kept["expires"])
    return Waived(str(kept["owner"]), str(kept["reason"]), expires)


def summary_from(row: Sequence[str | int]) -> Summary:
    """From the columns ``outcome`` to ``not_applicable`` of a set."""
    outcome, *counts = row
    return Summary(Outcome(str(outcome)), *(int(count) for count in counts))
