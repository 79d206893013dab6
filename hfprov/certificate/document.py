"""Certificates as documents: of one node, and of a group. Pure, but for the ids.

The text that :func:`text_of` gives is what is signed, stored and checked, to the byte.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from hfprov.catalogue.profiles import Profile, Required
from hfprov.catalogue.skus import NONE
from hfprov.certificate.blocking import blockers, newest
from hfprov.certificate.case import Case, excused
from hfprov.certificate.smoke import smoke_document
from hfprov.container_smoke.declared import without_runtime
from hfprov.record.model import Measurement
from hfprov.record.redaction import Redactor
from hfprov.record.verdicts import pack
from hfprov.verdict import Outcome, Verdict

NODE = "hfprov.certificate/1"
GROUP = "hfprov.group/1"

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Issuer:
    """Who gives the certificate."""

    version: str
    controller: str
    signer: str
    """The principal under which the key is in the file of allowed signers."""


def certificate(
    case: Case, profile: tuple[str, Profile], issuer: Issuer, now: datetime
) -> Document:
    """The certificate of a host. Raises ValueError if anything blocks it."""
    name, wanted = profile
    if case.identity is None or blockers(case, wanted, now):
        raise ValueError(f"'{case.host}' is not fit for a certificate.")
    counts = Counter(one.outcome for one in case.verdicts)
    waived = [one for one in case.verdicts if excused(one, now)]
    diagnosed = case.diagnosed if wanted.diagnosis and case.sku != NONE else None
    if diagnosed is not None:
        waived += [one for one in diagnosed.verdicts if excused(one, now)]
    if wanted.container_smoke and case.smoked and not without_runtime(case.baseline):
        waived += [one for one in case.smoked.verdicts if excused(one, now)]
    measured = [
        (one, newest(case.measurements, one))
        for one in wanted.measurements
        if case.sku != NONE or not one.only_with_accelerators
    ]
    expires = min(
        [now + timedelta(hours=wanted.validity_hours)]
        + [one.finding.waiver.expires for one in waived if one.finding.waiver]
    )
    return {
        "schema": NODE,
        "id": secrets.token_hex(8),
        "profile": name,
        "host": case.host,
        "identity": asdict(case.identity),
        "sku": case.sku,
        "software": {
            "kernel": case.configuration.kernel,
            "boot_id": case.configuration.boot_id,
            "system": case.configuration.system,
        },
        "devices": [asdict(one) for one in case.configuration.devices],
        "topology": dict(case.configuration.topology),
        "baseline": case.baseline.digest,
        "roles": list(case.baseline.roles),
        "run": case.run,
        "evidence_sha256": case.evidence_sha256,
        "verdicts_sha256": verdicts_digest(case.verdicts),
        "phase": case.phase,
        "verdicts": {outcome.value: counts[outcome] for outcome in Outcome},
        "warnings": [
            {"check": one.check, "subject": one.subject, "reason": one.finding.reason}
            for one in case.verdicts
            if one.outcome is Outcome.WARN
        ],
        "waivers": [_waiver(one) for one in waived],
        "diagnosis": None
        if diagnosed is None
        else {
            "run": diagnosed.run,
            "at": diagnosed.at.isoformat(timespec="seconds"),
            "verdicts_sha256": verdicts_digest(diagnosed.verdicts),
            "tools": [_measured(one, None, case.sku) for one in diagnosed.measurements],
        },
        "container_smoke": _smoke(case) if wanted.container_smoke else None,
        "measurements": [_measured(one, wish, case.sku) for wish, one in measured if one],
        "issued_by": asdict(issuer),
        "issued_at": now.isoformat(timespec="seconds"),
        "expires_at": expires.isoformat(timespec="seconds"),
    }


def _smoke(case: Case) -> Document:
    done = case.smoked
    measured = [_measured(one, None, case.sku) for one in done.measurements] if done else []
    return smoke_document(case, verdicts_digest(done.verdicts) if done else "", measured)


def group_certificate(
    name: str, profile: str, members: Sequence[Mapping[str, Any]], issuer: Issuer, now: datetime
) -> Document:
    """The certificate of hosts that hold one each; it holds as long as all of theirs do.

    ``members`` are their documents. That they are alike is for the caller to know. Raises
    ValueError without members.
    """
    if not members:
        raise ValueError("A group of no hosts cannot be certified.")
    expires = min(datetime.fromisoformat(one["expires_at"]) for one in members)
    return {
        "schema": GROUP,
        "id": secrets.token_hex(8),
        "group": name,
        "profile": profile,
        "members": [
            {"host": one["host"], "certificate": one["id"], "sha256": digest_of(text_of(one))}
            for one in sorted(members, key=lambda one: str(one["host"]))
        ],
        "uniform": {**members[0]["software"], "boot_id": ""} | dict(members[0]["topology"]),
        "issued_by": asdict(issuer),
        "issued_at": now.isoformat(timespec="seconds"),
        "expires_at": expires.isoformat(timespec="seconds"),
    }


def text_of(document: Mapping[str, Any]) -> str:
    """The document as the text that is signed."""
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=True) + "\n"


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def verdicts_digest(verdicts: Sequence[Verdict]) -> str:
    """SHA-256 of verdicts as the record keeps them."""
    return pack(verdicts, Redactor())[1]


def measurement_digest(one: Measurement) -> str:
    """SHA-256 of a measurement with its samples, conditions and raw output."""
    plain = {
        "host": one.host,
        "peer": one.peer,
        "test": one.test,
        "value": one.value,
        "unit": one.unit,
        "parameters": dict(one.parameters),
        "samples": list(one.samples),
        "conditions": dict(one.conditions),
        "raw": hashlib.sha256(one.raw).hexdigest(),
        "run": one.run,
        "at": one.at.isoformat() if one.at else None,
    }
    return hashlib.sha256(json.dumps(plain, sort_keys=True, default=str).encode()).hexdigest()


def _measured(one: Measurement, wanted: Required | None, sku: str) -> Document:
    gate = wanted.gate_for(sku) if wanted else None
    return {
        "test": one.test,
        "peer": one.peer,
        "value": one.value,
        "unit": one.unit,
        "samples": list(one.samples),
        "gate": gate.words if gate else "",
        "gate_source": gate.source if gate else "",
        "parameters": dict(one.parameters),
        "conditions": dict(one.conditions),
        "run": one.run,
        "at": one.at.isoformat(timespec="seconds") if one.at else None,
        "sha256": measurement_digest(one),
    }


def _waiver(verdict: Verdict) -> Document:
    waiver = verdict.finding.waiver
    if waiver is None:
        raise ValueError(f"Nobody answers for '{verdict.check}'.")
    return {
        "check": verdict.check,
        "subject": verdict.subject,
        "outcome": verdict.outcome.value,
        "owner": waiver.owner,
        "reason": waiver.reason,
        "expires_at": waiver.expires.isoformat(timespec="seconds"),
    }


class Read(BaseModel):
    """What a reader needs of a certificate of either kind; the rest is for people."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    schema_: str
    id: str
    profile: str
    issued_at: AwareDatetime
    expires_at: AwareDatetime


def read_certificate(text: str) -> tuple[Document, Read]:
    """A certificate from its text. Raises ValueError when it is none, with the reason."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from error
    if not isinstance(document, dict) or document.get("schema") not in (NODE, GROUP):
        raise ValueError(f"it is neither '{NODE}' nor '{GROUP}'")
    try:
        read = Read.model_validate({**document, "schema_": document["schema"]})
    except ValidationError as error:
        where = ", ".join(".".join(map(str, one["loc"])) for one in error.errors()[:5])
        raise ValueError(f"it is incomplete or wrong at: {where}") from error
    return document, read
