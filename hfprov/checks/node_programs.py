"""What the roles' services and the kernel start is there, and is what it is called."""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts, check
from hfprov.evidence.programs import NEEDS, PROGRAMS, Program
from hfprov.verdict import (
    Finding,
    Impact,
    NotApplicable,
    failed,
    not_applicable,
    passed,
    warned,
)

_MODPROBE, _KMOD = "modprobe", "kmod"
_EXPECTED = "a program of root's that can be started"


@check("node.programs", reads=[PROGRAMS], impact=Impact.MANUAL)
def programs(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """What runs now may not start again: daemons stay when their program goes."""
    found = facts.get(PROGRAMS)
    if not found:
        yield not_applicable(NotApplicable.NOT_REQUESTED, "No role of the host needs one.")
    for name, one in found.items():
        yield _judged(name, one)


def _judged(name: str, one: Program) -> Finding:
    roles = " and ".join(f"'{role}'" for role in NEEDS[name].roles)
    if not (one.path or one.is_installed):
        reason = "It is not installed; the role does that."
        return not_applicable(NotApplicable.NOT_REQUESTED, reason, name)
    if not one.path:
        reason = f"What {roles} set up cannot be started again: it was moved or removed."
        return failed(name, observed="absent", expected=_EXPECTED, reason=reason)
    if one.problem:
        reason = f"What {roles} set up cannot rely on it."
        return failed(name, observed=one.problem, expected=_EXPECTED, reason=reason)
    if name == _MODPROBE and one.link.rpartition("/")[2] != _KMOD:
        # Every distribution has it so, since kmod took the place of module-init-tools.
        reason = "Something stands in its place: modules are loaded as that likes, or not at all."
        observed = f"leads to '{one.link}'" if one.link else "a program of its own"
        return warned(name, observed=observed, expected=f"a link to '{_KMOD}'", reason=reason)
    return passed(name, observed=_EXPECTED, expected=_EXPECTED)
