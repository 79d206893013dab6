"""What a provision or repair came to, for people: findings in short, and the reason last."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence

from rich.text import Text

from hfprov.converge import Report
from hfprov.operate import Operation
from hfprov.report.documents import summary
from hfprov.report.drift_text import host_names
from hfprov.report.inert import one_line
from hfprov.report.plan import ENDED_BEFORE, NOT_COME_TO, not_repaired
from hfprov.report.terminal import (
    console,
    outcome_text,
    print_odd,
    print_views,
    subjects_in_words,
    verdict_line,
)
from hfprov.sweep import HostVerdicts
from hfprov.verdict import Outcome, Verdict, badness
from hfprov.words import plural

_BAD = (Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN)
_MOST_LINES = 10
"""Lines of findings per host: a host whose play ended early lacks almost everything."""


def print_repair(done: Operation, *, verbose: bool = False) -> None:
    """What is left and why, the hosts, why hosts failed, and last how many hosts stand how."""
    print_not_repaired(done)
    report = done.report or Report()
    if verbose:
        print_views(done.views, verbose=True)
        print_report(report)
        return
    out = console()
    for view in done.views.values():
        _print_host(view, report, done.run)
    print_odd(done.views)
    # Both streams are often one terminal or one file: what is said last must come last there.
    out.file.flush()
    print_report(report)
    counts = summary(done.views.values())
    out.print(Text("  ".join(f"{name}: {number}" for name, number in counts.items())))


def _print_host(view: HostVerdicts, report: Report, run: str) -> None:
    out = console()
    out.print(Text(view.host, style="bold"), outcome_text(view.outcome))
    if not view.reachable:
        out.print(Text(f"  {one_line(view.reason)}"))
        if view.hint:
            out.print(Text(f"  {one_line(view.hint)}", style="dim"))
        return
    bad = [one for one in view.verdicts if one.outcome in _BAD]
    if view.host in report.not_attempted:
        found = plural(len(bad), "finding")
        out.print(Text(f"  not attempted; {found}, as before", style="dim"))
        return
    lines = _by_check(bad)
    for line in lines[:_MOST_LINES]:
        out.print(line)
    if len(lines) > _MOST_LINES:
        more = plural(len(lines) - _MOST_LINES, "more check")
        out.print(Text(f"  {more} with findings: 'hfprov show {run}' has all", style="dim"))


def _by_check(verdicts: Sequence[Verdict]) -> list[Text]:
    """A line per check and outcome, worst first: one of its findings, and how many more."""
    groups: dict[tuple[Outcome, str], list[Verdict]] = defaultdict(list)
    for one in sorted(verdicts, key=lambda one: -badness(one.outcome)):
        groups[one.outcome, one.check].append(one)
    lines = []
    for same in groups.values():
        line = verdict_line(same[0])
        if len(same) > 1:
            line.append(
                f" (and {subjects_in_words([one.subject for one in same[1:]])})", style="dim"
            )
        lines.append(line)
    return lines


def print_not_repaired(done: Operation) -> None:
    """What is still wrong and why. A play or rollout that ended early is one line, not each."""
    rows = not_repaired(done)
    if not rows:
        return
    out = console(sys.stderr)
    out.print(Text("Not repaired:", style="bold yellow"))
    groups: dict[tuple[str, str, tuple[str, ...]], list[str]] = defaultdict(list)
    early: dict[str, dict[str, int]] = {}
    for row in rows:
        short = next((one for one in (ENDED_BEFORE, NOT_COME_TO) if row["why"].startswith(one)), "")
        if short:
            counts = early.setdefault(short, defaultdict(int))
            for host in row["hosts"]:
                counts[host] += 1
        else:
            groups[row["check"], row["why"], tuple(row["hosts"])].append(row["subject"])
    for (check, why, hosts), subjects in groups.items():
        what = (
            f"{check} {subjects_in_words(subjects) if any(subjects) else ''}".strip() or "the host"
        )
        out.print(Text(f"  {what} on {host_names(hosts)}: {one_line(why)}"))
    for why, counts in early.items():
        for number, names in _hosts_by_number(counts).items():
            each = " each" if len(names) > 1 else ""
            out.print(Text(f"  {plural(number, 'finding')}{each} on {host_names(names)}: {why}"))


def _hosts_by_number(counts: Mapping[str, int]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = defaultdict(list)
    for host, number in counts.items():
        found[number].append(host)
    return found


def print_report(report: Report) -> None:
    """Why hosts failed, each reason once with its hosts; nothing when nothing did."""
    out = console(sys.stderr)
    for reason, hosts in _hosts_by_reason(report.reboot_needed).items():
        some = "needs" if len(hosts) == 1 else "need"
        out.print(Text(f"{host_names(hosts)} {some} a reboot: {one_line(reason)}", style="yellow"))
    if report.reboot_needed:
        out.print(Text("Reboot them with 'hfprov reboot', drained.", style="yellow"))
    if report.not_attempted:
        names = host_names(report.not_attempted)
        why = "Not attempted, because the rollout stopped"
        out.print(Text(f"{why}: {names}", style="yellow"))
    if report.stopped:
        out.print(Text(f"The rollout stopped. {_without_reason(report)}", style="red"))
    for reason, hosts in _hosts_by_reason(report.failed).items():
        out.print(Text(f"{host_names(hosts)} failed: {one_line(reason)}", style="red"))


def _hosts_by_reason(reasons: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for host, reason in reasons.items():
        found[reason].append(host)
    return found


def _without_reason(report: Report) -> str:
    """Why the rollout stopped, less the reason of a host that is told by itself."""
    for reason in report.failed.values():
        if reason and report.stopped.endswith(f": {reason}"):
            return one_line(f"{report.stopped.removesuffix(f': {reason}')}.")
    return one_line(report.stopped)
