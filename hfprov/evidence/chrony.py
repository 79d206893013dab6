"""chrony: its configuration with all that it includes, ``chronyc -c``, and the running daemon."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.find import one_find
from hfprov.evidence.system import COMMAND_LINES
from hfprov.evidence.systemd import Properties, property_of
from hfprov.evidence.systemd_units import shown_units, units
from hfprov.evidence.text import clean, excerpt, number
from hfprov.reading import Observation, Read, Result, Source, command, complete_text, file, glob

MAIN_FILES = (file("/etc/chrony/chrony.conf"), file("/etc/chrony.conf"))
"""Of Debian and of EL."""
DIRECTORIES = {
    "/etc/chrony/conf.d": glob("/etc/chrony/conf.d/*.conf"),
    "/etc/chrony.d": glob("/etc/chrony.d/*.conf"),
    "/etc/chrony/sources.d": glob("/etc/chrony/sources.d/*.sources"),
    "/run/chrony-dhcp": glob("/run/chrony-dhcp/*.sources"),
}
"""Directories that the distributions include; a configuration that names others is not judged."""
OPTIONS_FILES = (file("/etc/default/chrony"), file("/etc/sysconfig/chronyd"))
UNITS = ("chrony.service", "chronyd.service")
RIVALS = (
    "systemd-timesyncd.service",
    "ntp.service",
    "ntpd.service",
    "ntpsec.service",
    "openntpd.service",
)
SOURCE_WORDS = frozenset({"server", "pool", "peer"})


class Directive(Struct, frozen=True):
    """One directive of chrony.conf(5)."""

    words: tuple[str, ...]
    path: str
    line: int

    @property
    def name(self) -> str:
        return self.words[0].lower()

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"

    @property
    def statement(self) -> str:
        return " ".join((self.name, *self.words[1:]))


def parse_directives(text: str, path: str) -> tuple[Directive, ...]:
    """The directives of one file. A line that begins with one of ``!;#%`` is a comment."""
    found = []
    for line_number, line in enumerate(clean(text).splitlines(), start=1):
        words = line.split()
        if words and words[0][0] not in "!;#%":
            found.append(Directive(tuple(words), path, line_number))
    return tuple(found)


class Configuration(Struct, frozen=True):
    """All that chronyd reads at its start."""

    directives: tuple[Directive, ...]
    """In the order in which they are read; of most the last one holds."""
    results: Mapping[str, Result]
    main: str
    """Path of the main file."""

    def last(self, name: str) -> Directive | None:
        return next((one for one in reversed(self.directives) if one.name == name), None)

    @property
    def sources(self) -> tuple[Directive, ...]:
        return tuple(one for one in self.directives if one.name in SOURCE_WORDS)


def _parse_configuration(seen: Observation, _: Baseline) -> Configuration | None:
    main = next((read for read in MAIN_FILES if seen.exists(read)), None)
    if main is None:
        return None
    result = seen.one(main)
    results = {result.name: result}
    for read in DIRECTORIES.values():
        results |= {one.name: one for one in seen.each(read) if one.status != "absent"}
    directives: list[Directive] = []
    for one in parse_directives(complete_text(main, result), result.name):
        directives.append(one)
        if one.name in ("confdir", "sourcedir", "include"):
            directives += _included(seen, one)
    return Configuration(tuple(directives), results, result.name)


def _included(seen: Observation, including: Directive) -> Iterator[Directive]:
    for place in including.words[1:]:
        read = DIRECTORIES.get(place.rstrip("/"))
        if read is None:
            raise NoEvidenceError(
                f"'{including.where}' includes '{excerpt(place)}', not read here."
            )
        for result in sorted(seen.each(read), key=lambda one: one.name):
            if result.status != "absent" and result.type == "file":
                yield from parse_directives(complete_text(read, result), result.name)


CONFIGURATION: Source[Configuration | None] = Source(
    "configuration of chrony",
    lambda _: (*MAIN_FILES, *DIRECTORIES.values()),
    _parse_configuration,
)
"""None where there is no main file, which is evidence: chrony is not installed."""


class TimeSource(Struct, frozen=True):
    """One line of ``chronyc sources``."""

    mode: str
    """``^`` server, ``=`` peer, ``#`` local reference clock."""
    state: str
    """``*`` selected, ``+`` combined, ``-`` not used, ``x`` false, ``~`` too variable, ``?``."""
    name: str
    stratum: int
    reach: int
    """Bits of the last eight polls that were answered; 0: none was."""
    offset_seconds: float


def parse(text: str) -> tuple[TimeSource, ...]:
    """The lines of ``chronyc -c -N sources``."""
    found = []
    for line in clean(text).splitlines():
        fields = line.split(",")
        if not line.strip():
            continue
        if len(fields) < 10 or len(fields[0]) != 1 or not re.fullmatch("[0-7]{1,3}", fields[5]):
            raise NotUnderstoodError(f"'{excerpt(line)}' is not a source of chronyc.")
        found.append(
            TimeSource(
                fields[0],
                fields[1],
                fields[2],
                int(number(fields[3])),
                int(fields[5], 8),
                number(fields[7]),
            )
        )
    return tuple(found)


