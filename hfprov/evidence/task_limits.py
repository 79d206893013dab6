"""How many processes and threads the node, its services and its users may have.

``pids.max`` of a control group bounds a service or a user however high RLIMIT_NPROC is. systemd
sets it from ``TasksMax=``; a percentage is one of the least of the kernel's two bounds and of the
``pids.max`` of the topmost control group (systemd.resource-control(5), systemd-system.conf(5)).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NotUnderstoodError
from hfprov.evidence.limits import amount
from hfprov.evidence.slices import SLICE_FILES, slice_settings
from hfprov.evidence.systemd import Setting, property_of
from hfprov.evidence.systemd_units import ShowUnits, manager, shown_manager, shown_units, units
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import Observation, Read, Source, complete_text, file, glob
from hfprov.regex import regex

PID_MAX, THREADS_MAX = "kernel.pid_max", "kernel.threads-max"
_OF_KERNEL = {
    PID_MAX: file("/proc/sys/kernel/pid_max", limit=256),
    THREADS_MAX: file("/proc/sys/kernel/threads-max", limit=256),
}
_GROUPS = "/sys/fs/cgroup"
_TOPMOST = glob(f"{_GROUPS}/pids.max", limit=256)
"""Only in a container: the machine's own topmost control group is not bounded."""
_LIVE = tuple(
    glob(f"{_GROUPS}/{name}/pids.max", limit=256)
    for name in ("system.slice", "user.slice", "user.slice/user-*.slice")
)
_PERCENT = regex(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)%")


def _kernels(seen: Observation) -> Mapping[str, int]:
    found = {}
    for name, read in _OF_KERNEL.items():
        text = clean(seen.text(read)).strip()
        if not re.fullmatch(r"[0-9]{1,20}", text):
            raise NotUnderstoodError(f"'{name}' is '{excerpt(text)}', and no number.")
        found[name] = int(text)
    return found


BOUNDS_OF_KERNEL: Source[Mapping[str, int]] = Source(
    "processes that the kernel allows",
    lambda _: tuple(_OF_KERNEL.values()),
    lambda seen, _: _kernels(seen),
)
"""By the name of the kernel's setting."""


def tasks(value: str, base: float) -> float:
    """The number that a ``TasksMax=`` stands for. Raises NotUnderstoodError.

    >>> tasks("15%", 1000.0)
    150.0
    """
    if percent := _PERCENT.fullmatch(value):
        return base * float(percent[1]) / 100
    return amount(value)


def _pids_max(text: str) -> float:
    said = clean(text).strip()
    return math.inf if said == "max" else amount(said)


class TaskLimits(Struct, frozen=True):
    """What bounds the number of tasks, beside the kernel itself."""

    base: float
    """That of which percentages are."""
    default: float
    """What systemd gives to a service that says nothing."""
    services: Mapping[str, float]
    """What systemd gives to each named service when it is started next."""
    live: Mapping[str, float]
    """``pids.max`` of slices now, by the path of its control group."""
    slices: tuple[Setting, ...]
    """Every ``TasksMax=`` of a drop-in for slices of logins and services."""


_DEFAULT = manager(("DefaultTasksMax",))


def _of_services(baseline: Baseline) -> ShowUnits:
    names = (f"{name}.service" for name in baseline.get("limits_services", ()))
    return units(*names, properties=("TasksMax",))


def _reads(baseline: Baseline) -> tuple[Read, ...]:
    return (
        *_OF_KERNEL.values(),
        _TOPMOST,
        *_LIVE,
        *SLICE_FILES,
        _DEFAULT,
        _of_services(baseline),
    )


def _parse(seen: Observation, baseline: Baseline) -> TaskLimits:
    topmost = [_pids_max(complete_text(_TOPMOST, one)) for one in seen.each(_TOPMOST)]
    default, _ = shown_manager(seen, _DEFAULT)
    _, services = shown_units(seen, _of_services(baseline))
    return TaskLimits(
        base=min([*_kernels(seen).values(), *topmost]),
        default=amount(property_of(default, "DefaultTasksMax")),
        services={
            property_of(unit, "Id"): amount(property_of(unit, "TasksMax"))
            for unit in services.values()
            if property_of(unit, "LoadState") not in ("not-found", "masked")
        },
        live={
            one.name.removeprefix(f"{_GROUPS}/").removesuffix("/pids.max"): _pids_max(
                complete_text(read, one)
            )
            for read in _LIVE
            for one in seen.each(read)
            # A user's group may go between listing and reading.
            if one.status != "absent"
        },
        slices=tuple(
            setting
            for settings in slice_settings(seen).values()
            for setting in settings
            if setting.key == "TasksMax"
        ),
    )


TASK_LIMITS: Source[TaskLimits] = Source("limits of tasks", _reads, _parse)
