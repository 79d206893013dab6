"""Run tools on nodes: once to warm up, then several times; pairs with a server and a client."""

from __future__ import annotations

import concurrent.futures
import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from hfprov.declare.connection import Connection
from hfprov.diagnose import on_node
from hfprov.errors import HfprovError, NotUnderstoodError
from hfprov.measure.progress import OnRun, unheard
from hfprov.measure.steps import GroupStep, HostStep, PairStep
from hfprov.measure.taken import Taken
from hfprov.measure.tool import (
    ATTEMPTS,
    REPEATS,
    RETRIES,
    End,
    Figure,
    HostTool,
    MeasureError,
    PairTool,
    Settings,
    Tool,
    TransientError,
)
from hfprov.observe import in_parallel
from hfprov.remote import Output, run
from hfprov.sweep import Fleet

PORT = 15201
"""Of servers on nodes; a host serves one pair at a time."""
_GRACE = 20.0
_OUTPUT_LIMIT = 16 << 20
_REFUSED = (
    *("refused", "unable to connect", "couldn't connect", "No route"),
    "init the socket connection",  # perftest, in both of its ways to connect
)
_TRIES = 20
_TRY_AGAIN = 0.5
_SERVER_ENDS = 5.0
"""Seconds that a server may take to end behind its client; its port is wanted again."""


Reader = Callable[[str], Sequence[Figure]]


def run_host_step(
    fleet: Fleet, step: HostStep, settings: Mapping[str, Settings], on_run: OnRun = unheard
) -> list[Taken]:
    """One tool on its hosts, all at once. ``settings`` by host."""
    jobs = [
        functools.partial(_on_host, fleet.connections[host], step.tool, settings[host], on_run)
        for host in step.hosts
    ]
    return list(in_parallel(jobs, at_once=fleet.at_once))


def _on_host(connection: Connection, tool: HostTool, settings: Settings, on_run: OnRun) -> Taken:
    taken = Taken(tool, connection.host, argv=tuple(tool.argv(settings)), alone=True)
    seconds = settings.seconds * 4 + tool.seconds
    _repeat(taken, connection, seconds, lambda text: tool.read(text, settings), on_run)
    return taken


def run_group_step(
    fleet: Fleet, step: GroupStep, settings: Settings, on_run: OnRun = unheard
) -> list[Taken]:
    """One tool over a group, started on its first host, which stands for all of them."""
    first = step.group.ends[0].host
    taken = Taken(
        step.tool,
        first,
        rail=step.rail,
        argv=tuple(step.tool.argv(step.group, settings)),
        alone=True,
        hosts=step.hosts,
    )
    connection = fleet.connections[first]
    tool = step.tool
    _repeat(taken, connection, tool.seconds, lambda text: tool.read(text, step.group), on_run)
    return [taken]


def _repeat(
    taken: Taken, connection: Connection, seconds: float, read: Reader, on_run: OnRun
) -> None:
    """Run a command once to warm up and then as often as its figures need to be believed."""

    def once(more: int = 0) -> None:
        _retried(taken, lambda: _take(taken, _run(connection, taken.argv, seconds), read), on_run)
        on_run(more)

    try:
        once()  # to warm up
        for attempt in range(ATTEMPTS):
            taken.figures.clear()
            once(REPEATS if attempt else 0)
            for _ in range(REPEATS - 1):
                once()
            if taken.steady:
                break
    except HfprovError as error:
        taken.problem = error.message


def _retried(taken: Taken, once: Callable[[], None], on_run: OnRun) -> None:
    """One run, made anew where the tool itself says that it could not measure this one."""
    for left in reversed(range(RETRIES + 1)):
        try:
            once()
        except TransientError as error:
            if not left:
                times = f"So it said {1 + RETRIES} times, one after the other."
                raise MeasureError(f"{error.message} {times}") from error
            taken.retried.append(error.message)
            on_run(1)
        else:
            return


def _figures(tool: Tool, told: Output, read: Reader) -> Sequence[Figure]:
    """The figures of one run. Raises NotUnderstoodError when there are none."""
    found = read(_text(told))
    if told.code != 0:
        raise NotUnderstoodError(f"'{tool.name}' ended with exit code {told.code}.")
    return found


def _take(taken: Taken, told: Output, read: Reader) -> None:
    """Take over one run's figures. Raises NotUnderstoodError when there are none."""
    taken.raw = told.stdout + told.stderr.encode()
    taken.add(_figures(taken.tool, told, read))


