"""Bring hosts to their baseline: observe, run only the roles with something to do, observe again.

The second observation is the result, not what Ansible said of itself.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hfprov.errors import PlayError
from hfprov.play import HostResult, PlayOutcome, PlayRequest, PlayStatus, TaskResult, run_play
from hfprov.record.log import RunLog
from hfprov.record.model import Change, HostState
from hfprov.rollout import Budget, reboot_needed, repair_for, waves
from hfprov.sweep import Fleet, HostVerdicts, sweep

PLAYS_AT_ONCE = 4
"""ansible-playbook processes at the same time; each can keep several cores busy."""
_STOP_SECONDS = 30.0
STILL_WRONG = "Still wrong after its role ran"
"""How the reason of a host begins whose plays ended well, and left something unrepaired."""


@dataclass(frozen=True, slots=True)
class Tools:
    """How playbooks are run: what is the same for every run."""

    inventory: tuple[Path, ...]
    playbook: Path
    config: Path
    roles_path: Path
    vault_password_files: tuple[Path, ...] = ()
    become_password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Plan:
    """Which roles are to run on which hosts, in which waves. Shown before anything is changed."""

    roles: Mapping[str, tuple[str, ...]]
    """By host; a host with nothing to do is not in it."""
    waves: tuple[tuple[str, ...], ...]
    unreachable: tuple[str, ...]
    withheld: Mapping[str, Mapping[str, str]]
    """By host, by role or check: why it is not repaired by this run."""


@dataclass(slots=True)
class Report:
    """What a converge came to."""

    after: dict[str, HostVerdicts] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """By host: why it is not at its baseline now."""
    busy: set[str] = field(default_factory=set)
    """Those of the failed hosts that another orchestrator is working on."""
    reboot_needed: dict[str, str] = field(default_factory=dict)
    """By host: what its roles have set right and only a reboot makes effective. No failure."""
    not_attempted: tuple[str, ...] = ()
    stopped: str = ""
    """Why the rollout stopped early, or ``""``."""


class Progress:
    """What a caller may want to show while it goes on. Does nothing; override what is wanted."""

    def on_wave(self, number: int, hosts: Sequence[str]) -> None: ...

    def on_task(self, task: TaskResult) -> None: ...

    def on_host(self, view: HostVerdicts) -> None: ...


def plan(
    fleet: Fleet,
    before: Mapping[str, HostVerdicts],
    *,
    sizes: Sequence[str],
    allowed: str = "reboot",
    everything: bool = False,
) -> Plan:
    """Decide from a first sweep what to run where. ``everything`` runs every role regardless."""
    needed: dict[str, tuple[str, ...]] = {}
    withheld: dict[str, Mapping[str, str]] = {}
    for host, view in before.items():
        if not view.reachable:
            continue
        roles = fleet.baselines[host].roles
        repair = repair_for(view.verdicts, roles, allowed=allowed, workloads=view.workloads)
        if everything or repair.roles:
            needed[host] = roles if everything else repair.roles
        if repair.withheld and not everything:
            withheld[host] = repair.withheld
    return Plan(
        roles=needed,
        waves=tuple(waves(list(needed), sizes)) if needed else (),
        unreachable=tuple(host for host, view in before.items() if not view.reachable),
        withheld=withheld,
    )


def converge(
    fleet: Fleet,
    todo: Plan,
    tools: Tools,
    log: RunLog,
    *,
    budget: Budget,
    progress: Progress,
) -> Report:
    """Carry out a plan, wave by wave, within the disruption budget.

    Hosts that another orchestrator holds are left alone and reported; they say nothing about the
    change, so they do not count against the budget. On KeyboardInterrupt the running plays are
    stopped, what is known is recorded, and the interrupt goes on to the caller.
    """
    report = Report()
    # What another run is at work on looks as if it had been left at work there: say who it is.
    withheld = [host for host in todo.withheld if host not in todo.roles]
    log.release(_locked(withheld, log, report))
    attempted: set[str] = set()
    canary = True
    for number, hosts in enumerate(todo.waves, start=1):
        progress.on_wave(number, hosts)
        free = _locked(hosts, log, report)
        attempted.update(hosts)
        try:
            _run_wave(free, todo, tools, log, report, progress)
            if free:
                seen = sweep(
                    fleet.only(free),
                    log,
                    phase="after",
                    state=HostState.VERIFIED,
                    on_host=progress.on_host,
                )
                report.after.update(seen)
        finally:
            log.release(free)
        _collect_failures(free, todo, report, log)
        tried = {host: why for host, why in report.failed.items() if host not in report.busy}
        report.stopped = budget.exceeded(tried, canary=canary)
        canary = canary and not free
        if report.stopped and number < len(todo.waves):
            log.event("rollout_stopped", report.stopped)
            break
    report.not_attempted = tuple(host for host in todo.roles if host not in attempted)
    log.states(report.not_attempted, HostState.NOT_ATTEMPTED, report.stopped)
    return report


def _locked(hosts: Sequence[str], log: RunLog, report: Report) -> tuple[str, ...]:
    """The hosts of a wave that are now ours alone; the others are reported, not waited for."""
    acquired = log.acquire(hosts, partial=True)
    for holder in acquired.busy:
        reason = (
            f"Run '{holder.run}' ({holder.command}, process {holder.pid} on "
            f"'{holder.controller}') has been working on it "
            f"since {holder.since:%Y-%m-%d %H:%M:%S} UTC."
        )
        report.failed[holder.host] = reason
        report.busy.add(holder.host)
        log.state(holder.host, HostState.NOT_ATTEMPTED, reason)
    return acquired.hosts


def _run_wave(
    hosts: Sequence[str],
    todo: Plan,
    tools: Tools,
    log: RunLog,
    report: Report,
    progress: Progress,
) -> None:
    """Run the wave's plays: hosts that need the same roles share one, a few plays at once."""
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for host in hosts:
        groups[todo.roles[host]].append(host)
        log.state(host, HostState.CONVERGING, ", ".join(todo.roles[host]))
    stop = threading.Event()
    writing = threading.Lock()

    def on_task(task: TaskResult) -> None:
        with writing:
            if task.changed or task.failed or task.unreachable:
                log.change(task.host, change_of(task))
            progress.on_task(task)

    def one(roles: tuple[str, ...], members: Sequence[str]) -> None:
        if stop.is_set():
            log.states(members, HostState.NOT_ATTEMPTED, "Stopped before its play began.")
            return
        try:
            outcome = run_play(play_request(tools, roles, members), on_task, cancelled=stop)
        except PlayError as error:
            outcome = PlayOutcome(
                PlayStatus.BROKEN, dict.fromkeys(members, HostResult.NOT_RUN), {}, error.message
            )
        with writing:
            _record_outcome(outcome, log, report)

    pool = ThreadPoolExecutor(PLAYS_AT_ONCE)
    plays: list[Future[None]] = []
    try:
        for roles, members in groups.items():
            plays.append(pool.submit(one, roles, members))
        wait(plays)
    except KeyboardInterrupt:
        stop.set()
        wait(plays, timeout=_STOP_SECONDS)
        raise
    finally:
        pool.shutdown(wait=False)
    for play in plays:
        play.result()


