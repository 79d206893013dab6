"""Whom a node asks for names: ``/etc/resolv.conf``, and whether its own resolver is at work.

Sources: resolv.conf(5), systemd-resolved.service(8).
"""

from __future__ import annotations

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.evidence.systemd import property_of
from hfprov.evidence.systemd_units import shown_units, units
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import KIB, Observation, Source, file

PATH = "/etc/resolv.conf"
RESOLVED = "systemd-resolved.service"
_FILE = file(PATH, limit=64 * KIB)
_UNIT = units(RESOLVED, properties=("ActiveState",))
_STUBS = frozenset({"127.0.0.53", "127.0.0.54"})
"""Where systemd-resolved listens."""


class Resolver(Struct, frozen=True):
    """What programs of the node go by."""

    exists: bool
    link: str
    """Where it leads, for a link."""
    servers: tuple[str, ...]
    """Those that are asked, in order."""
    resolved: str
    """The state of systemd-resolved."""

    @property
    def asks_resolved_alone(self) -> bool:
        return bool(self.servers) and _STUBS.issuperset(self.servers)


def _parse(seen: Observation, _: Baseline) -> Resolver:
    exists, result = seen.exists(_FILE), seen.one(_FILE)
    rows = (line.split() for line in clean(seen.text(_FILE)).splitlines()) if exists else ()
    servers = tuple(excerpt(row[1], 60) for row in rows if row[:1] == ["nameserver"] and row[1:])
    unit = shown_units(seen, _UNIT)[1][RESOLVED]
    link = excerpt(result.link, 200)
    return Resolver(exists, link, servers, property_of(unit, "ActiveState"))


RESOLVER: Source[Resolver] = Source("resolver", lambda _: (_FILE, _UNIT), _parse)
