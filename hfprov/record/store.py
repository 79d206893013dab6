"""The record: what was true of which host when, who changed it, and how that was judged.

    record = Record.open(".hfprov/record.db")
    with record.start_run("check", sys.argv, baselines) as log:
        log.observed("node01", "before", raw, judge(seen, baseline), identity=identity)
        log.finish(ExitCode.GOOD)

Every method raises RecordError when the database cannot be read or written.
"""

from __future__ import annotations

import json
import secrets as random_source
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Connection, insert, select

from hfprov.baseline import Baseline
from hfprov.record import begun, evidence, hosts, migrate, ownership, proofs, queries, sightings
from hfprov.record.between import Between
from hfprov.record.between import between as find_between
from hfprov.record.database import Database
from hfprov.record.events import add_event
from hfprov.record.log import RunLog
from hfprov.record.model import (
    Certificate,
    Event,
    GroupCertificate,
    HistoryEntry,
    Holder,
    HostInfo,
    HostState,
    Judged,
    Measurement,
    RunInfo,
    RunStatus,
    Sighting,
    Since,
    moment,
    stamp,
)
from hfprov.record.process import this_process
from hfprov.record.redaction import Redactor, storable
from hfprov.record.schema import (
    baseline,
    certificate,
    event,
    host,
    measurement,
    run,
    run_host,
)
from hfprov.record.verdicts import VerdictSets
from hfprov.record.views import PAGE, RunView, event_from, event_query, paged, run_from

_LETTERS = "23456789abcdefghjkmnpqrstuvwxyz"  # none that is mistaken for another
_LARGE = 50
"""Rows read at once where each has a document or the output of a tool: megabytes, maybe."""


