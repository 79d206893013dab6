"""Measurements as a report shows them: matrices of pairs, values of hosts, curves. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from hfprov.record.model import Measurement
from hfprov.verdict import Outcome

_MATRIX_HOSTS = 40
_ROWS = 400
_CURVES = 12
WIDTH, HEIGHT = 260, 90
"""Of a curve, in pixels."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One value with what was said of it."""

    text: str
    outcome: Outcome
    says: str


@dataclass(frozen=True, slots=True)
class Matrix:
    """One test in one rail: from the row's host to the column's."""

    test: str
    unit: str
    rail: str
    hosts: tuple[str, ...]
    cells: Mapping[tuple[str, str], Cell]


@dataclass(frozen=True, slots=True)
class Row:
    """One test on one host, or a pair that is in no matrix."""

    host: str
    peer: str
    test: str
    cell: Cell
    unit: str
    samples: int


@dataclass(frozen=True, slots=True)
class Curve:
    """A value over message sizes, as points of an SVG polyline."""

    title: str
    unit: str
    points: str
    most: str
    sizes: str


@dataclass(frozen=True, slots=True)
class MeasuredViews:
    """All of it; ``left_out`` rows and curves are not shown."""

    matrices: tuple[Matrix, ...]
    rows: tuple[Row, ...]
    curves: tuple[Curve, ...]
    left_out: int

    def __bool__(self) -> bool:
        return bool(self.matrices or self.rows)


def measured_views(found: Iterable[Measurement]) -> MeasuredViews:
    """Of each host, pair and test the newest that was judged. ``found`` is oldest first."""
    newest: dict[tuple[str, str, str, str], Measurement] = {}
    for one in found:
        if "outcome" in one.conditions:
            # Without what the tool printed: a fleet has gigabytes of it.
            newest[one.test, _rail(one), one.host, one.peer] = replace(one, raw=b"")
    pairs: dict[tuple[str, str], list[Measurement]] = {}
    rows: list[Row] = []
    for (test, rail, _, peer), one in newest.items():
        if peer and one.value is not None:
            pairs.setdefault((test, rail), []).append(one)
        else:
            rows.append(_row(one))
    matrices = []
    for (test, rail), members in pairs.items():
        hosts = tuple(dict.fromkeys(name for one in members for name in (one.host, one.peer)))
        if len(hosts) > _MATRIX_HOSTS:
            rows += [_row(one) for one in members]
        else:
            cells = {(one.host, one.peer): _cell(one) for one in members}
            matrices.append(Matrix(test, _unit(members[0]), rail, hosts, cells))
    # What is not good comes first, and is never what is left out.
    rows.sort(key=lambda one: one.cell.outcome is Outcome.PASS)
    curves = [curve for one in newest.values() if (curve := _curve(one)) is not None]
    left_out = max(0, len(rows) - _ROWS) + max(0, len(curves) - _CURVES)
    return MeasuredViews(tuple(matrices), tuple(rows[:_ROWS]), tuple(curves[:_CURVES]), left_out)


def _rail(one: Measurement) -> str:
    return str(one.parameters.get("rail") or "")


def _outcome(one: Measurement) -> Outcome:
    try:
        return Outcome(str(one.conditions.get("outcome")))
    except ValueError:
        return Outcome.UNKNOWN


def _cell(one: Measurement) -> Cell:
    text = "no figure" if one.value is None else f"{one.value:.4g}"
    says = " ".join(f"{judge}: {reason}" for judge, _, reason in one.opinions)
    return Cell(text, _outcome(one), f"{_details(one)}{says}"[:2000])


def _details(one: Measurement) -> str:
    """Percentiles and the like, and what may distort them."""
    told = one.parameters.get("details")
    shown = [
        f"{name} {value:.4g}"
        for name, value in (told.items() if isinstance(told, dict) else ())
        if isinstance(value, int | float)
    ]
    cautions = one.conditions.get("cautions")
    reasons = [str(text) for text in cautions] if isinstance(cautions, list) else []
    words = [f"{', '.join(shown)} {one.unit}."] if shown else []
    return "".join(f"{text} " for text in (*words, *reasons))


def _row(one: Measurement) -> Row:
    return Row(one.host, one.peer, one.test, _cell(one), _unit(one), len(one.samples))


def _unit(one: Measurement) -> str:
    return unit_words(
        one.unit, higher_is_better=one.parameters.get("higher_is_better") is not False
    )


def unit_words(unit: str, *, higher_is_better: bool) -> str:
    """A unit, with a word where less is better: most figures here are bandwidths."""
    return unit if higher_is_better else f"{unit}, less is better"


def _curve(one: Measurement) -> Curve | None:
    """None for fewer than three sizes: that is no curve."""
    told = one.parameters.get("curve")
    points = [
        (float(point[0]), float(point[1]))
        for point in (told if isinstance(told, list) else [])
        if isinstance(point, list)
        and len(point) == 2  # noqa: PLR2004
        and all(isinstance(part, int | float) and math.isfinite(part) for part in point)
        and point[0] > 0
    ]
    if len(points) < 3:  # noqa: PLR2004
        return None
    points.sort()
    low, high = math.log2(points[0][0]), math.log2(points[-1][0])
    most = max(value for _, value in points) or 1.0
    drawn = " ".join(
        f"{(math.log2(size) - low) / ((high - low) or 1) * WIDTH:.1f},"
        f"{HEIGHT - max(0.0, value) / most * HEIGHT:.1f}"
        for size, value in points
    )
    ends = f"{one.host} to {one.peer}" if one.peer else one.host
    sizes = f"{points[0][0]:.0f} to {points[-1][0]:.0f} bytes"
    return Curve(f"{one.test}, {ends}", _unit(one), drawn, f"{most:.4g}", sizes)
