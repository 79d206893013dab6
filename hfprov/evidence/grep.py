"""Lines of a node's files that say something: one ``grep`` for all who look for some.

Each source names its own places and its own pattern; the reads of a host are merged before they are
sent, because to start a grep takes a node longer than to read most of the files. So an answer may
hold lines of other places, which are left out, and of other patterns, which say nothing to a
source that understands its own. A pattern is searched for in the places of all, homes of users too:
it must match no line that may hold a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fnmatch import translate
from functools import lru_cache

from msgspec import Struct

from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.text import clean, excerpt
from hfprov.probe_commands import STDERR_LIMIT
from hfprov.reading import KIB, Observation, Read, command, complete_text
from hfprov.regex import regex

# Patterns of places must be expanded on the node; hence a shell. The answer begins with what was
# asked: evidence that was recorded before somebody looked for more does not say that there is none.
# Grep ends with 1 when it finds nothing, and with 2 when it could not read a file, which it names.
# A file with NUL bytes, as a crash leaves them, is still read by others.
_SCRIPT = """\
printf '%s\\0' "$@" ''
IFS=
pattern=$1
shift
for places; do
  shift
  for place in $places; do
    [ ! -e "$place" ] || set -- "$@" "$place"
  done
done
[ $# != 0 ] || exit 0
exec grep -rHnaZE -D skip -e "$pattern" -- "$@\""""
_COULD_NOT_READ = 2
_CODES = (0, 1, _COULD_NOT_READ)
_COMPLAINT = regex(r"grep: (.+): (.+)")
_GONE = "No such file or directory"
"""It was there a moment before."""


class Line(Struct, frozen=True):
    """One line of a file."""

    path: str
    number: int
    text: str
    """Without what is behind a NUL: that is of a program, or of nothing."""

    @property
    def where(self) -> str:
        return f"{excerpt(self.path, 200)}:{self.number}"


@dataclass(frozen=True, slots=True)
class Grep(Read):
    """Lines that match a pattern, in some places; made by :func:`grep`."""

    patterns: frozenset[str] = field(default=frozenset(), compare=False)
    places: frozenset[str] = field(default=frozenset(), compare=False)

    def merged(self, other: Read) -> Read:
        if not isinstance(other, Grep):
            raise TypeError(f"'{other}' does not look for lines.")
        return _grep(self.patterns | other.patterns, self.places | other.places)


def _grep(patterns: frozenset[str], places: frozenset[str]) -> Grep:
    # Grep takes lines for patterns, any of which may match.
    arguments = "\n".join(sorted(patterns)), *sorted(places)
    read = command("sh", "-c", _SCRIPT, "sh", *arguments, timeout=20, limit=512 * KIB)
    return Grep("lines of files", read.request, patterns, places)


def heading(read: Grep) -> str:
    """What the answer to a read begins with; the script prints it."""
    return "\0".join(("\n".join(sorted(read.patterns)), *sorted(read.places), "", ""))


def grep(pattern: str, *places: str) -> Grep:
    """The read of the lines that match ``pattern`` (an extended regular expression, as of grep).

    A place is the path of a file or of a tree, or a glob. Within a tree no link is followed; what a
    glob matches is read, links too. What is not there has no lines. See :func:`lines`.
    """
    return _grep(frozenset({pattern}), frozenset(places))


def lines(seen: Observation, read: Grep) -> Iterator[Line]:
    """The lines in the places of ``read``, each once.

    Raises NoEvidenceError when a file there could not be read, or nobody looked there for its
    pattern; and NotUnderstoodError. A file that cannot be read in another's places (a home that is
    denied to root, say) takes nothing away.
    """
    is_ours = _Within(read.places)
    answer = seen.one(read)
    asked, end, text = complete_text(read, answer, codes=_CODES).partition("\0\0")
    patterns, *places = asked.split("\0")
    if not (end and read.places.issubset(places) and read.patterns.issubset(patterns.split("\n"))):
        raise NoEvidenceError("When this was observed, nobody looked for these lines.")
    if answer.code == _COULD_NOT_READ:
        _require_all_read(answer.stderr, is_ours)
    told: set[tuple[str, int]] = set()
    for line in parse(text):
        if is_ours[line.path] and (line.path, line.number) not in told:
            told.add((line.path, line.number))
            yield line


def _require_all_read(stderr: str, is_ours: _Within) -> None:
    said = stderr.splitlines()
    if not said or len(stderr.encode()) >= STDERR_LIMIT:
        raise NoEvidenceError("Not all files could be searched, and grep did not name them all.")
    for line in said:
        named = _COMPLAINT.fullmatch(line)
        if named is None:
            raise NoEvidenceError(f"Not all files could be searched: {excerpt(line, 200)}")
        path, reason = named.groups()
        if reason != _GONE and is_ours[path]:
            raise NoEvidenceError(f"'{excerpt(path, 200)}' could not be read: {excerpt(reason)}.")


class _Within(dict[str, bool]):
    """Whether a path is one of some places, or below one."""

    def __init__(self, places: frozenset[str]) -> None:
        super().__init__()
        self._places = _fitting(places)

    def __missing__(self, path: str) -> bool:
        parts = path.split("/")
        found = any(
            len(parts) >= len(place)
            and all(fits(one) for fits, one in zip(place, parts, strict=False))
            for place in self._places
        )
        return self.setdefault(path, found)


@lru_cache(maxsize=64)
def _fitting(places: frozenset[str]) -> list[list[Callable[[str], object]]]:
    """What each part of a path must fit; part by part, as a star ends at a slash in the shell."""
    return [
        [re.compile(translate(one)).match if set(one) & set("*?[") else one.__eq__ for one in parts]
        for parts in (place.split("/") for place in places)
    ]


_LINE = regex(r"([^\0]+)\0([0-9]{1,9}):(.*)\n?")
"""A path may hold line ends, which somebody may have thought of; none holds a NUL."""


@lru_cache(maxsize=4)
def parse(text: str) -> tuple[Line, ...]:
    """Lines of ``grep -HnZ``: path, NUL, number, colon, text. Raises NotUnderstoodError.

    Kept, because several sources ask for some of them.
    """
    return tuple(_lines(text))


def _lines(text: str) -> Iterator[Line]:
    at = 0
    while at < len(text):
        found = _LINE.match(text, at)
        if found is None:
            said = excerpt(text[at : at + 200].partition("\n")[0])
            raise NotUnderstoodError(f"'{said}' is not a line of grep.")
        path, number, line = found.groups()
        yield Line(path, int(number), clean(line.partition("\0")[0]))
        at = found.end()
