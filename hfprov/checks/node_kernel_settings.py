"""Kernel settings that no role declares leave jobs what they need, now and after the next boot."""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.catalogue.kernel_needs import NAMES, Effect, KernelNeed, kernel_needs
from hfprov.checks.performance_settings import NAMESPACED
from hfprov.checks.registry import Facts, check
from hfprov.evidence.sysctl_files import FILES, Assignment, SysctlFiles, live_settings
from hfprov.evidence.system import MACHINE, Machine
from hfprov.evidence.text import excerpt
from hfprov.verdict import Finding, Impact, failed, passed, unknown, warned

_LIVE = live_settings("kernel settings that jobs need", lambda _: NAMES)
_DECLARED = ("performance_extra_sysctls", "hardening_extra_sysctls")


@check("node.kernel_settings", reads=[MACHINE, _LIVE, FILES], impact=Impact.MANUAL)
def kernel_settings(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """None of them takes away what every job needs. What is declared is the roles' to judge."""
    live, files = facts.get(_LIVE), facts.get(FILES)
    in_container = facts.get(MACHINE) is Machine.CONTAINER
    declared = {name for variable in _DECLARED for name in baseline.get(variable) or ()}
    found: list[Finding] = []
    for need in kernel_needs().settings:
        if need.name in declared:
            continue
        value = live[need.name]
        # A container has its host's; and a kernel without the setting does nothing of the kind.
        if value is not None and (not in_container or NAMESPACED.match(need.name)):
            found += _judged(need, value, need.name)
        for one in _written(need, files):
            if one.value != value:
                found += _judged(need, one.value, f"{one.where} {need.name}")
    yield from found
    if not found:
        yield passed(observed="nothing in the way of jobs", expected="nothing in the way of jobs")


def _written(need: KernelNeed, files: SysctlFiles) -> Iterator[Assignment]:
    at_boot = [one for one in files.at_boot if one.name == need.name]
    yield from at_boot[-1:]
    yield from (one for one in files.later if one.name == need.name)


def _judged(need: KernelNeed, value: str, subject: str) -> Iterator[Finding]:
    is_met = need.is_met(value)
    if is_met is None:
        reason = f"'{excerpt(value, 60)}' is no value of this setting."
        yield unknown(subject, reason=reason, expected=need.expected)
    elif not is_met:
        tell = failed if need.effect is Effect.STOPS else warned
        yield tell(subject, observed=value, expected=need.expected, reason=need.why)
