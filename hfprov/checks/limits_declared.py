"""The limits that a baseline declares, as amounts and in the words of each file; and what differs.

A helper of the checks in :mod:`hfprov.checks.limits`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from hfprov.baseline import Baseline
from hfprov.errors import NotUnderstoodError
from hfprov.evidence.limits import (
    MEMLOCK,
    NOFILE,
    NPROC,
    RESOURCES,
    STACK,
    Limit,
    Limits,
    PamLine,
    Resource,
    amount,
    systemd_limit,
)
from hfprov.evidence.shell_limits import ShellLimit
from hfprov.evidence.systemd import Layers, Setting
from hfprov.verdict import Finding, failed, passed

AMOUNTS = ("limits_memlock_kib", "limits_nofile", "limits_nproc", "limits_stack_kib")
_VARIABLES = dict(zip((MEMLOCK, NOFILE, NPROC, STACK), AMOUNTS, strict=True))


def wanted_limits(baseline: Baseline) -> Limits:
    """The declared limits. The stack's hard limit is left to the kernel, so it may be anything."""
    found = {}
    for resource, variable in _VARIABLES.items():
        soft = amount(str(baseline[variable]), resource.unit)
        found[resource.name] = Limit(soft, math.inf if resource is STACK else soft)
    return found


def is_wanted(resource: Resource, have: Limit, want: Limit) -> bool:
    return have.soft == want.soft and (resource is STACK or have.hard == want.hard)


def for_pam(baseline: Baseline) -> Iterator[str]:
    """The lines of the role's file for logins; ``*`` does not stand for root."""
    for domain in ("*", "root"):
        for one, variable in _VARIABLES.items():
            yield f"{domain} {'soft' if one is STACK else '-'} {one.name} {baseline[variable]}"


def for_systemd(baseline: Baseline, prefix: str, section: str) -> Iterator[str]:
    """The statements of the role's drop-ins, as :attr:`Setting.statement` writes them."""
    for resource, variable in _VARIABLES.items():
        text = str(baseline[variable])
        value = "infinity" if text == "unlimited" else text + ("K" if resource.unit > 1 else "")
        hard = ":infinity" if resource is STACK else ""
        yield f"[{section}] {prefix}{resource.systemd}={value}{hard}"


def compare(subject: str, seen: Limits, baseline: Baseline, reason: str) -> Iterator[Finding]:
    """One finding per limit."""
    for resource in RESOURCES:
        want, have = wanted_limits(baseline)[resource.name], seen[resource.name]
        name = f"{subject} {resource.name}".strip()
        observed, expected = _shown(resource, have), _shown(resource, want)
        if is_wanted(resource, have, want):
            yield passed(name, observed=observed, expected=expected)
        else:
            yield failed(name, observed=observed, expected=expected, reason=reason)


def _shown(resource: Resource, limit: Limit) -> str:
    if resource is STACK:
        return f"soft {resource.show(limit.soft)}"
    return f"soft {resource.show(limit.soft)}, hard {resource.show(limit.hard)}"


def login_rivals(lines: Iterable[PamLine], ours: str, wanted: Limits) -> list[PamLine]:
    """Lines that pam_limits obeys instead of those in ``ours``, in the order of their places.

    The last line for a domain holds; one for a user or group holds whatever ``*`` says.
    """
    last: dict[tuple[str, Resource, str], PamLine] = {}
    for line in lines:
        for resource in RESOURCES:
            if line.item in (resource.name, ""):
                for side in line.sides:
                    last[line.domain, resource, side] = line
    rivals: dict[str, PamLine] = {}
    for (_, resource, side), line in last.items():
        if line.path == ours or (resource is STACK and side == "hard"):
            continue
        if amount(line.value, resource.unit) != wanted[resource.name].soft:
            rivals[line.where] = line
    return [rivals[where] for where in sorted(rivals)]


def shell_rivals(lines: Iterable[ShellLimit], wanted: Limits) -> list[ShellLimit]:
    """Lines by which a shell gives another limit than declared, or one that only it can tell.

    Of a user's own files those that give less: more is his to choose, up to the hard limit.
    """

    def differs(line: ShellLimit) -> bool:
        soft = wanted[line.resource.name].soft
        try:
            have = amount(line.value, line.resource.unit)
        except NotUnderstoodError:
            return True
        return have < soft if line.of_user else have != soft

    return [line for line in lines if differs(line)]


def is_told(line: ShellLimit) -> bool:
    """Whether the line says by itself which limit it sets."""
    try:
        amount(line.value)
    except NotUnderstoodError:
        return False
    return True


def manager_rivals(found: Layers, ours: str, wanted: Limits) -> Iterator[tuple[Setting, Resource]]:
    """The last assignment of each ``DefaultLimit…`` that is in another file and says otherwise."""
    for resource in RESOURCES:
        setting = found.last("Manager", f"DefaultLimit{resource.systemd}")
        if setting is None or setting.path == ours:
            continue
        if not setting.value or not is_wanted(
            resource, systemd_limit(setting.value), wanted[resource.name]
        ):
            yield setting, resource