class Record:
    """One record. Safe to use from several threads, and by several processes at once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sets = VerdictSets(database)

    @classmethod
    def open(cls, where: str | Path, *, create: bool = True) -> Self:
        """Open the record in a SQLite file, or at a PostgreSQL URL, and upgrade it if it is older.

        Runs whose process died are marked as crashed. Raises RecordError when it cannot be opened,
        was written by a newer hfprov, or does not exist and ``create`` is false.
        """
        database = Database(where, create=create)
        try:
            migrate.upgrade(database)
            ownership.reap(database)
        except BaseException:
            database.close()
            raise
        return cls(database)

    @property
    def where(self) -> str:
        """The file, or the URL without its password."""
        return self._database.name

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- writing --------------------------------------------------------------------------------

    def start_run(
        self,
        command: str,
        argv: Sequence[str],
        baselines: Mapping[str, Baseline],
        *,
        secrets: Iterable[str] = (),
    ) -> RunLog:
        """Store that a run begins, with every host it is about to work on and their baselines.

        ``secrets`` are values that this run must never store: they are masked in everything that
        it is told. They are not stored themselves.
        """
        redactor = Redactor(secrets)
        with self._database.write() as connection:
            run_seq, run_id = self._add_run(
                connection, command, redactor.json(argv), host_count=len(baselines)
            )
            host_ids = hosts.ids_of(self._database, connection, list(baselines))
            self._add_baselines(connection, baselines.values(), redactor)
            now = stamp()
            rows = [
                {
                    "run_seq": run_seq,
                    "host_id": host_ids[name],
                    "state": HostState.PLANNED.value,
                    "baseline_digest": declared.digest,
                    "updated_at": now,
                }
                for name, declared in baselines.items()
            ]
            if rows:
                connection.execute(insert(run_host), rows)
        begun.began(run_id)
        return RunLog(
            self._database,
            self._sets,
            run_id=run_id,
            run_seq=run_seq,
            host_ids=host_ids,
            redactor=redactor,
        )

    def forget_host(self, name: str) -> None:
        """Release a host's identity, so that its machine may appear under another name."""
        with self._database.write() as connection:
            hosts.forget(connection, name)

    def break_lock(self, name: str, reason: str) -> Holder | None:
        """Take a host from the run that holds it, by a person's decision; says from which."""
        with self._database.write() as connection:
            host_id = hosts.id_of(connection, name)
            return ownership.break_lock(connection, name, host_id, storable(reason))

    def revoke_certificate(self, certificate_id: str, reason: str) -> Certificate:
        """Revoke a certificate, with an event. One that is revoked already stays as it is."""
        with self._database.write() as connection:
            found = proofs.find_certificate(connection, certificate_id)
            if proofs.revoke(connection, certificate_id, storable(reason)):
                add_event(
                    connection,
                    "certificate_revoked",
                    f"Certificate '{certificate_id}' was revoked: {reason}",
                    host_id=hosts.id_of(connection, found.host),
                )
            return proofs.find_certificate(connection, certificate_id)

    def let_go_evidence(self, before: datetime) -> int:
        """Drop the content of evidence taken before a time; how many. Verdicts and digests stay."""
        with self._database.write() as connection:
            return evidence.let_go(connection, before)

    # -- reading --------------------------------------------------------------------------------

    def runs(self, limit: int = 20, names: Sequence[str] | None = None) -> list[RunInfo]:
        """The newest runs, newest first; with names, those that were about one of these hosts."""
        query = select(run).order_by(run.c.seq.desc()).limit(limit)
        with self._database.read() as connection:
            if names is not None:
                query = query.where(run.c.seq.in_(queries.runs_of(connection, names, limit)))
            return [run_from(row) for row in connection.execute(query)]

    def run(self, wanted: str = "last") -> RunView:
        """A run by its id, the beginning or the last part of it, or ``last``."""
        with self._database.read() as connection:
            row = queries.find_run(connection, wanted)
        return RunView(self._database, self._sets, row.seq, run_from(row))

    def hosts(self) -> Iterator[HostInfo]:
        """All hosts that the record knows, by name."""
        after = ""
        while True:
            with self._database.read() as connection:
                page = hosts.read(connection, after, PAGE)
            if not page:
                return
            yield from page
            after = page[-1].name

    def fleet(self) -> Iterator[Judged]:
        """What was judged last of every host that was ever judged, by name."""
        after = ""
        while True:
            with self._database.read() as connection:
                page = list(queries.fleet_page(connection, self._sets, after, PAGE))
            if not page:
                return
            yield from page
            after = page[-1].host

    def history(self, name: str, limit: int = 20) -> list[HistoryEntry]:
        """The newest runs that a host was part of, newest first."""
        with self._database.read() as connection:
            return queries.history(connection, name, limit)

    def last_verdicts(
        self, name: str, before_run: str | None = None, *, observed: bool = False
    ) -> Judged | None:
        """What was judged last of a host: at all, or before a run looked at it. None: never.

        With ``observed`` only what was judged when the host was observed counts.
        """
        with self._database.read() as connection:
            return queries.last_judged(connection, self._sets, name, before_run, observed=observed)

    def since(self, name: str, check: str, subject: str = "") -> Since:
        """Since when a check is not good on a subject.

        Good is a pass, or that the check judged the observed host and had no such subject;
        ``not_applicable`` is neither good nor bad.
        """
        with self._database.read() as connection:
            host_id = hosts.id_of(connection, name)
            histories = sightings.Histories(connection, [host_id])
            return histories.since([host_id], check, subject)[host_id]

    def since_each(self, asked: Sequence[tuple[Sequence[str], str, str]]) -> list[dict[str, Since]]:
        """The same for many: hosts, check and subject of each; answers by host, in that order.

        Hosts that the record does not know are left out.
        """
        with self._database.read() as connection:
            named = dict.fromkeys(name for names, _, _ in asked for name in names)
            known = hosts.known_ids(connection, list(named))
            histories = sightings.Histories(connection, known.values())
            found = []
            for names, *what in asked:
                ids = {name: known[name] for name in names if name in known}
                since = histories.since(ids.values(), *what)
                found.append({name: since[host_id] for name, host_id in ids.items()})
            return found

    def not_observed_since(self, names: Sequence[str]) -> dict[str, Since]:
        """Since when hosts are not observed for the reason they have now, by name.

        Good is that it was observed, bad that it was not. Another reason before this one is
        neither. Hosts that the record does not know are left out.
        """
        with self._database.read() as connection:
            known = hosts.known_ids(connection, names)
            return {
                name: sightings.not_observed_since(connection, known[name])
                for name in names
                if name in known
            }

    def between(self, name: str, source: str, first: Sighting, second: Sighting) -> Between:
        """What is recorded of a host from one sighting to a later one; facts of one source."""
        with self._database.read() as connection:
            return find_between(connection, name, source, first, second)

    def evidence(self, wanted_run: str, name: str, phase: str | None = None) -> bytes:
        """The observation of a host in a run as JSON text, checked against its SHA-256."""
        with self._database.read() as connection:
            run_seq = queries.find_run(connection, wanted_run).seq
            return evidence.read_evidence(connection, run_seq, name, phase)

    def facts(self, name: str, source: str) -> Any:
        """The newest facts of one source on a host; None when there are none."""
        with self._database.read() as connection:
            return evidence.read_fact(connection, name, source)

    def baseline(self, digest: str) -> Mapping[str, Any] | None:
        """A declared baseline: ``{"roles": [...], "values": {name: {"value", "origin"}}}``."""
        with self._database.read() as connection:
            document = connection.execute(
                select(baseline.c.document).where(baseline.c.digest == digest)
            ).scalar()
        return None if document is None else dict(json.loads(document))

    def events(self, name: str | None = None) -> Iterator[Event]:
        """All events, of one host or of all, in the order in which they were recorded."""
        query = event_query()
        if name is not None:
            query = query.where(host.c.name == name)
        return map(event_from, paged(self._database, query, event.c.id))

    def busy(self) -> list[Holder]:
        """Which hosts are worked on, and by which runs."""
        with self._database.read() as connection:
            return ownership.holders(connection)

    def certificates(
        self, name: str | None = None, *, valid_at: datetime | None = None, limit: int = 10_000
    ) -> list[Certificate]:
        """Certificates, newest first, of one host or of all; ``valid_at`` leaves out all others."""
        with self._database.read() as connection:
            return proofs.certificates(connection, name, valid_at=valid_at, limit=limit)

    def newest_certificates(self) -> Iterator[Certificate]:
        """The newest certificate of each host and profile, in the order of issue."""
        query = proofs.newest_certificates()
        rows = paged(self._database, query, certificate.c.seq, at_once=_LARGE)
        return map(proofs.certificate_from, rows)

    def revoked(self, ids: Iterable[str]) -> dict[str, str]:
        """Why they were revoked, by id, of those certificates that were."""
        with self._database.read() as connection:
            return proofs.revoked(connection, list(ids))

    def group_certificates(self) -> list[GroupCertificate]:
        """The newest certificate of each group of hosts and profile."""
        with self._database.read() as connection:
            return proofs.group_certificates(connection)

    def bad_after_issue(self, when: datetime) -> list[tuple[str, str, Judged]]:
        """Certificates valid at a time whose host was since judged bad: id, document, judgement."""
        with self._database.read() as connection:
            return queries.bad_after_issue(connection, self._sets, when)

    def newest_moment(self) -> datetime | None:
        """The latest time that was ever recorded of a run or a judgement; None: nothing was."""
        with self._database.read() as connection:
            return queries.newest_moment(connection)

    def certificate(self, certificate_id: str) -> Certificate:
        """One certificate. RecordError when the record has none with this id."""
        with self._database.read() as connection:
            return proofs.find_certificate(connection, certificate_id)

    def measurements(
        self,
        name: str | None = None,
        test: str | None = None,
        wanted_run: str | None = None,
        *,
        peer: str | None = None,
        newest_first: bool = False,
    ) -> Iterator[Measurement]:
        """Measurements of a host, a test, a run, a peer, or all, in the order of recording.

        They are read as they are asked for: who needs the newest one only takes it and stops.
        """
        run_seq = None
        if wanted_run is not None:
            with self._database.read() as connection:
                run_seq = queries.find_run(connection, wanted_run).seq
        query = proofs.measurements_query(name, test, run_seq, peer)
        rows = paged(
            self._database,
            query,
            measurement.c.id,
            at_once=_LARGE,
            newest_first=newest_first,
        )
        return map(proofs.measurement_from, rows)

    # -- inside a transaction -------------------------------------------------------------------

    def _add_run(
        self, connection: Connection, command: str, argv: str, *, host_count: int
    ) -> tuple[int, str]:
        process = this_process()
        now = stamp()
        row = {
            "command": command,
            "argv": argv,
            "controller": process.controller,
            "controller_id": process.controller_id,
            "boot_id": process.boot_id,
            "pid_namespace": process.pid_namespace,
            "pid": process.pid,
            "process_started": process.started,
            "version": migrate.hfprov_version(),
            "started_at": now,
            "status": RunStatus.RUNNING.value,
            "host_count": host_count,
        }
        while True:
            run_id = f"{moment(now):%Y%m%d-%H%M%S}-" + "".join(
                random_source.choice(_LETTERS) for _ in range(4)
            )
            new = self._database.insert_new(run).returning(run.c.seq)
            added = connection.execute(new, row | {"id": run_id}).scalar()
            if added is not None:
                return int(added), run_id

    def _add_baselines(
        self, connection: Connection, declared: Iterable[Baseline], redactor: Redactor
    ) -> None:
        by_digest = {one.digest: one for one in declared}
        rows = [
            {"digest": digest, "document": _document(one, redactor), "recorded_at": stamp()}
            for digest, one in sorted(by_digest.items())  # see hosts.ids_of
        ]
        if rows:
            connection.execute(self._database.insert_new(baseline), rows)


def _document(declared: Baseline, redactor: Redactor) -> str:
    values: dict[str, dict[str, Any]] = {}
    for name, one in declared.values.items():
        kept = {"value": None, "secret": True} if one.secret else {"value": one.value}
        values[name] = {**kept, "origin": one.origin}
    return redactor.json({"roles": declared.roles, "values": values})
