"""Rows of the tables of ``sinfo`` and ``squeue`` whose columns are divided by blanks.

One column of such a table may hold blanks itself (a reason, a job's name), and a cell may be empty
(a reservation, the nodes of a partition that has none).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hfprov.evidence.host_values import numbered_lines
from hfprov.regex import regex

_DATED = regex(r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8} [0-9]{4}")
"""``sinfo -l`` and ``squeue -l`` put the date before the header."""


def table_lines(text: str) -> list[tuple[int, str]]:
    """The lines from the header on, with their numbers."""
    lines = [(number, line) for number, line in numbered_lines(text) if line.strip()]
    return lines[1:] if lines and _DATED.fullmatch(lines[0][1].strip()) else lines


def cells(header: str, line: str, loose: str) -> list[str] | None:
    """The cells of a row; ``loose`` is the column that may hold blanks. None: it does not fit."""
    names = header.split()
    words = line.split()
    extra = len(words) - len(names)
    if extra > 0 and loose in names:
        at = names.index(loose)
        words[at : at + extra + 1] = [" ".join(words[at : at + extra + 1])]
    if extra < 0:
        return _placed(header, line)
    return words if len(words) == len(names) else None


def _placed(header: str, line: str) -> list[str] | None:
    """Cells by where they stand: each word must lie under one name, each name over one word."""
    spans = [match.span() for match in re.finditer(r"\S+", header)]
    found: list[str] = [""] * len(spans)
    for word in re.finditer(r"\S+", line):
        under = [at for at, span in enumerate(spans) if _overlap(span, word.span())]
        if len(under) != 1 or found[under[0]]:
            return None
        found[under[0]] = word.group()
    return found


def _overlap(one: Sequence[int], other: Sequence[int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]
