"""Kernel settings: what the files of sysctl.d(5) say in the order they are applied, and what holds.

``/etc/sysctl.conf`` is no file of sysctl.d(5), but ``sysctl --system`` applies it last; and ufw
applies a file of its own when it is started.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError
from hfprov.evidence.text import clean
from hfprov.reading import Observation, Read, Result, Source, complete_text, file, glob
from hfprov.regex import regex

DIRECTORIES = tuple(
    glob(f"{place}/sysctl.d/*.conf")
    for place in ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib")
)
"""Highest first: a file hides one of the same name in a later place."""
LATER_FILES = (file("/etc/sysctl.conf"), file("/etc/ufw/sysctl.conf"))
"""Applied by others than systemd, whenever those are run."""
NAME = regex(r"[a-z0-9_]+(?:\.[A-Za-z0-9_-]+)+")
"""A setting's name with dots. Names of interfaces that have dots themselves are not wanted here."""


class Assignment(Struct, frozen=True):
    """One line ``name = value``."""

    name: str
    """With dots."""
    value: str
    """With one blank for any white space."""
    path: str
    line: int

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"

    @property
    def statement(self) -> str:
        return f"{self.name} = {self.value}"


def dotted(name: str) -> str:
    """A name as it is written, with dots: the first separator tells which form it is."""
    first = re.search(r"[./]", name)
    if first and first.group() == "/":
        return name.translate(str.maketrans("/.", "./"))
    return name


def parse(text: str, path: str) -> tuple[tuple[Assignment, ...], tuple[str, ...]]:
    """Assignments in order, and the lines that would be passed over; sysctl.d(5)."""
    found, strange = [], []
    for number, raw in enumerate(clean(text).splitlines(), start=1):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        name, equals, value = line.removeprefix("-").partition("=")
        if equals and name.strip():
            value = " ".join(value.split())
            found.append(Assignment(dotted(name.strip()), value, path, number))
        elif not line.startswith("-"):
            # "-name" alone takes a name out of patterns; patterns never win over a whole name.
            strange.append(line)
    return tuple(found), tuple(strange)


class SysctlFiles(Struct, frozen=True):
    """All files, read and put in order."""

    at_boot: tuple[Assignment, ...]
    """In the order in which systemd applies them: the last one of a name holds."""
    later: tuple[Assignment, ...]
    """Of files that something else applies, after that."""
    results: Mapping[str, Result]
    """What was read, by path."""


def _assignments(read: Read, result: Result) -> tuple[Assignment, ...]:
    # A link to /dev/null hides a file; it is not a regular file.
    if result.type != "file":
        return ()
    return parse(complete_text(read, result), result.name)[0]


def _parse_files(seen: Observation, _: Baseline) -> SysctlFiles:
    by_name: dict[str, tuple[Read, Result]] = {}
    results: dict[str, Result] = {}
    for read in DIRECTORIES:
        for result in seen.each(read):
            results[result.name] = result
            by_name.setdefault(result.name.rpartition("/")[2], (read, result))
    at_boot: list[Assignment] = []
    for name in sorted(by_name):
        at_boot.extend(_assignments(*by_name[name]))
    later: list[Assignment] = []
    for read in LATER_FILES:
        if seen.exists(read):
            later.extend(_assignments(read, seen.one(read)))
    return SysctlFiles(tuple(at_boot), tuple(later), results)


FILES: Source[SysctlFiles] = Source(
    "files of sysctl", lambda _: (*DIRECTORIES, *LATER_FILES), _parse_files
)


def _read_of(name: str) -> Read:
    return file("/proc/sys/" + name.replace(".", "/"), limit=4096)


def live_settings(
    name: str, names: Callable[[Baseline], Iterable[str]]
) -> Source[Mapping[str, str | None]]:
    """What holds now, by name of setting; None where the kernel has no such setting.

    A setting that is there and cannot be read raises NoEvidenceError.
    """

    def reads(baseline: Baseline) -> tuple[Read, ...]:
        return tuple(_read_of(one) for one in names(baseline) if NAME.fullmatch(one))

    def parse_live(seen: Observation, baseline: Baseline) -> Mapping[str, str | None]:
        found: dict[str, str | None] = {}
        for one in names(baseline):
            if not NAME.fullmatch(one):
                raise NoEvidenceError(f"'{one[:80]}' is not the name of a kernel setting.")
            read = _read_of(one)
            there = seen.exists(read)
            found[one] = " ".join(clean(seen.text(read)).split()) if there else None
        return found

    return Source(name, reads, parse_live)
