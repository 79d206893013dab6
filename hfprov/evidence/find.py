"""When files were written: one ``find`` for all who ask.

Each source names its own places; the reads of a host are merged before they are sent, because to
start a process takes a node longer than to look at some files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from msgspec import structs

from hfprov.evidence.text import clean
from hfprov.reading import Read, Result, command


@dataclass(frozen=True, slots=True)
class FindAll(Read):
    """Time, size and path of all files at all places that anybody asks for."""

    places: frozenset[str] = field(default=frozenset(), compare=False)
    shallow: frozenset[str] = field(default=frozenset(), compare=False)
    """Folders of which only what lies in them is asked for."""

    def merged(self, other: Read) -> Read:
        if not isinstance(other, FindAll):
            raise TypeError(f"'{other}' does not ask for files.")
        return _find(self.places | other.places, self.shallow | other.shallow)


def _find(places: frozenset[str], shallow: frozenset[str]) -> FindAll:
    passed = [word for one in sorted(shallow) for word in ("-path", f"{one}/*/*", "-prune", "-o")]
    # Links are followed: what counts is when the file was written that a program reads.
    wanted = (*passed, "-type", "f", "-printf", r"%T@ %s %p\n")
    read = command("find", "-L", *sorted(places), *wanted)
    return FindAll("times of files", read.request, places, shallow)


@dataclass(frozen=True, slots=True)
class OwnFind(Read):
    """A ``find`` of one source's own, sent within the one for all. Made by :func:`one_find`.

    Evidence that has its answer by itself is read as well.
    """

    places: tuple[str, ...] = field(default=(), compare=False)
    names: tuple[str, ...] = field(default=(), compare=False)
    with_size: bool = field(default=False, compare=False)
    shallow: bool = field(default=False, compare=False)

    def sent_as(self) -> Read:
        places = frozenset(self.places)
        return _find(places, places if self.shallow else frozenset())

    def answered_by(self, results: Mapping[str, tuple[Result, ...]]) -> tuple[Result, ...] | None:
        found = results.get(self.sent_as().id)
        if found is None or len(found) != 1 or found[0].code not in {0, 1} or found[0].truncated:
            return found
        (result,) = found
        rows = [line.split(" ", 2) for line in clean(result.text).splitlines()]
        lines = [
            " ".join(row if self.with_size else row[::2]) + "\n"
            for row in rows
            if len(row) != len(("time", "size", "path")) or self._is_wanted(row[2])
        ]
        # The places of others may be missing; that says nothing of this one's.
        is_missing = any(f"'{place}'" in result.stderr for place in self.places)
        return (structs.replace(result, text="".join(lines), code=int(is_missing)),)

    def _is_wanted(self, path: str) -> bool:
        name = path.rpartition("/")[2]
        return any(path == one or path.startswith(f"{one}/") for one in self.places) and (
            not self.names or any(fnmatchcase(name, one) for one in self.names)
        )


def one_find(
    *places: str, names: tuple[str, ...] = (), with_size: bool = False, shallow: bool = False
) -> OwnFind:
    """Lines ``TIME PATH``, or ``TIME SIZE PATH``, of files at some places, as ``find`` prints them.

    ``names`` are patterns, one of which a file's name must match. With ``shallow``, what lies in
    folders of these places is left out; nobody else may ask for it. The code is 1 where one of
    the places is not there. TIME is in seconds since 1970, SIZE in bytes.
    """
    either = [word for name in names for word in ("-o", "-name", name)][1:]
    form = r"%T@ %s %p\n" if with_size else r"%T@ %p\n"
    options = ("-type", "f", *(("(", *either, ")") if either else ()), "-printf", form)
    begin = ("-L", *places, "-maxdepth", "1") if shallow else places
    read = command("find", *begin, *options)
    return OwnFind(read.id, read.request, places, names, with_size, shallow)
