"""What a tool is: how it is run once, and how its output becomes figures. No I/O.

A tool of one host runs there alone; a tool of a pair has a server on one host and a client on the
other; a tool of a group is started on one host and runs on all of them. What a tool says that
cannot be used as a figure is a MeasureError, never a number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from hfprov.errors import NotUnderstoodError

REPEATS = 5
"""Runs of each tool after one that warms up; fewer tell nothing about their own spread."""
ATTEMPTS = 2
"""Times that a tool's repeats are made, at most: anew when they do not agree with each other."""
RETRIES = 2
"""Times that one run is made anew, at most, when the tool says that it could not measure it."""


class Kind(StrEnum):
    """What is measured, as named on the command line."""

    GPU = "gpu"
    MEMORY = "memory"
    NETWORK = "network"
    RDMA = "rdma"
    LATENCY = "latency"
    STORAGE = "storage"
    COLLECTIVE = "collective"


class MeasureError(NotUnderstoodError):
    """A tool ran and gave no figure that may be used; the message says why."""


class TransientError(MeasureError):
    """The same of one run only, as the tool itself says: the next one may well give a figure."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What sound machines differ by, for one sort of figure."""

    unstable: float
    """Coefficient of variation of the repeats from which a measurement is unstable."""
    slow: float
    """Share of what good pairs reach from which a pair is slow; of a latency its inverse."""


BANDWIDTH = Tolerance(0.1, 0.8)
LATENCY = Tolerance(0.1, 0.67)
"""Of a median. Pairs across switches need more time than neighbours: a half more is not slow."""
TAIL = Tolerance(0.5, 0.5)
"""Of a 99th percentile, which a few late packets make: it varies by itself."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One value of one run of a tool."""

    test: str
    unit: str
    values: tuple[float, ...]
    """Usually one; several where the tool itself measures in intervals."""
    curve: tuple[tuple[float, float], ...] = ()
    """By message size in bytes, where the tool sweeps."""
    higher_is_better: bool = True
    tolerance: Tolerance = BANDWIDTH
    details: Mapping[str, float] = field(default_factory=dict)
    """What else the last run tells of the same, in the same unit: ``min``, ``mean``, ``p99.9``."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a person may choose for all tools, and what one run needs."""

    seconds: int = 2
    """Length of one run of a tool that runs for a time."""
    directory: str = "/var/tmp"  # noqa: S108 - a private directory is made below it
    """Where files are written and read; on the disk that is to be measured."""
    file_mib: int = 256
    accelerators: int = 0
    """How many a node has, as declared; 0 when nobody said."""
    message_bytes: int = 0
    """Of one run of a curve; 0: the tool's usual size."""
    all_sizes: bool = False
    """A run of a curve in which the tool itself goes through message sizes."""


@dataclass(frozen=True, slots=True)
class HostTool:
    """A tool that runs on one host."""

    name: str
    kind: Kind
    argv: Callable[[Settings], Sequence[str]]
    read: Callable[[str, Settings], Sequence[Figure]]
    seconds: float
    """What one run takes beyond :attr:`Settings.seconds`, at most."""
    aim: str = ""
    """Of tools with the same aim the first that is installed is used."""
    vendors: tuple[str, ...] = ()
    """Vendors of accelerators that it measures; empty: it measures none."""
    needs: tuple[str, ...] = ()
    """Other programs that it is started with."""
    usual: Callable[[Settings], float] = lambda chosen: chosen.seconds
    """Seconds that one run takes, about."""


@dataclass(frozen=True, slots=True)
class End:
    """One end of a pair: what the client and the server must know of each other."""

    host: str
    interface: str
    address: str
    rdma_device: str = ""
    numa_node: int | None = None
    """That the card is on; None where that is not known, or there is no numactl to bind with."""


@dataclass(frozen=True, slots=True)
class PairTool:
    """A tool with a server on one host and a client on another."""

    name: str
    kind: Kind
    server: Callable[[End, int, Settings], Sequence[str]] | None
    """By the server's end and port. Serves one client and ends. None: it needs no server."""
    client: Callable[[End, End, int, Settings], Sequence[str]]
    """By the client's end, the server's end and port."""
    read: Callable[[str], Sequence[Figure]]
    """The client's output. Values are those of traffic from client to server."""
    seconds: float
    aim: str = ""
    """Of tools with the same aim the first that both hosts have is used."""
    rdma: bool = False
    """Whether it runs between RDMA devices."""
    curve: Callable[[Settings], Sequence[Settings]] = lambda _: ()
    """The runs that it takes to see its figures over message sizes, beside those that count."""
    usual: Callable[[Settings], float] = lambda chosen: chosen.seconds
    """Seconds that one run takes, about."""
    intervals: bool = False
    """Whether one run measures in so many intervals that it need not be repeated."""


@dataclass(frozen=True, slots=True)
class Group:
    """Hosts that run one thing together; the first of them starts it."""

    ends: tuple[End, ...]
    accelerators: int
    """Of each host."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that all of its processes are given."""

    @property
    def ranks(self) -> int:
        return len(self.ends) * self.accelerators


@dataclass(frozen=True, slots=True)
class GroupTool:
    """A tool that is started on one host and runs on all of a group."""

    name: str
    kind: Kind
    argv: Callable[[Group, Settings], Sequence[str]]
    read: Callable[[str, Group], Sequence[Figure]]
    """Refuses what was not measured by all of the group together."""
    seconds: float
    aim: str = ""
    vendors: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    usual: Callable[[Settings], float] = lambda _: 60.0
    """Seconds that one run takes, about."""


Tool = HostTool | PairTool | GroupTool


def programs(tool: Tool) -> tuple[str, ...]:
    """Every program that a host must have for a tool."""
    return (tool.name,) if isinstance(tool, PairTool) else (tool.name, *tool.needs)
