"""``hfprov certify``: observe now, and give each host that has proven all of it a certificate."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from hfprov.catalogue.profiles import Profile
from hfprov.certificate.blocking import answers, blockers, unreachable
from hfprov.certificate.case import ABSENT, Blocker, Case, Diagnosed, Stage
from hfprov.certificate.configuration import Configuration, samples_of
from hfprov.certificate.document import (
    Document,
    Issuer,
    certificate,
    group_certificate,
    text_of,
)
from hfprov.certificate.index import write_index
from hfprov.certificate.revocation import Revoker, catch_up
from hfprov.certificate.signing import default_principal, sign
from hfprov.certificate.smoke import passed as smoke_passed
from hfprov.certificate.uniformity import odd_hosts
from hfprov.errors import ExitCode
from hfprov.fleet_checks import Odd
from hfprov.record.log import RunLog
from hfprov.record.migrate import hfprov_version
from hfprov.record.model import Certificate, GroupCertificate, HostState, Measurement
from hfprov.record.store import Record
from hfprov.sweep import Fleet, HostVerdicts, sweep

PHASE = "certify"
DIAGNOSE = "diagnose"
SMOKE = ("container-smoke", "container_smoke")
"""Command and phase of the smoke test in containers."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for."""

    profile_name: str
    profile: Profile
    key: Path
    group: str = ""
    """Name of the set; empty: no certificate of a group is wanted."""
    principal: str = field(default_factory=default_principal)


@dataclass(frozen=True, slots=True)
class Signed:
    """A document with the text that was signed."""

    document: Document
    text: str
    signature: str


@dataclass(frozen=True, slots=True)
class GroupResult:
    """How a set of hosts stands."""

    name: str
    signed: Signed | None
    odd: tuple[Odd, ...]
    """What is not alike; empty when all hosts are."""
    missing: tuple[str, ...]
    """Hosts without a certificate."""


@dataclass(frozen=True, slots=True)
class Certified:
    """What ``hfprov certify`` came to."""

    run: str
    views: Mapping[str, HostVerdicts]
    code: ExitCode
    blockers: Mapping[str, Sequence[Blocker]]
    """By host: why it got no certificate."""
    certificates: Mapping[str, Signed]
    group: GroupResult


OnHost = Callable[[HostVerdicts], None]


def certify(record: Record, fleet: Fleet, log: RunLog, wish: Wish, on_host: OnHost) -> Certified:
    """Observe every host, and certify those that nothing blocks.

    What is signed is stored before the index says so: a crash in between leaves nodes refused.
    Raises UsageError when the key cannot sign.
    """
    newest = record.newest_moment()
    catch_up(record)
    revoker = Revoker(record, log)
    seen_at: dict[str, datetime] = {}

    def seen(view: HostVerdicts) -> None:
        seen_at[view.host] = datetime.now(UTC)
        revoker.seen(view)
        on_host(view)

    views = sweep(fleet, log, phase=PHASE, on_host=seen)
    now = datetime.now(UTC)
    cases = {
        host: _case(record, fleet, log, view, seen_at[host], wish.profile)
        for host, view in views.items()
        if view.reachable
    }
    met = tuple(host for host, case in cases.items() if smoke_passed(case.smoked, now))
    cases = {host: replace(case, together=met) for host, case in cases.items()}
    backwards = _clock_went_back(newest, now)
    blocked: dict[str, Sequence[Blocker]] = {}
    for host, view in views.items():
        found = [unreachable(view.reason, view.hint)]
        if view.reachable:
            found = backwards + blockers(cases[host], wish.profile, now)
        if found:
            blocked[host] = found
        seen_bad = [one for one in found if one.stage is Stage.CHECKS and one.outcome != ABSENT]
        if seen_bad:
            # Also when a waiver was withdrawn that an earlier certificate rests on.
            revoker.refused(host, f"{seen_bad[0].check}: {seen_bad[0].reason}")
    issued = _issue(log, [cases[host] for host in views if host not in blocked], wish, now)
    group = _group(log, cases, issued, blocked, wish, now)
    write_index(record, wish.key, wish.principal)
    code = _exit_code(views, blocked, group, wish)
    return Certified(log.id, views, code, blocked, issued, group)


def _exit_code(
    views: Mapping[str, HostVerdicts],
    blocked: Mapping[str, Sequence[Blocker]],
    group: GroupResult,
    wish: Wish,
) -> ExitCode:
    if not views:
        return ExitCode.NOTHING
    if any(one.outcome == "unknown" for found in blocked.values() for one in found):
        return ExitCode.UNKNOWN
    uneven = group.odd and (wish.profile.uniform or wish.group)
    return ExitCode.BAD if blocked or uneven else ExitCode.GOOD


