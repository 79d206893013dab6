"""Run the vendor's own diagnosis on nodes that nobody uses, and judge what it says.

Observing changes nothing; this does: it takes the accelerators for minutes to hours. A node whose
accelerators are in use, or of which that is not known, is refused.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hfprov.baseline import Baseline
from hfprov.checks.accelerator_scope import SOURCES, Node, look
from hfprov.checks.registry import Facts
from hfprov.declare.connection import Connection
from hfprov.diagnosis import TOOLS, Tool, judge_output
from hfprov.errors import NoEvidenceError, NotUnderstoodError, RemoteError, UsageError
from hfprov.evidence.identity import IDENTITY
from hfprov.evidence.system import BOOT_ID, PROCESSES
from hfprov.observe import Answer, in_parallel, observe
from hfprov.probe_commands import SAFE_PATH
from hfprov.reading import Observation, Read, once
from hfprov.record.errors import HostIdentityError
from hfprov.record.log import RunLog
from hfprov.record.model import HostState, Measurement
from hfprov.remote import Output, run
from hfprov.sweep import Fleet, HostVerdicts, known
from hfprov.verdict import Finding, Outcome, Verdict, unknown

PHASE = "diagnose"
GRACE = 30.0
"""Seconds that our own deadline gives the node's: a child that cannot be killed outlives both."""
OUTPUT_LIMIT = 16 << 20
BUSY = "diagnose.idle"
WHOLE = "diagnose"
_PRE_READS = (PROCESSES, *SOURCES)


@dataclass(frozen=True, slots=True)
class Done:
    """What the diagnosis of one host came to."""

    host: str
    verdicts: tuple[Verdict, ...]
    answer: Answer
    """What was seen before it began."""
    measurements: tuple[Measurement, ...] = ()
    hint: str = ""


OnHost = Callable[[HostVerdicts], None]


def diagnose(
    fleet: Fleet, log: RunLog, level: int, *, on_host: OnHost = lambda _: None
) -> dict[str, HostVerdicts]:
    """Diagnose every host of the fleet, a bounded number at once; each is recorded as it ends.

    ``level`` is 1 (seconds) to 4 (hours). Raises HostBusyError when another run works on a host,
    UsageError for a level that there is not.
    """
    if level not in range(1, 5):
        raise UsageError(f"There is no level {level} of diagnosis.", hint="Give 1, 2, 3 or 4.")
    hosts = tuple(fleet.baselines)
    log.acquire(hosts)
    log.states(hosts, HostState.MEASURING)
    jobs = [
        functools.partial(_diagnose_one, fleet.connections[host], baseline, level, fleet.deadline)
        for host, baseline in fleet.baselines.items()
    ]
    views: dict[str, HostVerdicts] = {}
    for done in in_parallel(jobs, at_once=fleet.at_once):
        view = _recorded(done, fleet.baselines[done.host], log)
        log.release([done.host])
        views[done.host] = view
        on_host(view)
    return {host: views[host] for host in hosts}


def _diagnose_one(connection: Connection, baseline: Baseline, level: int, deadline: float) -> Done:
    answer = observe(connection, _reads(baseline), deadline=deadline)
    if answer.observation is None:
        finding = unknown(reason=answer.error)
        return Done(baseline.host, (Verdict(WHOLE, finding),), answer, hint=answer.hint)
    facts = Facts(answer.observation, baseline)
    try:
        node = look(facts, baseline)
    except (NoEvidenceError, NotUnderstoodError) as error:
        return Done(baseline.host, (Verdict(WHOLE, unknown(reason=error.message)),), answer)
    if node.without is not None:
        return Done(baseline.host, (Verdict(WHOLE, node.without),), answer)
    verdicts: list[Verdict] = []
    measurements: list[Measurement] = []
    for tool in TOOLS:
        if tool.vendor in node.vendors:
            found, measured = _with_tool(tool, connection, node, answer, level)
            verdicts += found
            measurements += measured
    return Done(baseline.host, tuple(verdicts), answer, tuple(measurements))


def _reads(baseline: Baseline) -> tuple[Read, ...]:
    reads = [BOOT_ID, *(tool.presence for tool in TOOLS)]
    reads += [read for source in _PRE_READS for read in source.reads(baseline)]
    return once(reads)


