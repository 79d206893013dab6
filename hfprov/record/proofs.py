"""Certificates and measurements: what is shown to others, with what it rests on."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, insert, select, update

from hfprov.errors import RecordError
from hfprov.record.database import AnyRow, AnySelect, Database
from hfprov.record.evidence import FAST
from hfprov.record.model import (
    Certificate,
    GroupCertificate,
    Measurement,
    moment,
    moment_or_none,
    stamp,
)
from hfprov.record.redaction import Redactor, storable
from hfprov.record.schema import certificate, group_certificate, host, measurement, run

_IDS = 500
"""Ids in one question; databases bound them."""


def store_certificate(
    database: Database, connection: Connection, run_seq: int, host_id: int, issued: Certificate
) -> None:
    """Store a signed certificate, to the byte: a redacted one would not match its signature."""
    added = connection.execute(
        database.insert_new(certificate).returning(certificate.c.id),
        {
            "id": issued.id,
            "run_seq": run_seq,
            "host_id": host_id,
            "profile": issued.profile,
            "issued_at": stamp(issued.issued_at),
            "expires_at": stamp(issued.expires_at),
            "baseline_digest": issued.baseline_digest,
            "document": issued.document,
            "signature": issued.signature,
        },
    ).first()
    if added is None:
        raise RecordError(
            f"The record has another certificate '{issued.id}' already.",
            hint="Every certificate needs an id of its own.",
        )


def store_group(connection: Connection, run_seq: int, issued: GroupCertificate) -> None:
    """Store the signed certificate of a group, to the byte."""
    connection.execute(
        insert(group_certificate),
        {
            "id": issued.id,
            "run_seq": run_seq,
            "name": storable(issued.name),
            "profile": issued.profile,
            "issued_at": stamp(issued.issued_at),
            "expires_at": stamp(issued.expires_at),
            "document": issued.document,
            "signature": issued.signature,
        },
    )


def group_certificates(connection: Connection) -> list[GroupCertificate]:
    """The newest certificate of each group and profile."""
    last = select(func.max(group_certificate.c.seq)).group_by(
        group_certificate.c.name, group_certificate.c.profile
    )
    newest = select(group_certificate).where(group_certificate.c.seq.in_(last))
    return [
        GroupCertificate(
            id=row.id,
            name=row.name,
            profile=row.profile,
            issued_at=moment(row.issued_at),
            expires_at=moment(row.expires_at),
            document=row.document,
            signature=row.signature,
        )
        for row in connection.execute(newest)
    ]


def store_measurement(
    connection: Connection,
    run_seq: int,
    host_id: int,
    measured: Measurement,
    redactor: Redactor,
) -> None:
    """Store one measurement."""
    connection.execute(
        insert(measurement),
        {
            "run_seq": run_seq,
            "host_id": host_id,
            "peer": storable(measured.peer),
            "test": storable(measured.test),
            "parameters": redactor.json(measured.parameters),
            "value": measured.value,
            "unit": storable(measured.unit),
            "samples": redactor.json(measured.samples),
            "conditions": redactor.json(measured.conditions),
            "raw": zlib.compress(redactor.raw(measured.raw), FAST),
            "measured_at": stamp(measured.at),
        },
    )


def certificates(
    connection: Connection, name: str | None, *, valid_at: datetime | None, limit: int
) -> list[Certificate]:
    """Certificates, newest first: of a host or all; only those valid at a time, if given."""
    query = _certificates()
    if name is not None:
        query = query.where(host.c.name == name)
    if valid_at is not None:
        when = stamp(valid_at)
        query = query.where(
            certificate.c.revoked_at.is_(None),
            certificate.c.issued_at <= when,
            certificate.c.expires_at > when,
        )
    rows = connection.execute(query.order_by(certificate.c.seq.desc()).limit(limit))
    return [certificate_from(row) for row in rows]


def newest_certificates() -> AnySelect:
    """The newest certificate of each host and profile, as a query: a fleet has many."""
    last = select(func.max(certificate.c.seq)).group_by(
        certificate.c.host_id, certificate.c.profile
    )
    return _certificates().where(certificate.c.seq.in_(last))


def revoked(connection: Connection, ids: Sequence[str]) -> dict[str, str]:
    """Why they were revoked, of those certificates that were."""
    query = select(certificate.c.id, certificate.c.revoke_reason).where(
        certificate.c.revoked_at.is_not(None)
    )
    found = {}
    for start in range(0, len(ids), _IDS):
        rows = connection.execute(query.where(certificate.c.id.in_(ids[start : start + _IDS])))
        found.update({row.id: row.revoke_reason for row in rows})
    return found


def find_certificate(connection: Connection, certificate_id: str) -> Certificate:
    """One certificate. RecordError when there is none with this id."""
    row = connection.execute(_certificates().where(certificate.c.id == certificate_id)).first()
    if row is None:
        raise RecordError(
            f"The record has no certificate '{certificate_id}'.",
            hint="'hfprov certificates' lists them.",
        )
    return certificate_from(row)


def revoke(connection: Connection, certificate_id: str, reason: str) -> bool:
    """Revoke a certificate; False when it was revoked before, which then stays as it is."""
    done = connection.execute(
        update(certificate)
        .where(certificate.c.id == certificate_id, certificate.c.revoked_at.is_(None))
        .values(revoked_at=stamp(), revoke_reason=reason)
    )
    return bool(done.rowcount)


def measurements_query(
    name: str | None, test: str | None, run_seq: int | None, peer: str | None
) -> AnySelect:
    """Measurements of a host, a test, a run, a peer, or all."""
    query = (
        select(measurement, run.c.id.label("run_id"), host.c.name)
        .join(run, run.c.seq == measurement.c.run_seq)
        .join(host, host.c.id == measurement.c.host_id)
    )
    wanted: list[tuple[ColumnElement[Any], Any]] = [
        (host.c.name, name),
        (measurement.c.test, test),
        (measurement.c.run_seq, run_seq),
        (measurement.c.peer, peer),
    ]
    for column, value in wanted:
        if value is not None:
            query = query.where(column == value)
    return query


def measurement_from(row: AnyRow) -> Measurement:
    """From a row of :func:`measurements_query`."""
    return Measurement(
        host=row.name,
        test=row.test,
        value=row.value,
        unit=row.unit,
        peer=row.peer,
        parameters=json.loads(row.parameters),
        samples=tuple(json.loads(row.samples)),
        conditions=json.loads(row.conditions),
        raw=zlib.decompress(row.raw) if row.raw else b"",
        run=row.run_id,
        at=moment(row.measured_at),
    )


def _certificates() -> AnySelect:
    return (
        select(certificate, run.c.id.label("run_id"), host.c.name)
        .join(run, run.c.seq == certificate.c.run_seq)
        .join(host, host.c.id == certificate.c.host_id)
    )


def certificate_from(row: AnyRow) -> Certificate:
    return Certificate(
        id=row.id,
        host=row.name,
        profile=row.profile,
        issued_at=moment(row.issued_at),
        expires_at=moment(row.expires_at),
        baseline_digest=row.baseline_digest,
        document=row.document,
        signature=row.signature,
        run=row.run_id,
        revoked_at=moment_or_none(row.revoked_at),
        revoke_reason=row.revoke_reason,
    )
