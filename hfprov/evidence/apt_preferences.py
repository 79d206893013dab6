"""Which versions the package manager is told to prefer: apt_preferences(5), dnf's versionlock."""

from __future__ import annotations

from collections.abc import Mapping

from hfprov.baseline import Baseline
from hfprov.evidence.text import clean
from hfprov.reading import Observation, Result, Source, complete_text, file, glob

DIRECTORY = glob("/etc/apt/preferences.d/*")
FILES = (file("/etc/apt/preferences"), file("/etc/dnf/plugins/versionlock.list"))


def statements(text: str) -> tuple[str, ...]:
    """Lines without comments and surplus blanks: ``Pin-Priority: 990``."""
    lines = (" ".join(line.split()) for line in clean(text).splitlines())
    return tuple(line for line in lines if line and line[0] != "#")


def _parse_preferences(seen: Observation, _: Baseline) -> Mapping[str, Result]:
    found = {one.name: one for one in seen.each(DIRECTORY) if one.type == "file"}
    found |= {str(one.request["path"]): seen.one(one) for one in FILES if seen.exists(one)}
    for result in found.values():
        complete_text(DIRECTORY, result)
    return found


PREFERENCES: Source[Mapping[str, Result]] = Source(
    "preferences of packages", lambda _: (DIRECTORY, *FILES), _parse_preferences
)
