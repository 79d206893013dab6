"""Who repairs what a check finds, and what that costs the users of the node, in words."""

from __future__ import annotations

from hfprov.checks.registry import Check
from hfprov.verdict import Impact

COSTS = {
    Impact.NONE: "it disturbs nothing",
    Impact.RESTART: "it restarts what it configures, or needs a new login",
    Impact.REBOOT: "it needs a reboot",
    Impact.DRAIN: "it disturbs work on the node, which is to be drained first",
}
"""Not of what a person repairs: nobody knows."""


def who_repairs(check: Check | None) -> str:
    """One sentence; ``check`` is None for the result of a test."""
    if check is None or check.role is None:
        return "A person repairs it."
    if check.impact is Impact.MANUAL:
        return (
            f"hfprov runs no role for this alone. What the role '{check.role}' does not put right "
            "when it runs, a person repairs."
        )
    return f"The role '{check.role}' repairs it; {COSTS[check.impact]}."
