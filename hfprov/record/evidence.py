"""Evidence: what was seen, kept compressed with its digest, and the facts drawn from it."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert, select, update

from hfprov.errors import RecordError
from hfprov.record.hosts import id_of
from hfprov.record.identity import Identity
from hfprov.record.model import PARTIAL_PHASES, HostState, stamp
from hfprov.record.redaction import Redactor
from hfprov.record.schema import evidence, fact
from hfprov.verdict import Verdict

FAST = 1
"""zlib level: twice as fast as the default for a tenth more space."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of one host, and how it was judged."""

    host: str
    phase: str
    raw: bytes
    """The observation's JSON text as bytes (not compressed), kept as evidence."""
    verdicts: Iterable[Verdict]
    identity: Identity | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    """JSON-like values by source name."""
    state: HostState = HostState.OBSERVED
    """What the host then is (after converging: ``HostState.VERIFIED``)."""
    packed: bytes = b""
    """``raw`` as zlib packed it, if that was done elsewhere."""


@dataclass(frozen=True, slots=True)
class Packed:
    """An observation ready to be stored: packing is done before the transaction begins."""

    sha256: str
    size: int
    content: bytes
    facts: Mapping[str, str]

    @classmethod
    def of(cls, seen: Seen, redactor: Redactor) -> Packed:
        """Pack an observation. The digest is over what is kept, redacted.

        What was packed already is kept so where nothing is redacted, and where it is packed at all.
        """
        kept = redactor.raw(seen.raw)
        reuse = bool(seen.packed) and kept == seen.raw and len(seen.packed) <= len(kept)
        return cls(
            sha256=hashlib.sha256(kept).hexdigest(),
            size=len(kept),
            content=seen.packed if reuse else zlib.compress(kept, FAST),
            facts={source: redactor.json(data) for source, data in seen.facts.items()},
        )

    def store(self, connection: Connection, run_seq: int, host_id: int, phase: str) -> int:
        """The id of the evidence, stored with its facts."""
        added = connection.execute(
            insert(evidence),
            {
                "run_seq": run_seq,
                "host_id": host_id,
                "phase": phase,
                "taken_at": stamp(),
                "sha256": self.sha256,
                "size": self.size,
                "content": self.content,
            },
        )
        (evidence_id,) = added.inserted_primary_key or (0,)
        if self.facts:
            connection.execute(
                insert(fact),
                [
                    {"evidence_id": evidence_id, "source": source, "data": data}
                    for source, data in self.facts.items()
                ],
            )
        return int(evidence_id)


def read_evidence(connection: Connection, run_seq: int, name: str, phase: str | None) -> bytes:
    """The newest observation of a host in a run. RecordError: there is none, or it is damaged."""
    query = (
        select(evidence.c.sha256, evidence.c.content)
        .where(evidence.c.run_seq == run_seq, evidence.c.host_id == id_of(connection, name))
        .order_by(evidence.c.id.desc())
        .limit(1)
    )
    if phase is not None:
        query = query.where(evidence.c.phase == phase)
    row = connection.execute(query).first()
    what = f"evidence of host '{name}'" + (f" in phase '{phase}'" if phase else "")
    if row is None:
        raise RecordError(f"This run has no {what}.", hint="Was the host reached?")
    if row.content is None:
        raise RecordError(f"The {what} was let go; its SHA-256 was {row.sha256}.")
    return _unpacked(row.content, row.sha256, what)


def evidence_before(connection: Connection, host_id: int, run_seq: int) -> bytes | None:
    """The newest observation of a host by a run before this one, if its content was kept.

    RecordError: it is damaged. One that saw a part of the node only does not count.
    """
    row = connection.execute(
        select(evidence.c.sha256, evidence.c.content)
        .where(
            evidence.c.host_id == host_id,
            evidence.c.run_seq < run_seq,
            evidence.c.phase.not_in(PARTIAL_PHASES),
        )
        .order_by(evidence.c.run_seq.desc(), evidence.c.id.desc())
        .limit(1)
    ).first()
    if row is None or row.content is None:
        return None
    return _unpacked(row.content, row.sha256, "earlier evidence")


def _unpacked(content: bytes, sha256: str, what: str) -> bytes:
    try:
        raw = zlib.decompress(content)
    except zlib.error as error:
        raise RecordError(f"The {what} is damaged: {error}.") from error
    if hashlib.sha256(raw).hexdigest() != sha256:
        raise RecordError(f"The {what} is damaged: its SHA-256 is not {sha256}.")
    return raw


def read_fact(connection: Connection, name: str, source: str) -> Any:
    """The newest facts of one source on a host; None when there are none."""
    data = connection.execute(
        select(fact.c.data)
        .join(evidence)
        .where(evidence.c.host_id == id_of(connection, name), fact.c.source == source)
        .order_by(evidence.c.id.desc())
        .limit(1)
    ).scalar()
    return None if data is None else json.loads(data)


def let_go(connection: Connection, before: datetime) -> int:
    """Drop the content of evidence older than a time; verdicts and digests stay."""
    done = connection.execute(
        update(evidence)
        .where(evidence.c.taken_at < stamp(before), evidence.c.content.is_not(None))
        .values(content=None)
    )
    return done.rowcount