def _clock_went_back(newest: datetime | None, now: datetime) -> list[Blocker]:
    """A certificate issued by a clock that was set back would hold longer than it may."""
    if newest is None or newest <= now:
        return []
    reason = (
        f"The record has something of {newest:%Y-%m-%d %H:%M} UTC, and the controller's clock says "
        f"{now:%Y-%m-%d %H:%M}."
    )
    remedy = "Set the controller's clock; what has expired cannot be told before."
    return [Blocker("clock", "", "unknown", reason, remedy, Stage.REACH)]


def _case(
    record: Record,
    fleet: Fleet,
    log: RunLog,
    view: HostVerdicts,
    at: datetime,
    profile: Profile,
) -> Case:
    host = view.host
    return Case(
        run=log.id,
        baseline=fleet.baselines[host],
        identity=view.identity,
        evidence_sha256=view.evidence_sha256,
        observed_at=at,
        verdicts=view.verdicts,
        configuration=view.configuration or Configuration(),
        phase=PHASE,
        diagnosed=diagnosed(record, fleet, host),
        smoked=diagnosed(record, fleet, host, *SMOKE),
        measurements=wanted_measurements(record, host, profile),
    )


def wanted_measurements(record: Record, host: str, profile: Profile) -> tuple[Measurement, ...]:
    """The newest measurement of each kind that a profile wants, in the order of recording.

    A host may have thousands, with all that tools printed: none is read that is not needed.
    """
    found: list[Measurement] = []
    for test in dict.fromkeys(one.test for one in profile.measurements):
        lacking = [one for one in profile.measurements if one.test == test]
        mine: list[Measurement] = []
        for one in record.measurements(host, test, newest_first=True):
            left = [wanted for wanted in lacking if not answers(one, wanted)]
            if len(left) < len(lacking):
                mine.insert(0, one)
            lacking = left
            if not lacking:
                break
        found += mine
    return tuple(found)


def diagnosed(
    record: Record, fleet: Fleet, host: str, command: str = DIAGNOSE, phase: str = DIAGNOSE
) -> Diagnosed | None:
    """The newest diagnosis of a host, with the waivers of today; None: there never was one.

    With another command and phase: of what is recorded in the same way.
    """
    entries = record.history(host, limit=500)
    newest = next((one for one in entries if one.command == command or phase in one.phases), None)
    if newest is None:
        return None
    judged = record.run(newest.run).host(host).judged.get(phase)
    if judged is None or newest.state is HostState.INTERRUPTED or newest.state.unfinished:
        return Diagnosed(newest.run, newest.started_at, (), (), finished=False)
    plain = [one.waived_by(None) for one in judged.verdicts]
    return Diagnosed(
        newest.run,
        judged.at,
        tuple(fleet.waivers.annotate(host, plain)),
        tuple(record.measurements(host, wanted_run=newest.run)),
    )


def _issuer(wish: Wish) -> Issuer:
    return Issuer(hfprov_version(), os.uname().nodename, wish.principal)


def _issue(log: RunLog, cases: Iterable[Case], wish: Wish, now: datetime) -> dict[str, Signed]:
    profile = (wish.profile_name, wish.profile)
    documents = [certificate(case, profile, _issuer(wish), now) for case in cases]
    texts = [text_of(one) for one in documents]
    signatures = sign(texts, wish.key) if texts else []
    issued = {}
    for document, text, signature in zip(documents, texts, signatures, strict=True):
        log.certified(
            Certificate(
                id=document["id"],
                host=document["host"],
                profile=wish.profile_name,
                issued_at=datetime.fromisoformat(document["issued_at"]),
                expires_at=datetime.fromisoformat(document["expires_at"]),
                baseline_digest=document["baseline"],
                document=text,
                signature=signature,
            )
        )
        issued[document["host"]] = Signed(document, text, signature)
    return issued


def _group(
    log: RunLog,
    cases: Mapping[str, Case],
    issued: Mapping[str, Signed],
    blocked: Mapping[str, object],
    wish: Wish,
    now: datetime,
) -> GroupResult:
    """The set as a whole. It is certified when each host is, and all of them are alike."""
    samples = [one for case in cases.values() for one in samples_of(case.host, case.configuration)]
    odd = odd_hosts(samples)
    missing = tuple(blocked)
    if not wish.group or odd or missing or not issued:
        return GroupResult(wish.group, None, odd, missing)
    members = [one.document for one in issued.values()]
    document = group_certificate(wish.group, wish.profile_name, members, _issuer(wish), now)
    text = text_of(document)
    [signature] = sign([text], wish.key)
    log.certified_group(
        GroupCertificate(
            id=document["id"],
            name=wish.group,
            profile=wish.profile_name,
            issued_at=datetime.fromisoformat(document["issued_at"]),
            expires_at=datetime.fromisoformat(document["expires_at"]),
            document=text,
            signature=signature,
        )
    )
    return GroupResult(wish.group, Signed(document, text, signature), odd, missing)
