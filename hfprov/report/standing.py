"""How a host stands in a report: never better than its verdicts, and worse where the run says so.

Pure. Verdicts tell what was seen; the state tells whether that can still be true. A host whose
roles were cut off half-way was good when it was looked at, and is unknown now.
"""

from __future__ import annotations

from dataclasses import dataclass

from hfprov.record.model import HostState, Judged, RunInfo, RunStatus
from hfprov.verdict import Outcome, badness

STATE_WORDS = {
    HostState.PLANNED: "not looked at yet",
    HostState.OBSERVING: "being observed",
    HostState.OBSERVED: "observed",
    HostState.CONVERGING: "being changed",
    HostState.REBOOTING: "rebooting",
    HostState.CONVERGED: "changed, not observed again",
    HostState.MEASURING: "being measured",
    HostState.VERIFIED: "changed, and observed again",
    HostState.UNREACHABLE: "not reached",
    HostState.FAILED: "failed",
    HostState.INTERRUPTED: "interrupted",
    HostState.NOT_ATTEMPTED: "not attempted",
}

_OUTCOMES = {
    HostState.UNREACHABLE: (Outcome.UNKNOWN, "It could not be reached."),
    HostState.INTERRUPTED: (
        Outcome.UNKNOWN,
        "Work on it was interrupted: what is true of it now is not known.",
    ),
    HostState.FAILED: (Outcome.FAIL, "The run failed on this host."),
    HostState.NOT_ATTEMPTED: (Outcome.FAIL, "What the run was to do on it was not done."),
}


@dataclass(frozen=True, slots=True)
class Standing:
    """The outcome that a report gives a host, and why it is worse than its verdicts, if it is."""

    outcome: Outcome
    note: str = ""


def standing(state: HostState, judged: Judged | None) -> Standing:
    """How a host stands at the end of a run, or so far."""
    if judged is None:
        return Standing(Outcome.UNKNOWN, f"It was not judged: {STATE_WORDS[state]}.")
    seen = judged.summary.outcome
    if state.unfinished or state is HostState.PLANNED:
        note = f"The run has not finished with it: {STATE_WORDS[state]}."
        return Standing(_worse(seen, Outcome.UNKNOWN), note)
    if state in _OUTCOMES:
        least, note = _OUTCOMES[state]
        return Standing(_worse(seen, least), note)
    return Standing(seen)


def _worse(one: Outcome, other: Outcome) -> Outcome:
    return max(one, other, key=badness)


_ENDINGS = {
    RunStatus.RUNNING: "The run has not ended: this is what is known so far.",
    RunStatus.INTERRUPTED: "The run was interrupted: it did not do all that was asked for.",
    RunStatus.CRASHED: "The run crashed: its process is gone without a word.",
}


def ending(info: RunInfo) -> Standing:
    """How a run itself stands: ``pass`` only when it came to its end and called that good."""
    if info.status is not RunStatus.COMPLETE:
        return Standing(Outcome.UNKNOWN, _ENDINGS[info.status])
    if info.exit_code == 0:
        return Standing(Outcome.PASS)
    if info.exit_code is None:
        return Standing(Outcome.UNKNOWN, "The run ended without a result.")
    outcome = Outcome.FAIL if info.exit_code == 1 else Outcome.UNKNOWN
    return Standing(outcome, f"The run ended with exit code {info.exit_code}.")
