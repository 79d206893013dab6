"""perftest's ``--out_json``: valid JSON of new versions, and what older ones wrote.

perftest 4.5 and 23.01 (Debian 12) write keys and texts without quotes, and commas before closing
brackets. That is read line by line; a value that is no number where one belongs is refused. A file
holds the last message size of a sweep only, because each size overwrites it.
"""

from __future__ import annotations

from collections.abc import Mapping

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.net_lines import Node, decimal, integer, json_value, lines_of
from hfprov.evidence.perftest_facts import PerftestResult, Point
from hfprov.evidence.perftest_table import (
    GB_BITS,
    MIB_BITS,
    agrees,
    bandwidth_point,
    latency_point,
)
from hfprov.evidence.perftest_text import make_run
from hfprov.evidence.text import excerpt
from hfprov.regex import regex

_START = regex(r"\s*\{\s*\"?test_info\"?\s*:")
_MEMBER = regex(r"\"?(?P<key>[A-Za-z_][\w. ]*?)\"?\s*:\s*(?P<value>[^,{]*?),?")
_OPENING = regex(r"\"?(?P<key>\w+)\"?\s*:\s*\{")
_FIGURES = {
    "t_min[usec]": "t_min",
    "t_max[usec]": "t_max",
    "t_typical[usec]": "t_typical",
    "t_avg[usec]": "t_avg",
    "t_stdev[usec]": "t_stdev",
    "99% percentile[usec]": "percentile_99",
    "99.9% percentile[usec]": "percentile_99.9",
    "tps average": "tps_average",
}


def looks_like_report(text: str) -> bool:
    """Whether a text is an ``--out_json`` report, valid or not."""
    return _START.match(text[:400]) is not None


def parse_report(text: str) -> PerftestResult:
    """The one run of a report. Raises NotUnderstoodError when it is not whole."""
    try:
        document = Node(json_value(text), "perftest --out_json")
        info = _texts(document.need("test_info"))
        results = _texts(document.need("results"))
    except NotUnderstoodError:
        if not looks_like_report(text):
            raise
        sections = _loose(text)
        info, results = sections.get("test_info", {}), sections.get("results", {})
    kind = "latency" if any(key.startswith("t_") for key in results) else "bandwidth"
    point = _latency(results) if kind == "latency" else _bandwidth(results)
    conditions = {key.replace("_", " "): value for key, value in info.items()}
    test = conditions.pop("test", None)
    run = make_run(test, kind, (point,), conditions, complete=True)
    return PerftestResult((run,))


def _texts(node: Node) -> dict[str, str]:
    return {key: item.as_text() for key, item in node.entries()}


def _loose(text: str) -> dict[str, dict[str, str]]:
    """Members of ``test_info`` and ``results`` of a report that is no valid JSON."""
    sections: dict[str, dict[str, str]] = {}
    into: dict[str, str] | None = None
    depth = 0
    for number, line in enumerate(lines_of(text), start=1):
        stripped = line.strip()
        opening = _OPENING.fullmatch(stripped)
        member = _MEMBER.fullmatch(stripped)
        if stripped == "{":
            depth += 1
        elif stripped.rstrip(",") == "}":
            depth -= 1
            into = None
        elif opening is not None:
            depth += 1
            into = sections.setdefault(opening["key"], {})
        elif member is not None and into is not None:
            into[member["key"].strip()] = member["value"].strip().strip('"')
        elif stripped:
            raise NotUnderstoodError(
                f"perftest --out_json: line {number} '{excerpt(stripped)}' is no member."
            )
    if depth != 0 or "results" not in sections:
        raise NotUnderstoodError("perftest --out_json: the report is cut off.")
    return sections


def _size(results: Mapping[str, str]) -> tuple[int, int | None]:
    if "MsgSize" not in results:
        raise NotUnderstoodError("perftest --out_json: the results have no 'MsgSize'.")
    iterations = results.get("n_iterations")
    return (
        integer(results["MsgSize"], "perftest --out_json: 'MsgSize'"),
        None if iterations is None else integer(iterations, "perftest --out_json: 'n_iterations'"),
    )


def _figure(results: Mapping[str, str], key: str) -> float | None:
    value = results.get(key)
    return None if value is None else decimal(value, f"perftest --out_json: '{key}'")


def _latency(results: Mapping[str, str]) -> Point:
    size, iterations = _size(results)
    return latency_point(
        size=size,
        iterations=iterations,
        figure=lambda column: _figure(results, _FIGURES[column]),
    )


def _bandwidth(results: Mapping[str, str]) -> Point:
    """A point; the unit is the one with which average and message rate agree."""
    size, iterations = _size(results)
    average = _figure(results, "BW_average")
    rate = _figure(results, "MsgRate")
    if average is None or rate is None:
        missing = "BW_average" if average is None else "MsgRate"
        raise NotUnderstoodError(f"perftest --out_json: the results have no '{missing}'.")
    units = [unit for unit in (MIB_BITS, GB_BITS) if agrees(average, unit, size, rate * 1e6)]
    if len(units) != 1:
        raise NotUnderstoodError(
            f"perftest --out_json: the unit of 'BW_average: {average}' cannot be told from "
            f"'MsgRate: {rate}' and {size} bytes.",
            hint="Run perftest with larger messages, or read its text output.",
        )
    return bandwidth_point(
        units[0],
        size=size,
        iterations=iterations,
        average=average,
        peak=_figure(results, "BW_peak"),
        rate_mpps=rate,
        minimum=_figure(results, "BW_min"),
        cpu=_figure(results, "CPU_util"),
    )
