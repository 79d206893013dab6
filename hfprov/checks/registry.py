"""How a check is declared, and the one explicit list of all of them.

A check is one pure function: facts and baseline in, findings out. The decorator declares what it
needs, which role repairs it, what the repair costs, and which baseline variables it judges; that
is how ``hfprov baseline`` knows how a value is read back, and how a contract test knows that no
variable goes unjudged.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError, NotUnderstoodError, anew
from hfprov.evidence.text import excerpt
from hfprov.reading import Observation, Source
from hfprov.verdict import Finding, Impact

F = TypeVar("F")


class Facts:
    """Facts of one host, parsed on first use and kept. What cannot be parsed raises each time."""

    def __init__(
        self, seen: Observation, baseline: Baseline, earlier: Observation | None = None
    ) -> None:
        self.seen = seen
        self.earlier = earlier
        """What an earlier run saw of the host; None where the record has nothing of it."""
        self._baseline = baseline
        self._parsed: dict[str, Any] = {}
        self._errors: dict[str, Exception] = {}

    def get(self, source: Source[F]) -> F:
        """The facts of a source. Raises NoEvidenceError or NotUnderstoodError."""
        if source.name in self._errors:
            raise anew(self._errors[source.name])
        if source.name not in self._parsed:
            try:
                self._parsed[source.name] = source.parse(self.seen, self._baseline)
            except (NoEvidenceError, NotUnderstoodError) as error:
                self._errors[source.name] = anew(error)
                raise
            except Exception as error:
                # What one node answers must not end the run of all the others.
                problem = excerpt(f"{type(error).__name__}: {error}")
                said = f"'{source.name}' was not understood ({problem}). Please report it."
                self._errors[source.name] = NotUnderstoodError(said)
                raise NotUnderstoodError(said) from error
        found: F = self._parsed[source.name]
        return found


Judgement = Callable[[Facts, Baseline], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class Check:
    """One question about a node, and all that is known about the question itself."""

    id: str
    """``subsystem.what`` or ``subsystem.part.what``; the first part is the module's name."""
    judge: Judgement = field(compare=False)
    sources: tuple[Source[Any], ...] = field(compare=False)
    role: str | None
    """The role that repairs it. A check of a role is judged on hosts that have the role."""
    impact: Impact
    judges: tuple[str, ...]
    """The baseline variables whose effect this check reads back."""


_COLLECTED: dict[str, Check] = {}


def check(
    check_id: str,
    *,
    reads: Iterable[Source[Any]],
    role: str | None = None,
    impact: Impact = Impact.NONE,
    judges: Iterable[str] = (),
) -> Callable[[Judgement], Judgement]:
    """Declare a function to be a check. Two checks with one id are a bug, found at import."""

    def declare(judge: Judgement) -> Judgement:
        if check_id in _COLLECTED:
            raise ValueError(f"Two checks are called '{check_id}'.")
        _COLLECTED[check_id] = Check(check_id, judge, tuple(reads), role, impact, tuple(judges))
        return judge

    return declare


# The one list. A module that is not named here does not take part.
MODULES = (
    "node",
    "node_names",
    "node_resolver",
    "node_kernel_settings",
    "node_packages",
    "node_shared_memory",
    "node_programs",
    "node_loopback",
    "node_kernel_state",
    "node_immutable",
    "boot",
    "boot_volatile",
    "boot_services",
    "boot_journal",
    "boot_planned",
    "environment",
    "accounts",
    "kernel",
    "kernel_boot",
    "kernel_rivals",
    "host",
    "memory",
    "storage",
    "pcie",
    "nic",
    "nic_routes",
    "nic_routes_ipv6",
    "nic_filter",
    "nic_modes",
    "nic_arp",
    "nic_health",
    "nic_firmware",
    "rdma_port",
    "rdma",
    "rdma_boot",
    "rdma_live",
    "growth",
    "container_host",
    "accelerator",
    "accelerator_health",
    "accelerator_use",
    "accelerator_firmware",
    "accelerator_links",
    "accelerator_fabric",
    "accelerator_host",
    "driver",
    "driver_kernel",
    "kernel_events",
    "limits",
    "limits_tasks",
    "limits_bounds",
    "limits_pam",
    "mtu",
    "mtu_persistent",
    "mtu_files",
    "mtu_narrowed",
    "mtu_address",
    "irq",
    "irq_settings",
    "irq_keeping",
    "time",
    "time_ptp",
    "tools",
    "container_runtime",
    "container_proof",
    "hardening_access",
    "hardening_firewalls",
    "hardening_kernel",
    "hardening_updates",
    "hardening_updates_others",
    "performance",
    "performance_settings",
    "comm_library",
)


@cache
def all_checks() -> tuple[Check, ...]:
    """Every check, in the order of :data:`MODULES` and of declaration."""
    places = {f"{__package__}.{module}": place for place, module in enumerate(MODULES)}
    for module in places:
        importlib.import_module(module)
    # One that another one imports, or who came before, was declared out of turn.
    return tuple(sorted(_COLLECTED.values(), key=lambda one: places[one.judge.__module__]))


def checks_for(baseline: Baseline) -> Iterator[Check]:
    """The checks that are judged on this host: those without a role, and those of its roles."""
    for one in all_checks():
        if one.role is None or one.role in baseline.roles:
            yield one


def require(condition: object, reason: str) -> None:
    """Raise NoEvidenceError with the reason unless the condition holds."""
    if not condition:
        raise NoEvidenceError(reason)
