"""The log of one run: everything is stored when it is told, each fact in one transaction."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Connection, bindparam, insert, update

from hfprov.errors import ExitCode, HfprovError, RecordError
from hfprov.record import hosts, ownership, proofs
from hfprov.record.database import Database
from hfprov.record.errors import HostIdentityError
from hfprov.record.events import add_event
from hfprov.record.evidence import Packed, Seen, evidence_before
from hfprov.record.identity import Identity
from hfprov.record.model import (
    Acquired,
    Certificate,
    Change,
    GroupCertificate,
    HostState,
    Measurement,
    RunStatus,
    stamp,
)
from hfprov.record.redaction import Redactor
from hfprov.record.schema import (
    change,
    judgement,
    run,
    run_host,
)
from hfprov.record.verdicts import Packer, VerdictSets
from hfprov.verdict import Verdict

# Put together once: it is told of each host of each sweep.
_NEW_STATE = update(run_host).where(
    run_host.c.run_seq == bindparam("of_run"), run_host.c.host_id == bindparam("of_host")
)


class RunLog:
    """Writes one run; made by ``Record.start_run``. Safe to use from several threads.

    When a method has returned, what it was told is on disk. As a context manager it marks a run
    that does not reach :meth:`finish` as interrupted. Every method raises RecordError when the
    record cannot be written.
    """

    def __init__(
        self,
        database: Database,
        sets: VerdictSets,
        *,
        run_id: str,
        run_seq: int,
        host_ids: Mapping[str, int],
        redactor: Redactor,
    ) -> None:
        self.id = run_id
        self._database = database
        self._sets = sets
        self._seq = run_seq
        self._host_ids = host_ids
        self._redactor = redactor
        self._packer = Packer(redactor)
        self._open = True

    # -- observations ---------------------------------------------------------------------------

    def observed(
        self,
        host: str,
        phase: str,
        raw: bytes,
        verdicts: Iterable[Verdict],
        *,
        identity: Identity | None = None,
        facts: Mapping[str, Any] | None = None,
        state: HostState = HostState.OBSERVED,
    ) -> str:
        """Store what was seen of a host and how it was judged, in one transaction; see Seen.

        Returns the SHA-256 of the evidence as it is kept, redacted. Raises HostIdentityError, and
        stores an event instead, when the machine is already recorded under another name.
        """
        (kept,) = self.observed_all(
            [Seen(host, phase, raw, verdicts, identity, facts or {}, state)]
        )
        if isinstance(kept, HostIdentityError):
            raise kept
        return kept

    def observed_all(self, all_of: Iterable[Seen]) -> list[str | HostIdentityError]:
        """Store what was seen of several hosts, in one transaction: to end it costs most.

        Returns for each what :meth:`observed` returns or raises.
        """
        ready = [
            (
                one,
                self._host_id(one.host),
                self._packer.pack(one.verdicts),
                Packed.of(one, self._redactor),
            )
            for one in all_of
        ]
        kept: list[str | HostIdentityError] = []
        stored: list[tuple[str, int]] = []
        with self._database.write() as connection:
            for one, host_id, (rows, digest), evidence in ready:
                try:
                    # Raises before it has stored anything: the other hosts are not concerned.
                    hosts.seen(self._database, connection, host_id, one.identity, self._seq)
                except HostIdentityError as error:
                    self._add_refusal(connection, host_id, error)
                    kept.append(error)
                    continue
                evidence_id = evidence.store(connection, self._seq, host_id, one.phase)
                set_id = self._sets.store(connection, rows, digest)
                self._add_judgement(connection, host_id, one.phase, set_id, evidence_id=evidence_id)
                self._set_state(connection, host_id, one.state, "")
                stored.append((digest, set_id))
                kept.append(evidence.sha256)
        for digest, set_id in stored:
            self._sets.remember(digest, set_id)
        return kept

    def not_observed(
        self,
        host: str,
        phase: str,
        reason: str,
        verdicts: Iterable[Verdict],
        *,
        state: HostState = HostState.UNREACHABLE,
    ) -> None:
        """Store that a host could not be observed, and the verdicts (all unknown) that follow."""
        host_id = self._host_id(host)
        reason = self._redactor.text(reason)
        rows, digest = self._packer.pack(verdicts)
        with self._database.write() as connection:
            set_id = self._sets.store(connection, rows, digest)
            self._add_judgement(connection, host_id, phase, set_id, reason=reason)
            self._set_state(connection, host_id, state, reason)
        self._sets.remember(digest, set_id)

    def earlier_evidence(self, host: str) -> bytes | None:
        """The observation of a host by the newest run before this one; None: there is none."""
        with self._database.read() as connection:
            return evidence_before(connection, self._host_id(host), self._seq)

    # -- progress -------------------------------------------------------------------------------

    def state(self, host: str, state: HostState, reason: str = "") -> None:
        """Store how far the run is with a host. Tell it *before* the host is changed."""
        self.states([host], state, reason)

    def states(self, names: Iterable[str], state: HostState, reason: str = "") -> None:
        """Store one state for several hosts, in one transaction."""
        ids = [self._host_id(name) for name in names]
        with self._database.write() as connection:
            for host_id in ids:
                self._set_state(connection, host_id, state, self._redactor.text(reason))

    def change(self, host: str, what: Change) -> None:
        """Store what a role changed on a host."""
        self.changes(host, [what])

    def changes(self, host: str, all_of: Iterable[Change]) -> None:
        """Store several changes of a host, in one transaction."""
        host_id = self._host_id(host)
        text = self._redactor.text
        rows = [
            {
                "run_seq": self._seq,
                "host_id": host_id,
                "role": text(one.role),
                "task": text(one.task),
                "action": text(one.action),
                "item": text(one.item),
                "diff": text(one.diff),
                "changed_at": stamp(one.at),
            }
            for one in all_of
        ]
        if rows:
            with self._database.write() as connection:
                connection.execute(insert(change), rows)

    def event(
        self,
        kind: str,
        message: str,
        host: str | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        """Store that something happened, in this run or to one of its hosts."""
        host_id = None if host is None else self._host_id(host)
        with self._database.write() as connection:
            add_event(
                connection,
                kind,
                message,
                run_seq=self._seq,
                host_id=host_id,
                data=data,
                redactor=self._redactor,
            )

    # -- locks ----------------------------------------------------------------------------------

    def acquire(self, names: Iterable[str], *, partial: bool = False) -> Acquired:
        """Lock hosts for this run until it ends or releases them.

        All of them or none: raises HostBusyError, which says who holds a host since when. With
        ``partial``, takes those that are free and returns who holds the others. Locks of dead
        processes of this controller are broken, with an event.
        """
        wanted = {name: self._host_id(name) for name in names}
        return ownership.acquire(self._database, self._seq, wanted, partial=partial)

    def release(self, names: Iterable[str]) -> None:
        """Unlock hosts; those that this run does not hold are left as they are."""
        ids = [self._host_id(name) for name in names]
        with self._database.write() as connection:
            ownership.release(connection, self._seq, ids)

    # -- certificates and measurements ----------------------------------------------------------

    def certified(self, issued: Certificate) -> None:
        """Store a signed certificate. RecordError when its id is taken."""
        host_id = self._host_id(issued.host)
        with self._database.write() as connection:
            proofs.store_certificate(self._database, connection, self._seq, host_id, issued)

    def certified_group(self, issued: GroupCertificate) -> None:
        """Store the signed certificate of a group of hosts."""
        with self._database.write() as connection:
            proofs.store_group(connection, self._seq, issued)

    def measured(self, measured: Measurement) -> None:
        """Store one measurement with its samples, conditions and raw output."""
        host_id = self._host_id(measured.host)
        with self._database.write() as connection:
            proofs.store_measurement(connection, self._seq, host_id, measured, self._redactor)

    # -- the end --------------------------------------------------------------------------------

    def finish(self, exit_code: int) -> None:
        """Store the end of the run. Hosts left in the middle of something become interrupted."""
        self._end(RunStatus.COMPLETE, exit_code, "The run ended")

    def interrupt(self, reason: str, exit_code: int | None = None) -> None:
        """Store that the run was stopped before its end."""
        self.event("run_interrupted", reason)
        self._end(RunStatus.INTERRUPTED, exit_code, "The run was interrupted")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._open:
            return
        if error is None:
            self.interrupt("The run was left without a result.")
            return
        # What went wrong first is what must be told; a run that could not even record its end
        # is found when the record is opened next.
        with contextlib.suppress(RecordError):
            if isinstance(error, KeyboardInterrupt):
                self.interrupt("Stopped by a person.", int(ExitCode.INTERRUPTED))
            elif isinstance(error, HfprovError):
                self.interrupt(error.message, int(error.exit_code))
            else:
                self.interrupt(f"Stopped by {type(error).__name__}: {error}")

    # -- inside a transaction -------------------------------------------------------------------

    def _host_id(self, name: str) -> int:
        try:
            return self._host_ids[name]
        except KeyError:
            raise RecordError(f"Host '{name}' is not part of run '{self.id}'.") from None

    def _add_refusal(self, connection: Connection, host_id: int, error: HostIdentityError) -> None:
        add_event(
            connection,
            "identity_refused",
            error.message,
            run_seq=self._seq,
            host_id=host_id,
            data={"same_as": error.other},
            redactor=self._redactor,
        )

    def _add_judgement(
        self,
        connection: Connection,
        host_id: int,
        phase: str,
        set_id: int,
        *,
        evidence_id: int | None = None,
        reason: str = "",
    ) -> None:
        connection.execute(
            insert(judgement),
            {
                "run_seq": self._seq,
                "host_id": host_id,
                "phase": phase,
                "set_id": set_id,
                "evidence_id": evidence_id,
                "reason": reason,
                "judged_at": stamp(),
            },
        )

    def _set_state(
        self, connection: Connection, host_id: int, state: HostState, reason: str
    ) -> None:
        key = {"of_run": self._seq, "of_host": host_id}
        values = {"state": state.value, "reason": reason, "updated_at": stamp()}
        connection.execute(_NEW_STATE, {**key, **values})

    def _end(self, status: RunStatus, exit_code: int | None, words: str) -> None:
        with self._database.write() as connection:
            connection.execute(
                update(run)
                .where(run.c.seq == self._seq)
                .values(status=status.value, exit_code=exit_code, ended_at=stamp())
            )
            ownership.settle(connection, self._seq, words)
        self._open = False
