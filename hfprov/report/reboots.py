"""Reboots for people and for programs: the plan before, the outcome after."""

from __future__ import annotations

import sys
from typing import Any

from rich.text import Text

from hfprov.reboot.fleet import Rebooted
from hfprov.reboot.plan import RebootPlan
from hfprov.report.documents import summary
from hfprov.report.inert import one_line
from hfprov.report.terminal import console


def print_reboot_plan(todo: RebootPlan) -> None:
    """Who is going to be rebooted and why, before it is done."""
    out = console(sys.stderr)
    for number, hosts in enumerate(todo.waves, start=1):
        out.print(Text(f"wave {number}:", style="bold"))
        for host in hosts:
            out.print(Text(f"  {host}: {one_line(todo.reasons[host])}"))
    for host, reason in todo.withheld.items():
        out.print(Text(f"{host} is not rebooted: {one_line(reason)}", style="yellow"))
    for host in todo.unreachable:
        out.print(Text(f"{host} cannot be reached.", style="yellow"))
    if not todo.waves:
        out.print(Text("Nobody is to be rebooted."))


def print_rebooted(done: Rebooted) -> None:
    """What became of every host of the plan."""
    out = console()
    for host in done.plan.reasons:
        boots = done.report.rebooted.get(host)
        if host in done.report.failed:
            out.print(Text(host, style="bold"), Text("failed", style="red"))
            out.print(Text(f"  {one_line(done.report.failed[host])}"))
        elif boots is not None:
            kernels = f"kernel {boots[1].kernel.release} (before: {boots[0].kernel.release})"
            out.print(
                Text(host, style="bold"), Text("rebooted", style="green"), Text(one_line(kernels))
            )
    for host, reason in done.report.drained.items():
        out.print(Text(f"{host} stays drained: {one_line(reason)}", style="yellow"))
    if done.report.stopped:
        out.print(Text(f"Stopped. {one_line(done.report.stopped)}", style="red"))
    if done.report.not_attempted:
        out.print(Text(f"Not attempted: {', '.join(done.report.not_attempted)}", style="yellow"))


def reboot_document(done: Rebooted) -> dict[str, Any]:
    """``hfprov reboot --json``; described in docs/schemas/reboot-1.json."""
    return {
        "schema": "hfprov.reboot/1",
        "run": done.run,
        "exit_code": int(done.code),
        "summary": summary(done.views.values()),
        "plan": {
            "reasons": dict(done.plan.reasons),
            "waves": [list(wave) for wave in done.plan.waves],
            "unreachable": list(done.plan.unreachable),
            "withheld": dict(done.plan.withheld),
        },
        "rebooted": {
            host: {
                "boot_id": [boot.kernel.boot_id for boot in boots],
                "kernel": [boot.kernel.release for boot in boots],
            }
            for host, boots in done.report.rebooted.items()
        },
        "failed": dict(done.report.failed),
        "drained": dict(done.report.drained),
        "not_attempted": list(done.report.not_attempted),
        "stopped": done.report.stopped,
    }
