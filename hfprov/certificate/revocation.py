"""What ends a certificate before its time: anything recorded since that it does not stand for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from hfprov.certificate.configuration import Configuration, Device
from hfprov.certificate.index import revoke_in_index, witness
from hfprov.container_smoke.judge import MADE
from hfprov.diagnose import BUSY
from hfprov.record.identity import Identity
from hfprov.record.log import RunLog
from hfprov.record.model import Certificate
from hfprov.record.store import Record
from hfprov.sweep import HostVerdicts
from hfprov.verdict import Outcome, Verdict

_BAD = (Outcome.FAIL, Outcome.UNKNOWN)


class Revoker:
    """Revokes what a run finds to hold no longer, host by host as it is told of them."""

    def __init__(self, record: Record, log: RunLog) -> None:
        self._record = record
        self._log = log

    def seen(self, view: HostVerdicts) -> None:
        """Revoke the certificates of a host that this view of it contradicts."""
        for issued in self._valid(view.host):
            why = contradiction(json.loads(issued.document), view, datetime.now(UTC))
            if why:
                self._revoke(issued, f"Run '{self._log.id}' found that {why}.")

    def refused(self, host: str, why: str) -> None:
        """Revoke what a host holds that was refused a new one because of what was seen of it."""
        for issued in self._valid(host):
            self._revoke(issued, f"Run '{self._log.id}' refused another one: {why}")

    def _valid(self, host: str) -> list[Certificate]:
        # Asked for host by host: all certificates of a fleet are many, and more are being issued.
        return self._record.certificates(host, valid_at=datetime.now(UTC))

    def _revoke(self, issued: Certificate, reason: str) -> None:
        revoke(self._record, {issued.id: reason})
        data = {"certificate": issued.id}
        self._log.event("certificate_revoked", reason, host=issued.host, data=data)


def revoke_bad(record: Record, views: Mapping[str, HostVerdicts], log: RunLog) -> None:
    """Revoke the certificates that views of hosts contradict."""
    revoker = Revoker(record, log)
    for view in views.values():
        revoker.seen(view)


def catch_up(record: Record) -> list[str]:
    """Revoke what a run recorded but did not come to revoke, as it was killed; ids."""
    now = datetime.now(UTC)
    found: dict[str, str] = {}
    for certificate_id, text, judged in record.bad_after_issue(now):
        why = bad_verdict(json.loads(text), judged.verdicts, judged.at)
        if why and certificate_id not in found:
            found[certificate_id] = f"Run '{judged.run}' found that {why}."
    witness(record.where)
    revoke(record, found)
    return list(found)


def revoke(record: Record, reasons: Mapping[str, str]) -> None:
    """Revoke certificates by id: for the gate first, then in the record."""
    revoke_in_index(record.where, reasons)
    for certificate_id, reason in reasons.items():
        record.revoke_certificate(certificate_id, reason)


def contradiction(document: Mapping[str, Any], view: HostVerdicts, now: datetime) -> str:
    """How a view of a host contradicts its certificate, in words; empty when it does not."""
    if not view.reachable:
        return f"the host could not be observed: {view.reason}"
    certified = Identity(**document["identity"])
    if view.identity is not None:
        changed = certified.conflict(view.identity)
        if changed:
            return f"the host is another machine: its {changed} changed"
    if view.configuration is not None:
        different = _configuration(document).difference(view.configuration)
        if different:
            return different
    return bad_verdict(document, view.verdicts, now)


def bad_verdict(document: Mapping[str, Any], verdicts: Iterable[Verdict], now: datetime) -> str:
    """The first verdict that a certificate does not stand for, in words; empty for none."""
    for one in verdicts:
        if one.outcome not in _BAD or one.check in (BUSY, MADE):
            # A test that was not made says nothing against the node: work ran, no image is named.
            continue
        waiver = one.finding.waiver
        # Without a waiver of today the one that the certificate was given with still counts: not
        # every run is told of waivers. One that expired is known to count no longer.
        if waiver.holds(now) if waiver else _waived(document, one, now):
            continue
        subject = f" of '{one.subject}'" if one.subject else ""
        ended = "failed" if one.outcome is Outcome.FAIL else "could not be judged"
        return f"'{one.check}'{subject} {ended}: {one.finding.reason}".rstrip(".: ")
    return ""


def _waived(document: Mapping[str, Any], verdict: Verdict, now: datetime) -> bool:
    return any(
        one["check"] == verdict.check
        and one["subject"] == verdict.subject
        and one["outcome"] == verdict.outcome.value
        and now < datetime.fromisoformat(one["expires_at"])
        for one in document.get("waivers", ())
    )


def _configuration(document: Mapping[str, Any]) -> Configuration:
    software = document["software"]
    return Configuration(
        kernel=software["kernel"],
        boot_id=software["boot_id"],
        system=software["system"],
        devices=tuple(Device(**one) for one in document["devices"]),
        topology=document["topology"],
    )
