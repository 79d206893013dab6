"""Which modules of PAM a login goes through: a service's file with all that it includes.

pam.conf(5): ``@include`` takes all lines of a file, ``include`` and ``substack`` those of the same
type. A service without a file is judged by that of ``other``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from hfprov.errors import NoEvidenceError
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import Observation, Read, Source, complete_text, glob
from hfprov.regex import regex

_FOLDERS = ("/etc/pam.d", "/usr/lib/pam.d")
"""Highest first: a file hides one of the same name in a later folder."""
_NAMES = ("sshd", "login", "other", "common-*", "system-*", "password-auth*", "postlogin*")
"""Services that are judged, and what distributions have them include."""
_READS: tuple[Read, ...] = tuple(
    glob(f"{folder}/{name}", limit=32 * 1024) for folder in _FOLDERS for name in _NAMES
)
_LINE = regex(
    r"-?(?P<type>[A-Za-z]+)\s+(?P<control>\[[^\]]*\]|\S+)\s+(?P<module>\S+)\s*(?P<arguments>.*)"
)
_ALL_TYPES = regex(r"@include\s+(\S+)")


class PamRule(Struct, frozen=True):
    """One line that names a module."""

    type: str
    """``session``, ``auth`` …"""
    module: str
    """Without a folder: ``pam_limits.so``."""
    arguments: tuple[str, ...]
    path: str
    line: int
    control: str = ""
    """In small letters: ``required``, ``[success=1 default=ignore]`` …"""

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"


PamFiles = Mapping[str, tuple[str, str]]
"""Path and text, by the name of the file."""


def _files(seen: Observation) -> PamFiles:
    found: dict[str, tuple[str, str]] = {}
    for read in _READS:
        for result in seen.each(read):
            if result.status != "absent":
                name = result.name.rpartition("/")[2]
                found.setdefault(name, (result.name, complete_text(read, result)))
    return found


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Logical lines without comments, with the number of the first."""
    pending, first = "", 0
    for number, raw in enumerate(clean(text).splitlines(), start=1):
        line = raw.partition("#")[0].strip()
        first = first or number
        if line.endswith("\\"):
            pending += line[:-1] + " "
            continue
        if whole := (pending + line).strip():
            yield first, whole
        pending, first = "", 0


def rules(files: PamFiles, service: str, only: str = "") -> Iterator[PamRule]:
    """The lines that a service goes through, in order; with ``only``, those of one type.

    What is included once more is not told again. Raises NoEvidenceError for a file that is
    included and was not read.
    """
    return _rules(files, service, only, set())


def _rules(
    files: PamFiles, service: str, only: str, told: set[tuple[str, str]]
) -> Iterator[PamRule]:
    name = service.rpartition("/")[2]
    if name not in files:
        raise NoEvidenceError(f"'{excerpt(service)}' of PAM is included, and is not read here.")
    if (name, only) in told:
        return
    told.add((name, only))
    path, text = files[name]
    for number, line in _lines(text):
        if included := _ALL_TYPES.fullmatch(line):
            yield from _rules(files, included[1], only, told)
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            continue
        kind = found["type"].lower()
        if only and kind != only:
            continue
        if found["control"].lower() in ("include", "substack"):
            yield from _rules(files, found["module"], kind, told)
        else:
            yield _rule(found, path, number)


Step = PamRule | tuple["Step", ...]
"""A line with a module, or all of a substack, which counts as one."""


def steps(files: PamFiles, service: str, kind: str, *, most: int) -> tuple[Step, ...]:
    """All lines of one type in the order in which a login comes to them, also those told before.

    Raises NoEvidenceError for a file that was not read, and where more than ``most`` files are
    included: those that include each other never end.
    """
    left = [most]
    return tuple(_steps(files, service, kind, left))


def _steps(files: PamFiles, service: str, kind: str, left: list[int]) -> Iterator[Step]:
    name = service.rpartition("/")[2]
    left[0] -= 1
    if name not in files or left[0] < 0:
        why = "is not read here" if name not in files else "does not end"
        raise NoEvidenceError(f"'{excerpt(service)}' of PAM is included, and {why}.")
    path, text = files[name]
    for number, line in _lines(text):
        if included := _ALL_TYPES.fullmatch(line):
            yield from _steps(files, included[1], kind, left)
            continue
        found = _LINE.fullmatch(line)
        if found is None or found["type"].lower() != kind:
            continue
        control = found["control"].lower()
        if control == "include":
            yield from _steps(files, found["module"], kind, left)
        elif control == "substack":
            yield tuple(_steps(files, found["module"], kind, left))
        else:
            yield _rule(found, path, number)


def _rule(found: re.Match[str], path: str, number: int) -> PamRule:
    module, words = found["module"].rpartition("/")[2], tuple(found["arguments"].split())
    return PamRule(found["type"].lower(), module, words, path, number, found["control"].lower())


PAM_FILES: Source[PamFiles] = Source("files of PAM", lambda _: _READS, lambda seen, _: _files(seen))
