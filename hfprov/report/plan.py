"""What a converge is going to do, and what it left: for people in groups, for programs by host."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from rich.text import Text

from hfprov.converge import STILL_WRONG, Plan, Report
from hfprov.judge import find_check
from hfprov.operate import Operation, Policy
from hfprov.report.costs import COSTS
from hfprov.report.documents import Document, operation_document
from hfprov.report.drift_text import host_names
from hfprov.report.inert import one_line
from hfprov.report.terminal import console
from hfprov.rollout import LEVEL_NEEDED, LEVELS, size_of
from hfprov.sweep import HostVerdicts
from hfprov.verdict import Impact, Outcome, Verdict
from hfprov.words import plural

_REPAIRABLE = (Outcome.FAIL, Outcome.UNKNOWN)
ENDED_BEFORE = "the play ended on this host before, or at, its role"
NOT_COME_TO = "the rollout stopped before it came to this host"
_MILDEST_FIRST = (Impact.NONE, Impact.RESTART, Impact.DRAIN, Impact.REBOOT)


def reasons(view: HostVerdicts, roles: Sequence[str]) -> dict[str, list[Verdict]]:
    """By role: the verdicts that are why it runs. A role that runs regardless has none."""
    found: dict[str, list[Verdict]] = {role: [] for role in roles}
    for verdict in view.verdicts:
        check = find_check(verdict.check)
        wanted = check is not None and check.role in found and check.impact is not Impact.MANUAL
        if wanted and check is not None and verdict.outcome in _REPAIRABLE:
            found[str(check.role)].append(verdict)
    return found


def cost(verdicts: Sequence[Verdict]) -> Impact:
    """What it costs to repair all of these: the costliest of their checks."""
    impacts = {check.impact for one in verdicts if (check := find_check(one.check))}
    return max(
        (one for one in impacts if one is not Impact.MANUAL),
        key=_MILDEST_FIRST.index,
        default=Impact.NONE,
    )


def plan_document(command: str, done: Operation, policy: Policy) -> Document:
    """The plan by host, JSON-ready. Nothing of it was done."""
    plan = done.plan
    if plan is None:
        raise ValueError("There is no plan.")
    return {
        "schema": "hfprov.plan/1",
        "command": command,
        "run": done.run,
        "exit_code": int(done.code),
        "allowed": policy.allowed,
        "max_failures": size_of(policy.budget, len(plan.roles)),
        "waves": [list(wave) for wave in plan.waves],
        "hosts": [
            _host(view, plan)
            for view in done.views.values()
            if view.host in plan.roles or view.host in plan.withheld
        ],
        "unreachable": list(plan.unreachable),
    }


def _host(view: HostVerdicts, plan: Plan) -> Document:
    roles = []
    for role, verdicts in reasons(view, plan.roles.get(view.host, ())).items():
        impact = cost(verdicts)
        why = [
            {"check": one.check, "subject": one.subject, "outcome": one.outcome.value}
            for one in verdicts
        ]
        needs = LEVEL_NEEDED[impact]
        roles.append({"role": role, "impact": impact.value, "needs": needs, "because": why})
    withheld = plan.withheld.get(view.host, {})
    return {
        "host": view.host,
        "roles": roles,
        "withheld": [{"what": what, "why": why} for what, why in withheld.items()],
    }


def print_plan(plan: Plan, views: Mapping[str, HostVerdicts]) -> None:
    """What is going to be done, before it is done: hosts that need the same in one line."""
    out = console(sys.stderr)
    costs: dict[str, Impact] = {}
    for number, hosts in enumerate(plan.waves, start=1):
        out.print(Text(f"wave {number}: {plural(len(hosts), 'host')}", style="bold"))
        groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for host in hosts:
            groups[plan.roles[host]].append(host)
            for role, verdicts in reasons(views[host], plan.roles[host]).items():
                worst = (costs.get(role, Impact.NONE), cost(verdicts))
                costs[role] = max(worst, key=_MILDEST_FIRST.index)
        for roles, some in groups.items():
            out.print(Text(f"  {host_names(some)}: {', '.join(roles)}"))
    for level in LEVELS:
        some = [role for role, impact in costs.items() if LEVEL_NEEDED[impact] == level]
        if some:
            price = "; ".join(dict.fromkeys(COSTS[costs[role]] for role in some))
            out.print(Text(f"  {level}: {', '.join(some)} ({price})", style="dim"))
    if plan.unreachable:
        out.print(Text(f"  not reached: {host_names(plan.unreachable)}", style="yellow"))
    _print_groups("is not repaired", grouped(plan.withheld))


def grouped(withheld: Mapping[str, Mapping[str, str]]) -> dict[tuple[str, str], list[str]]:
    """Hosts by what is not repaired and why."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for host, some in withheld.items():
        for what, why in some.items():
            groups[what, why].append(host)
    return dict(groups)


def _print_groups(words: str, groups: Mapping[tuple[str, str], Sequence[str]]) -> None:
    out = console(sys.stderr)
    for (what, why), hosts in groups.items():
        line = f"  {host_names(hosts)}: {one_line(what)} {words}: {one_line(why)}"
        out.print(Text(line, style="yellow"))


def not_repaired(done: Operation) -> list[Document]:
    """What is still wrong after the second observation, and why, JSON-ready."""
    groups: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    if done.plan is not None and done.report is not None:
        for host, view in done.views.items():
            for check, subject, why in _left(view, done.plan, done.report):
                groups[check, subject, why].append(host)
    return [
        {"check": check, "subject": subject, "why": why, "hosts": hosts}
        for (check, subject, why), hosts in groups.items()
    ]


def _left(view: HostVerdicts, plan: Plan, report: Report) -> Iterator[tuple[str, str, str]]:
    if not view.reachable:
        yield "", "", f"It is not reached: {view.reason}"
        return
    withheld = plan.withheld.get(view.host, {})
    for verdict in view.verdicts:
        if verdict.outcome not in _REPAIRABLE:
            continue
        check = find_check(verdict.check)
        role = check.role if check else None
        if role in withheld:
            why = withheld[str(role)]
        elif view.host in report.not_attempted:
            why = NOT_COME_TO
        elif role is None or check is None or check.impact is Impact.MANUAL:
            why = f"a person must do it: 'hfprov explain {verdict.check}'"
        elif view.host in report.reboot_needed and check.impact is Impact.REBOOT:
            why = "it waits for a reboot"
        elif stopped := _stopped(report.failed.get(view.host, "")):
            why = f"{ENDED_BEFORE}: {stopped}"
        else:
            why = "its role ran and left it so"
        yield verdict.check, verdict.subject, why


def _stopped(reason: str) -> str:
    """Why a host's play did not come to its end; empty when it did."""
    return "" if reason.startswith(STILL_WRONG) else reason


def repair_document(command: str, done: Operation) -> Document:
    """What a repair came to, JSON-ready, with what it left."""
    return {**operation_document(command, done), "not_repaired": not_repaired(done)}
