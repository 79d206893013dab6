"""Results of iperf3 and netperf, as :mod:`hfprov.evidence.iperf` reads them. Rates in bit/s."""

from __future__ import annotations

from msgspec import Struct


class Throughput(Struct, frozen=True):
    """What one side sent or received in one direction, over all streams."""

    bits_per_second: float
    transferred_bytes: int | None
    seconds: float
    retransmits: int | None = None
    jitter_ms: float | None = None
    lost_packets: int | None = None
    packets: int | None = None

    @property
    def loss_percent(self) -> float | None:
        if self.lost_packets is None or not self.packets:
            return None
        return 100.0 * self.lost_packets / self.packets


class IperfResult(Struct, frozen=True):
    """One run. ``sent`` is what the sender counted, ``received`` what really arrived."""

    protocol: str
    """``tcp`` or ``udp``."""
    sent: Throughput | None
    received: Throughput | None
    streams: int | None
    reverse: bool | None = None
    """Whether the server sent (``-R``). None where not told."""
    reverse_sent: Throughput | None = None
    """The other direction of a ``--bidir`` run."""
    reverse_received: Throughput | None = None
    error: str | None = None
    version: str | None = None
    congestion_control: str | None = None
    mean_rtt_us: float | None = None
    max_rtt_us: float | None = None
    cpu_local_percent: float | None = None
    cpu_remote_percent: float | None = None
    interval_bits_per_second: tuple[float, ...] = ()
    """One value per reporting interval, warm-up (``-O``) left out."""


class NetperfStream(Struct, frozen=True):
    """One netperf run: throughput and the latencies of its histogram, in microseconds."""

    test: str
    bits_per_second: float
    p50_us: float | None
    p90_us: float | None
    p99_us: float | None
    max_us: float | None


class NetperfResults(Struct, frozen=True):
    """Several netperf runs as PerfKit Benchmarker stores them."""

    streams: tuple[NetperfStream, ...]


def less_losses(sent: Throughput) -> Throughput | None:
    """What arrived of a UDP stream whose losses are known; None when they are not."""
    if sent.lost_packets is None or not sent.packets or sent.lost_packets > sent.packets:
        return None
    share = 1 - sent.lost_packets / sent.packets
    return Throughput(
        sent.bits_per_second * share,
        None if sent.transferred_bytes is None else round(sent.transferred_bytes * share),
        sent.seconds,
        jitter_ms=sent.jitter_ms,
        lost_packets=sent.lost_packets,
        packets=sent.packets,
    )
