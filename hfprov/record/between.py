"""What is on record between two sightings of a host: other software, a reboot, work of roles."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from hfprov.record.hosts import id_of
from hfprov.record.model import Sighting, moment, stamp
from hfprov.record.schema import change, evidence, fact, run


@dataclass(frozen=True, slots=True)
class Work:
    """What one role changed on a host in one run."""

    run: str
    command: str
    role: str
    at: datetime
    """When it changed something first."""


@dataclass(frozen=True, slots=True)
class Between:
    """What was recorded of a host from one sighting to another."""

    before: Mapping[str, Any] | None
    """Facts at the first sighting; None: none were kept."""
    after: Mapping[str, Any] | None
    work: tuple[Work, ...]

    @property
    def changed(self) -> dict[str, tuple[str, str]]:
        """Facts that both sightings have, and that are not the same: old and new value."""
        if self.before is None or self.after is None:
            return {}
        return {
            name: (str(old), str(self.after[name]))
            for name, old in self.before.items()
            if name in self.after and self.after[name] != old
        }


def between(
    connection: Connection, name: str, source: str, first: Sighting, second: Sighting
) -> Between:
    """What was recorded of a host between two sightings. Raises RecordError for an unknown host."""
    host_id = id_of(connection, name)
    return Between(
        _facts(connection, host_id, source, first),
        _facts(connection, host_id, source, second),
        _work(connection, host_id, first.at, second.at),
    )


def _facts(
    connection: Connection, host_id: int, source: str, seen: Sighting
) -> Mapping[str, Any] | None:
    data = connection.execute(
        select(fact.c.data)
        .join(evidence, evidence.c.id == fact.c.evidence_id)
        .join(run, run.c.seq == evidence.c.run_seq)
        .where(
            run.c.id == seen.run,
            evidence.c.host_id == host_id,
            evidence.c.phase == seen.phase,
            fact.c.source == source,
        )
        .order_by(evidence.c.id.desc())
        .limit(1)
    ).scalar()
    return None if data is None else dict(json.loads(data))


def _work(
    connection: Connection, host_id: int, after: datetime, until: datetime
) -> tuple[Work, ...]:
    rows = connection.execute(
        select(run.c.id, run.c.command, change.c.role, change.c.changed_at)
        .join(run, run.c.seq == change.c.run_seq)
        .where(
            change.c.host_id == host_id,
            change.c.changed_at > stamp(after),
            change.c.changed_at <= stamp(until),
        )
        .order_by(change.c.id)
    )
    found: dict[tuple[str, str], Work] = {}
    for run_id, command, role, at in rows:
        found.setdefault((run_id, role), Work(run_id, command, role, moment(at)))
    return tuple(found.values())