def play_request(
    tools: Tools,
    roles: tuple[str, ...],
    hosts: Sequence[str],
    variables: Mapping[str, Any] | None = None,
) -> PlayRequest:
    """Some roles on some hosts. ``variables`` win over the inventory, and are never secret."""
    return PlayRequest(
        playbook=tools.playbook,
        inventory=tools.inventory,
        hosts=tuple(hosts),
        config=tools.config,
        roles_path=tools.roles_path,
        tags=roles,
        # The playbook's own host pattern is for plain ansible-playbook; here the limit decides.
        extra_vars={"hfprov_hosts": "all", **(variables or {})},
        vault_password_files=tools.vault_password_files,
        become_password=tools.become_password,
    )


def change_of(task: TaskResult) -> Change:
    """What a task did, as the record keeps it."""
    ending = "unreachable" if task.unreachable else "failed" if task.failed else "changed"
    return Change(
        role=task.role,
        task=task.task,
        action=task.action,
        item=ending,
        diff=task.diff or task.message,
    )


_STATES = {
    HostResult.OK: HostState.CONVERGED,
    HostResult.FAILED: HostState.FAILED,
    HostResult.UNREACHABLE: HostState.UNREACHABLE,
    HostResult.INTERRUPTED: HostState.INTERRUPTED,
    HostResult.NOT_RUN: HostState.NOT_ATTEMPTED,
}


def _record_outcome(outcome: PlayOutcome, log: RunLog, report: Report) -> None:
    for host, result in outcome.hosts.items():
        reason = outcome.failures.get(host, outcome.message)
        if result is HostResult.INTERRUPTED:
            reason = f"Interrupted, state unknown. {outcome.message}".strip()
        log.state(host, _STATES[result], reason)
        if result is not HostResult.OK:
            report.failed[host] = reason or f"Ansible left the host '{result.value}'."
    if outcome.status is not PlayStatus.FINISHED:
        log.event(f"play_{outcome.status.value}", outcome.message)


def _collect_failures(hosts: Sequence[str], todo: Plan, report: Report, log: RunLog) -> None:
    """A host whose roles left one of their own checks unrepaired has failed, Ansible or not."""
    for host in hosts:
        view = report.after.get(host)
        if view is None:
            continue
        reason = report.failed.get(host) or view.reason or _still_wrong(view, todo.roles[host])
        if reason:
            report.failed[host] = reason
            log.state(host, HostState.FAILED if view.reachable else HostState.UNREACHABLE, reason)
        elif waiting := reboot_needed(view.verdicts):
            report.reboot_needed[host] = waiting
            log.event("reboot_needed", waiting, host=host)


def _still_wrong(view: HostVerdicts, roles: tuple[str, ...]) -> str:
    for verdict in view.verdicts:
        # What waits for a reboot only is no failure of the role; see reboot_needed.
        if not reboot_needed([verdict]) and repair_for([verdict], roles).roles:
            what = f"{verdict.check} {verdict.subject}".strip()
            return f"{STILL_WRONG}: {what}: {verdict.finding.reason}"
    return ""
