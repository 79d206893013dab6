"""Since when the hosts of a cause have been like that, as the record has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial

from hfprov.record.between import Between
from hfprov.record.model import Sighting, Since
from hfprov.record.store import Record
from hfprov.report.causes import NOT_OBSERVED, Cause
from hfprov.sweep import BOOT, SOFTWARE

MOST_TRACED = 50
"""Hosts of a cause whose history is read; each costs a millisecond or two."""


@dataclass(slots=True)
class Trace:
    """Since when the hosts of one cause have been like that, and what changed on them meanwhile."""

    traced: int = 0
    """Hosts whose history was read."""
    never_good: int = 0
    """Of those: hosts on which the record never saw it good."""
    last_good: datetime | None = None
    """When it was last seen good on the host on which that is longest ago."""
    first_bad: datetime | None = None
    """When it was seen first, on any of them."""
    meanwhile: Counter[str] = field(default_factory=Counter)
    """By what changed between good and bad: on how many hosts."""


def traces_of(record: Record, causes: Sequence[Cause]) -> list[Trace]:
    """One for each cause, in order. Raises RecordError when the record cannot be read."""
    hosts = [list(cause.hosts.values())[:MOST_TRACED] for cause in causes]
    asked = [
        (some if cause.check else [], cause.check, cause.subject)
        for cause, some in zip(causes, hosts, strict=True)
    ]
    found = record.since_each(asked)
    for number, cause in enumerate(causes):
        # A host that was observed, and was not done with, has no such history.
        if not cause.check and cause.expected == NOT_OBSERVED:
            found[number] = record.not_observed_since(hosts[number])
    # What changed on a host is asked once: much becomes bad at a time.
    changes = cache(partial(_changes, record))
    return [_trace_of(histories, changes) for histories in found]


Changes = Callable[[str, Sighting, Sighting], Sequence[str]]
"""What changed on a host between two sightings."""


def _changes(record: Record, host: str, good: Sighting, bad: Sighting) -> tuple[str, ...]:
    return tuple(meanwhile(record.between(host, SOFTWARE, good, bad)))


def _trace_of(histories: Mapping[str, Since], changes: Changes) -> Trace:
    trace = Trace()
    for host, since in histories.items():
        trace.traced += 1
        if since.first_bad is not None:
            trace.first_bad = _earlier(trace.first_bad, since.first_bad)
        if since.last_good is None:
            trace.never_good += 1
            continue
        trace.last_good = _earlier(trace.last_good, since.last_good)
        if since.first_bad is not None:
            trace.meanwhile.update(changes(host, since.last_good, since.first_bad))
    return trace


def _earlier(known: datetime | None, seen: Sighting) -> datetime:
    return seen.at if known is None else min(known, seen.at)


def meanwhile(found: Between) -> Iterator[str]:
    """What changed on a host between two sightings, a few words each."""
    for name, (old, new) in found.changed.items():
        yield "a reboot" if name == BOOT else f"{name} {old} -> {new}"
    roles: dict[tuple[str, str], list[str]] = {}
    for work in found.work:
        if work.role:
            roles.setdefault((work.command, work.run), []).append(work.role)
    for (command, run), some in roles.items():
        yield f"'{command}' {run} ran {', '.join(some)}"
