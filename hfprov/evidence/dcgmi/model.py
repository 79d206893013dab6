"""What dcgmi says: results of diagnostics, health, what was discovered, NVLink states."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class DiagStatus(Enum):
    """A result, best first. Only the first three are judgements."""

    PASS = "pass"  # noqa: S105 - a verdict, not a password
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"
    NOT_RUN = "not_run"
    UNKNOWN = "unknown"
    """A word that this parser does not know, or no result where one was announced."""


JUDGED = frozenset({DiagStatus.PASS, DiagStatus.WARN, DiagStatus.FAIL})
_WORDS = {
    "pass": DiagStatus.PASS,
    "passed": DiagStatus.PASS,
    "healthy": DiagStatus.PASS,
    "warn": DiagStatus.WARN,
    "warning": DiagStatus.WARN,
    "fail": DiagStatus.FAIL,
    "failed": DiagStatus.FAIL,
    "failure": DiagStatus.FAIL,
    "error": DiagStatus.FAIL,
    "skip": DiagStatus.SKIP,
    "skipped": DiagStatus.SKIP,
    "not run": DiagStatus.NOT_RUN,
    "notrun": DiagStatus.NOT_RUN,
}


def status_of(word: str) -> DiagStatus:
    """The status that a word of any DCGM version means; an unknown word is UNKNOWN."""
    return _WORDS.get(word.strip().lower(), DiagStatus.UNKNOWN)


class DiagMessage(Struct, frozen=True):
    text: str
    error_id: int | None = None
    """A DCGM_FR_* code; versions before 3 do not have it."""
    error_category: int | None = None
    error_severity: int | None = None
    """1 monitor, 2 isolate, 3 unknown, 4 triage, 5 configure, 6 reset (dcgm_errors.h)."""


class DiagResult(Struct, frozen=True):
    """The result of one test for one device, or for all of them at once."""

    test: str
    status: DiagStatus
    category: str = ""
    entity_group: str = ""
    """``GPU``, ``CPU``, ``Switch``, …; empty when the result is for the whole node."""
    entity_id: int | None = None
    status_text: str = ""
    messages: tuple[DiagMessage, ...] = ()
    """Warnings and errors."""
    info: tuple[str, ...] = ()
    summary: bool = False
    """Whether this only sums up other results of the test."""
    iteration: int | None = None


class DiagEntity(Struct, frozen=True):
    group: str
    entity_id: int | None
    device_id: str = ""
    serial: str = ""


class DiagReport(Struct, frozen=True):
    """One run of ``dcgmi diag``."""

    form: str
    """``json``, ``table`` or ``summary`` (words written by a person from a table)."""
    results: tuple[DiagResult, ...]
    dcgm_version: str = ""
    driver_version: str = ""
    device_ids: tuple[str, ...] = ()
    """PCI device ids of the GPUs, as the tool found them."""
    entities: tuple[DiagEntity, ...] = ()
    runtime_error: str = ""
    notices: tuple[str, ...] = ()
    incomplete: str = ""

    @property
    def judged(self) -> int:
        """How many results are pass, warn or fail. A run with none proves nothing."""
        return sum(1 for result in self.results if result.status in JUDGED and not result.summary)

    @property
    def failed(self) -> tuple[DiagResult, ...]:
        return tuple(result for result in self.results if result.status is DiagStatus.FAIL)

    @property
    def overall(self) -> DiagStatus:
        """FAIL if anything failed; else UNKNOWN, WARN, PASS; SKIP or NOT_RUN if none was judged."""
        seen = {result.status for result in self.results}
        if DiagStatus.FAIL in seen:
            return DiagStatus.FAIL
        if self.runtime_error or self.incomplete or DiagStatus.UNKNOWN in seen or not seen:
            return DiagStatus.UNKNOWN
        for status in (DiagStatus.WARN, DiagStatus.PASS, DiagStatus.SKIP):
            if status in seen:
                return status
        return DiagStatus.NOT_RUN


class DcgmiFailure(Struct, frozen=True):
    """dcgmi ran and said that it cannot do what was asked. Evidence, not a parsing problem."""

    kind: str
    """``no_connection``, ``not_run``, ``no_devices``, ``invalid_argument``, ``tool_missing`` or
    ``other``."""
    message: str


class HealthItem(Struct, frozen=True):
    entity_group: str
    entity_id: int | None
    system: str
    """``NVLink system``, ``PCIe system``, …; empty for the entity as a whole."""
    status: DiagStatus
    message: str = ""


class Health(Struct, frozen=True):
    """``dcgmi health -c``."""

    overall: DiagStatus
    overall_text: str
    items: tuple[HealthItem, ...] = ()
    incomplete: str = ""


class HealthWatches(Struct, frozen=True):
    """``dcgmi health -f``: which systems the host engine watches."""

    watched: tuple[str, ...]
    unwatched: tuple[str, ...]


class DiscoveredGpu(Struct, frozen=True):
    gpu_id: int
    name: str = ""
    pci_address: str = ""
    uuid: str = ""


class Discovery(Struct, frozen=True):
    """``dcgmi discovery -l``."""

    gpus: tuple[DiscoveredGpu, ...]
    gpu_count: int | None = None
    """How many the headline says; ``incomplete`` is set when the table has others."""
    switch_count: int | None = None
    cpu_count: int | None = None
    incomplete: str = ""


class NvlinkStates(Struct, frozen=True):
    """``dcgmi nvlink -s``: by GPU and by NVSwitch, one letter per link.

    ``U`` up, ``D`` down, ``X`` disabled, ``_`` not supported.
    """

    gpus: tuple[tuple[int, tuple[str, ...]], ...]
    switches: tuple[tuple[int, tuple[str, ...]], ...] = ()
    incomplete: str = ""

    @property
    def down(self) -> tuple[tuple[int, int], ...]:
        """(GPU id, link) of each link that is down."""
        return tuple(
            (gpu, link)
            for gpu, states in self.gpus
            for link, state in enumerate(states)
            if state == "D"
        )
