"""The index of certificates: what the gate reads instead of the record.

One file, replaced as a whole. ``body`` is a JSON text with the newest certificate of each host and
profile, signed as one: the gate checks a thousand nodes with one signature. ``revoked`` and
``latest`` stand outside of what is signed, since a nightly run that finds drift has no key to sign
with. They can only take a certificate away, never give one.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hfprov.certificate.document import digest_of
from hfprov.certificate.places import home_of, index_in
from hfprov.certificate.signing import INDEX_NAMESPACE, default_principal, sign
from hfprov.errors import RecordError
from hfprov.record.model import Certificate, GroupCertificate
from hfprov.record.store import Record

SCHEMA = "hfprov.index/1"


def write_index(record: Record, key: Path, principal: str = "") -> Path:
    """Sign the certificates of the record as they are now, and put them in place."""
    path = index_in(home_of(record.where))
    with _locked(path):
        envelope = _read(path)
        revoked: dict[str, str] = dict(envelope.get("revoked", {}))
        certificates = [_entry(one, revoked) for one in record.newest_certificates()]
        groups = [_group(one) for one in record.group_certificates()]
        # A group stands on certificates that may not be the newest ones of their hosts any more.
        members = {one for group in groups for one in group["members"].values()}
        revoked |= record.revoked(members)
        now = datetime.now(UTC)
        body = {
            "schema": SCHEMA,
            "made_at": now.timestamp(),
            "certificates": certificates,
            "groups": groups,
        }
        text = json.dumps(body, separators=(",", ":"), sort_keys=True)
        [signature] = sign([text], key, INDEX_NAMESPACE)
        known = members | {one["id"] for one in certificates}
        envelope = {
            "schema": SCHEMA,
            "signer": principal or default_principal(),
            "latest": max(now.timestamp(), float(envelope.get("latest", 0))),
            "revoked": {one: why for one, why in revoked.items() if one in known},
            "signature": signature,
            "body": text,
        }
        _replace(path, envelope)
    return path


def revoke_in_index(where: str, revoked: Mapping[str, str]) -> None:
    """Note certificates that hold no longer, by id with the reason. Without an index: nothing.

    To be called before the record is told: what is lost in between must be a permission.
    """
    path = index_in(home_of(where))
    if not revoked or not path.exists():
        return
    with _locked(path):
        envelope = _read(path)
        envelope["revoked"] = {**envelope.get("revoked", {}), **revoked}
        now = datetime.now(UTC).timestamp()
        envelope["latest"] = max(now, float(envelope.get("latest", 0)))
        _replace(path, envelope)


def witness(where: str) -> None:
    """Note the time in the index, so that a clock that is set back later is noticed."""
    path = index_in(home_of(where))
    if not path.exists():
        return
    with _locked(path):
        envelope = _read(path)
        now = datetime.now(UTC).timestamp()
        if envelope and now > float(envelope.get("latest", 0)):
            _replace(path, {**envelope, "latest": now})


def _entry(one: Certificate, revoked: Mapping[str, str]) -> dict[str, Any]:
    document = json.loads(one.document)
    reason = one.revoke_reason if one.revoked_at else revoked.get(one.id, "")
    return {
        "id": one.id,
        "host": one.host,
        "profile": one.profile,
        "machine_id": document.get("identity", {}).get("machine_id", ""),
        "sha256": digest_of(one.document),
        "issued": one.issued_at.timestamp(),
        "expires": one.expires_at.timestamp(),
        "signed": bool(one.signature),
        "revoked": reason,
    }


def _group(one: GroupCertificate) -> dict[str, Any]:
    members = json.loads(one.document)["members"]
    return {
        "id": one.id,
        "name": one.name,
        "profile": one.profile,
        "members": {member["host"]: member["certificate"] for member in members},
        "issued": one.issued_at.timestamp(),
        "expires": one.expires_at.timestamp(),
    }


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with path.with_suffix(".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except OSError as error:
        raise RecordError(
            f"The index of certificates '{path}' cannot be written: {error.strerror}.",
            hint="The gate goes by it: make its folder writable, and run this again.",
        ) from error


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError:
        return {}  # damaged: the gate refuses it, and the next one to sign replaces it
    return found if isinstance(found, dict) else {}


def _replace(path: Path, envelope: Mapping[str, Any]) -> None:
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with beside.open("x", encoding="utf-8") as out:
            json.dump(envelope, out)
            out.flush()
            os.fsync(out.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
