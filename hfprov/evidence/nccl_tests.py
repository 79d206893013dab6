"""nccl-tests and rccl-tests: the text of any collective, and the JSON of ``-J``.

Lines may carry the prefix of ``mpirun --tag-output`` or ``srun --label``. Lines of other programs
between the rows are passed over, but a line that begins like a row must be one.
"""

from __future__ import annotations

import re

from msgspec import Struct, field

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.failures import ToolFailure, find_failure
from hfprov.evidence.fields import integer, looks_like_json, not_understood, numbered_lines
from hfprov.evidence.nccl_tests_facts import FAILURES, TOOL, Measure, NcclTests, Rank, Row
from hfprov.evidence.nccl_tests_json import from_json
from hfprov.evidence.text import clean, excerpt, number
from hfprov.regex import regex

# mpirun --tag-output, srun --label, and host names as pdsh puts them before each line.
_PREFIX = regex(
    r"(?:\[[^\]\s]{1,80}\]<std(?:out|err|diag)>: ?|\[[0-9]+\]:? | *[0-9]{1,6}: "
    r"|[A-Za-z0-9_.-]{1,64}: (?=#| *[0-9]+ +[0-9]+ +[a-z]))"
)
_RANK = regex(
    r"# +Rank +(?P<rank>[0-9]{1,9})(?: +Group +(?P<group>[0-9]{1,9}))? +Pid +(?P<pid>[0-9]{1,12})"
    r" +on +(?P<host>\S+) +device +(?P<device>[0-9]{1,6}) +\[(?P<bdf>[0-9a-fA-Fx:.]+)\]"
    r" *(?P<name>.*)$"
)
_TABLE = regex(r"# +size +count +type\b(?P<columns>.*)$")
_ROW = regex(r" *[0-9]{1,18} +[0-9]{1,18} +[a-z][a-z0-9_]*(?= )")
_PARAMETERS = regex(r"# nThread\b(?P<pairs>.*)$")
_PAIR = regex(r"((?:warmup |agg )?[A-Za-z]+):? +([0-9]{1,18}(?:\([a-z]+\))?)")
_BOUNDS = regex(r"# Out of bounds values *: *(?P<count>[0-9]{1,18}) *(?P<word>OK|FAILED)?")
_AVERAGE = regex(r"# Avg bus bandwidth *: *(?P<value>\S+) *(?P<word>OK|FAILED)?")
_VERSION = regex(r"(?:NCCL|RCCL) version *:? *([0-9]\S*)")
_COLLECTIVE = regex(r"# Collective test starting: *(\S+)")
_ERROR = regex("|".join(pattern.pattern for _, pattern in FAILURES), re.IGNORECASE)
_INFO = regex(r"\bNCCL (?:INFO|TRACE|VERSION)\b")


class _Log(Struct):
    rows: list[Row] = field(default_factory=list)
    ranks: list[Rank] = field(default_factory=list)
    columns: _Columns | None = None
    headers: int = 0
    averages: list[float] = field(default_factory=list)
    bounds: list[int] = field(default_factory=list)
    failed: bool = False
    parameters: dict[str, str] = field(default_factory=dict)
    versions: dict[str, None] = field(default_factory=dict)
    collective: str | None = None
    errors: list[str] = field(default_factory=list)
    shortened: bool = False


def parse(text: str) -> NcclTests | ToolFailure:
    """Facts of one log. Raises NotUnderstoodError when no result can be read from it."""
    text = clean(text)
    if not text.strip():
        raise NotUnderstoodError(f"The output of '{TOOL}' is empty.")
    if looks_like_json(text) and "#  " not in text:
        return from_json(text)
    log = _Log()
    for at, raw in numbered_lines(text, TOOL):
        line = raw[match.end() :] if (match := _PREFIX.match(raw)) else raw
        if line.startswith("#"):
            _comment(log, at, line)
        elif _ROW.match(line):
            log.rows.append(_row(log, at, line))
        elif line.strip() == "...":
            log.shortened = True
        else:
            _foreign(log, line)
    if not log.rows:
        return _nothing(text, log)
    return _facts(log)


def _nothing(text: str, log: _Log) -> ToolFailure:
    failure = find_failure("\n".join(log.errors) or text, FAILURES)
    if failure is not None:
        return failure
    raise NotUnderstoodError(
        f"The output of '{TOOL}' has no row of results; it begins '{excerpt(text)}'."
    )


def _facts(log: _Log) -> NcclTests:
    one = log.headers == 1 and len(log.averages) == 1
    summarised = bool(log.averages)
    validation = log.parameters.get("validation")
    return NcclTests(
        rows=tuple(log.rows),
        ranks=tuple(log.ranks),
        headers=log.headers,
        summaries=len(log.averages),
        average_busbw_gbs=log.averages[0] if len(log.averages) == 1 else None,
        out_of_bounds=sum(log.bounds) if log.bounds else None,
        ok=False if log.failed or any(log.bounds) else (True if summarised else None),
        validated=None if validation is None else validation != "0",
        collective=log.collective,
        parameters=log.parameters,
        versions=tuple(log.versions),
        errors=tuple(log.errors),
        complete=one and not log.errors and not log.shortened,
    )


