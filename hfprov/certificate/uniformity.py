"""Whether the hosts of a set are alike, and who is not. Pure.

Stricter than the odd one out of a fleet: here two hosts that differ are not alike, and neither is a
set in which no value is the usual one. Then every host is named that lacks the most frequent value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from hfprov.fleet_checks import Odd, Sample

MISSING = "missing"


def odd_hosts(samples: Iterable[Sample]) -> tuple[Odd, ...]:
    """Every value that is not the same on all hosts, by host and name; one sample for each host."""
    members = list(samples)
    found = []
    for name in sorted({name for one in members for name in one.values}):
        counted = Counter(one.values.get(name, MISSING) for one in members)
        if len(counted) == 1:
            continue
        # Of equally frequent values the greater text, so that the order of hosts decides nothing.
        usual, count = max(counted.items(), key=lambda item: (item[1], item[0]))
        for one in members:
            value = one.values.get(name, MISSING)
            if value != usual:
                odd = Odd(one.host, "", one.kind, name, value, usual, count, len(members))
                found.append(odd)
    return tuple(sorted(found, key=lambda one: (one.host, one.name)))
