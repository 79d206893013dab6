"""JSON documents that the commands print: versioned, described in ``docs/schemas/``.

A document's ``schema`` names its kind and version; a field is added without a new version, never
removed or changed in meaning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from hfprov.baseline import Baseline
from hfprov.catalogue.explanations import Explanation
from hfprov.checks.registry import Check
from hfprov.converge import Plan
from hfprov.errors import ExitCode
from hfprov.fleet_checks import Comparison, odd_ones
from hfprov.judge import find_check
from hfprov.operate import Operation
from hfprov.record.model import HistoryEntry, HostView, Measurement, RunInfo
from hfprov.record.views import RunView
from hfprov.sweep import HostVerdicts
from hfprov.verdict import Impact, Outcome, Verdict, Waived, badness

Document = dict[str, Any]


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
        "waiver": waiver_document(finding.waiver),
        "role": check.role if check else None,
        "impact": check.impact.value if check else None,
    }


def waiver_document(waiver: Waived | None) -> Document | None:
    """Who answers for a finding until when, and whether that still holds now."""
    if waiver is None:
        return None
    return {
        "owner": waiver.owner,
        "reason": waiver.reason,
        "expires_at": waiver.expires.isoformat(),
        "holds": waiver.holds(datetime.now(UTC)),
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
        "fleet": compare(views).document(),
    }


def compare(views: Mapping[str, HostVerdicts]) -> Comparison:
    """What is the odd one out among the hosts of one sweep."""
    return odd_ones(sample for view in views.values() for sample in view.samples)


def operation_document(command: str, done: Operation) -> Document:
    """What a command did: a sweep document of the final state, with plan and outcome if any."""
    document = sweep_document(command, done.run, done.views, done.code)
    if done.plan is not None and done.report is not None:
        document["schema"] = "hfprov.converge/1"
        document["plan"] = plan_document(done.plan)
        document["failed"] = dict(done.report.failed)
        document["reboot_needed"] = dict(done.report.reboot_needed)
        document["not_attempted"] = list(done.report.not_attempted)
        document["stopped"] = done.report.stopped
    return document


def plan_document(plan: Plan) -> Document:
    return {
        "roles": {host: list(roles) for host, roles in plan.roles.items()},
        "waves": [list(wave) for wave in plan.waves],
        "unreachable": list(plan.unreachable),
        "withheld": {host: dict(reasons) for host, reasons in plan.withheld.items()},
    }


def baseline_document(baseline: Baseline, table: Iterable[Mapping[str, Any]]) -> Document:
    return {
        "schema": "hfprov.baseline/1",
        "host": baseline.host,
        "roles": list(baseline.roles),
        "digest": baseline.digest,
        "variables": [dict(row) for row in table],
    }


def explanation_document(name: str, check: Check | None, text: Explanation) -> Document:
    """``check`` is None for the result of a test, which is not read from a node."""
    return {
        "schema": "hfprov.explanation/1",
        "check": name,
        "role": check.role if check else None,
        "impact": (check.impact if check else Impact.MANUAL).value,
        "judges": list(check.judges) if check else [],
        **text.model_dump(mode="json"),
    }


def explanations_document(
    checks: Mapping[str, Check], texts: Mapping[str, Explanation]
) -> Document:
    """Every explanation: of checks, and of results of tests, which have no check."""
    return {
        "schema": "hfprov.explanations/1",
        "checks": [explanation_document(name, checks.get(name), texts[name]) for name in texts],
    }


def run_info_document(info: RunInfo) -> Document:
    return {
        "run": info.id,
        "command": info.command,
        "argv": list(info.argv),
        "controller": info.controller,
        "version": info.version,
        "started_at": info.started_at.isoformat(),
        "ended_at": info.ended_at.isoformat() if info.ended_at else None,
        "status": info.status.value,
        "exit_code": info.exit_code,
        "host_count": info.host_count,
    }


def runs_document(found: Iterable[RunInfo]) -> Document:
    return {"schema": "hfprov.runs/1", "runs": [run_info_document(info) for info in found]}


def run_document(view: RunView, measurements: Iterable[Measurement]) -> Document:
    """One recorded run: hosts with the verdicts of each phase, changes, events, measurements."""
    return {
        "schema": "hfprov.run/1",
        **run_info_document(view.info),
        "hosts": [_recorded_host(one) for one in view.hosts()],
        "changes": [
            {
                "host": host,
                "role": one.role,
                "task": one.task,
                "action": one.action,
                "ending": one.item,
                "diff": one.diff,
                "at": one.at.isoformat() if one.at else None,
            }
            for host, one in view.changes()
        ],
        "events": [
            {"at": one.at.isoformat(), "kind": one.kind, "message": one.message, "host": one.host}
            for one in view.events()
        ],
        "measurements": [_recorded_measurement(one) for one in measurements],
    }


def _recorded_measurement(one: Measurement) -> Document:
    outcome = one.conditions.get("outcome")
    return {
        "host": one.host,
        "peer": one.peer or None,
        "test": one.test,
        "value": one.value,
        "unit": one.unit,
        "samples": list(one.samples),
        "outcome": str(outcome) if outcome else None,
        "reason": one.why_no_value,
        "at": one.at.isoformat() if one.at else None,
    }


def _recorded_host(one: HostView) -> Document:
    return {
        "host": one.host,
        "state": one.state.value,
        "reason": one.reason,
        "baseline": one.baseline_digest,
        "phases": {
            phase: {
                "at": judged.at.isoformat(),
                "outcome": judged.summary.outcome.value,
                "reason": judged.reason,
                "verdicts": [verdict_document(verdict) for verdict in judged.verdicts],
            }
            for phase, judged in one.judged.items()
        },
    }


def history_document(host: str, entries: Iterable[HistoryEntry]) -> Document:
    return {
        "schema": "hfprov.history/1",
        "host": host,
        "runs": [
            {
                "run": one.run,
                "command": one.command,
                "started_at": one.started_at.isoformat(),
                "status": one.status.value,
                "state": one.state.value,
                "reason": one.reason,
                "phases": {phase: found.outcome.value for phase, found in one.phases.items()},
            }
            for one in entries
        ],
    }
