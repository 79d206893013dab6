"""Facts of a run of fio, whichever way it printed them. Bytes, bytes per second, nanoseconds."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class Latency(Struct, frozen=True):
    mean_ns: float
    min_ns: float
    max_ns: float
    stddev_ns: float
    percentiles_ns: Mapping[float, float]
    """Percentile (99.9) to latency; empty when fio was not asked for them."""


class Direction(Struct, frozen=True):
    """Reads, writes or trims of one job."""

    bandwidth_bytes_s: float
    iops: float
    io_bytes: float
    runtime_ms: float
    total_ios: int | None
    completion: Latency | None
    total: Latency | None
    """Submission and completion together; its percentiles need ``lat_percentiles=1``."""


class Job(Struct, frozen=True):
    name: str
    error: int
    """errno of the first error; 0 is none."""
    read: Direction | None
    write: Direction | None
    trim: Direction | None
    options: Mapping[str, str]
    """Options of the job over the global ones."""


class Disk(Struct, frozen=True):
    name: str
    utilisation_percent: float | None


class Fio(Struct, frozen=True):
    version: str
    jobs: tuple[Job, ...]
    disks: tuple[Disk, ...]
    messages: tuple[str, ...]
    """Lines around the JSON: warnings and errors."""

    @property
    def failed(self) -> bool:
        return any(job.error for job in self.jobs)
