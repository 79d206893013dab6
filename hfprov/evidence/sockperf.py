"""sockperf: round-trip or half round-trip latency of messages, with percentiles, in microseconds.

It ends with exit code 0 also when it could not connect, so the text alone decides. Form seen:
sockperf 3.7, ``ping-pong``, with and without ``--full-rtt``.

Source: Mellanox/sockperf ``src/client.cpp``, ``client_statistics``.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.failures import FailureKind, ToolFailure, failure_table, find_failure
from hfprov.evidence.text import clean, excerpt, number
from hfprov.regex import regex

TOOL = "sockperf"


class Sockperf(Struct, frozen=True):
    """One run of a client. Times are microseconds."""

    round_trip: bool
    """Whether times are there and back; else they are half of that."""
    mean_us: float
    deviation_us: float | None
    minimum_us: float
    maximum_us: float
    percentiles_us: Mapping[float, float]
    """By percent: ``{50.0: 12.5, 99.0: 40.1, …}``."""
    observations: int
    dropped: int
    duplicated: int
    out_of_order: int


_FAILURES = failure_table({FailureKind.OTHER: (r"\bERROR\b", "Can.t connect")})
_SUMMARY = regex(r"Summary: (?P<what>Round trip|Latency) is (?P<mean>[0-9.]{1,20}) usec")
_DEVIATION = regex(r"\(std-dev=(?P<deviation>[0-9.]{1,20})")
_LOST = regex(
    r"# dropped messages = (\d{1,18}); # duplicated messages = (\d{1,18}); "
    r"# out-of-order messages = (\d{1,18})"
)
_TOTAL = regex(r"Total (\d{1,18}) observations")
_END = regex(r"---> <(?P<end>MIN|MAX)> observation = +(?P<value>[0-9.]{1,20})")
_PERCENTILE = regex(r"---> percentile +(?P<percent>[0-9.]{1,10}) = +(?P<value>[0-9.]{1,20})")


def parse(text: str) -> Sockperf | ToolFailure:
    """Facts of one run. Raises NotUnderstoodError when it is cut off or in no known form."""
    text = clean(text)
    failure = find_failure(text, _FAILURES)
    summary, lost, total = _SUMMARY.search(text), _LOST.search(text), _TOTAL.search(text)
    ends = {match["end"]: number(match["value"]) for match in _END.finditer(text)}
    percentiles = {
        number(match["percent"]): number(match["value"]) for match in _PERCENTILE.finditer(text)
    }
    if failure is not None:
        return failure
    if not (summary and lost and total and percentiles and ends.keys() == {"MIN", "MAX"}):
        raise NotUnderstoodError(
            f"The output of '{TOOL}' is no whole run of a client; it begins '{excerpt(text)}'."
        )
    deviation = _DEVIATION.search(text)
    return Sockperf(
        round_trip=summary["what"] == "Round trip",
        mean_us=number(summary["mean"]),
        deviation_us=number(deviation["deviation"]) if deviation else None,
        minimum_us=ends["MIN"],
        maximum_us=ends["MAX"],
        percentiles_us=percentiles,
        observations=int(total[1]),
        dropped=int(lost[1]),
        duplicated=int(lost[2]),
        out_of_order=int(lost[3]),
    )
