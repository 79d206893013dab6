"""Run tools on nodes: once to warm up, then several times; pairs with a server and a client."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from hfprov.declare.connection import Connection
from hfprov.diagnose import on_node
from hfprov.errors import HfprovError, NotUnderstoodError, RemoteError
from hfprov.measure.judges import UNSTABLE
from hfprov.measure.plan import HostStep, PairStep
from hfprov.measure.quiesce import Quiet, quiesce, restore
from hfprov.measure.statistics import summarise
from hfprov.measure.tools import REPEATS, End, Figure, HostTool, PairTool, Settings, Tool
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
_ATTEMPTS = 2
"""Times that a tool's repeats are made anew when they do not agree with each other."""
_TRIES = 20
_TRY_AGAIN = 0.5


@dataclass(slots=True)
class Taken:
    """What one tool said on one host, or from one host to another."""

    tool: Tool
    host: str
    peer: str = ""
    rail: str = ""
    argv: tuple[str, ...] = ()
    figures: dict[str, Figure] = field(default_factory=dict)
    """By test, with the values of all repeats."""
    problem: str = ""
    """Why there are no figures, or why they do not count."""
    raw: bytes = b""
    """The output of the last run."""
    alone: bool = False
    """Whether nothing else was measured at the same time."""

    @property
    def fewest(self) -> int:
        """The fewest values of a test; 0 without any."""
        return min((len(one.values) for one in self.figures.values()), default=0)

    @property
    def steady(self) -> bool:
        """Whether the repeats of every test agree with each other."""
        return all(summarise(one.values).variation <= UNSTABLE for one in self.figures.values())

    def add(self, found: Sequence[Figure]) -> None:
        """Take over one run's figures."""
        for one in found:
            known = self.figures.get(one.test)
            values = (*(known.values if known else ()), *one.values)
            self.figures[one.test] = Figure(
                one.test, one.unit, values, one.curve, one.higher_is_better
            )


@contextmanager
def quiet_nodes(
    fleet: Fleet, hosts: Sequence[str], seconds: float, say: Callable[[str], None]
) -> Iterator[dict[str, str]]:
    """Keep hosts quiet within the block. Gives, by host, why that was not possible.

    Afterwards, in every case, what was stopped is started again; a host that cannot be reached then
    does it by itself after ``seconds``.
    """
    stopped: list[Quiet] = []

    def one(host: str) -> tuple[str, str]:
        try:
            stopped.append(quiesce(fleet.connections[host], seconds))
        except RemoteError as error:
            return host, error.message
        return host, ""

    try:
        asked = in_parallel([functools.partial(one, host) for host in hosts], at_once=fleet.at_once)
        yield {host: reason for host, reason in asked if reason}
    finally:
        back = [functools.partial(_back, fleet.connections[one.host], one) for one in stopped]
        for host, reason in in_parallel(back, at_once=fleet.at_once):
            if reason:
                say(f"{host}: timers are started again by the node itself, later: {reason}")


def _back(connection: Connection, quiet: Quiet) -> tuple[str, str]:
    return quiet.host, restore(connection, quiet)


def run_host_step(fleet: Fleet, step: HostStep, settings: Mapping[str, Settings]) -> list[Taken]:
    """One tool on its hosts, all at once. ``settings`` by host."""
    jobs = [
        functools.partial(_on_host, fleet.connections[host], step.tool, settings[host])
        for host in step.hosts
    ]
    return list(in_parallel(jobs, at_once=fleet.at_once))


def _on_host(connection: Connection, tool: HostTool, settings: Settings) -> Taken:
    argv = tuple(tool.argv(settings))
    taken = Taken(tool, connection.host, argv=argv, alone=True)
    seconds = settings.seconds * 4 + tool.seconds

    def once() -> Output:
        return _run(connection, argv, seconds)

    try:
        _take(taken, once())  # to warm up
        for _ in range(_ATTEMPTS):
            taken.figures.clear()
            for _ in range(REPEATS):
                _take(taken, once())
            if taken.steady:
                break
    except HfprovError as error:
        taken.problem = error.message
    return taken


def _take(taken: Taken, told: Output) -> None:
    """Take over the figures of one run. Raises NotUnderstoodError when there are none."""
    taken.raw = told.stdout + told.stderr.encode()
    found = taken.tool.read(_text(told))
    if told.code != 0:
        raise NotUnderstoodError(f"'{taken.tool.name}' ended with exit code {told.code}.")
    taken.add(found)


def run_round(
    fleet: Fleet,
    step: PairStep,
    pairs: Sequence[tuple[str, str]],
    settings: Settings,
) -> list[Taken]:
    """Pairs at the same time; each first one way, then the other."""
    jobs = [functools.partial(_both_ways, fleet, step, pair, settings) for pair in pairs]
    taken = [one for both in in_parallel(jobs, at_once=fleet.at_once) for one in both]
    for one in taken:
        one.alone = len(pairs) == 1
    return taken


def _both_ways(
    fleet: Fleet, step: PairStep, pair: tuple[str, str], settings: Settings
) -> list[Taken]:
    a, b = (step.ends[host] for host in pair)
    found = []
    for mine, other in ((a, b), (b, a)):
        taken = _one_way(fleet, step.tool, mine, other, settings)
        taken.rail = step.rail
        found.append(taken)
    return found


def _one_way(fleet: Fleet, tool: PairTool, mine: End, other: End, settings: Settings) -> Taken:
    """Traffic from ``mine`` to ``other``. Tools that measure no intervals run several times."""
    argv = tuple(tool.client(mine, other, PORT, settings))
    taken = Taken(tool, mine.host, other.host, argv=argv)
    seconds = max(settings.seconds, REPEATS) * 2 + tool.seconds
    try:
        for _ in range(_ATTEMPTS):
            taken.figures.clear()
            while taken.fewest < REPEATS:
                _take(taken, _served(fleet, tool, mine, other, settings, seconds))
            if taken.steady:
                break
    except HfprovError as error:
        taken.problem = error.message
    return taken


def _served(
    fleet: Fleet, tool: PairTool, mine: End, other: End, settings: Settings, seconds: float
) -> Output:
    """One run of a client while its server runs on the other host."""
    server: Future[Output]
    pool = ThreadPoolExecutor(1)
    try:
        server = pool.submit(
            _run, fleet.connections[other.host], tool.server(other, PORT, settings), seconds
        )
        return _client(fleet.connections[mine.host], tool, (mine, other), settings, server)
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
