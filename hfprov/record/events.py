"""Events: one row each, written by whoever noticed something."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, insert

from hfprov.record.model import stamp
from hfprov.record.redaction import Redactor
from hfprov.record.schema import event

_NOTHING_SECRET = Redactor()


def add_event(
    connection: Connection,
    kind: str,
    message: str,
    *,
    run_seq: int | None = None,
    host_id: int | None = None,
    data: Mapping[str, Any] | None = None,
    redactor: Redactor = _NOTHING_SECRET,
) -> None:
    """Add one event in a transaction that is under way."""
    connection.execute(
        insert(event),
        {
            "run_seq": run_seq,
            "host_id": host_id,
            "happened_at": stamp(),
            "kind": kind,
            "message": redactor.text(message),
            "data": redactor.json(data or {}),
        },
    )


def event_data(text: str) -> Mapping[str, Any]:
    """What ``data`` was given to :func:`add_event`, as JSON keeps it."""
    data: Mapping[str, Any] = json.loads(text)
    return data