def _comment(log: _Log, at: int, line: str) -> None:
    if rank := _RANK.match(line):
        log.ranks.append(_rank(rank))
    elif table := _TABLE.match(line):
        log.headers += 1
        log.columns = _columns(at, line, table["columns"].split())
    elif parameters := _PARAMETERS.match(line):
        log.parameters.update(dict(_PAIR.findall(f"nThread{parameters['pairs']}")))
    elif bounds := _BOUNDS.match(line):
        log.bounds.append(int(bounds["count"]))
        log.failed = log.failed or bounds["word"] == "FAILED"
    elif average := _AVERAGE.match(line):
        log.averages.append(_average(at, line, average["value"]))
        log.failed = log.failed or average["word"] == "FAILED"
    elif collective := _COLLECTIVE.match(line):
        log.collective = collective[1]
    elif line.startswith("# error:"):
        log.errors.append(excerpt(line, 300))
    else:
        _foreign(log, line)


def _rank(match: re.Match[str]) -> Rank:
    group = match["group"]
    return Rank(
        rank=int(match["rank"]),
        host=match["host"],
        pid=int(match["pid"]),
        device=int(match["device"]),
        bdf=match["bdf"],
        name=match["name"].strip(),
        group=None if group is None else int(group),
    )


def _average(at: int, line: str, text: str) -> float:
    try:
        return number(text)
    except NotUnderstoodError:
        raise not_understood(TOOL, at, line, "the average bus bandwidth") from None


def _foreign(log: _Log, line: str) -> None:
    if version := _VERSION.search(line):
        log.versions[version[1]] = None
    elif _ERROR.search(line) and not _INFO.search(line):
        log.errors.append(excerpt(line, 300))


class _Columns(Struct, frozen=True):
    """The header of a table: columns before the measured ones, and those of one half."""

    leading: tuple[str, ...]
    measured: tuple[str, ...]
    dated: bool


_TIMES = ("time", "cputime")


def _columns(at: int, line: str, names: list[str]) -> _Columns:
    dated = "timestamp" in names
    names = [name for name in names if name != "timestamp"]
    starts = [n for n, name in enumerate(names) if name in _TIMES]
    if len(starts) == 2:
        first, second = names[starts[0] : starts[1]], names[starts[1] :]
        if first == second and {"busbw", "algbw"} <= set(first):
            return _Columns(tuple(names[: starts[0]]), tuple(first), dated)
    raise not_understood(TOOL, at, line, "the same columns out-of-place and in-place")


def _row(log: _Log, at: int, line: str) -> Row:
    if log.columns is None:
        raise not_understood(TOOL, at, line, "the header of the table before its rows")
    measured = log.columns.measured
    half = len(measured)
    cells = line.split()
    rest = cells[3:-2] if log.columns.dated else cells[3:]
    halves = 2 if len(rest) >= 2 * half else 1  # a trace replay has only the in-place half
    lead, values = rest[: len(rest) - halves * half], rest[len(rest) - halves * half :]
    if len(values) != halves * half or len(lead) > len(log.columns.leading):
        raise not_understood(TOOL, at, line, f"{2 * half} measured columns as in the header")
    try:
        in_place = _measure(values[-half:], measured)
        out_of_place = _measure(values[:half], measured) if halves == 2 else None
        redop, root = _lead(lead, log.columns.leading)
        size, count = integer(cells[0]), integer(cells[1])
    except NotUnderstoodError:
        raise not_understood(TOOL, at, line, "numbers in the measured columns") from None
    return Row(size, count, cells[2], redop, root, out_of_place, in_place)


def _lead(cells: list[str], names: tuple[str, ...]) -> tuple[str | None, int | None]:
    """Reduction and root; old releases leave out the columns that a collective does not have."""
    redop = root = None
    for cell in cells:
        if cell.lstrip("-").isdigit() and "root" in names:
            root = integer(cell)
        else:
            redop = cell
    return redop, root


def _measure(cells: list[str], names: tuple[str, ...]) -> Measure:
    values = {
        name: None if cell == "N/A" else number(cell)
        for name, cell in zip(names, cells, strict=True)
    }
    wrong = values.get("#wrong")
    return Measure(
        time_us=values.get("time", values.get("cputime")),
        algbw_gbs=values.get("algbw"),
        busbw_gbs=values.get("busbw"),
        wrong=None if wrong is None else int(wrong),
        max_error=values.get("error"),
    )
