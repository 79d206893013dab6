"""In which order, how many at once, and when to stop: waves and the disruption budget. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hfprov.errors import UsageError
from hfprov.judge import find_check
from hfprov.verdict import Impact, Outcome, Verdict
from hfprov.words import at_work, plural

DEFAULT_WAVES = ("1", "10%", "100%")
"""One canary, then a tenth of the hosts, then the rest."""
DEFAULT_BUDGET = "10%"
"""More failed hosts than this stop the rollout."""

_SIZE = re.compile(r"(\d{1,6})(%?)")
_ALL_PERCENT = 100


def size_of(text: str, total: int) -> int:
    """``"3"`` or ``"25%"`` as a number of hosts; a share is rounded down. Raises UsageError."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or (match.group(2) and int(match.group(1)) > _ALL_PERCENT):
        raise UsageError(
            f"'{text}' is neither a number of hosts nor a share of them.",
            hint="Write for example '2' or '25%'.",
        )
    number = int(match.group(1))
    return number * total // _ALL_PERCENT if match.group(2) else number


def require_sizes(sizes: Sequence[str], budget: str) -> None:
    """Raises UsageError for what is no size of a wave, or no number or share of hosts."""
    waves((), sizes)
    size_of(budget, 100)


def waves(hosts: Sequence[str], sizes: Sequence[str] = DEFAULT_WAVES) -> list[tuple[str, ...]]:
    """Cut hosts into waves of these sizes, in order; the last size repeats until none are left.

    A share that comes to nobody is left out: of three hosts, ``1,10%,100%`` makes waves of one and
    two. When all of them do, hosts go one by one: how many hosts need something is not known when
    the sizes are written. Raises UsageError for a size that is no size, or when all are zero.
    """
    if not any(size_of(size, _ALL_PERCENT) for size in sizes):
        raise UsageError("A wave needs at least one host.", hint="Write for example '1,10%,100%'.")
    numbers = [size_of(size, len(hosts)) for size in sizes]
    numbers = [number for number in numbers if number > 0] or [1]
    cut: list[tuple[str, ...]] = []
    done = 0
    while done < len(hosts):
        number = numbers[min(len(cut), len(numbers) - 1)]
        cut.append(tuple(hosts[done : done + number]))
        done += number
    return cut


@dataclass(frozen=True, slots=True)
class Budget:
    """How many hosts may fail before a rollout stops by itself."""

    failures: int

    def exceeded(self, failed: Mapping[str, str], *, canary: bool) -> str:
        """Why the rollout must stop, or ``""``. ``failed`` is the reason by host.

        The first wave tolerates nothing. The same reason on two hosts is a cause, not chance.
        """
        if not failed:
            return ""
        if canary:
            host, reason = next(iter(failed.items()))
            return f"The first wave failed on '{host}': {reason}"
        reason, times = Counter(failed.values()).most_common(1)[0]
        if times > 1:
            return f"The same failure on {times} hosts: {reason}"
        if len(failed) > self.failures:
            return f"{plural(len(failed), 'host')} failed; at most {self.failures} may."
        return ""


LEVELS = ("safe", "restart", "reboot")
"""How far a repair may go, mildest first."""
LEFTOVER_WORK = "node.leftover_work"
_BY_HAND = "no role repairs it"
_REPAIRABLE = (Outcome.FAIL, Outcome.UNKNOWN)
LEVEL_NEEDED = {
    Impact.NONE: "safe",
    Impact.RESTART: "restart",
    Impact.DRAIN: "restart",
    Impact.REBOOT: "reboot",
}


@dataclass(frozen=True, slots=True)
class Repair:
    """What can be done for one host, and what cannot, with the reason."""

    roles: tuple[str, ...]
    """Roles to run, in the order of the playbook."""
    withheld: Mapping[str, str]
    """By role or check: why it is not repaired now."""


def repair_for(
    verdicts: Sequence[Verdict],
    roles: Sequence[str],
    *,
    allowed: str = "reboot",
    workloads: Sequence[str] | None = (),
) -> Repair:
    """Decide which roles have something to do on a host, and which of them may run now.

    A role has something to do when one of its checks fails or could not be judged: what is not
    known to be right is made right. It may run when none of those checks costs more to repair than
    ``allowed``, and when nothing is at work on the node (``workloads``; None: not known) that a
    repair would disturb. It never runs beside Ansible modules that an interrupted or foreign run
    left at work.
    """
    needed: dict[str, set[Impact]] = {}
    withheld: dict[str, str] = {}
    by_hand: dict[str, str] = {}
    for verdict in verdicts:
        check = find_check(verdict.check)
        if check is None or verdict.outcome not in _REPAIRABLE:
            continue
        if check.role not in roles or check.impact is Impact.MANUAL:
            by_hand[verdict.check] = str(check.role)
        else:
            needed.setdefault(str(check.role), set()).add(check.impact)
    chosen = []
    others_work = any(
        one.check == LEFTOVER_WORK and one.outcome is Outcome.FAIL for one in verdicts
    )
    for role in roles:
        if role not in needed:
            continue
        reason = _why_not(needed[role], allowed, workloads)
        if others_work:
            reason = "another run's Ansible modules are still at work on the node; wait for them"
        if reason:
            withheld[role] = reason
        else:
            chosen.append(role)
    # A role that runs anyway may settle it: only the second observation can say who must.
    manual = {name: _BY_HAND for name, role in by_hand.items() if role not in chosen}
    return Repair(tuple(chosen), {**manual, **withheld})


def reboot_needed(verdicts: Sequence[Verdict]) -> str:
    """What is set right already and waits only for a reboot, in one sentence; ``""`` for nothing.

    Only failures count: a reboot is no way to find out what could not be judged. Where something
    else of the same role fails too, a reboot would not bring what is wanted: another kernel is the
    default, for instance.
    """
    failing = [
        (verdict, check)
        for verdict in verdicts
        if verdict.outcome is Outcome.FAIL and (check := find_check(verdict.check)) is not None
    ]
    unready = {check.role for _, check in failing if check.impact is not Impact.REBOOT}
    for verdict, check in failing:
        if check.impact is Impact.REBOOT and (check.role is None or check.role not in unready):
            what = f"{verdict.check} {verdict.subject}".strip()
            return f"{what}: {verdict.finding.reason or verdict.finding.observed}"
    return ""


def _why_not(impacts: set[Impact], allowed: str, workloads: Sequence[str] | None) -> str:
    level = max((LEVEL_NEEDED[one] for one in impacts), key=LEVELS.index)
    if LEVELS.index(level) > LEVELS.index(allowed):
        return f"its repair costs a {level}, and only '{allowed}' is allowed"
    if impacts & {Impact.DRAIN, Impact.REBOOT}:
        if workloads is None:
            return "it is not known whether something is at work on the node; drain it first"
        if workloads:
            return f"{at_work(len(workloads))}; drain the node first"
    return ""
