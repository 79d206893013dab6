"""The packages of the node are whole, whichever they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts, check
from hfprov.evidence.unfinished_packages import DPKG_AT_WORK, TRIGGERS, UNFINISHED, Unfinished
from hfprov.verdict import (
    Finding,
    Impact,
    NotApplicable,
    failed,
    not_applicable,
    passed,
    unknown,
    warned,
)
from hfprov.words import plural

_EXPECTED = "nothing left undone"
_JOURNAL = "/var/lib/dpkg/updates"
_SHOWN = 8


@check("node.packages", reads=[UNFINISHED, DPKG_AT_WORK], impact=Impact.MANUAL)
def packages(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """No package is half done, and dpkg was not interrupted."""
    found = facts.get(UNFINISHED)
    if found is None:
        yield not_applicable(NotApplicable.NOT_REQUESTED, "The node has no dpkg.")
    elif not found.states and not found.is_interrupted:
        yield passed(observed=_EXPECTED, expected=_EXPECTED)
    elif facts.get(DPKG_AT_WORK):
        reason = (
            "dpkg is at work on the node right now: observe again when it has ended. If it does "
            "not end, it waits for an answer."
        )
        yield unknown(reason=reason, expected=_EXPECTED)
    else:
        yield from judge_unfinished(found)


def judge_unfinished(found: Unfinished) -> Iterator[Finding]:
    """One finding for a dpkg that was killed, one for the packages that are not whole."""
    if found.is_interrupted:
        reason = "dpkg was interrupted: it installs nothing before 'dpkg --configure -a'."
        yield failed(_JOURNAL, observed="interrupted", expected=_EXPECTED, reason=reason)
    if not found.states:
        return
    only_triggers = set(found.states) <= set(TRIGGERS)
    what = plural(len(found.states), "package")
    reason = f"dpkg has not finished with {what}; 'dpkg --audit' on the node names all."
    judged = warned if only_triggers else failed
    yield judged("", observed=_shown(found), expected=_EXPECTED, reason=reason)


def _shown(found: Unfinished) -> str:
    counts = ", ".join(f"{count} {state}" for state, count in sorted(Counter(found.states).items()))
    names = [name for _, name in found.names]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{counts} ({', '.join(names[:_SHOWN])}{more})" if names else counts
