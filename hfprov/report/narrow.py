"""What is wider than a terminal: lines and cells are broken between words, never inside a name.

Names of hosts, checks and files are copied from a terminal into the next command. A word that is
longer than a line is left to the terminal, which does not put a line break into it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

_HEAD = re.compile(r" *(?:\d+\. )?(?:\S.{0,13}? {2,})?")
"""What lines go on below: the indentation of the first, a number, words before a wide gap."""
_WORD = re.compile(r"\S+\s*")
_GAP = 2
"""Blanks between columns."""


class Lines(Console):
    """Prints each line of words so that what does not fit goes on below its beginning."""

    def print(self, *objects: Any, **how: Any) -> None:
        """As Rich's; Text is broken between words, and only on a terminal."""
        if self.soft_wrap or not all(isinstance(one, Text) for one in objects):
            super().print(*objects, **how)
            return
        for line in wrapped(self, Text(" ").join(objects)):
            super().print(line, soft_wrap=True)


def wrapped(out: Console, text: Text) -> list[Text]:
    """The lines of a text on a terminal. Only words that are longer than a line stick out."""
    lines = []
    for line in text.split("\n", allow_blank=True):
        if line.cell_len <= out.width:
            lines.append(line)
            continue
        head = _HEAD.match(line.plain)
        start = min(len(head.group()) if head else 0, out.width // 3)
        # Rather less indentation than a word that sticks out.
        below = " " * max(0, min(start or _GAP, out.width - _longest_word(line)))
        first, *rest = line.divide(_breaks(line.plain, start, out.width, len(below)))
        lines += [first, *(Text(below) + part for part in rest)]
        for one in lines:
            one.rstrip()
    return lines


def _breaks(line: str, start: int, width: int, below: int) -> list[int]:
    """Where a line is broken: at beginnings of words, none of them before ``start``."""
    breaks = []
    used = start
    for word in _WORD.finditer(line, start):
        if used + cell_len(word.group().rstrip()) > width and used > below:
            breaks.append(word.start())
            used = below
        used += cell_len(word.group())
    return breaks


def column_widths(columns: Sequence[Sequence[Text]], room: int) -> list[int] | None:
    """Widths of columns of cells that together take ``room``; None: some word would be broken.

    Each column gets its longest word at least; what is left goes to the columns that need least.
    """
    least = [max(map(_longest_word, cells)) for cells in columns]
    widest = [max(cell.cell_len for cell in cells) for cells in columns]
    left = room - sum(least) - _GAP * (len(columns) - 1)
    if left < 0:
        return None
    widths = list(least)
    order = sorted(range(len(columns)), key=lambda index: widest[index] - least[index])
    for place, index in enumerate(order):
        grown = min(widest[index] - least[index], left // (len(order) - place))
        widths[index] += grown
        left -= grown
    return widths


def _longest_word(cell: Text) -> int:
    return max(map(cell_len, cell.plain.split()), default=0)


def stacked(columns: Sequence[str], row: Sequence[Text]) -> list[Text]:
    """A row that fits no terminal: its first cell, and below it each other that is not empty."""
    lines = [row[0]]
    names = max(map(len, columns[1:]), default=0)
    for name, cell in zip(columns[1:], row[1:], strict=True):
        if cell.plain:
            lines.append(Text(f"  {name:<{names}}  ") + cell)
    return lines
