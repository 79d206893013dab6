"""``hfprov verify``: whether a file is a certificate that holds, for the machine it is shown for.

Offline it needs the file, its signature and a file of allowed signers. With the record it also
tells whether the certificate was revoked, and whether what it rests on is still as it was.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from hfprov.certificate.document import (
    GROUP,
    measurement_digest,
    read_certificate,
    verdicts_digest,
)
from hfprov.certificate.signing import SignatureRefusedError, verify
from hfprov.errors import HfprovError, UsageError
from hfprov.record.identity import Identity
from hfprov.record.model import Judged
from hfprov.record.store import Record

_TOLERANCE = timedelta(minutes=1)
LIMIT = 4 << 20
"""Bytes of a certificate or a signature; what is larger is none."""


@dataclass(frozen=True, slots=True)
class Shown:
    """For whom a certificate is shown. None is not asked."""

    host: str | None = None
    identity: Identity | None = None
    """Of the machine itself, as it was just read."""


@dataclass(frozen=True, slots=True)
class Verification:
    """What came out. It holds only when nothing speaks against it."""

    file: str
    signer: str
    document: Mapping[str, Any] | None
    problems: Sequence[str]

    @property
    def holds(self) -> bool:
        return not self.problems


def verify_file(
    path: Path,
    signature: Path,
    signers: Path,
    now: datetime,
    shown: Shown,
    record: Record | None = None,
) -> Verification:
    """Everything that speaks against a certificate. Raises UsageError: it could not be looked at.

    A certificate without a good signature is not read any further.
    """
    text, signed = _read(path), _read(signature, missing="")
    try:
        signer = verify(text, signed, signers)
    except SignatureRefusedError as error:
        return Verification(str(path), "", None, [error.message])
    try:
        document, read = read_certificate(text)
    except ValueError as error:
        return Verification(str(path), signer, None, [f"It is no certificate: {error}."])
    problems = list(_of_time(read.issued_at, read.expires_at, now))
    if document["schema"] == GROUP:
        problems += _of_group(document, shown)
    else:
        problems += _of_machine(document, shown)
    if record is not None:
        problems += _of_record(record, document, text, now)
    return Verification(str(path), signer, document, problems)


def _read(path: Path, missing: str | None = None) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(LIMIT + 1)
    except FileNotFoundError as error:
        if missing is not None:
            return missing
        raise UsageError(f"There is no file '{path}'.") from error
    except OSError as error:
        raise UsageError(f"'{path}' cannot be read: {error.strerror}.") from error
    if len(content) > LIMIT:
        raise UsageError(f"'{path}' is too large to be a certificate.")
    return content.decode("utf-8", "backslashreplace")


def _of_time(issued: datetime, expires: datetime, now: datetime) -> Iterator[str]:
    if now < issued - _TOLERANCE:
        yield (
            f"It was issued {issued:%Y-%m-%d %H:%M} UTC and this clock says {now:%Y-%m-%d %H:%M}: "
            "was the clock set back?"
        )
    if now >= expires:
        yield f"It expired {expires:%Y-%m-%d %H:%M} UTC."


def _of_machine(document: Mapping[str, Any], shown: Shown) -> Iterator[str]:
    host, identity = document["host"], Identity(**document["identity"])
    if shown.host not in (None, host):
        yield f"It is the certificate of '{host}', not of '{shown.host}'."
    if shown.identity is not None:
        changed = identity.conflict(shown.identity)
        if changed:
            yield f"It is the certificate of another machine: the {changed} is not this one's."
        elif not identity.same_machine(shown.identity):
            yield "Whether it is the certificate of this machine cannot be told."


def _of_group(document: Mapping[str, Any], shown: Shown) -> Iterator[str]:
    members = {one["host"] for one in document["members"]}
    if shown.host is not None and shown.host not in members:
        yield f"'{shown.host}' is no member of the group '{document['group']}'."
    if shown.identity is not None:
        yield "The certificate of a group names no machine: show that of the node."


def _of_record(
    record: Record, document: Mapping[str, Any], text: str, now: datetime
) -> Iterator[str]:
    newest = record.newest_moment()
    if newest is not None and newest > now + _TOLERANCE:
        yield f"The record is of {newest:%Y-%m-%d %H:%M} UTC, later than this clock says."
    if document["schema"] == GROUP:
        for member in document["members"]:
            yield from _of_member(record, member)
        return
    try:
        kept = record.certificate(document["id"])
    except HfprovError as error:
        yield error.message
        return
    if kept.document != text:
        yield "The record has another certificate under this id."
    if kept.revoked_at is not None:
        yield f"It was revoked {kept.revoked_at:%Y-%m-%d %H:%M} UTC: {kept.revoke_reason}"
    known = next((one for one in record.hosts() if one.name == document["host"]), None)
    changed = known and Identity(**document["identity"]).conflict(known.identity)
    if changed:
        yield f"The host is another machine by now: its {changed} changed."
    yield from _of_evidence(record, document)


def _of_member(record: Record, member: Mapping[str, Any]) -> Iterator[str]:
    try:
        kept = record.certificate(member["certificate"])
    except HfprovError as error:
        yield f"Of member '{member['host']}': {error.message}"
        return
    if kept.revoked_at is not None:
        yield f"The certificate of member '{member['host']}' was revoked: {kept.revoke_reason}"


def _of_evidence(record: Record, document: Mapping[str, Any]) -> Iterator[str]:
    """Whether the record still has what the certificate rests on, unchanged."""
    host, run, phase = document["host"], document["run"], document["phase"]
    try:
        raw = record.evidence(run, host, phase)
    except HfprovError as error:
        yield f"Its evidence is not as it was: {error.message}"
    else:
        if hashlib.sha256(raw).hexdigest() != document["evidence_sha256"]:
            yield "Its evidence is not as it was: the record has another observation."
    yield from _of_verdicts(record, host, run, phase, document["verdicts_sha256"])
    measured = list(document["measurements"])
    diagnosis = document["diagnosis"]
    if diagnosis is not None:
        measured += diagnosis["tools"]
        digest = diagnosis["verdicts_sha256"]
        yield from _of_verdicts(record, host, diagnosis["run"], "diagnose", digest)
    smoke = document.get("container_smoke")  # certificates of before do not have it
    if smoke and smoke["required"]:
        measured += smoke["measurements"]
        digest = smoke["verdicts_sha256"]
        yield from _of_verdicts(record, host, smoke["run"], "container_smoke", digest)
    if measured:
        kept = _digests(record, host, {one["run"] for one in measured})
        for one in measured:
            if one["sha256"] not in kept:
                yield f"The measurement '{one['test']}' is not as it was, or is gone."


def _digests(record: Record, host: str, runs: Iterable[str]) -> set[str]:
    """Of what was measured of a host in some runs; a run that is gone has measured nothing."""
    found: set[str] = set()
    for run in runs:
        with contextlib.suppress(HfprovError):
            found.update(map(measurement_digest, record.measurements(host, wanted_run=run)))
    return found


def _of_verdicts(record: Record, host: str, run: str, phase: str, digest: str) -> Iterator[str]:
    judged: Judged | None = None
    try:
        judged = record.run(run).host(host).judged.get(phase)
    except (HfprovError, KeyError):
        judged = None
    if judged is None or verdicts_digest(judged.verdicts) != digest:
        yield f"The verdicts of run '{run}' on '{host}' are not as they were."
