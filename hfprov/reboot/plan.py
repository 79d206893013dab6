"""Who is to be rebooted, in which order, and who is left alone. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hfprov.rollout import reboot_needed, waves
from hfprov.sweep import HostVerdicts
from hfprov.words import at_work


@dataclass(frozen=True, slots=True)
class RebootPlan:
    """Who is to be rebooted and why, in which waves. Shown before anything is done."""

    reasons: Mapping[str, str]
    waves: tuple[tuple[str, ...], ...]
    unreachable: tuple[str, ...]
    withheld: Mapping[str, str]
    """By host: why it is not rebooted although it should be."""


def plan(
    before: Mapping[str, HostVerdicts],
    *,
    sizes: Sequence[str],
    everyone: bool,
    drains: bool,
) -> RebootPlan:
    """Decide whom to reboot: hosts that only a reboot makes right, or everyone who was asked for.

    ``drains`` says that a drain hook will be run. Without one, a host at work is left alone.
    """
    reasons: dict[str, str] = {}
    withheld: dict[str, str] = {}
    for host, view in before.items():
        why = reboot_needed(view.verdicts) or ("It was asked for." if everyone else "")
        if not view.reachable or not why:
            continue
        if reason := "" if drains else _at_work(view):
            withheld[host] = reason
        else:
            reasons[host] = why
    return RebootPlan(
        reasons=reasons,
        waves=tuple(waves(list(reasons), sizes)) if reasons else (),
        unreachable=tuple(host for host, view in before.items() if not view.reachable),
        withheld=withheld,
    )


def _at_work(view: HostVerdicts) -> str:
    if view.workloads is None:
        return "It is not known whether something is at work on it; drain it, or give '--drain'."
    if view.workloads:
        return f"{at_work(len(view.workloads))}; drain it, or give '--drain'."
    return ""
