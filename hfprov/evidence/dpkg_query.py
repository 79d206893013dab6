"""What dpkg says of packages: one ``dpkg-query`` for all who ask.

Its database is read as a whole each time, whatever is asked for. So sources ask for their own
packages and fields, and one query that covers them all is sent; each is answered from that as dpkg
would have answered it alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import translate
from functools import lru_cache

from msgspec import structs

from hfprov.evidence.text import clean
from hfprov.reading import Read, Result, command

_FIELDS = (
    "Package",
    "Version",
    "Architecture",
    "db:Status-Abbrev",
    "db:Status-Status",
    "Depends",
)
_ROW = "\\t".join(f"${{{name}}}" for name in _FIELDS) + "\\n"
_LIMIT = 1 << 20


@dataclass(frozen=True, slots=True)
class DpkgQuery(Read):
    """All fields of all packages that anybody asks for."""

    patterns: frozenset[str] = field(default=frozenset(), compare=False)

    def merged(self, other: Read) -> Read:
        if not isinstance(other, DpkgQuery):
            raise TypeError(f"'{other}' does not ask dpkg.")
        return _query(self.patterns | other.patterns)


def _query(patterns: frozenset[str]) -> DpkgQuery:
    argv = ("dpkg-query", "--show", f"--showformat={_ROW}", "--", *sorted(patterns))
    return DpkgQuery("packages of dpkg", command(*argv, limit=_LIMIT).request, patterns)


@dataclass(frozen=True, slots=True)
class OwnQuery(Read):
    """A query of one source's own, sent within the one for all; see :func:`one_query`.

    Evidence that has its answer by itself is read as well.
    """

    form: str = field(default="", compare=False)
    patterns: tuple[str, ...] = field(default=(), compare=False)
    takes_all: bool = field(default=False, compare=False)
    """Whether the packages that only others ask for are part of the answer."""

    def sent_as(self) -> Read:
        return _query(frozenset(self.patterns))

    def answered_by(self, results: Mapping[str, tuple[Result, ...]]) -> tuple[Result, ...] | None:
        sent = self.sent_as()
        found = results.get(sent.id)
        if found is None or len(found) != 1:
            return found
        (result,) = found
        if not result.ok or result.truncated:
            return found
        rows = _rows(result.text)
        if rows is None:
            return (
                structs.replace(result, status="error", text="", stderr="dpkg-query: unknown form"),
            )
        asks_for = _names(self.patterns).match
        wanted = [row for row in rows if self.takes_all or asks_for(row[0])]
        return (structs.replace(result, text="".join(self._shown(row) for row in wanted)),)

    def _shown(self, row: tuple[str, ...]) -> str:
        values = dict(zip(_FIELDS, row, strict=True))
        plain = self.form.replace("\\t", "\t").replace("\\n", "\n")
        return re.sub(r"\$\{([^}]+)\}", lambda match: values[match[1]], plain)


@lru_cache(maxsize=64)
def _names(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """What any of some shell patterns matches, as one expression: hosts have hundreds of rows."""
    return re.compile("|".join(map(translate, patterns)) or "(?!)")


@lru_cache(maxsize=4)
def _rows(text: str) -> tuple[tuple[str, ...], ...] | None:
    rows = tuple(tuple(line.split("\t")) for line in clean(text).split("\n") if line)
    return rows if all(len(row) == len(_FIELDS) for row in rows) else None


def one_query(read: Read) -> OwnQuery:
    """A read of ``dpkg-query --show --showformat=… PATTERN…`` that needs no process of its own.

    Its format may name the fields above. dpkg ends with 1 when a pattern matches nothing, were it
    that of another source: that code says nothing of yours.
    """
    words = [str(word) for word in read.request["argv"]]
    (form,) = (word for word in words if word.startswith("--showformat="))
    patterns = (word for word in words[1:] if not word.startswith("-"))
    return OwnQuery(read.id, read.request, form.partition("=")[2], tuple(patterns))


def at_hand(form: str, *patterns: str) -> OwnQuery:
    """A read of these packages and of every one that anybody else asks for, in this format."""
    own = one_query(command("dpkg-query", "--show", f"--showformat={form}", "--", *patterns))
    return replace(own, id=f"{own.id} and the others'", takes_all=True)