def run_round(
    fleet: Fleet,
    step: PairStep,
    pairs: Sequence[tuple[str, str]],
    settings: Settings,
    on_run: OnRun = unheard,
) -> list[Taken]:
    """Pairs at the same time; each first one way, then the other."""
    jobs = [functools.partial(_both_ways, fleet, step, pair, settings, on_run) for pair in pairs]
    taken = [one for both in in_parallel(jobs, at_once=fleet.at_once) for one in both]
    for one in taken:
        one.alone = len(pairs) == 1
    return taken


def _both_ways(
    fleet: Fleet, step: PairStep, pair: tuple[str, str], settings: Settings, on_run: OnRun
) -> list[Taken]:
    a, b = (step.ends[host] for host in pair)
    found = []
    for mine, other in ((a, b), (b, a)):
        taken = _one_way(fleet, step.tool, (mine, other), settings, on_run)
        taken.rail = step.rail
        found.append(taken)
    return found


def _one_way(
    fleet: Fleet, tool: PairTool, ends: tuple[End, End], settings: Settings, on_run: OnRun
) -> Taken:
    """Traffic from the first end to the second. Without intervals a tool runs several times."""
    mine, other = ends
    argv = tuple(tool.client(mine, other, PORT, settings))
    taken = Taken(tool, mine.host, other.host, argv=argv)

    def once() -> None:
        _take(taken, _served(fleet, tool, mine, other, settings), tool.read)

    try:
        for attempt in range(ATTEMPTS):
            taken.figures.clear()
            more = (1 if tool.intervals else REPEATS) if attempt else 0
            while taken.fewest < REPEATS:
                _retried(taken, once, on_run)
                on_run(more)
                more = 0
            if taken.steady:
                break
    except HfprovError as error:
        taken.problem = error.message
    else:
        _draw(fleet, taken, tool, ends, settings, on_run)
    return taken


def _draw(
    fleet: Fleet,
    taken: Taken,
    tool: PairTool,
    ends: tuple[End, End],
    settings: Settings,
    on_run: OnRun,
) -> None:
    """The curve over message sizes. Figures count also without one."""

    def once(chosen: Settings) -> None:
        told = _served(fleet, tool, *ends, chosen)
        taken.draw(_figures(tool, told, tool.read), chosen.message_bytes)

    try:
        for chosen in tool.curve(settings):
            _retried(taken, functools.partial(once, chosen), on_run)
            on_run(0)
    except HfprovError as error:
        taken.curve_problem = error.message


def _served(fleet: Fleet, tool: PairTool, mine: End, other: End, settings: Settings) -> Output:
    """One run of a client while its server, where it needs one, runs on the other host."""
    seconds = max(settings.seconds, REPEATS) * 2 + tool.seconds
    if tool.server is None:
        argv = tool.client(mine, other, PORT, settings)
        return _run(fleet.connections[mine.host], argv, seconds)
    pool = ThreadPoolExecutor(1)
    try:
        server = pool.submit(
            _run, fleet.connections[other.host], tool.server(other, PORT, settings), seconds
        )
        told = _client(fleet.connections[mine.host], tool, (mine, other), settings, server)
        concurrent.futures.wait([server], _SERVER_ENDS)
        return told
    finally:
        # It has a deadline of its own on the node, and ends with its only client.
        pool.shutdown(wait=False)


def _client(
    connection: Connection,
    tool: PairTool,
    ends: tuple[End, End],
    settings: Settings,
    server: Future[Output],
) -> Output:
    mine, other = ends
    argv = tool.client(mine, other, PORT, settings)
    seconds = max(settings.seconds, REPEATS) * 2 + tool.seconds
    pause = threading.Event()
    for _ in range(_TRIES):
        told = _run(connection, argv, seconds)
        # The exit code does not tell: with JSON, iperf3 3.12 ends with 0 in this case as well.
        if not any(word in _text(told)[-2000:] for word in _REFUSED):
            return told
        if server.done():
            gone = server.result()
            raise NotUnderstoodError(
                f"The server of '{tool.name}' on '{other.host}' ended with exit code "
                f"{gone.code}: {_text(gone)[-300:].strip()}"
            )
        pause.wait(_TRY_AGAIN)  # the server has not started yet
    raise NotUnderstoodError(
        f"'{mine.host}' could not reach the server of '{tool.name}' on '{other.host}'."
    )


def _run(connection: Connection, argv: Sequence[str], seconds: float) -> Output:
    return run(connection, on_node(argv, seconds), deadline=seconds + _GRACE, limit=_OUTPUT_LIMIT)


def _text(told: Output) -> str:
    """What the tool said; a JSON document without what it complained of beside it."""
    said = told.stdout.decode("utf-8", "backslashreplace")
    return said if said.lstrip().startswith("{") else said + told.stderr