_CHRONYC = command("chronyc", "-c", "-N", "-m", "sources", "tracking")
"""One call: a line for each source, then the one of tracking."""


def _lines_of_chronyc(seen: Observation) -> tuple[str, str] | None:
    """What it said of the sources, and of tracking; None where there is no chronyc."""
    if not seen.exists(_CHRONYC):
        return None
    lines = clean(seen.text(_CHRONYC)).splitlines()
    return "\n".join(lines[:-1]), lines[-1] if lines else ""


def _parse_sources(seen: Observation, _: Baseline) -> tuple[TimeSource, ...] | None:
    found = _lines_of_chronyc(seen)
    if found is None:
        return None
    parse_tracking(found[1])  # so that the last line is not a source's
    return parse(found[0])


SOURCES: Source[tuple[TimeSource, ...] | None] = Source(
    "sources of chrony", lambda _: (_CHRONYC,), _parse_sources
)
"""None where there is no chronyc."""


class Tracking(Struct, frozen=True):
    """``chronyc tracking``."""

    reference: str
    stratum: int
    offset_seconds: float
    """Of the system clock; positive when it is behind."""
    leap: str
    """``Normal``, ``Insert second``, ``Delete second`` or ``Not synchronised``."""


def parse_tracking(text: str) -> Tracking:
    """The one line of ``chronyc -c tracking``."""
    fields = clean(text).strip().split(",")
    if len(fields) != 14:
        raise NotUnderstoodError(f"'{excerpt(text)}' is not what 'chronyc -c tracking' prints.")
    return Tracking(fields[1], int(number(fields[2])), number(fields[4]), fields[13])


def _parse_tracking(seen: Observation, _: Baseline) -> Tracking | None:
    found = _lines_of_chronyc(seen)
    return parse_tracking(found[1]) if found else None


TRACKING: Source[Tracking | None] = Source(
    "tracking of chrony", lambda _: (_CHRONYC,), _parse_tracking
)
"""None where there is no chronyc."""

_UNIT_READ = units(
    *UNITS,
    *RIVALS,
    properties=("ActiveState", "UnitFileState", "NeedDaemonReload", "ActiveEnterTimestamp"),
)
TIME_UNITS: Source[Mapping[str, Properties]] = Source(
    "time services", lambda _: (_UNIT_READ,), lambda seen, _: shown_units(seen, _UNIT_READ)[1]
)


def chrony_unit(units: Mapping[str, Properties]) -> Properties | None:
    """The unit of chronyd, whatever the distribution calls it; None where it is not installed."""
    for name in UNITS:
        if name in units and property_of(units[name], "LoadState") != "not-found":
            return units[name]
    return None


def _parse_command_lines(seen: Observation, _: Baseline) -> tuple[tuple[str, ...], ...]:
    results = [result for result in seen.each(COMMAND_LINES) if result.ok]
    if not results:
        raise NoEvidenceError("The node's processes could not be listed.")
    lines = [tuple(result.text.rstrip("\0").split("\0")) for result in results]
    return tuple(words for words in lines if words[0].rpartition("/")[2] == "chronyd")


DAEMONS: Source[tuple[tuple[str, ...], ...]] = Source(
    "running chronyd", lambda _: (COMMAND_LINES,), _parse_command_lines
)
"""The command line of each process of chronyd; Debian's has two alike."""

_WRITTEN = one_find(
    *("/etc/chrony.conf", "/etc/chrony.d", "/etc/chrony"),
    *("/etc/default/chrony", "/etc/sysconfig/chronyd"),
    names=("*.conf", "chrony", "chronyd"),
)


def parse_written(text: str) -> Mapping[str, float]:
    """When each file was last written, seconds since 1970, by path."""
    found = {}
    for line in clean(text).splitlines():
        seconds, _, path = line.partition(" ")
        found[path] = number(seconds)
    return found


# find ends with 1 because each distribution has only some of the places.
WRITTEN: Source[Mapping[str, float]] = Source(
    "times of chrony's files",
    lambda _: (_WRITTEN,),
    lambda seen, _: parse_written(seen.text(_WRITTEN, codes=(0, 1))),
)


def _options_reads(_: Baseline) -> tuple[Read, ...]:
    return OPTIONS_FILES


def _parse_options(seen: Observation, _: Baseline) -> Result | None:
    for read in OPTIONS_FILES:
        if seen.exists(read):
            complete_text(read, seen.one(read))
            return seen.one(read)
    return None


OPTIONS: Source[Result | None] = Source("options of chronyd", _options_reads, _parse_options)
