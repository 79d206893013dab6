"""AMD TransferBench: the matrices of its presets (``p2p``, ``a2a``) and single transfers.

Read as text or CSV (``OUTPUT_TO_CSV=1``), versions 1.2x to 1.6x. Bandwidths are GB/s (1e9 bytes
per second). A matrix with fewer rows than columns was cut off and is refused.

Source: ROCm/TransferBench ``src/TransferBench.cpp``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct, field

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.failures import FailureKind, ToolFailure, failure_table, find_failure
from hfprov.evidence.fields import not_understood, numbered_lines
from hfprov.evidence.text import clean, excerpt, number
from hfprov.regex import regex

TOOL = "transferbench"


class Cell(Struct, frozen=True):
    """Bandwidth between two devices (``GPU 00``). ``way``: ``->``, ``<-``, ``<->`` or empty."""

    source: str
    target: str
    way: str
    gbs: float | None
    """None where the tool prints ``N/A``."""


class Matrix(Struct, frozen=True):
    title: str
    bidirectional: bool
    cells: tuple[Cell, ...]
    averages: Mapping[str, float]
    """``CPU->GPU`` and the like; empty when the run ended before it printed them."""


class Transfer(Struct, frozen=True):
    index: int
    gbs: float
    duration_ms: float
    bytes: int
    path: str
    """Source -> executor:subexecutors -> destination."""


class Executor(Struct, frozen=True):
    name: str
    gbs: float
    duration_ms: float
    bytes: int
    transfers: tuple[Transfer, ...]


class TransferBench(Struct, frozen=True):
    version: str | None
    bytes_per_direction: int | None
    matrices: tuple[Matrix, ...]
    executors: tuple[Executor, ...]
    aggregate_gbs: tuple[float, ...]
    """One per test; a test without it did not end."""
    errors: tuple[str, ...]
    complete: bool
    """No error, and every matrix or test has its last line."""


_FAILURES = failure_table(
    {
        FailureKind.NO_DEVICES: ("no (?:ROCm|HIP)-capable device", "requires at least [0-9]+ GPUs"),
        FailureKind.OTHER: (r"\[?ERROR\b", "Encountered HIP error"),
    }
)
_VERSION = regex(r"^TransferBench v(\S+)", re.MULTILINE)
_BYTES = regex(r"^Bytes Per Direction,? ?([0-9]{1,18})", re.MULTILINE)
_DEVICE = r"(?:CPU|GPU|NIC) ?[0-9]{1,4}"
_HEADER = regex(r"[ │|]*SRC(?:\+EXE)?\\DST[ ,│|]+(?P<columns>.*)$")
_COLUMN = regex(rf"{_DEVICE}|[A-Za-z]+")
_ROW = regex(rf"[ │|]*(?P<device>{_DEVICE})[ ,│|]*(?P<way>->|<->|<-)?[ ,│|]+(?P<cells>[-0-9N].*)$")
_GAP = regex(r"[ ,│|]+")
_AVERAGES = regex(r"[ │|,]*Averages \(During +\S+\):[ ,│|]*(?P<cells>.*)$")
_PAIR = regex(r"(?:CPU|GPU)->(?:CPU|GPU)")
_SEPARATED = r" *[|,│] *"
_NUMBERS = (
    rf"(?P<gbs>[0-9.]{{1,20}}) GB/s{_SEPARATED}(?P<ms>[0-9.]{{1,20}}) ms{_SEPARATED}"
    r"(?P<bytes>[0-9]{1,18}) bytes"
)
_EXECUTOR = regex(rf" *Executor: *(?P<name>[A-Z]+ [0-9]+){_SEPARATED}{_NUMBERS}")
_TRANSFER = regex(
    rf" *Transfer (?P<index>[0-9]{{1,9}}){_SEPARATED}{_NUMBERS}{_SEPARATED}(?P<path>.*)$"
)
_AGGREGATE = regex(rf" *Aggregate \((?:CPU|Bandwidth)\){_SEPARATED}(?P<gbs>[0-9.]{{1,20}}) GB/s")
_TEST = regex(r"Test [0-9]+:$")
_ERROR = regex(r"\[?(?:ERROR|FATAL)\b")


class _Open(Struct):
    title: str
    columns: list[str]
    cells: list[Cell] = field(default_factory=list)
    rows: int = 0
    averages: dict[str, float] = field(default_factory=dict)

    def closed(self) -> Matrix:
        devices = [name for name in self.columns if name[-1].isdigit()]
        ways = 3 if any(cell.way == "<->" for cell in self.cells) else 1
        sources = {cell.source for cell in self.cells}
        if len(sources) != len(devices) or self.rows != ways * len(devices):
            raise NotUnderstoodError(
                f"The matrix '{excerpt(self.title)}' of '{TOOL}' has {self.rows} rows for "
                f"{len(devices)} devices: it is cut off."
            )
        return Matrix(self.title, "idirectional" in self.title and ways == 3,
                      tuple(self.cells), self.averages)  # fmt: skip


class _Log(Struct):
    matrices: list[_Open] = field(default_factory=list)
    executors: list[tuple[re.Match[str], list[Transfer]]] = field(default_factory=list)
    aggregates: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    tests: int = 0
    title: str = ""
    pairs: list[str] = field(default_factory=list)

    def line(self, at: int, line: str) -> None:
        if header := _HEADER.match(line):
            self.matrices.append(_Open(self.title.strip(), _COLUMN.findall(header["columns"])))
        elif self.matrices and (row := _ROW.match(line)):
            self.row(at, line, row)
        elif averages := _AVERAGES.match(line):
            self.average(at, line, averages)
        elif _ERROR.match(line.strip()):
            self.errors.append(excerpt(line, 300))
        elif executor := _EXECUTOR.match(line):
            self.executors.append((executor, []))
        elif transfer := _TRANSFER.match(line):
            self.transfer(at, line, transfer)
        elif aggregate := _AGGREGATE.match(line):
            self.aggregates.append(_value(at, line, aggregate["gbs"]))
        else:
            self.tests += 1 if _TEST.match(line.strip()) else 0
            self.pairs = _PAIR.findall(line) or self.pairs
            self.title = line if line.strip() else self.title

    def row(self, at: int, line: str, row: re.Match[str]) -> None:
        matrix = self.matrices[-1]
        cells = _cells(at, line, row["cells"])
        if len(cells) != len(matrix.columns):
            raise not_understood(TOOL, at, line, f"{len(matrix.columns)} values as in the header")
        matrix.rows += 1
        for target, cell in zip(matrix.columns, cells, strict=True):
            if target[-1].isdigit():
                matrix.cells.append(Cell(row["device"], target, row["way"] or "", cell))

    def average(self, at: int, line: str, match: re.Match[str]) -> None:
        cells = _cells(at, line, match["cells"])
        if not self.matrices or len(cells) != len(self.pairs):
            raise not_understood(TOOL, at, line, "averages under their heading")
        pairs = zip(self.pairs, cells, strict=True)
        self.matrices[-1].averages.update({pair: cell for pair, cell in pairs if cell is not None})

    def transfer(self, at: int, line: str, match: re.Match[str]) -> None:
        if not self.executors:
            raise not_understood(TOOL, at, line, "an executor before its transfers")
        self.executors[-1][1].append(
            Transfer(
                int(match["index"]),
                _value(at, line, match["gbs"]),
                _value(at, line, match["ms"]),
                int(match["bytes"]),
                match["path"].strip(),
            )
        )


def _cells(at: int, line: str, text: str) -> list[float | None]:
    """Values of a row, separated by spaces, commas or bars; None for ``N/A``."""
    cells = _GAP.split(text.strip(" ,│|"))
    return [None if cell == "N/A" else _value(at, line, cell) for cell in cells if cell]


def _value(at: int, line: str, text: str) -> float:
    try:
        return number(text)
    except NotUnderstoodError:
        raise not_understood(TOOL, at, line, "a number") from None


def parse(text: str) -> TransferBench | ToolFailure:
    """Facts of one run. Raises NotUnderstoodError when a matrix is cut off or nothing is there."""
    text = clean(text)
    log = _Log()
    for at, line in numbered_lines(text, TOOL):
        log.line(at, line)
    if not log.matrices and not log.executors:
        failure = find_failure(text, _FAILURES)
        if failure is not None:
            return failure
        raise NotUnderstoodError(
            f"The output of '{TOOL}' has no result; it begins '{excerpt(text)}'."
        )
    matrices = tuple(matrix.closed() for matrix in log.matrices)
    executors = tuple(_executor(match, transfers) for match, transfers in log.executors)
    size = _BYTES.search(text)
    version = _VERSION.search(text)
    averaged = all(each.averages for each in matrices if any(cell.way for cell in each.cells))
    ended = bool(log.aggregates) and len(log.aggregates) >= log.tests if executors else True
    return TransferBench(
        version=version[1] if version else None,
        bytes_per_direction=int(size[1]) if size else None,
        matrices=matrices,
        executors=executors,
        aggregate_gbs=tuple(log.aggregates),
        errors=tuple(log.errors),
        complete=averaged and ended and not log.errors,
    )


def _executor(match: re.Match[str], transfers: list[Transfer]) -> Executor:
    return Executor(
        match["name"],
        number(match["gbs"]),
        number(match["ms"]),
        int(match["bytes"]),
        tuple(transfers),
    )
