"""Path MTU for people and for programs."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from hfprov.pairs.explain import Cause, Kind
from hfprov.path_mtu.run import PathMtu, RailResult
from hfprov.path_mtu.trial import Trial
from hfprov.report.inert import one_line
from hfprov.report.terminal import console
from hfprov.words import plural

_SHOWN = 8


def print_path_mtu(found: PathMtu, *, verbose: bool) -> None:
    """Per rail: how many paths pass, and what explains those that do not."""
    out = console()
    for result in found.rails:
        full = result.full
        good = sum(one.passed is True for one in full)
        style = "green" if good == len(full) else "red"
        out.print(
            Text(result.rail.name, style="bold"),
            Text(
                f"{_sizes(result)} bytes pass on {good} of {plural(len(full), 'path')}", style=style
            ),
        )
        for cause in result.causes:
            out.print(Text(f"  {one_line(sentence(cause, result))}"))
        for one in result.trials:
            if verbose or one.passed is None:
                out.print(Text(f"  {one_line(_line(one))}", style="dim"))
    for what, reason in found.untested.items():
        out.print(Text(f"{one_line(what)}: not tested: {one_line(reason)}", style="magenta"))
    if not found.rails:
        out.print(Text("No path was tested."))


def _sizes(result: RailResult) -> str:
    sizes = sorted({one.path.bytes for one in result.trials})
    return " or ".join(str(size) for size in sizes)


def _line(one: Trial) -> str:
    word = {True: "passes", False: "fails", None: "unknown"}[one.passed]
    ends = f"{one.path.source.host} -> {one.path.target.host}"
    return f"{ends} {one.bytes} bytes: {word}. {one.reason}".strip()


def sentence(cause: Cause, result: RailResult) -> str:
    """A cause in words, with what the hosts themselves say about it."""
    groups = [_names(group) for group in cause.hosts]
    verb = "fails" if cause.failed == 1 else "fail"
    count = f"{cause.failed} of {plural(cause.of, 'pair')} {verb}"
    if cause.kind is Kind.RAIL:
        return f"No path of this rail passes ({count}): look at the network that all share."
    if cause.kind is Kind.GROUPS:
        return (
            f"Between {groups[0]} and {groups[1]} {count}, within each group all is well: "
            "look at the link between them."
        )
    if cause.kind is Kind.PAIR:
        return f"Between {groups[0]} and {groups[1]}: {evidence(cause, result)}"
    if cause.kind is Kind.PARTLY:
        return f"{groups[0]}: {count}; one of several cables or paths. {evidence(cause, result)}"
    return f"{groups[0]}: {count}, with every other host. {evidence(cause, result)}"


def evidence(cause: Cause, result: RailResult) -> str:
    """What speaks about the cause: the interface's own MTU, what ping said, what still passes."""
    concerned = {host for group in cause.hosts for host in group}
    for end in result.rail.ends:
        if end.host in concerned and end.live is not None and end.live < end.wanted:
            return f"'{end.interface}' of '{end.host}' has MTU {end.live} instead of {end.wanted}."
    mine = [
        one
        for one in result.trials
        if concerned & {one.path.source.host, one.path.target.host} and one.passed is not None
    ]
    failed = [one for one in mine if not one.passed and one.bytes == one.path.bytes]
    largest = max(
        (one.bytes for one in mine if one.passed and one.bytes < one.path.bytes), default=0
    )
    if not failed:
        return ""
    passes = f"Packets of {largest} bytes pass." if largest else "Smaller packets fail as well."
    return f"{failed[0].reason} {passes}"


def _names(hosts: tuple[str, ...]) -> str:
    more = f" and {len(hosts) - _SHOWN} more" if len(hosts) > _SHOWN else ""
    return ", ".join(hosts[:_SHOWN]) + more


def path_mtu_document(found: PathMtu) -> dict[str, Any]:
    """``hfprov path-mtu --json``; described in docs/schemas/pathmtu-1.json."""
    return {
        "schema": "hfprov.pathmtu/1",
        "run": found.run,
        "exit_code": int(found.code),
        "rails": [_rail(result) for result in found.rails],
        "untested": dict(found.untested),
    }


def _rail(result: RailResult) -> dict[str, Any]:
    return {
        "name": result.rail.name,
        "hosts": [end.host for end in result.rail.ends],
        "causes": [
            {
                "kind": cause.kind.value,
                "hosts": [list(group) for group in cause.hosts],
                "failed": cause.failed,
                "of": cause.of,
                "says": sentence(cause, result),
            }
            for cause in result.causes
        ],
        "trials": [
            {
                "source": one.path.source.host,
                "interface": one.path.source.interface,
                "target": one.path.target.host,
                "address": one.path.target.address,
                "bytes": one.bytes,
                "passed": one.passed,
                "reason": one.reason,
            }
            for one in result.trials
        ],
    }
