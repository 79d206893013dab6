"""The tables of perftest: headings, rows, units. Shared by its text and its JSON."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.net_lines import decimal, integer
from hfprov.evidence.perftest_facts import BandwidthPoint, LatencyPoint, Point
from hfprov.evidence.text import excerpt
from hfprov.regex import regex

MIB_BITS = 8.0 * 2**20
GB_BITS = 1e9
_TOLERANCE = 0.05
_RATE_STEP_PER_SECOND = 0.5
"""perftest prints millions of messages per second with six digits."""
_BANDWIDTH_STEP = 0.006
"""perftest prints bandwidths with two digits."""

_COLUMN = regex(
    r"#bytes|#sl|#iterations|BW (?:peak|average|min|Port[12])\[[A-Za-z]+/sec\]"
    r"|MsgRate(?: Port[12])?\[Mpps\]|CPU_Util\[%+\]"
    r"|t_(?:min|max|typical|avg|stdev)\[usec\]|99(?:\.9+)?% percentile\[usec\]|tps average"
)
_UNITS = {"MB": MIB_BITS, "MiB": MIB_BITS, "Gb": GB_BITS}
_UNIT = regex(r"BW .*\[(?P<unit>[A-Za-z]+)/sec\]")


class Heading(Struct, frozen=True):
    """Columns of a table, and bits per second of one unit of its bandwidths."""

    columns: tuple[str, ...]
    unit: float | None

    @property
    def kind(self) -> str:
        return "bandwidth" if self.unit is not None else "latency"


def heading_of(line: str) -> Heading | None:
    """The heading in a line, None for any other line. Raises for a heading of unknown columns."""
    stripped = line.strip()
    if not stripped.startswith("#bytes"):
        return None
    columns = tuple(match.group() for match in _COLUMN.finditer(stripped))
    rest = _COLUMN.sub("", stripped).strip()
    if rest or len(columns) < 3:
        raise NotUnderstoodError(f"perftest: the heading '{excerpt(stripped)}' is not understood.")
    units = {match["unit"] for name in columns if (match := _UNIT.fullmatch(name)) is not None}
    if len(units) > 1 or not units <= set(_UNITS):
        raise NotUnderstoodError(f"perftest: the unit of '{excerpt(stripped)}' is not known.")
    return Heading(columns, _UNITS[units.pop()] if units else None)


_ROW = regex(r"[0-9]{1,15}(?:\s+[0-9.]+){2,16}")


def looks_like_row(line: str) -> bool:
    """Whether a line holds only numbers, as rows do."""
    return _ROW.fullmatch(line.strip()) is not None


def point_of(heading: Heading, line: str) -> Point:
    """One row. Raises NotUnderstoodError when it has not one figure for each column."""
    words = line.split()
    if len(words) != len(heading.columns):
        raise NotUnderstoodError(
            f"perftest: the row '{excerpt(line)}' has {len(words)} figures for "
            f"{len(heading.columns)} columns."
        )
    row = dict(zip(heading.columns, words, strict=True))
    return _bandwidth(heading, row) if heading.unit is not None else _latency(row)


def _figure(row: dict[str, str], name: str) -> float | None:
    return None if name not in row else decimal(row[name], f"perftest: '{name}'")


def _bandwidth(heading: Heading, row: dict[str, str]) -> BandwidthPoint:
    by_name = {name.partition("[")[0]: value for name, value in row.items()}
    average = _figure(by_name, "BW average")
    if average is None or heading.unit is None:
        raise NotUnderstoodError("perftest: the table has no average bandwidth.")
    peak = _figure(by_name, "BW peak")
    lowest = _figure(by_name, "BW min")
    rate = _figure(by_name, "MsgRate")
    return bandwidth_point(
        heading.unit,
        size=integer(row["#bytes"], "perftest: the message size"),
        iterations=integer(row["#iterations"], "perftest: the iterations"),
        average=average,
        peak=peak,
        rate_mpps=rate,
        minimum=lowest,
        cpu=_figure(by_name, "CPU_Util"),
    )


def bandwidth_point(  # noqa: PLR0913 - one argument per column of the table
    unit: float,
    *,
    size: int,
    iterations: int | None,
    average: float,
    peak: float | None,
    rate_mpps: float | None,
    minimum: float | None = None,
    cpu: float | None = None,
) -> BandwidthPoint:
    """A point in bit/s. Raises NotUnderstoodError when average and message rate contradict."""
    rate = None if rate_mpps is None else rate_mpps * 1e6
    if rate is not None and not agrees(average, unit, size, rate):
        raise NotUnderstoodError(
            f"perftest: {average} of bandwidth and {rate_mpps} million messages of {size} bytes "
            "per second contradict each other: a figure is cut off, or the unit is another."
        )
    return BandwidthPoint(
        size,
        iterations,
        average * unit,
        # perftest prints 0.00 for what it did not measure.
        peak * unit if peak else None,
        rate,
        minimum * unit if minimum else None,
        cpu,
    )


def agrees(average: float, unit: float, size: int, messages_per_second: float) -> bool:
    """Whether an average is what messages of ``size`` bytes at that rate carry, but for rounding.

    ``unit`` is what 1.0 of the average is in bit/s.
    """
    expected = size * 8.0 * messages_per_second
    step = size * 8.0 * _RATE_STEP_PER_SECOND + _BANDWIDTH_STEP * unit
    return abs(expected - average * unit) <= _TOLERANCE * expected + step


_LATENCY: dict[str, str] = {
    "t_min[usec]": "minimum_us",
    "t_max[usec]": "maximum_us",
    "t_typical[usec]": "typical_us",
    "t_avg[usec]": "average_us",
    "t_stdev[usec]": "deviation_us",
    "99% percentile[usec]": "p99_us",
    "99.9% percentile[usec]": "p999_us",
    "tps average": "transactions_per_second",
}


_RISING = ("minimum_us", "typical_us", "p99_us", "p999_us", "maximum_us")


def _latency(row: dict[str, str]) -> LatencyPoint:
    return latency_point(
        size=integer(row["#bytes"], "perftest: the message size"),
        iterations=integer(row["#iterations"], "perftest: the iterations"),
        figure=lambda name: _figure(row, name),
    )


def latency_point(
    *, size: int, iterations: int | None, figure: Callable[[str], float | None]
) -> LatencyPoint:
    """A point from figures by the names of the text table's columns."""
    found = {field: figure(column) for column, field in _LATENCY.items()}
    if found["average_us"] is None and found["typical_us"] is None:
        raise NotUnderstoodError("perftest: the table has no average and no typical latency.")
    rising = [value for name in _RISING if (value := found[name]) is not None]
    if any(low > high for low, high in itertools.pairwise(rising)):
        raise NotUnderstoodError(
            f"perftest: the latencies of {size} bytes do not rise from the minimum over the "
            "percentiles to the maximum: a figure is cut off."
        )
    return LatencyPoint(size, iterations, **found)
