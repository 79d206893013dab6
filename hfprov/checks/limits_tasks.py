"""The number of processes that is declared can be reached: nothing else bounds it below.

What the distribution's systemd does is let be: a percentage of what the kernel allows.
"""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.hardware import in_container
from hfprov.checks.registry import Facts, check
from hfprov.evidence.memory_node import MEMORY
from hfprov.evidence.system import CPUS, MACHINE
from hfprov.evidence.systemd import Setting, layered
from hfprov.evidence.task_limits import (
    BOUNDS_OF_KERNEL,
    TASK_LIMITS,
    THREADS_MAX,
    TaskLimits,
    tasks,
)
from hfprov.verdict import Finding, Impact, failed, passed, warned

SYSTEM_CONF = layered("system.conf")
LOGIND_CONF = layered("logind.conf")
_USUAL_SHARE = 0.15
"""``DefaultTasksMax=`` of systemd as it is released; systemd-system.conf(5)."""
_ROUNDED = 0.99
_FEWEST_IDS, _IDS_PER_CPU = 32_768, 1024
"""The kernel itself takes the larger one; kernel/pid.c, pid_idr_init."""
_BYTES_PER_THREAD = 8 * 64 * 1024
"""The kernel lets stacks take an eighth of memory; the largest stack is one page of arm64."""
_BY_HAND = "No role takes it away: a person has to."
_ENOUGH = "as many as usual, or more"


def _declared(baseline: Baseline) -> float:
    text = str(baseline["limits_nproc"])
    return int(text) if text.isdecimal() else float("inf")


@check(
    "limits.tasks",
    reads=[TASK_LIMITS, SYSTEM_CONF, LOGIND_CONF],
    role="limits",
    impact=Impact.MANUAL,
    judges=["limits_nproc", "limits_services"],
)
def task_limits(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """No control group bounds processes below what systemd as released, or the role, gives."""
    found = facts.get(TASK_LIMITS)
    least = min(found.base * _USUAL_SHARE * _ROUNDED, _declared(baseline))
    expected = f"at least {least:.0f}"
    bounds = {
        "DefaultTasksMax": found.default,
        **{f"{name} TasksMax": bound for name, bound in sorted(found.services.items())},
        **{f"{group} pids.max": bound for group, bound in sorted(found.live.items())},
    }
    for subject, bound in bounds.items():
        if bound < least:
            reason = f"So few processes and threads may run there at once. {_BY_HAND}"
            yield failed(subject, observed=f"{bound:.0f}", expected=expected, reason=reason)
    for setting in _settings(facts, found):
        if setting.value and tasks(setting.value, found.base) < least:
            reason = f"It holds from the next start or reload of systemd on. {_BY_HAND}"
            yield failed(
                setting.where, observed=setting.statement, expected=expected, reason=reason
            )
    old = facts.get(LOGIND_CONF).last("Login", "UserTasksMax")
    if old is not None and old.value:
        reason = "systemd passes over it since version 239: it bounds nobody. " + _BY_HAND
        yield warned(old.where, observed=old.statement, expected="not set", reason=reason)
    if all(bound >= least for bound in bounds.values()):
        yield passed("now", observed=_ENOUGH, expected=_ENOUGH)


def _settings(facts: Facts, found: TaskLimits) -> Iterator[Setting]:
    default = facts.get(SYSTEM_CONF).last("Manager", "DefaultTasksMax")
    if default is not None:
        yield default
    yield from found.slices


@check(
    "limits.kernel",
    reads=[BOUNDS_OF_KERNEL, MACHINE, CPUS, MEMORY],
    role="limits",
    impact=Impact.MANUAL,
    judges=["limits_nproc"],
)
def kernel(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The kernel itself allows as many processes as are declared, or as it would by itself."""
    if elsewhere := in_container(facts, "the bounds of processes"):
        yield elsewhere
        return
    least = _declared(baseline)
    if least == float("inf"):
        least = max(_FEWEST_IDS, _IDS_PER_CPU * facts.get(CPUS).present)
    for name, bound in facts.get(BOUNDS_OF_KERNEL).items():
        needed = least
        if name == THREADS_MAX:
            needed = min(least, facts.get(MEMORY).total_kib * 1024 // _BYTES_PER_THREAD)
        expected = f"at least {needed:.0f}"
        if bound < needed:
            reason = f"'limits_nproc' cannot be reached: the kernel allows less. {_BY_HAND}"
            yield failed(name, observed=str(bound), expected=expected, reason=reason)
        else:
            yield passed(name, observed="enough", expected="enough")
