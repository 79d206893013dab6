"""Hosts by inventory name, and the rule that one machine has one name."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from sqlalchemy import Connection, bindparam, or_, select, update

from hfprov.errors import RecordError
from hfprov.record.database import Database
from hfprov.record.errors import HostIdentityError
from hfprov.record.events import add_event
from hfprov.record.identity import Identity
from hfprov.record.model import HostInfo, moment_or_none, stamp
from hfprov.record.redaction import storable
from hfprov.record.schema import host

T = TypeVar("T")

_AT_ONCE = 500
"""Names in one IN (…); SQLite takes 32766 parameters at most."""

_TOPIC = 0x68660002  # of Database.serialise
_IDENTITY = (host.c.machine_id, host.c.product_uuid, host.c.serial)


# Put together once: they are asked for each host of each sweep.
_KNOWN = select(host.c.name, host.c.first_seen, *_IDENTITY).where(host.c.id == bindparam("host_id"))
_SEEN = update(host).where(host.c.id == bindparam("host_id"))


def portions(items: Iterable[T]) -> Iterator[list[T]]:
    """As many at once as one question may name."""
    left = iter(items)
    while some := list(itertools.islice(left, _AT_ONCE)):
        yield some


def ids_of(database: Database, connection: Connection, names: Sequence[str]) -> dict[str, int]:
    """The ids of hosts by name; hosts that the record does not know yet are added."""
    known = known_ids(connection, names)
    # In one order: PostgreSQL would find two runs that add hosts crosswise deadlocked.
    missing = sorted(name for name in names if name not in known)
    if missing:
        connection.execute(database.insert_new(host), [{"name": name} for name in missing])
        known.update(known_ids(connection, missing))
    return known


def known_ids(connection: Connection, names: Sequence[str]) -> dict[str, int]:
    """The ids of the hosts that the record knows, by name."""
    found: dict[str, int] = {}
    for some in portions(names):
        rows = connection.execute(select(host.c.name, host.c.id).where(host.c.name.in_(some)))
        found.update((name, host_id) for name, host_id in rows)
    return found


def id_of(connection: Connection, name: str) -> int:
    """The id of one host. RecordError when the record does not know it."""
    host_id = connection.execute(select(host.c.id).where(host.c.name == name)).scalar()
    if host_id is None:
        raise RecordError(
            f"The record knows no host '{name}'.", hint="Was it observed under another name?"
        )
    return int(host_id)


def seen(
    database: Database,
    connection: Connection,
    host_id: int,
    identity: Identity | None,
    run_seq: int,
) -> None:
    """Note that a host answered, and as which machine.

    Raises HostIdentityError when that machine is already recorded under another name. A host that
    became another machine under the same name was replaced: allowed, with an event.
    """
    now = stamp()
    row = connection.execute(_KNOWN, {"host_id": host_id}).one()
    values = {"last_seen": now, "first_seen": row.first_seen or now}
    earlier = Identity(row.machine_id, row.product_uuid, row.serial)
    if identity is not None:
        current = _storable(identity)
        changed = current.conflict(earlier)
        if not changed:
            current = current.completed_by(earlier)
        if current != earlier:
            database.serialise(connection, _TOPIC)
            _refuse_second_name(connection, row.name, host_id, current)
            values |= _columns(current)
        if changed:
            add_event(
                connection,
                "identity_changed",
                f"Host '{row.name}' is another machine than before: its {changed} changed.",
                run_seq=run_seq,
                host_id=host_id,
                data={"before": _columns(earlier), "after": _columns(current)},
            )
    connection.execute(_SEEN, {"host_id": host_id, **values})


def forget(connection: Connection, name: str) -> None:
    """Release a host's identity, so that its machine may appear under another name."""
    host_id = id_of(connection, name)
    connection.execute(update(host).where(host.c.id == host_id).values(_columns(Identity())))
    add_event(
        connection,
        "host_forgotten",
        f"The identity of host '{name}' was released.",
        host_id=host_id,
    )


def read(connection: Connection, after: str, most: int) -> list[HostInfo]:
    """The next hosts by name; see :meth:`Record.hosts`."""
    rows = connection.execute(
        select(host).where(host.c.name > after).order_by(host.c.name).limit(most)
    )
    return [
        HostInfo(
            name=row.name,
            identity=Identity(row.machine_id, row.product_uuid, row.serial),
            identity_digest=row.identity_digest,
            first_seen=moment_or_none(row.first_seen),
            last_seen=moment_or_none(row.last_seen),
        )
        for row in rows
    ]


def names_of(connection: Connection, host_ids: Iterable[int]) -> dict[int, str]:
    """Names by id."""
    found: dict[int, str] = {}
    for some in portions(host_ids):
        rows = connection.execute(select(host.c.id, host.c.name).where(host.c.id.in_(some)))
        found.update((host_id, name) for host_id, name in rows)
    return found


def _refuse_second_name(
    connection: Connection, name: str, host_id: int, identity: Identity
) -> None:
    known = identity.known
    same = [
        column == value
        for column, value in (
            (host.c.machine_id, known.machine_id),
            (host.c.product_uuid, known.product_uuid),
        )
        if value
    ]
    if not same:
        return
    others = connection.execute(
        select(host.c.name, *_IDENTITY).where(or_(*same), host.c.id != host_id)
    )
    for other in others:
        why = identity.same_machine(Identity(other.machine_id, other.product_uuid, other.serial))
        if why:
            raise HostIdentityError(name, other.name, why)


def _storable(identity: Identity) -> Identity:
    # In one spelling, so that an index finds it; placeholders stay as they were seen.
    return Identity(
        storable(identity.known.machine_id or identity.machine_id.strip(), 256),
        storable(identity.known.product_uuid or identity.product_uuid.strip(), 256),
        storable(identity.serial.strip(), 256),
    )


def _columns(identity: Identity) -> dict[str, str]:
    return {
        "machine_id": identity.machine_id,
        "product_uuid": identity.product_uuid,
        "serial": identity.serial,
        "identity_digest": identity.digest,
    }
