"""Results of perftest, as :mod:`hfprov.evidence.perftest` reads them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field


class BandwidthPoint(Struct, frozen=True):
    """One message size of a bandwidth test."""

    message_bytes: int
    iterations: int | None
    average_bps: float
    peak_bps: float | None
    """None where it was not measured: perftest then prints 0.00 (``-D``, several QPs)."""
    messages_per_second: float | None
    minimum_bps: float | None = None
    cpu_percent: float | None = None


class LatencyPoint(Struct, frozen=True):
    """One message size of a latency test; ``-D`` measures only average and transactions."""

    message_bytes: int
    iterations: int | None
    average_us: float | None
    minimum_us: float | None = None
    maximum_us: float | None = None
    typical_us: float | None = None
    deviation_us: float | None = None
    p99_us: float | None = None
    p999_us: float | None = None
    transactions_per_second: float | None = None


Point = BandwidthPoint | LatencyPoint


class Run(Struct, frozen=True):
    """What one process reported: a curve over message sizes."""

    test: str | None
    """As in the title: ``RDMA_Write BW Test``; None where the title was cut off."""
    kind: str
    """``bandwidth`` or ``latency``."""
    points: tuple[Point, ...]
    complete: bool
    """The closing line was there. An incomplete sweep may lack message sizes."""
    bidirectional: bool | None = None
    device: str | None = None
    mtu_bytes: int | None = None
    link_type: str | None = None
    """``Ethernet`` or ``IB``."""
    gid_index: int | None = None
    queue_pairs: int | None = None
    conditions: Mapping[str, str] = field(default_factory=dict)
    """All settings printed above the table, by the tool's names."""

    def at(self, message_bytes: int) -> Point | None:
        """The point of one message size, or None when it was not measured."""
        return next((point for point in self.points if point.message_bytes == message_bytes), None)


class PerftestResult(Struct, frozen=True):
    """Everything in one output. With ``failures`` no figure in it may be used."""

    runs: tuple[Run, ...]
    failures: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    interleaved: bool = False
    """Two processes wrote into one output at the same time; settings that differ were dropped."""
    no_clock: bool = False
    """It could not tell how fast the CPU's counter runs, with which it takes every time."""

    @property
    def ok(self) -> bool:
        """At least one run, all complete, and nothing failed."""
        return bool(self.runs) and not self.failures and all(run.complete for run in self.runs)
