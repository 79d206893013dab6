"""In which order, how many at once, and when to stop: waves and the disruption budget. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hfprov.errors import UsageError
from hfprov.judge import find_check
from hfprov.verdict import Impact, Outcome, Verdict

DEFAULT_WAVES = ("1", "10%", "100%")
"""One canary, then a tenth of the hosts, then the rest."""
DEFAULT_BUDGET = "10%"
"""More failed hosts than this stop the rollout."""

_SIZE = re.compile(r"(\d{1,6})(%?)")
_ALL_PERCENT = 100


def size_of(text: str, total: int) -> int:
    """``"3"`` or ``"25%"`` as a number of hosts; a share is rounded up. Raises UsageError."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or (match.group(2) and int(match.group(1)) > _ALL_PERCENT):
        raise UsageError(
            f"'{text}' is neither a number of hosts nor a share of them.",
            hint="Write for example '2' or '25%'.",
        )
    number = int(match.group(1))
    return -(-number * total // _ALL_PERCENT) if match.group(2) else number


def waves(hosts: Sequence[str], sizes: Sequence[str] = DEFAULT_WAVES) -> list[tuple[str, ...]]:
    """Cut hosts into waves of these sizes, in order; the last size repeats until none are left.

    Raises UsageError for a size that is no size, or that would never end.
    """
    cut: list[tuple[str, ...]] = []
    done = 0
    numbers = [size_of(size, len(hosts)) for size in sizes]
    if not numbers or min(numbers, default=0) < 1 <= len(hosts):
        raise UsageError("A wave needs at least one host.", hint="Write for example '1,10%,100%'.")
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
            return f"{len(failed)} hosts failed; at most {self.failures} may."
        return ""


_REPAIRABLE = (Outcome.FAIL, Outcome.UNKNOWN)
_ALLOWED = {
    "safe": {Impact.NONE},
    "restart": {Impact.NONE, Impact.RESTART},
    "reboot": {Impact.NONE, Impact.RESTART, Impact.REBOOT},
}
LEVELS = tuple(_ALLOWED)


def roles_needed(
    verdicts: Sequence[Verdict], roles: Sequence[str], *, allowed: str = "restart"
) -> tuple[str, ...]:
    """The roles that have something to do on a host, in the order in which they run.

    A role runs when one of its checks fails. A check that could not be judged counts: what
    is not known to be right is made right. ``allowed`` bounds what a repair may cost the node.
    """
    needed = set()
    for verdict in verdicts:
        check = find_check(verdict.check)
        if check is None or check.role is None or verdict.outcome not in _REPAIRABLE:
            continue
        if check.impact in _ALLOWED[allowed]:
            needed.add(check.role)
    return tuple(role for role in roles if role in needed)
