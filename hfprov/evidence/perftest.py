"""perftest: ``ib_{write,read,send,atomic}_{bw,lat}`` as text or ``--out_json``.

Figures are normalised: bandwidth in bit/s, latency in microseconds, message rate per second. The
unit that perftest calls ``MB/sec`` has always been 2**20 bytes (newer versions say ``MiB/sec``);
where the output names no unit (JSON), it follows from message size and message rate.
"""

from __future__ import annotations

from hfprov.evidence.net_lines import starts_like_json
from hfprov.evidence.perftest_facts import (
    BandwidthPoint,
    LatencyPoint,
    PerftestResult,
    Point,
    Run,
)
from hfprov.evidence.perftest_json import looks_like_report, parse_report
from hfprov.evidence.perftest_text import parse_text

__all__ = ["BandwidthPoint", "LatencyPoint", "PerftestResult", "Point", "Run", "parse"]


def parse(text: str) -> PerftestResult:
    """Facts of one output. Raises NotUnderstoodError when it has neither figures nor failures."""
    if starts_like_json(text) or looks_like_report(text):
        return parse_report(text)
    return parse_text(text)
