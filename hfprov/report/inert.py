r"""Text of nodes and users, made harmless for people's eyes before a format escapes it.

Escaping (HTML, XML, CSV …) protects the reader's program. This protects the reader: control and
escape sequences are removed, and characters that are not seen or that turn the direction of
writing around are shown as what they are, e.g. ``\u202e``. (Trojan Source, CVE-2021-42574.)
"""

from __future__ import annotations

import unicodedata

from hfprov.evidence.text import clean
from hfprov.words import plural

LIMIT = 400
"""Characters of one text that a report shows. The record keeps more."""

_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_BLANK = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5")
"""Letters by their category that are drawn as nothing."""
_MOST_MARKS = 4
"""Accents on one letter; more are piled up to write over other lines."""


def one_line(text: object, limit: int = LIMIT) -> str:
    """A text in one line of at most ``limit`` visible characters, with no character that hides."""
    raw = str(text)
    line = " ".join(_visible(clean(raw[: 4 * limit])).split())
    if len(line) > limit:
        return line[: limit - 1] + "…"
    return f"{line}…" if len(raw) > 4 * limit else line


def lines(text: object, *, most: int, limit: int = LIMIT) -> list[str]:
    """The first ``most`` lines of a text, indentation kept; a last line tells how many are left."""
    raw = clean(str(text)[: 4 * limit * most])
    found = [line.expandtabs(4).rstrip() for line in raw.strip("\n").split("\n")]
    shown = [
        visible if len(visible) <= limit else visible[: limit - 1] + "…"
        for visible in (_visible(line[: 4 * limit]) for line in found[:most])
    ]
    if len(found) > most:
        shown.append(f"… and {plural(len(found) - most, 'more line')}")
    return shown


def _visible(text: str) -> str:
    if text.isascii():
        return text
    shown: list[str] = []
    marks = 0
    for char in text:
        category = unicodedata.category(char)
        marks = marks + 1 if category in {"Mn", "Me"} else 0
        hides = category in _INVISIBLE and char not in "\n\t"
        if hides or char in _BLANK or marks > _MOST_MARKS:
            shown.append(char.encode("unicode_escape").decode())
        else:
            shown.append(char)
    return "".join(shown)
