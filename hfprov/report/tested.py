"""Results of tests that not every node has to take: where nothing is required, that is said."""

from __future__ import annotations

from collections.abc import Mapping

from rich.text import Text

from hfprov.report.inert import one_line
from hfprov.report.terminal import STYLES, console, print_views
from hfprov.sweep import HostVerdicts
from hfprov.verdict import Outcome


def required(views: Mapping[str, HostVerdicts]) -> dict[str, HostVerdicts]:
    """Hosts that were to be tested; one without any verdict is one of them, and is unknown."""
    return {host: view for host, view in views.items() if not _spared(view)}


def _spared(view: HostVerdicts) -> bool:
    outcomes = {one.outcome for one in view.verdicts}
    return view.reachable and outcomes == {Outcome.NOT_APPLICABLE}


def print_tested(views: Mapping[str, HostVerdicts], *, verbose: bool = False) -> None:
    """Hosts of which nothing is required, each with the reason; then all others as ever."""
    out = console()
    tested = required(views)
    style = STYLES[Outcome.NOT_APPLICABLE]
    for host, view in views.items():
        if host in tested:
            continue
        out.print(Text(host, style="bold"), Text("not applicable", style=style))
        for reason in dict.fromkeys(one.finding.reason for one in view.verdicts):
            out.print(Text(f"  {one_line(reason)}"))
    if tested:
        print_views(tested, verbose=verbose)
    else:
        out.print(Text("Nothing was tested."))
