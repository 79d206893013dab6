"""JSON documents that the commands print: versioned, described in ``docs/schemas/``.

A document's ``schema`` names its kind and version; a field is added without a new version, never
removed or changed in meaning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from hfprov.baseline import Baseline
from hfprov.checks.registry import Check
from hfprov.converge import Plan, Report
from hfprov.errors import ExitCode
from hfprov.judge import find_check
from hfprov.sweep import HostVerdicts
from hfprov.verdict import Outcome, Verdict, badness

Document = dict[str, Any]


def exit_code_for(views: Iterable[HostVerdicts]) -> ExitCode:
    """The exit code that hosts deserve. Warnings are good enough; nothing at all is not."""
    outcomes = {view.outcome for view in views}
    if not outcomes:
        return ExitCode.NOTHING
    if Outcome.UNKNOWN in outcomes:
        return ExitCode.UNKNOWN
    return ExitCode.BAD if Outcome.FAIL in outcomes else ExitCode.GOOD


def verdict_document(verdict: Verdict) -> Document:
    """One verdict, with the role and the price of its repair."""
    check: Check | None = find_check(verdict.check)
    finding = verdict.finding
    return {
        "check": verdict.check,
        "subject": finding.subject,
        "outcome": finding.outcome.value,
        "observed": finding.observed,
        "expected": finding.expected,
        "reason": finding.reason,
        "not_applicable": finding.not_applicable.value if finding.not_applicable else None,
        "role": check.role if check else None,
        "impact": check.impact.value if check else None,
    }


def host_document(view: HostVerdicts) -> Document:
    """One host as one sweep saw it, worst verdicts first."""
    ordered = sorted(view.verdicts, key=lambda one: -badness(one.outcome))
    return {
        "host": view.host,
        "outcome": view.outcome.value,
        "reachable": view.reachable,
        "reason": view.reason,
        "verdicts": [verdict_document(verdict) for verdict in ordered],
    }


def summary(views: Iterable[HostVerdicts]) -> dict[str, int]:
    """Number of hosts by outcome; every outcome is named, also with zero."""
    counted = Counter(view.outcome for view in views)
    return {outcome.value: counted[outcome] for outcome in Outcome if outcome in _HOST_OUTCOMES}


_HOST_OUTCOMES = (Outcome.PASS, Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN)


def sweep_document(
    command: str, run: str, views: Mapping[str, HostVerdicts], code: ExitCode
) -> Document:
    return {
        "schema": "hfprov.sweep/1",
        "command": command,
        "run": run,
        "exit_code": int(code),
        "summary": summary(views.values()),
        "hosts": [host_document(view) for view in views.values()],
    }


def converge_document(
    command: str,
    run: str,
    views: Mapping[str, HostVerdicts],
    code: ExitCode,
    plan: Plan,
    report: Report,
) -> Document:
    """A sweep document of the final state, with what was planned and what came of it."""
    document = sweep_document(command, run, views, code)
    document["schema"] = "hfprov.converge/1"
    document["plan"] = plan_document(plan)
    document["failed"] = dict(report.failed)
    document["not_attempted"] = list(report.not_attempted)
    document["stopped"] = report.stopped
    return document


def plan_document(plan: Plan) -> Document:
    return {
        "roles": {host: list(roles) for host, roles in plan.roles.items()},
        "waves": [list(wave) for wave in plan.waves],
        "unreachable": list(plan.unreachable),
        "out_of_reach": {host: list(checks) for host, checks in plan.out_of_reach.items()},
    }


def baseline_document(baseline: Baseline, table: Iterable[Mapping[str, Any]]) -> Document:
    return {
        "schema": "hfprov.baseline/1",
        "host": baseline.host,
        "roles": list(baseline.roles),
        "digest": baseline.digest,
        "variables": [dict(row) for row in table],
    }
