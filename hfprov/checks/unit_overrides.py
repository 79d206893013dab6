"""Judge whether drop-ins, or a copy, keep a unit from starting or have it do something else."""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.evidence.unit_overrides import DROP_INS, Settings, deciding, replacing
from hfprov.verdict import Finding, failed

__all__ = ["DROP_INS", "judge_overrides"]


def judge_overrides(
    found: Settings, *units: str, conditions_only: bool = False
) -> Iterator[Finding]:
    """A finding for each setting that decides of one of these units; no finding when there is none.

    The role's own drop-ins set nothing of the kind. With ``conditions_only`` another command is
    allowed, as for daemons whose options are usually set that way.
    """
    for unit in units:
        path = replacing(found, unit)
        if path and not conditions_only and not unit.startswith("hfprov-"):
            reason = (
                f"systemd takes this file instead of the '{unit}' that the package brings. "
                "No role takes it away: a person has to."
            )
            yield failed(f"{unit} {path}", observed=path, expected="the package's", reason=reason)
        for one in deciding(found, unit):
            if conditions_only and one.section != "Unit":
                continue
            reason = (
                f"This drop-in decides whether or how '{unit}' starts. No role takes it away: "
                "a person has to."
            )
            yield failed(
                f"{unit} {one.where}",
                observed=one.statement,
                expected="no such drop-in",
                reason=reason,
            )
