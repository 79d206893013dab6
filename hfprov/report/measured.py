"""Measurements for people and for programs: plan, values with every judge, matrix of pairs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.text import Text

from hfprov.measure.duration import duration_of, duration_of_plan
from hfprov.measure.result import Result, words
from hfprov.measure.run import Measured
from hfprov.measure.steps import (
    GroupStep,
    HostStep,
    MeasurePlan,
    PairStep,
    Step,
    members,
)
from hfprov.record.model import Measurement
from hfprov.report.inert import one_line
from hfprov.report.measured_views import unit_words
from hfprov.report.terminal import STYLES, console, print_table
from hfprov.verdict import Outcome
from hfprov.words import plural

_MATRIX = 16
"""Hosts up to which pairs are shown as a matrix; more do not fit a terminal."""
_RECORDED = 200
"""Values of a recorded run that are shown."""


def print_measure_plan(todo: MeasurePlan) -> None:
    """What runs where, against whom, how long: before anything runs."""
    out = console(sys.stderr)
    for step in todo.steps:
        about = duration_of(step, todo.settings, todo.at_once)
        out.print(Text(one_line(f"{_step_words(step)}: {about}.")))
    for what, reason in todo.missing.items():
        out.print(Text(f"{one_line(what)}: not measured: {one_line(reason)}", style="yellow"))
    out.print(Text(f"In all {duration_of_plan(todo)}."))


def _step_words(step: Step) -> str:
    if isinstance(step, HostStep):
        return f"{step.tool.name} on {', '.join(step.hosts)}"
    if isinstance(step, GroupStep):
        ranks = plural(step.group.ranks, "rank")
        return f"{step.tool.name} over {', '.join(step.hosts)} together, {ranks}"
    pairs = sum(len(one) for one in step.rounds)
    return (
        f"{step.tool.name} in {step.rail}: {plural(pairs, 'pair')} of "
        f"{plural(len(step.ends), 'host')}, both ways, in {plural(len(step.rounds), 'round')}"
    )


def print_measured(done: Measured) -> None:
    """Every value with its outcome and what each judge says; then who explains slow pairs."""
    out = console()
    for result in done.results:
        if result.peer and len(done.results) > _MATRIX and result.outcome is Outcome.PASS:
            continue
        line = Text(f"{result.outcome.value:<8}", style=STYLES[result.outcome])
        line.append(f"{_ends(result)} {result.test} ", style="bold")
        if result.summary:
            line.append(one_line(_figures(result)))
        out.print(line)
        for spoken in result.opinions:
            out.print(Text(f"          {spoken.judge.value}: {one_line(spoken.reason)}", "dim"))
    _print_matrices(done.results)
    for blamed in done.culprits:
        style = "yellow" if blamed.only_beside_others or blamed.doubtful else "red"
        out.print(Text(one_line(words(blamed)), style=style))
    for what, reason in done.unfit.items():
        out.print(Text(f"{one_line(what)}: not measured: {one_line(reason)}", style="magenta"))
    if not done.results and not done.unfit:
        out.print(Text("Nothing was measured."))


def _ends(result: Result) -> str:
    return f"{result.host} -> {result.peer}" if result.peer else result.host


def _figures(result: Result) -> str:
    if result.summary is None:
        return "no figure"
    one = result.summary
    details = result.figure.details if result.figure else {}
    told = "".join(f", {name} {value:.4g}" for name, value in details.items())
    return (
        f"{one.median:.4g} {result.unit} ({plural(one.count, 'repeat')}, {one.least:.4g} to "
        f"{one.most:.4g}{told})"
    )


def _print_matrices(results: Sequence[Result]) -> None:
    out = console()
    for rail, test in dict.fromkeys(
        (one.rail, one.test) for one in results if one.peer and one.figure
    ):
        mine = {
            (one.host, one.peer): one
            for one in results
            if one.peer and (one.rail, one.test) == (rail, test)
        }
        hosts = list(dict.fromkeys(host for pair in mine for host in pair))
        if len(hosts) > _MATRIX:
            continue
        first = next(iter(mine.values()))
        unit = unit_words(first.unit, higher_is_better=_higher(first))
        out.print(Text(f"{test} in {rail}, {unit}, from the row to the column:", style="bold"))
        print_table(
            ("", *hosts),
            [[host, *(_cell(mine.get((host, other))) for other in hosts)] for host in hosts],
        )


def _higher(result: Result) -> bool:
    return result.figure is None or result.figure.higher_is_better


def _cell(result: Result | None) -> str | Text:
    if result is None:
        return ""
    if result.summary is None:
        return Text("?", style=STYLES[Outcome.UNKNOWN])
    return f"{result.summary.median:.4g}"


def print_recorded(found: Iterable[Measurement]) -> None:
    """What a run has measured, a line for each value; of a fleet the first ones only."""
    out = console()
    for number, one in enumerate(found):
        if number == _RECORDED:
            out.print(
                Text("More was measured. Give '--limit' to see that of some hosts.", style="dim")
            )
            return
        ends = f"{one.host} -> {one.peer}" if one.peer else one.host
        value = "no value" if one.value is None else f"{one.value:.4g} {one.unit}"
        samples = f" ({len(one.samples)} samples)" if len(one.samples) > 1 else ""
        judged = f": {outcome}" if (outcome := one.conditions.get("outcome")) else ""
        why = f" - {one.why_no_value}" if one.why_no_value else ""
        out.print(Text(one_line(f"{ends} {one.test} {value}{samples}{judged}{why}")))


def measured_document(done: Measured) -> dict[str, Any]:
    """``hfprov measure --json``; described in docs/schemas/measure-1.json."""
    return {
        "schema": "hfprov.measure/1",
        "run": done.run,
        "exit_code": int(done.code),
        "plan": {
            "seconds": round(duration_of_plan(done.plan).usual),
            "steps": [_step(step) for step in done.plan.steps],
        },
        "results": [result_document(one) for one in done.results],
        "causes": [
            {
                "test": one.test,
                "rail": one.rail,
                "kind": one.cause.kind.value,
                "hosts": [list(group) for group in one.cause.hosts],
                "value": one.value,
                "usual": one.usual,
                "alone": one.alone,
                "unit": one.unit,
                "says": words(one),
            }
            for one in done.culprits
        ],
        "not_measured": dict(done.unfit),
        "cautions": {host: list(reasons) for host, reasons in done.cautions.items()},
    }


def _step(step: Step) -> dict[str, Any]:
    rounds = step.rounds if isinstance(step, PairStep) else ()
    return {
        "tool": step.tool.name,
        "hosts": list(members(step)),
        "together": isinstance(step, GroupStep),
        "rail": "" if isinstance(step, HostStep) else step.rail,
        "rounds": [[list(pair) for pair in one] for one in rounds],
    }


def result_document(one: Result) -> dict[str, Any]:
    """One value, with its samples and every judge's opinion."""
    return {
        "host": one.host,
        "peer": one.peer,
        "rail": one.rail,
        "test": one.test,
        "unit": one.unit,
        "outcome": one.outcome.value,
        "median": one.summary.median if one.summary else None,
        "least": one.summary.least if one.summary else None,
        "most": one.summary.most if one.summary else None,
        "variation": one.summary.variation if one.summary else None,
        "higher_is_better": _higher(one),
        "details": dict(one.figure.details) if one.figure else {},
        "samples": list(one.figure.values) if one.figure else [],
        "curve": [list(point) for point in one.figure.curve] if one.figure else [],
        "opinions": [
            {"judge": spoken.judge.value, "outcome": spoken.outcome.value, "reason": spoken.reason}
            for spoken in one.opinions
        ],
    }