def _with_tool(
    tool: Tool, connection: Connection, node: Node, answer: Answer, level: int
) -> tuple[list[Verdict], list[Measurement]]:
    seen = answer.observation
    if seen is None:
        raise ValueError("A host that did not answer cannot be diagnosed.")
    missing = _missing(tool, seen)
    if missing:
        return [Verdict(tool.check, unknown(reason=missing))], []
    refusal = refused(node, tool, seen)
    if refusal is not None:
        return [Verdict(BUSY, refusal)], []
    argv, seconds = tool.command(level), tool.seconds[level]
    try:
        output = run(
            connection, on_node(argv, seconds), deadline=seconds + 2 * GRACE, limit=OUTPUT_LIMIT
        )
    except RemoteError as error:
        reason = f"{error.message} The node may still be at work on it."
        return [Verdict(tool.check, unknown(reason=reason))], []
    devices = sum(one.vendor is tool.vendor for one in node.devices) or node.expected
    findings = judge_output(tool, output, devices)
    verdicts = [Verdict(tool.check, one) for one in findings]
    return verdicts, [_measurement(connection.host, tool, level, output, findings, seen)]


def on_node(argv: Iterable[str], seconds: float) -> list[str]:
    """The command with a deadline of the node's own, so that it ends also when we are gone."""
    limits = ["timeout", f"--kill-after={GRACE / 2:g}", f"{seconds:g}"]
    return ["env", f"PATH={SAFE_PATH}", "LC_ALL=C", *limits, *argv]


def _missing(tool: Tool, seen: Observation) -> str:
    """Why the tool cannot be run; empty when it is there."""
    result = seen.one(tool.presence)
    if result.status != "absent":
        return ""
    return (
        f"'{tool.name}' is not installed. Role 'diagnostics_tools' installs it: name "
        f"'{tool.package}' in 'diagnostics_tools_site_packages'."
    )


def refused(node: Node, tool: Tool, seen: Observation) -> Finding | None:
    """Why the node must not be disturbed now; None when nobody uses its accelerators."""
    report = node.report(tool.vendor)
    told = report is not None and any(one.processes is not None for one in report.devices)
    if report is None or not told:
        reason = node.heard.silent.get(tool.vendor, "No tool tells which processes use them.")
        return unknown(
            tool.vendor.value,
            reason=f"Whether somebody uses the accelerators is not known: {reason}",
        )
    for device in report.devices:
        if device.processes:
            names = ", ".join(sorted({f"{one.pid} {one.name}" for one in device.processes})[:3])
            return unknown(
                device.name,
                reason=f"It is in use ({names}), and a diagnosis would disturb that. Drain the "
                "node first.",
            )
    workloads = PROCESSES.parse(seen, Baseline(tool.name, ())).workloads
    if workloads:
        return unknown(
            reason=f"A container or job runs ({workloads[0]}), and a diagnosis would disturb it. "
            "Drain the node first."
        )
    return None


def _measurement(
    host: str,
    tool: Tool,
    level: int,
    output: Output,
    findings: list[Finding],
    seen: Observation,
) -> Measurement:
    """How many tests failed, with the raw output. No value when nothing was judged."""
    judged = [one for one in findings if one.outcome in (Outcome.PASS, Outcome.WARN, Outcome.FAIL)]
    failed = sum(one.outcome is Outcome.FAIL for one in judged)
    return Measurement(
        host,
        f"{tool.name} level {level}",
        float(failed) if judged else None,
        "failed tests",
        parameters={"argv": tool.command(level), "level": level},
        conditions={
            "exit_code": output.code,
            "judged": len(judged),
            "stderr": output.stderr[:4096],
            "boot_id": seen.one(BOOT_ID).text.strip(),
        },
        raw=output.stdout,
    )


def _recorded(done: Done, baseline: Baseline, log: RunLog) -> HostVerdicts:
    host, answer = done.host, done.answer
    if answer.observation is None:
        log.not_observed(host, PHASE, answer.error, done.verdicts)
        return HostVerdicts(
            host, done.verdicts, reachable=False, reason=answer.error, hint=done.hint
        )
    identity = known(Facts(answer.observation, baseline), IDENTITY)
    for one in done.measurements:
        log.measured(one)
    try:
        log.observed(host, PHASE, answer.raw, done.verdicts, identity=identity)
    except HostIdentityError as error:
        verdicts = tuple(Verdict(one.check, unknown(reason=error.message)) for one in done.verdicts)
        log.not_observed(host, PHASE, error.message, verdicts)
        return HostVerdicts(host, verdicts, reachable=False, reason=error.message, hint=error.hint)
    return HostVerdicts(
        host, done.verdicts, reachable=True, evidence_sha256=answer.digest, identity=identity
    )
