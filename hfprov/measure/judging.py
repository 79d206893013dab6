"""What judges need beside a value, and what is recorded with it: bounds, history, conditions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hfprov.baseline import Baseline
from hfprov.catalogue.bandwidths import bandwidth_for
from hfprov.measure.conditions import PEER, decisive, unlike
from hfprov.measure.judges import Bound, Past
from hfprov.measure.look import Ready
from hfprov.measure.result import Judging, Result
from hfprov.measure.taken import Taken
from hfprov.record.model import Measurement
from hfprov.record.store import Record
from hfprov.sweep import Fleet

_BIND = "--cpunodebind="


def judging(
    record: Record, fleet: Fleet, ready: Mapping[str, Ready], taken: Sequence[Taken]
) -> Judging:
    """Bounds, history and conditions of what was taken."""
    bounds: dict[tuple[str, str], Bound] = {}
    past: dict[tuple[str, str, str], list[Past]] = {}
    for one in taken:
        for test, figure in one.figures.items():
            if bound := bound_of(fleet.baselines[one.host], test):
                bounds[one.host, test] = bound
            past[one.host, one.peer, test] = [
                Past(old.value, old.conditions, old.run)
                for old in record.measurements(one.host, test, peer=one.peer)
                if old.value is not None and old.unit == figure.unit
            ]
    here = {(one.host, one.peer, one.tool.name): conditions(one, ready) for one in taken}
    return Judging(bounds, past, here)


def bound_of(baseline: Baseline, test: str) -> Bound | None:
    """What a test must reach on a host: as declared, else as the catalogue knows its SKU."""
    declared = baseline.get("node_expected_measurements") or {}
    if isinstance(declared, Mapping) and test in declared:
        return Bound(float(str(declared[test])), "node_expected_measurements")
    row = bandwidth_for(test, str(baseline.get("node_sku", "")))
    return Bound(row.gate, row.source) if row else None


def conditions(one: Taken, ready: Mapping[str, Ready]) -> dict[str, Any]:
    """Under which conditions it was taken, of all hosts that took part; as the record has them."""
    mine = ready[one.host]
    bound = [word.removeprefix(_BIND) for word in one.argv if word.startswith(_BIND)]
    found: dict[str, Any] = {
        **mine.conditions,
        **mine.tools.get(one.tool.name, {}),
        "argv": list(one.argv),
        "alone": one.alone,
        "cautions": list(mine.cautions),
    }
    if bound:
        found["numa_binding"] = int(bound[0])
    if one.peer:
        found[PEER] = _with_tool(one, ready[one.peer])
    if one.hosts:
        found["hosts"] = list(one.hosts)
        found["cautions"] += _unlike_members(one, ready)
    return dict(json.loads(json.dumps(found, default=str)))


def _unlike_members(one: Taken, ready: Mapping[str, Ready]) -> list[str]:
    """In what members of a group differ from the first of them: all wait for the one that does."""
    alike = {name: _with_tool(one, ready[name]) for name in one.hosts}
    found = []
    for name in one.hosts[1:]:
        different = [text.partition(":")[0] for text in unlike(alike[name], alike[one.host])]
        if different:
            found.append(f"{name} differs from {one.host} in {', '.join(different)}.")
    return found


def _with_tool(one: Taken, host: Ready) -> dict[str, Any]:
    return {**decisive(host.conditions), **host.tools.get(one.tool.name, {})}


def measurement(one: Result) -> Measurement:
    """A result as it is recorded."""
    return Measurement(
        one.host,
        one.test,
        one.summary.median if one.summary else None,
        one.unit,
        peer=one.peer,
        parameters={
            "tool": one.taken.tool.name,
            "rail": one.rail,
            "curve": [list(point) for point in one.figure.curve] if one.figure else [],
            "curve_problem": one.taken.curve_problem,
            "retried": list(one.taken.retried),
            "details": dict(one.figure.details) if one.figure else {},
            "higher_is_better": one.figure.higher_is_better if one.figure else True,
        },
        samples=one.figure.values if one.figure else (),
        conditions={
            **one.conditions,
            "outcome": one.outcome.value,
            "opinions": [
                [spoken.judge.value, spoken.outcome.value, spoken.reason] for spoken in one.opinions
            ],
        },
        raw=one.taken.raw,
    )
