"""Which paths of a rail are tested, and with how large packets. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hfprov.pairs.ends import Endpoint, Rail
from hfprov.pairs.schedule import rounds_for

PARTNERS = 12
"""In a larger rail than a rack each host is tested against so many others."""


@dataclass(frozen=True, slots=True)
class Path:
    """From one end to another of the same rail."""

    source: Endpoint
    target: Endpoint

    @property
    def bytes(self) -> int:
        """The largest packet that both ends are declared to carry."""
        return min(self.source.wanted, self.target.wanted)


def paths(rail: Rail) -> list[Path]:
    """What is tested in a rail, both ways: every pair of a rack, a covering sample of a fleet."""
    by_host: Mapping[str, Endpoint] = {end.host: end for end in rail.ends}
    hosts = list(by_host)
    found = []
    for one in rounds_for(hosts, PARTNERS):
        for a, b in one:
            found += [Path(by_host[a], by_host[b]), Path(by_host[b], by_host[a])]
    return found
