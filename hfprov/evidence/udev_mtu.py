"""Rules of udev that set an MTU, whenever the interface appears; udev(7)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import Observation, Source, complete_text, glob
from hfprov.regex import regex

_FILES = tuple(glob(f"/{place}/udev/rules.d/*.rules", limit=64 * 1024) for place in ("etc", "run"))
_NAME = regex(r'\b(?:KERNEL|NAME|ENV\{INTERFACE\}|ENV\{ID_NET_NAME\})=="([^"]*)"')
_SETS = regex(r'\bATTR\{mtu\}="([^"]*)"')
_RUNS = regex(r'\b(?:RUN|PROGRAM|IMPORT)(?:\{[a-z]+\})?\+?="([^"]*\bmtu\b[^"]*)"')


class MtuRule(Struct, frozen=True):
    """One rule that sets an MTU."""

    where: str
    """Path and number of the line in which it ends."""
    statement: str
    mtu: int | None
    """Bytes; None where a program sets it."""
    names: tuple[str, ...]
    """Patterns of names of which the interface must match one; none: it may be any."""

    def may_take(self, name: str) -> bool:
        """Whether the rule may be for an interface of this name."""
        patterns = [one for pattern in self.names for one in pattern.split("|")]
        return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def parse_rules(text: str, path: str) -> Iterator[MtuRule]:
    """Rules of one file. A line that ends with a backslash goes on in the next one."""
    pending = ""
    for number, raw in enumerate(clean(text).splitlines(), start=1):
        if raw.endswith("\\"):
            pending += raw[:-1]
            continue
        line, pending = pending + raw, ""
        if line.lstrip().startswith("#"):
            continue
        for found in (_SETS.search(line), _RUNS.search(line)):
            if found:
                value = found[1].strip()
                mtu = int(value) if re.fullmatch("[0-9]{1,6}", value) else None
                names = tuple(_NAME.findall(line))
                yield MtuRule(f"{path}:{number}", excerpt(found[0]), mtu, names)


def _parse(seen: Observation, _: Baseline) -> tuple[MtuRule, ...]:
    return tuple(
        rule
        for read in _FILES
        for result in seen.each(read)
        if result.status != "absent" and result.link != "/dev/null"
        for rule in parse_rules(complete_text(read, result), result.name)
    )


MTU_RULES: Source[tuple[MtuRule, ...]] = Source("rules of udev on MTUs", lambda _: _FILES, _parse)
