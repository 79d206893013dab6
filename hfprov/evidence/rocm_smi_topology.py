"""The matrices of ``rocm-smi --showtopo``: weight, hops and type of the links between GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from hfprov.evidence.fields import integer, not_understood
from hfprov.regex import regex

TOOL = "rocm-smi"
_TITLE = regex(r"=+ (Weight|Hops|Link Type) between two GPUs =+")
_NODE = regex(r"GPU([0-9]{1,4})")
_FIELDS = {"Weight": "weight", "Hops": "hops", "Link Type": "type"}
_NOT_SAID = frozenset({"XXXX", "N/A"})


class Link(Struct, frozen=True):
    """Topology between two cards by DRM index. None: not reported."""

    first: int
    second: int
    type: str | None = None
    hops: int | None = None
    weight: int | None = None


def matrix_links(text: str) -> tuple[Link, ...]:
    """One link for each pair of GPUs in the matrices; none when there is no matrix.

    Raises NotUnderstoodError for a row that does not fit its header, and for a matrix that lacks
    rows: half of it is cut off.
    """
    found: dict[tuple[int, int], dict[str, str]] = {}
    for title, rows in _matrices(text.split("\n")):
        for first, second, cell in rows:
            if first < second and cell not in _NOT_SAID:
                found.setdefault((first, second), {})[_FIELDS[title]] = cell
    return tuple(
        Link(
            first,
            second,
            type=values.get("type"),
            hops=integer(values["hops"]) if "hops" in values else None,
            weight=integer(values["weight"]) if "weight" in values else None,
        )
        for (first, second), values in sorted(found.items())
    )


def _matrices(lines: list[str]) -> Iterator[tuple[str, list[tuple[int, int, str]]]]:
    title, columns, cells = "", list[int](), list[tuple[int, int, str]]()
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if match := _TITLE.fullmatch(line.strip()):
            title, columns, cells = match.group(1), [], []
        elif not title or not words or not _NODE.fullmatch(words[0]):
            continue
        elif not columns:
            columns = _numbers(words)
            if len(columns) != len(words):
                raise not_understood(TOOL, number, line, "names of GPUs")
        else:
            row = _numbers(words[:1])[0]
            if len(words) != len(columns) + 1 or row != columns[len(cells) // len(columns)]:
                raise not_understood(TOOL, number, line, f"a row of {len(columns)} cells")
            cells += [(row, column, cell) for column, cell in zip(columns, words[1:], strict=True)]
            if len(cells) == len(columns) ** 2:
                yield title, cells
                title = ""
    if title and columns:
        raise not_understood(TOOL, len(lines), lines[-1], f"{len(columns)} rows of the matrix")


def _numbers(words: list[str]) -> list[int]:
    return [int(match.group(1)) for word in words if (match := _NODE.fullmatch(word))]
