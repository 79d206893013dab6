"""What a run of nccl-tests or rccl-tests measured, and with whom.

What makes a multi-node result worthless is visible in the facts: a build without MPI runs once per
process, so headers, summaries and rank 0 appear several times (``headers``, ``summaries``,
``ranks``, ``hosts``); a run that stopped has no summary; wrong results are counted per row.
Bandwidths are in GB/s (1e9 bytes per second).

Source: NVIDIA/nccl-tests ``src/common.cu`` and ``src/util.cu``.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from hfprov.evidence.failures import FailureKind, failure_table

TOOL = "nccl-tests"


class Rank(Struct, frozen=True):
    rank: int
    host: str
    pid: int
    device: int
    bdf: str
    """As printed: ``0x31``, ``0000:04:00``."""
    name: str
    group: int | None = None


class Measure(Struct, frozen=True):
    """One half of a row; None where the test prints ``N/A`` or nothing."""

    time_us: float | None
    algbw_gbs: float | None
    busbw_gbs: float | None
    wrong: int | None
    """Number of wrong elements; None when it was not checked."""
    max_error: float | None = None
    """The ``error`` column of releases before 2.13: a difference, not a count."""


class Row(Struct, frozen=True):
    size_bytes: int
    count: int
    type: str
    redop: str | None
    root: int | None
    out_of_place: Measure | None
    in_place: Measure | None


class NcclTests(Struct, frozen=True):
    rows: tuple[Row, ...]
    ranks: tuple[Rank, ...]
    """As listed. JSON lists one device per process."""
    headers: int
    """Tables started; more than one is several runs posing as one."""
    summaries: int
    """Summaries of average bus bandwidth."""
    average_busbw_gbs: float | None
    """Of the only summary; None when there is none or there are several."""
    out_of_bounds: int | None
    """Sum of the wrong results of all summaries; None when no summary says."""
    ok: bool | None
    """False: a summary says FAILED. None: no summary."""
    validated: bool | None
    """Whether results were compared (``validation: 1``); None when it is not said."""
    collective: str | None
    parameters: Mapping[str, str]
    """From the first line: ``nGpus``, ``minBytes``, ``iters`` ..."""
    versions: tuple[str, ...]
    """NCCL or RCCL versions that ranks logged."""
    errors: tuple[str, ...]
    complete: bool
    """One table, one summary, no error, nothing left out."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Distinct hosts, in order."""
        return tuple(dict.fromkeys(rank.host for rank in self.ranks))

    @property
    def distinct_ranks(self) -> int:
        return len({rank.rank for rank in self.ranks})

    @property
    def gpus(self) -> int:
        """Distinct GPUs: pairs of host and device."""
        return len({(rank.host, rank.device) for rank in self.ranks})


FAILURES = failure_table(
    {
        FailureKind.NOT_READY: ("system not yet initialized",),
        FailureKind.NO_DEVICES: (
            "no (?:CUDA|ROCm)-capable device",
            "no (?:hip )?device",
            "invalid number of gpus",
            "invalid device ordinal",
        ),
        FailureKind.VERSION_MISMATCH: ("driver version is insufficient", "incompatible NCCL"),
        FailureKind.DEVICE_ERROR: (
            "Test (?:CUDA|HIP|NCCL) failure",
            "Test failure",
            "Test timeout",
            "unhandled (?:cuda|system) error",
            "NCCL WARN",
            "remote process exited",
        ),
        FailureKind.OTHER: (
            "MPI_ABORT",
            "mpirun (?:noticed|was unable|detected)",
            "ORTE (?:was|does)",
            "srun: error",
            "slurmstepd: error",
            "exited on signal",
            "Connection (?:refused|closed|timed out)",
            r"^error\b",
        ),
    }
)
