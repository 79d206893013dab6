"""fio results in JSON (``--output-format=json`` or ``json+``; fio 2.1 to 3.39), or as text.

Releases before 3 write bandwidth in KiB/s and latencies in microseconds; here all are bytes per
second and nanoseconds. A job with an error is kept with its number: fio exits 0 in some of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.failures import FailureKind, ToolFailure, failure_table, find_failure
from hfprov.evidence.fields import embedded_json, mapping, sequence
from hfprov.evidence.fio_facts import Direction, Disk, Fio, Job, Latency
from hfprov.evidence.fio_text import JOB, parse_text
from hfprov.evidence.text import Pairs, clean, excerpt, number, without_contradiction

TOOL = "fio"


_FAILURES = failure_table(
    {
        FailureKind.NOT_SUPPORTED: ("not loadable", "does not support direct"),
        FailureKind.NO_DEVICES: ("no such device", "failed opening", "open_files"),
        FailureKind.OTHER: (
            r"^fio: ",
            r"\bverify failed at file ",
            r"\berr= ?-?[1-9]",
            r"^error\b",
        ),
    }
)


def parse(text: str) -> Fio | ToolFailure:
    """Facts of one run. Raises NotUnderstoodError when its JSON is not whole."""
    text = clean(text)
    if not text.strip():
        raise NotUnderstoodError(f"The output of '{TOOL}' is empty.")
    if '"fio version"' not in text and JOB.search(text):
        return parse_text(text)
    if '"fio version"' not in text:
        failure = find_failure(text, _FAILURES)
        if failure is not None and "{" not in text:
            return failure
        raise NotUnderstoodError(
            f"There is no JSON result of '{TOOL}' in the output; it begins '{excerpt(text)}'."
        )
    found = embedded_json(text, pairs=_with_repeated_options)
    document = mapping(found.document, f"The JSON of '{TOOL}'")
    entries = sequence(
        document.get("jobs", document.get("client_stats")), f"'jobs' in the JSON of '{TOOL}'"
    )
    if not entries:
        raise NotUnderstoodError(f"The JSON of '{TOOL}' has no job.")
    version = str(document.get("fio version", ""))
    options = _options(document.get("global options"))
    disks = sequence(document.get("disk_util") or [], f"'disk_util' of '{TOOL}'")
    return Fio(
        version=version,
        jobs=tuple(_job(each, options) for each in entries),
        disks=tuple(_disk(each) for each in disks),
        messages=(*found.before, *found.after),
    )


def _with_repeated_options(pairs: Pairs) -> dict[str, Any]:
    """An object of its members. An option that was given several times has all its values.

    fio repeats the key for each (``filename``, ``write_lat_log``); results never come twice.
    """
    texts: dict[str, list[str]] = {}
    for name, value in pairs:
        if isinstance(value, str):
            texts.setdefault(name, []).append(value)
    repeated = {name: ", ".join(values) for name, values in texts.items() if len(values) > 1}
    return without_contradiction([(name, repeated.get(name, value)) for name, value in pairs])


def _options(value: Any) -> dict[str, str]:
    if value is None:
        return {}
    values = mapping(value, f"The options of '{TOOL}'")
    return {str(name): str(each) for name, each in values.items()}


def _job(value: Any, options: Mapping[str, str]) -> Job:
    values = mapping(value, f"A job of '{TOOL}'")
    name = str(values.get("jobname", ""))
    what = f"Job '{excerpt(name)}' of '{TOOL}'"
    error = _number(values, "error", what)
    job = Job(
        name=name,
        error=int(error),
        read=_direction(values, "read", what),
        write=_direction(values, "write", what),
        trim=_direction(values, "trim", what),
        options={**options, **_options(values.get("job options"))},
    )
    if job.read is None and job.write is None and job.trim is None:
        raise NotUnderstoodError(f"{what} has no result.")
    return job


def _number(values: Mapping[str, Any], name: str, what: str) -> float:
    if name not in values or isinstance(values[name], bool):
        raise NotUnderstoodError(f"{what} has no '{name}'.")
    return number(str(values[name]))


_KIB = 1024


def _direction(values: Mapping[str, Any], name: str, what: str) -> Direction | None:
    if name not in values:
        return None
    what = f"'{name}' of {what}"
    stats = mapping(values[name], what)
    modern = "bw_bytes" in stats
    if modern:
        bandwidth = _number(stats, "bw_bytes", what)
        io_bytes = _number(stats, "io_bytes", what)
    else:  # before fio 3, "io_bytes" counted KiB too
        bandwidth = _number(stats, "bw", what) * _KIB
        io_bytes = _number(stats, "io_bytes", what) * (1 if "io_kbytes" in stats else _KIB)
    return Direction(
        bandwidth_bytes_s=bandwidth,
        iops=_number(stats, "iops", what),
        io_bytes=io_bytes,
        runtime_ms=_number(stats, "runtime", what),
        total_ios=int(_number(stats, "total_ios", what)) if "total_ios" in stats else None,
        completion=_latency(stats, "clat", what),
        total=_latency(stats, "lat", what),
    )


def _latency(stats: Mapping[str, Any], name: str, what: str) -> Latency | None:
    scale = 1.0
    value = stats.get(f"{name}_ns")
    if value is None:
        scale, value = 1000.0, stats.get(name)
    if value is None:
        return None
    what = f"'{name}' of {what}"
    values = mapping(value, what)
    raw = mapping(values.get("percentile") or {}, f"'percentile' of {what}")
    return Latency(
        mean_ns=_number(values, "mean", what) * scale,
        min_ns=_number(values, "min", what) * scale,
        max_ns=_number(values, "max", what) * scale,
        stddev_ns=_number(values, "stddev", what) * scale if "stddev" in values else 0.0,
        percentiles_ns={
            number(percentile): number(str(each)) * scale
            for percentile, each in raw.items()
            if number(percentile) > 0  # fio 2 pads the list with "0.00"
        },
    )


def _disk(value: Any) -> Disk:
    values = mapping(value, f"A disk of '{TOOL}'")
    use = values.get("util")
    return Disk(str(values.get("name", "")), None if use is None else number(str(use)))
