"""Who owns what: locks on hosts, and the runs whose process died without a word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, delete, insert, select, update

from hfprov.errors import HostBusyError
from hfprov.record.database import Database
from hfprov.record.events import add_event
from hfprov.record.hosts import names_of, portions
from hfprov.record.model import Acquired, Holder, HostState, RunStatus, moment, stamp
from hfprov.record.process import Process, this_process
from hfprov.record.schema import host_lock, run, run_host
from hfprov.words import plural

_TOPIC = 0x68660003  # of Database.serialise
_UNFINISHED = [state.value for state in HostState if state.unfinished]


def reap(database: Database) -> None:
    """Mark the runs of dead processes of this controller as crashed, and free their hosts."""
    here = this_process()
    with database.read() as connection:
        if not _dead(connection, here):
            return
    with database.write() as connection:
        database.serialise(connection, _TOPIC)
        for run_seq, run_id in _dead(connection, here).items():
            _mark_crashed(connection, run_seq, run_id)


def acquire(
    database: Database,
    run_seq: int,
    hosts: Mapping[str, int],
    *,
    partial: bool,
) -> Acquired:
    """Lock hosts (name to id) for a run; see :meth:`RunLog.acquire`."""
    names = {host_id: name for name, host_id in hosts.items()}
    with database.write() as connection:
        database.serialise(connection, _TOPIC)
        _break_dead_locks(connection, run_seq, names)
        held = _holders(connection, names)
        busy = tuple(holder for seq, holder in held.values() if seq != run_seq)
        if busy and not partial:
            raise HostBusyError(
                _busy_message(busy),
                hint="Wait for it. If that run is surely gone, break its lock: "
                f"'hfprov unlock {busy[0].host} --reason WHY'.",
            )
        free = [host_id for host_id in names if host_id not in held]
        if free:
            now = stamp()
            connection.execute(
                insert(host_lock),
                [{"host_id": one, "run_seq": run_seq, "acquired_at": now} for one in free],
            )
    taken = {holder.host for holder in busy}
    return Acquired(tuple(name for name in hosts if name not in taken), busy)


def release(connection: Connection, run_seq: int, host_ids: Sequence[int] | None = None) -> None:
    """Give up the locks of a run: on some hosts, or all."""
    mine = delete(host_lock).where(host_lock.c.run_seq == run_seq)
    if host_ids is None:
        connection.execute(mine)
        return
    for some in portions(host_ids):
        connection.execute(mine.where(host_lock.c.host_id.in_(some)))


def break_lock(connection: Connection, name: str, host_id: int, reason: str) -> Holder | None:
    """Take a lock from a run by a person's decision; the holder it was taken from, if any."""
    held = _holders(connection, {host_id: name}).get(host_id)
    if held is None:
        return None
    run_seq, holder = held
    connection.execute(delete(host_lock).where(host_lock.c.host_id == host_id))
    add_event(
        connection,
        "lock_broken",
        f"The lock of run '{holder.run}' on host '{name}' was broken: {reason}",
        run_seq=run_seq,
        host_id=host_id,
    )
    return holder


def settle(connection: Connection, run_seq: int, reason: str) -> None:
    """Close the states of the hosts of a run that ends, and free them."""
    now = stamp()
    mine = update(run_host).where(run_host.c.run_seq == run_seq)
    connection.execute(
        mine.where(run_host.c.state.in_(_UNFINISHED)).values(
            state=HostState.INTERRUPTED.value,
            reason=f"{reason} in the middle of work on this host; its state is unknown.",
            updated_at=now,
        )
    )
    connection.execute(
        mine.where(run_host.c.state == HostState.PLANNED.value).values(
            state=HostState.NOT_ATTEMPTED.value,
            reason=f"{reason} before it came to this host.",
            updated_at=now,
        )
    )
    release(connection, run_seq)


def holders(connection: Connection, names: Mapping[int, str] | None = None) -> list[Holder]:
    """Who holds which hosts; of all hosts when none are named."""
    if names is None:
        names = names_of(connection, connection.execute(select(host_lock.c.host_id)).scalars())
    return [holder for _, holder in _holders(connection, names).values()]


def _dead(connection: Connection, here: Process) -> dict[int, str]:
    """Id by number of the runs that are called running and surely are not."""
    rows = connection.execute(select(run).where(run.c.status == RunStatus.RUNNING.value))
    return {
        row.seq: row.id
        for row in rows
        if Process(
            controller=row.controller,
            controller_id=row.controller_id,
            boot_id=row.boot_id,
            pid_namespace=row.pid_namespace,
            pid=row.pid,
            started=row.process_started,
        ).surely_dead(here)
    }


def _mark_crashed(connection: Connection, run_seq: int, run_id: str) -> None:
    connection.execute(
        update(run).where(run.c.seq == run_seq).values(status=RunStatus.CRASHED.value)
    )
    add_event(
        connection,
        "run_crashed",
        f"The process of run '{run_id}' is gone; the run is marked as crashed.",
        run_seq=run_seq,
    )
    settle(connection, run_seq, "The run crashed")


def _break_dead_locks(connection: Connection, run_seq: int, names: Mapping[int, str]) -> None:
    dead = _dead(connection, this_process())
    if not dead:
        return
    for host_id, (owner, holder) in _holders(connection, names).items():
        if owner in dead:
            add_event(
                connection,
                "lock_broken",
                f"The lock of run '{holder.run}' on host '{holder.host}' was broken: "
                f"its process {holder.pid} on '{holder.controller}' is gone.",
                run_seq=run_seq,
                host_id=host_id,
            )
    for seq, run_id in dead.items():
        _mark_crashed(connection, seq, run_id)


def _holders(connection: Connection, names: Mapping[int, str]) -> dict[int, tuple[int, Holder]]:
    """Run number and holder, by host id."""
    columns = (host_lock, run.c.id, run.c.command, run.c.controller, run.c.pid)
    query = select(*columns).join(run, run.c.seq == host_lock.c.run_seq)
    found: dict[int, tuple[int, Holder]] = {}
    for some in portions(names):
        for row in connection.execute(query.where(host_lock.c.host_id.in_(some))):
            holder = Holder(
                host=names[row.host_id],
                run=row.id,
                command=row.command,
                controller=row.controller,
                pid=row.pid,
                since=moment(row.acquired_at),
            )
            found[row.host_id] = (row.run_seq, holder)
    return found


def _busy_message(busy: Sequence[Holder]) -> str:
    first = busy[0]
    more = f" and {plural(len(busy) - 1, 'more host')} are" if len(busy) > 1 else " is"
    return (
        f"Host '{first.host}'{more} in use: run '{first.run}' ({first.command}, process "
        f"{first.pid} on '{first.controller}') works on it "
        f"since {first.since:%Y-%m-%d %H:%M:%S} UTC."
    )
