"""Reboot hosts in waves within the disruption budget, and prove that each came back right.

Per host: drain hook, wait until idle, reboot, wait for a new boot that is up, observe, prove,
release hook. A host is rebooted once per run and never again: one that is still wrong is reported,
and stays out of service. Everything is recorded before the next step is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hfprov.certificate.revocation import revoke_bad
from hfprov.converge import Progress
from hfprov.errors import ExitCode
from hfprov.operate import exit_code_for, look
from hfprov.reboot.plan import RebootPlan, plan
from hfprov.reboot.wave import Orders, RebootReport, Wave
from hfprov.record.log import RunLog
from hfprov.record.model import HostState
from hfprov.record.store import Record
from hfprov.rollout import Budget, size_of
from hfprov.sweep import Fleet, HostVerdicts


@dataclass(frozen=True, slots=True)
class Rebooted:
    """What the command came to."""

    run: str
    plan: RebootPlan
    report: RebootReport
    views: Mapping[str, HostVerdicts]
    """Every host that was asked for, as it was seen last."""
    code: ExitCode


def reboot_hosts(
    record: Record,
    fleet: Fleet,
    log: RunLog,
    orders: Orders,
    progress: Progress,
    on_plan: Callable[[RebootPlan], None],
) -> Rebooted:
    """Observe, reboot those that need it, prove each, and say what came of it."""
    before = look(record, fleet, log, progress)
    policy = orders.policy
    todo = plan(
        before,
        sizes=policy.sizes,
        everyone=policy.everything,
        drains=orders.drain is not None,
    )
    on_plan(todo)
    report = RebootReport()
    if not orders.only_plan:
        allowed = Budget(size_of(policy.budget, len(todo.reasons)))
        report = reboot(fleet, before, todo, orders, log, budget=allowed, progress=progress)
        revoke_bad(record, report.after, log)
    views = {host: report.after.get(host, view) for host, view in before.items()}
    return Rebooted(log.id, todo, report, views, _exit_code(views, todo, report))


def _exit_code(
    views: Mapping[str, HostVerdicts], todo: RebootPlan, report: RebootReport
) -> ExitCode:
    """Of the hosts that were to be rebooted; what else is wrong with them is for 'drift' to say."""
    if not views:
        return ExitCode.NOTHING
    concerned = {host: views[host] for host in (*todo.reasons, *todo.unreachable)}
    if any(not view.reachable for view in concerned.values()):
        return ExitCode.UNKNOWN
    undone = report.failed or report.not_attempted or report.drained or todo.withheld
    if undone:
        return ExitCode.BAD
    left = {host: view for host, view in concerned.items() if host not in report.rebooted}
    return exit_code_for(left) if left else ExitCode.GOOD


def reboot(
    fleet: Fleet,
    before: Mapping[str, HostVerdicts],
    todo: RebootPlan,
    orders: Orders,
    log: RunLog,
    *,
    budget: Budget,
    progress: Progress,
) -> RebootReport:
    """Carry out a plan, wave by wave. On KeyboardInterrupt no further host is rebooted."""
    report = RebootReport()
    attempted: set[str] = set()
    for number, hosts in enumerate(todo.waves, start=1):
        progress.on_wave(number, hosts)
        attempted.update(hosts)
        acquired = log.acquire(hosts, partial=True)
        for holder in acquired.busy:
            report.failed[holder.host] = f"Run '{holder.run}' is at work on it."
            log.state(holder.host, HostState.NOT_ATTEMPTED, report.failed[holder.host])
        try:
            Wave(fleet, before, orders, log, report, progress).run(acquired.hosts)
        finally:
            log.release(acquired.hosts)
        report.stopped = budget.exceeded(report.failed, canary=number == 1)
        if report.stopped and number < len(todo.waves):
            log.event("rollout_stopped", report.stopped)
            break
    report.not_attempted = tuple(host for host in todo.reasons if host not in attempted)
    log.states(report.not_attempted, HostState.NOT_ATTEMPTED, report.stopped)
    return report
