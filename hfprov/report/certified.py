"""What ``hfprov certify`` and ``hfprov verify`` say, as text and as documents."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime

from rich.text import Text

from hfprov.certificate.case import Blocker
from hfprov.certificate.issue import Certified, GroupResult
from hfprov.certificate.verification import Verification
from hfprov.record.model import Certificate
from hfprov.report.documents import Document, sweep_document
from hfprov.report.inert import one_line
from hfprov.report.terminal import console, print_table, subjects_in_words
from hfprov.words import plural


def certify_document(done: Certified) -> Document:
    """Who got a certificate, what stands between the others and theirs, and how the set stands."""
    document = sweep_document("certify", done.run, done.views, done.code)
    document["schema"] = "hfprov.certify/1"
    document["certificates"] = {host: one.document for host, one in done.certificates.items()}
    document["blockers"] = {
        host: [_blocker(one) for one in found] for host, found in done.blockers.items()
    }
    group = done.group
    document["group"] = {
        "name": group.name,
        "certificate": group.signed.document if group.signed else None,
        "uniform": not group.odd,
        "odd": [asdict(one) for one in group.odd],
        "missing": list(group.missing),
    }
    return document


def _blocker(one: Blocker) -> Document:
    return {
        "check": one.check,
        "subject": one.subject,
        "outcome": one.outcome,
        "reason": one.reason,
        "remedy": one.remedy,
        "stage": one.stage.name.lower(),
    }


def print_certified(done: Certified) -> None:
    """Who got a certificate until when; what blocks the others, in the order to deal with it."""
    out = console()
    for host in done.views:
        signed = done.certificates.get(host)
        if signed:
            issued = signed.document
            out.print(
                Text(host, style="bold"),
                Text("certified", style="green"),
                Text(f"until {issued['expires_at']} ({issued['profile']}, {issued['id']})"),
            )
            smoke = issued["container_smoke"]
            if smoke:
                out.print(Text(f"  containers  {one_line(_smoke_words(smoke))}", style="dim"))
            for waiver in issued["waivers"]:
                what = f"{waiver['check']} {waiver['subject']}".strip()
                words = (
                    f"{what} until {waiver['expires_at']} by {waiver['owner']}: {waiver['reason']}"
                )
                out.print(Text(f"  waived  {one_line(words)}", style="cyan"))
            continue
        out.print(Text(host, style="bold"), Text("not certified", style="red"))
        _print_blockers(done.blockers[host])
    _print_group(done.group)


def _print_blockers(found: Iterable[Blocker]) -> None:
    """One of each check in the order to deal with them, and what else it is about."""
    out = console()
    groups: dict[tuple[str, str, str], list[Blocker]] = {}
    for one in found:
        groups.setdefault((one.check, one.outcome, one.remedy), []).append(one)
    for number, (first, *others) in enumerate(groups.values(), start=1):
        what = one_line(f"{first.check} {first.subject}".strip())
        line = Text(f"  {number}. {first.outcome:<8}{what} - {one_line(first.reason)}")
        if others:
            more = subjects_in_words([one.subject for one in others])
            line.append(f" (and {more})", style="dim")
        out.print(line)
        if first.remedy:
            out.print(Text(f"     {one_line(first.remedy)}", style="dim"))


def _smoke_words(smoke: Document) -> str:
    if not smoke["required"]:
        return str(smoke["reason"])
    return (
        f"'{smoke['image']}' ({smoke['image_id'][:19]}, {smoke['variant']}) computed right and "
        f"found {plural(len(smoke['nodes']), 'node')}, run {smoke['run']}"
    )


def _print_group(group: GroupResult) -> None:
    out = console()
    for odd in group.odd:
        out.print(
            Text(f"{odd.host} is not like the others: ", style="yellow"),
            Text(
                one_line(
                    f"{odd.name} is {odd.value}; {odd.with_usual} of {odd.of} hosts have "
                    f"{odd.usual}"
                )
            ),
        )
    if not group.name:
        return
    name = Text(f"group {one_line(group.name)}", style="bold")
    if group.signed:
        until = group.signed.document["expires_at"]
        out.print(name, Text("certified", style="green"), Text(f"until {until}"))
        return
    why = "its hosts are not alike"
    if group.missing:
        have = "has" if len(group.missing) == 1 else "have"
        why = f"{', '.join(group.missing)} {have} no certificate"
    out.print(name, Text("not certified:", style="red"), Text(one_line(why)))


def verification_document(found: Verification) -> Document:
    return {
        "schema": "hfprov.verification/1",
        "file": found.file,
        "holds": found.holds,
        "signer": found.signer,
        "problems": list(found.problems),
        "certificate": dict(found.document) if found.document else None,
    }


def print_verification(found: Verification) -> None:
    """Whether the certificate holds, and everything that speaks against it."""
    out = console()
    document = found.document or {}
    name = document.get("host") or document.get("group") or found.file
    if found.holds:
        out.print(
            Text(one_line(name), style="bold"),
            Text("holds", style="green"),
            Text(
                one_line(
                    f"until {document['expires_at']} ({document['profile']}, signed by "
                    f"{found.signer})"
                )
            ),
        )
        return
    out.print(Text(one_line(name), style="bold"), Text("does not hold", style="red"))
    for problem in found.problems:
        out.print(Text(f"  {one_line(problem)}"))


def print_certificates(found: Iterable[Certificate], now: datetime) -> None:
    rows = []
    for one in found:
        state = "holds" if one.valid_at(now) else "expired"
        if one.revoked_at is not None:
            state = f"revoked: {one.revoke_reason}"
        elif now < one.issued_at:
            state = "not yet valid"
        elif not one.signature:
            state = f"{state}, not signed"
        until = f"{one.expires_at.astimezone():%Y-%m-%d %H:%M}"
        rows.append((one.host, one.id, one.profile, until, state))
    print_table(("host", "certificate", "profile", "until", "state"), rows)


def certificates_document(found: Iterable[Certificate], now: datetime) -> Document:
    return {
        "schema": "hfprov.certificates/1",
        "certificates": [
            {
                "id": one.id,
                "host": one.host,
                "profile": one.profile,
                "issued_at": one.issued_at.isoformat(),
                "expires_at": one.expires_at.isoformat(),
                "revoked_at": one.revoked_at.isoformat() if one.revoked_at else None,
                "revoke_reason": one.revoke_reason,
                "signed": bool(one.signature),
                "holds": one.valid_at(now) and bool(one.signature),
            }
            for one in found
        ],
    }
