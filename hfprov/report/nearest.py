"""Which names a person may have meant by one that there is not."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

MOST = 4
_ALIKE = 0.75
_TELLING = 3
"""Letters below which being contained in a name says nothing."""


def nearest(wanted: str, names: Iterable[str]) -> list[str]:
    """The names closest to a wrong one, best first, at most four; empty when none is close.

    People leave out parts (``mtu``), take another separator (``mtu-live``), swap parts
    (``live.mtu``), or misspell one. So names are compared part by part; a part that begins with
    what was written, or is contained in it, is close, too.
    """
    asked = _parts(wanted)
    scored = [(_score(asked, _parts(name)), name) for name in names]
    best = max((score for score, _ in scored), default=0.0)
    close = [(score, name) for score, name in scored if score >= _ALIKE and score >= 0.9 * best]
    return [name for _, name in sorted(close, key=lambda one: -one[0])[:MOST]]


def _parts(name: str) -> list[str]:
    return [part for part in re.split(r"[^a-z0-9]+", name.lower()) if part]


def _score(asked: list[str], parts: list[str]) -> float:
    """How well each part asked for is found among the parts of a name, from 0 to 1.

    Among names that have all of them, the one with the fewest other parts is a little better.
    """
    if not asked or not parts:
        return 0.0
    found = [max(_alike(one, part) for part in parts) for one in asked]
    extra = max(0, len(parts) - len(asked))
    return sum(found) / len(found) - 0.01 * extra


def _alike(asked: str, part: str) -> float:
    if asked == part:
        return 1.0
    if len(asked) > 1 and (part.startswith(asked) or asked.startswith(part)):
        return 0.95
    if len(asked) >= _TELLING and asked in part:
        return 0.9
    return difflib.SequenceMatcher(None, asked, part).ratio()
