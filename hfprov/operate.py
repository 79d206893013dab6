"""What the commands do, from the first sweep to the exit code. Prints nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hfprov import play_directory
from hfprov.certificate.revocation import Revoker, catch_up, revoke_bad
from hfprov.converge import Plan, Progress, Report, Tools, converge, plan
from hfprov.errors import ExitCode
from hfprov.play_directory import Abandoned
from hfprov.record.log import RunLog
from hfprov.record.store import Record
from hfprov.rollout import Budget, require_sizes, size_of
from hfprov.sweep import Fleet, HostVerdicts, sweep
from hfprov.verdict import Outcome


@dataclass(frozen=True, slots=True)
class Policy:
    """How far and how fast a converge may go. Raises UsageError for what is no size or share."""

    sizes: tuple[str, ...]
    """Sizes of the waves, see :func:`hfprov.rollout.waves`."""
    budget: str
    """How many hosts may fail, as a number or a share."""
    allowed: str = "reboot"
    """The costliest repair that is allowed, one of :data:`hfprov.rollout.LEVELS`."""
    everything: bool = False
    """Run every role on every host, whether a check asks for it or not."""

    def __post_init__(self) -> None:
        # Now, and not after every host was observed.
        require_sizes(self.sizes, self.budget)


@dataclass(frozen=True, slots=True)
class Operation:
    """What a command came to: the final view of every host, and how it was reached."""

    run: str
    views: Mapping[str, HostVerdicts]
    code: ExitCode
    plan: Plan | None = None
    report: Report | None = None


def exit_code_for(views: Mapping[str, HostVerdicts]) -> ExitCode:
    """The exit code that hosts deserve. Warnings are good enough; nothing at all is not."""
    outcomes = {view.outcome for view in views.values()}
    if not outcomes:
        return ExitCode.NOTHING
    if Outcome.UNKNOWN in outcomes:
        return ExitCode.UNKNOWN
    return ExitCode.BAD if Outcome.FAIL in outcomes else ExitCode.GOOD


def look(
    record: Record, fleet: Fleet, log: RunLog, progress: Progress, *, phase: str = "before"
) -> dict[str, HostVerdicts]:
    """Observe and judge every host; what is no longer good loses its certificates."""
    catch_up(record)
    revoker = Revoker(record, log)

    def seen(view: HostVerdicts) -> None:
        # Before the next host is told of: what is killed now must not leave a certificate standing.
        revoker.seen(view)
        progress.on_host(view)

    return sweep(fleet, log, phase=phase, on_host=seen)


def drift(record: Record, fleet: Fleet, log: RunLog, progress: Progress) -> Operation:
    """What is different from the baseline, on which host. Changes nothing."""
    views = look(record, fleet, log, progress)
    return Operation(log.id, views, exit_code_for(views))


def foresee(
    record: Record, fleet: Fleet, log: RunLog, policy: Policy, progress: Progress
) -> Operation:
    """What a repair would do. Changes nothing."""
    views = look(record, fleet, log, progress)
    todo = plan(
        fleet, views, sizes=policy.sizes, allowed=policy.allowed, everything=policy.everything
    )
    return Operation(log.id, views, exit_code_for(views), todo)


def bring_to_baseline(
    record: Record,
    fleet: Fleet,
    tools: Tools,
    log: RunLog,
    policy: Policy,
    progress: Progress,
    on_plan: Callable[[Plan, Mapping[str, HostVerdicts]], None],
) -> Operation:
    """Observe, run the roles with something to do, observe what was changed again."""
    for left in play_directory.clear_abandoned():
        log.event("play_abandoned", _about(left))
    before = look(record, fleet, log, progress)
    todo = plan(
        fleet, before, sizes=policy.sizes, allowed=policy.allowed, everything=policy.everything
    )
    on_plan(todo, before)
    budget = Budget(size_of(policy.budget, len(todo.roles)))
    report = converge(fleet, todo, tools, log, budget=budget, progress=progress)
    views = {host: report.after.get(host, view) for host, view in before.items()}
    revoke_bad(record, report.after, log)
    return Operation(log.id, views, _with_failures(views, report), todo, report)


def _about(left: Abandoned) -> str:
    text = f"A play of process {left.pid}, which is gone, was left behind; it has been removed."
    if left.stopped.found:
        text = (
            f"A play of process {left.pid}, which is gone, was still at work: "
            f"{left.stopped.found} of its processes on this machine had to be stopped."
        )
    if left.stopped.alive:
        text += f" {left.stopped.alive} of them cannot be ended."
    return text


def _with_failures(views: Mapping[str, HostVerdicts], report: Report) -> ExitCode:
    """A converge that failed on a host is bad even where no check sees what is wrong."""
    code = exit_code_for(views)
    failed = report.failed or report.not_attempted or report.stopped
    return ExitCode.BAD if code is ExitCode.GOOD and failed else code
