"""The JSON that nccl-tests writes with ``-J`` (format versions 1 to 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.failures import FailureKind, ToolFailure, find_failure
from hfprov.evidence.fields import Fields, integer, json_value, mapping, sequence
from hfprov.evidence.nccl_tests_facts import FAILURES, TOOL, Measure, NcclTests, Rank, Row
from hfprov.evidence.text import excerpt, number


def from_json(text: str) -> NcclTests | ToolFailure:
    """Facts of one JSON report; it lists the first device of each process only."""
    document = mapping(json_value(text), f"The JSON of '{TOOL}'")
    if "config" not in document and "results" not in document:
        raise NotUnderstoodError(f"The JSON of '{TOOL}' has neither 'config' nor 'results'.")
    config = mapping(document.get("config") or {}, f"'config' of '{TOOL}'")
    rows = sequence(document.get("results") or [], f"'results' of '{TOOL}'")
    errors = tuple(
        excerpt(str(each), 300)
        for each in sequence(document.get("errors") or [], f"'errors' of '{TOOL}'")
        if str(each).strip()
    )
    if not rows:
        sentence = errors[0] if errors else f"The JSON of '{TOOL}' has no results."
        return find_failure(sentence, FAILURES) or ToolFailure(FailureKind.OTHER, sentence)
    bounds = mapping(document.get("out_of_bounds") or {}, f"'out_of_bounds' of '{TOOL}'")
    average = mapping(document.get("average_bus_bandwidth") or {}, f"The average of '{TOOL}'")
    summaries = 1 if average and bounds else 0
    validation = config.get("validation")
    return NcclTests(
        rows=tuple(_row(mapping(each, f"A result of '{TOOL}'")) for each in rows),
        ranks=_ranks(config),
        headers=1,
        summaries=summaries,
        average_busbw_gbs=_number(average, "bandwidth"),
        out_of_bounds=integer(str(bounds["count"])) if "count" in bounds else None,
        ok=_ok(bounds, average) if summaries else None,
        validated=None if validation is None else str(validation) != "0",
        collective=_collective(document),
        parameters={
            str(name): str(value)
            for name, value in config.items()
            if not isinstance(value, (dict, list))
        },
        versions=(str(document["nccl_version"]),) if "nccl_version" in document else (),
        errors=errors,
        complete=bool(summaries) and not errors,
    )


def _ok(bounds: Mapping[str, Any], average: Mapping[str, Any]) -> bool:
    said = (str(bounds.get("okay")).lower(), str(average.get("okay")).lower())
    return said[0] == "true" and said[1] in ("true", "unchecked") and not bounds.get("count")


def _collective(document: Mapping[str, Any]) -> str | None:
    arguments = document.get("args")
    if isinstance(arguments, list) and arguments:
        return str(arguments[0]).rpartition("/")[2]
    return None


def _number(values: Mapping[str, Any], name: str) -> float | None:
    value = values.get(name)
    return None if value is None else number(str(value))


def _ranks(config: Mapping[str, Any]) -> tuple[Rank, ...]:
    found = []
    for entry in sequence(config.get("devices") or [], f"'devices' of '{TOOL}'"):
        read = Fields(mapping(entry, f"A device of '{TOOL}'"))
        rank, device, pid = read.count("rank"), read.count("device"), read.count("pid")
        if rank is None or device is None:
            raise NotUnderstoodError(f"A device of '{TOOL}' has no rank or index.")
        found.append(
            Rank(
                rank,
                read.text("hostname") or "",
                pid or 0,
                device,
                read.text("device_hex") or "",
                read.text("device_info") or "",
                read.count("group"),
            )
        )
    return tuple(found)


def _row(values: Mapping[str, Any]) -> Row:
    read = Fields(values)
    size, count = read.count("size"), read.count("count")
    if size is None or count is None:
        raise NotUnderstoodError(f"A result of '{TOOL}' has no size.")
    root = read.text("root")
    return Row(
        size_bytes=size,
        count=count,
        type=read.text("type") or "",
        redop=read.text("redop"),
        root=None if root is None else integer(root),
        out_of_place=_measure(values.get("out_of_place")),
        in_place=_measure(values.get("in_place")),
    )


def _measure(value: Any) -> Measure | None:
    if value is None:
        return None
    values = mapping(value, f"A measurement of '{TOOL}'")
    wrong = _number(values, "nwrong")
    time = _number(values, "time")
    return Measure(
        time_us=time if time is not None else _number(values, "cpu_time"),
        algbw_gbs=_number(values, "alg_bw"),
        busbw_gbs=_number(values, "bus_bw"),
        wrong=None if wrong is None else int(wrong),
    )
