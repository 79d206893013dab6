"""What fio prints without ``--output-format``: one block per job or group, fio 2.1 to 3.39.

Figures are rounded by fio to about four digits. Bandwidth and amounts are taken in powers of 1024,
as fio 3 prints them first; fio 2 calls the same units KB, MB and GB.
"""

from __future__ import annotations

import re

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.fio_facts import Direction, Disk, Fio, Job, Latency
from hfprov.evidence.text import excerpt, number
from hfprov.regex import regex

JOB = regex(
    r"^(?P<name>\S.{0,200}): \(groupid=\d+, jobs=\d+\): err= ?(?P<error>-?\d+)", re.MULTILINE
)
_VERSION = regex(r"^fio-(\d\S*)$", re.MULTILINE)
_NEW = regex(
    r"^  (?P<what>read|write|trim): IOPS=(?P<iops>[\d.]+[kMG]?), "
    r"BW=(?P<bandwidth>[\d.]+[KMGT]?i?B/s) .*?\((?P<amount>[\d.]+[KMGT]?i?B)/(?P<ms>\d+)msec\)",
    re.MULTILINE,
)
_OLD = regex(
    r"^  (?P<what>read |write|trim ) ?: io=(?P<amount>[\d.]+[KMGT]?i?B), "
    r"bw=(?P<bandwidth>[\d.]+[KMGT]?i?B/s), iops=(?P<iops>[\d.]+[kMG]?), runt= *(?P<ms>\d+)msec",
    re.MULTILINE,
)
_LATENCY = regex(
    r"^ +(?P<what>clat|lat) \((?P<unit>[num]sec)\): min= *(?P<min>[\d.]+[kMG]?), "
    r"max= *(?P<max>[\d.]+[kMG]?), avg= *(?P<mean>[\d.]+), stdev= *(?P<stddev>[\d.]+)",
    re.MULTILINE,
)
_PERCENTILES = regex(
    r"^ +(?P<what>clat|lat) percentiles \((?P<unit>[num]sec)\):\n(?P<rows>(?: +\|.*\n)+)",
    re.MULTILINE,
)
_PERCENTILE = regex(r"([\d.]+)th=\[ *(\d+)\]")
_ISSUED = regex(r"^ +issued +(?:rwts?|rwt)? *: total=(?:r=)?(\d+)[,/](?:w=)?(\d+)", re.MULTILINE)
_DISK = regex(r"^ +(\S+): ios=.*\butil=([\d.]+)%", re.MULTILINE)
_MESSAGE = regex(r"^(?:fio: .*|.*\bverify failed at file .*)$", re.MULTILINE)
_NANOSECONDS = {"nsec": 1.0, "usec": 1e3, "msec": 1e6}
_THOUSANDS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
_BINARY = {"": 1.0, "K": 1024.0, "M": 1024.0**2, "G": 1024.0**3, "T": 1024.0**4}


def parse_text(text: str) -> Fio:
    """Facts of one run. Raises NotUnderstoodError for a job without a result and without error."""
    text = text.replace("\r", "\n")
    heads = list(JOB.finditer(text))
    ends = [*(head.start() for head in heads[1:]), len(text)]
    jobs = [_job(head, text[head.end() : end]) for head, end in zip(heads, ends, strict=True)]
    version = _VERSION.search(text)
    return Fio(
        version=f"fio-{version[1]}" if version else "",
        jobs=tuple(jobs),
        disks=tuple(Disk(name, number(use)) for name, use in _DISK.findall(text)),
        messages=tuple(excerpt(line, 300) for line in _MESSAGE.findall(text)),
    )


def _job(head: re.Match[str], block: str) -> Job:
    block = block.split("\nRun status group", 1)[0]
    found = list((_NEW if _NEW.search(block) else _OLD).finditer(block))
    error = int(head["error"])
    if not found and not error:
        raise NotUnderstoodError(
            f"The output ends before the result of the job '{excerpt(head['name'], 60)}'."
        )
    issued = _ISSUED.search(block)
    totals = {"read": issued[1], "write": issued[2]} if issued else {}
    ends = [*(match.start() for match in found[1:]), len(block)]
    directions = {
        match["what"].strip(): _direction(match, block[match.end() : end], totals)
        for match, end in zip(found, ends, strict=True)
    }
    return Job(
        name=head["name"],
        error=error,
        read=directions.get("read"),
        write=directions.get("write"),
        trim=directions.get("trim"),
        options={},
    )


def _direction(match: re.Match[str], below: str, totals: dict[str, str]) -> Direction:
    latencies = {one["what"]: one for one in _LATENCY.finditer(below)}
    percentiles = {one["what"]: one for one in _PERCENTILES.finditer(below)}
    total = totals.get(match["what"].strip())
    return Direction(
        bandwidth_bytes_s=_bytes(match["bandwidth"].removesuffix("/s")),
        iops=_thousands(match["iops"]),
        io_bytes=_bytes(match["amount"]),
        runtime_ms=float(match["ms"]),
        total_ios=int(total) if total else None,
        completion=_latency(latencies.get("clat"), percentiles.get("clat")),
        total=_latency(latencies.get("lat"), percentiles.get("lat")),
    )


def _latency(found: re.Match[str] | None, table: re.Match[str] | None) -> Latency | None:
    if found is None:
        return None
    scale = _NANOSECONDS[found["unit"]]
    of_table = _NANOSECONDS[table["unit"]] if table else 1.0
    rows = _PERCENTILE.findall(table["rows"]) if table else []
    return Latency(
        mean_ns=number(found["mean"]) * scale,
        min_ns=_thousands(found["min"]) * scale,
        max_ns=_thousands(found["max"]) * scale,
        stddev_ns=number(found["stddev"]) * scale,
        percentiles_ns={number(name): number(value) * of_table for name, value in rows},
    )


def _bytes(text: str) -> float:
    plain = text.removesuffix("B").removesuffix("i")
    unit = plain[-1] if plain[-1].isalpha() else ""
    return number(plain.removesuffix(unit)) * _BINARY[unit]


def _thousands(text: str) -> float:
    unit = text[-1] if text[-1].isalpha() else ""
    return number(text.removesuffix(unit)) * _THOUSANDS[unit]
