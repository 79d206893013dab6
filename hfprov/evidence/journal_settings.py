"""What the journal keeps of the kernel's messages: its settings, and whether it is at work.

Source: journald.conf(5).
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.evidence.grep import Line, grep, lines
from hfprov.evidence.systemd import Properties
from hfprov.evidence.systemd_units import shown_units, units
from hfprov.evidence.text import excerpt
from hfprov.reading import Observation, Source
from hfprov.regex import regex

STORAGE, READ_KERNEL, LEVEL = "Storage", "ReadKMsg", "MaxLevelStore"
_FOLDERS = tuple(f"{place}/systemd" for place in ("/etc", "/run", "/usr/local/lib", "/usr/lib"))
"""Highest first: a file hides one of the same name in a later place."""
_MAIN = tuple(f"{folder}/journald.conf" for folder in _FOLDERS)
_READ = grep(
    f"^[[:space:]]*({STORAGE}|{READ_KERNEL}|{LEVEL})[[:space:]]*=",
    *_MAIN,
    *(f"{folder}/journald.conf.d/*.conf" for folder in _FOLDERS),
)


class JournalSetting(Struct, frozen=True):
    """A setting that holds."""

    value: str
    """In small letters."""
    where: str


_SETTING = regex(rf"[ \t]*({STORAGE}|{READ_KERNEL}|{LEVEL})[ \t]*=(.*)")


def _parse_settings(seen: Observation, _: Baseline) -> Mapping[str, JournalSetting]:
    # In the order in which they are applied: a file of that name in a higher folder in its place.
    of_files: dict[tuple[bool, str], list[Line]] = {}
    for folder in reversed(_FOLDERS):
        here = [line for line in lines(seen, _READ) if line.path.startswith(f"{folder}/")]
        names = {line.path: (line.path not in _MAIN, line.path.rpartition("/")[2]) for line in here}
        of_files |= {
            name: [line for line in here if line.path == path] for path, name in names.items()
        }
    found: dict[str, JournalSetting] = {}
    for name in sorted(of_files):
        for line in of_files[name]:
            if setting := _SETTING.fullmatch(line.text):
                key, value = setting[1], setting[2].strip().lower()
                found.pop(key, None)
                if value:
                    found[key] = JournalSetting(excerpt(value, 40), line.where)
    return found


JOURNAL_SETTINGS: Source[Mapping[str, JournalSetting]] = Source(
    "settings of the journal", lambda _: (_READ,), _parse_settings
)
"""By name of the setting, where a file sets it."""

UNIT = "systemd-journald.service"
_UNIT_READ = units(UNIT, properties=("ActiveState",))
JOURNAL_UNIT: Source[Properties] = Source(
    "the journal's service",
    lambda _: (_UNIT_READ,),
    lambda seen, _: shown_units(seen, _UNIT_READ)[1][UNIT],
)
