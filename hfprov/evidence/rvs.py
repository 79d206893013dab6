"""Logs of the ROCm Validation Suite: what each action found on each GPU.

A log is evidence of health only where it says so. An action without a single verdict line has no
outcome; a GPU that started and has no verdict is listed as unfinished; an error line of an action
makes it fail. Releases since ROCm 7 end with a summary table, older ones just stop, so whoever
judges must compare the GPUs that passed with the GPUs of the node.

Source: ROCm/ROCmValidationSuite ``docs/ug1main.md`` and the modules' ``worker.cpp``.
"""

from __future__ import annotations

import re

from msgspec import Struct, field

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.failures import FailureKind, ToolFailure, failure_table, find_failure
from hfprov.evidence.text import clean, excerpt
from hfprov.regex import regex

TOOL = "rvs"


class Outcome(Struct, frozen=True):
    """One verdict line: pass or fail, and the GPU it is about where the line names one."""

    gpu: str | None
    passed: bool
    line: str


class Bandwidth(Struct, frozen=True):
    """One measured transfer. ``gbs`` is None where the log has no number."""

    description: str
    gbs: float | None
    final: bool
    """True for a result, False for a progress line."""


class Action(Struct, frozen=True):
    name: str
    module: str | None
    outcomes: tuple[Outcome, ...] = ()
    bandwidths: tuple[Bandwidth, ...] = ()
    errors: tuple[str, ...] = ()
    unfinished_gpus: tuple[str, ...] = ()
    """GPUs that the action mentions and has no verdict for."""

    @property
    def passed(self) -> bool | None:
        """False: a verdict or an error says so. None: not every mentioned GPU has a verdict."""
        if self.errors or any(not outcome.passed for outcome in self.outcomes):
            return False
        return True if self.outcomes and not self.unfinished_gpus else None


class SummaryRow(Struct, frozen=True):
    action: str
    module: str
    result: str
    """``PASS``, ``FAIL``, ``SKIP`` as printed."""


class Rvs(Struct, frozen=True):
    actions: tuple[Action, ...]
    summary: tuple[SummaryRow, ...] | None = None
    """None when the log has no whole summary table."""
    errors: tuple[str, ...] = ()
    """Error lines before the first action."""


_FAILURES = failure_table(
    {
        FailureKind.NO_DEVICES: (
            "no (?:amd )?(?:compatible )?(?:gpus?|devices?)",
            "no devices match",
        ),
        FailureKind.DRIVER_NOT_LOADED: ("amdgpu driver", "/dev/kfd"),
        FailureKind.OTHER: (r"rvs-error", r"^\[ERROR", r"could not open", "cli error"),
    }
)
_LINE = regex(
    r"\[(?P<level>RESULT|ERROR|INFO|DEBUG|TRACE|NONE) *\] *(?:\[ *[0-9.]+ *\])? *(?P<rest>.*)$"
)
_ACTION_NAME = regex(r"Action name *:(?P<name>.*)$")
_MODULE_NAME = regex(r"Module name *:(?P<name>.*)$")
_OF_ACTION = regex(r"\[(?P<name>[^\]]{1,200})\] *(?P<rest>.*)$")
_GPU = regex(r"\[GPU:: *(?P<a>[^\] ]+)(?: *- *(?P<id>[0-9]+))?[^\]]*\]")
_MODULE_GPU = regex(r"(?:gst|iet|smqt|gm|mem|pulse|tst|edp|perf)\s+(?P<id>[0-9]+|<[^>]+>)(?=\s|$)")
_VERDICT = regex(
    r"(?:\b(?:met|pass) *: *(?P<word>true|false)\b)"
    r"|(?:\] (?P<bare>pass|fail|passed|failed) *$)"
    r"|(?:\bpeqt (?P<peqt>true|false) *$)"
    r"|(?:: *(?P<test>PASS|FAIL|PASSED|FAILED) *$)"
    r"|(?:\bviolations (?P<count>[0-9]+) *$)",
    re.IGNORECASE,
)
_GBPS = regex(r"(?:(?P<number>[0-9]{1,12}(?:\.[0-9]{1,12})?)|<[^>]*>) +GBps\b")
_SUMMARY_HEADER = regex(r"\| *Action Name *\| *Module *\| *Result *\|")
_SUMMARY_ROW = regex(r"\| *(?P<a>[^|]*?) *\| *(?P<m>[^|]*?) *\| *(?P<r>[A-Za-z ]+?) *\|$")


class _Open(Struct):
    name: str
    module: str | None = None
    outcomes: list[Outcome] = field(default_factory=list)
    bandwidths: list[Bandwidth] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    mentioned: dict[str, None] = field(default_factory=dict)

    def closed(self) -> Action:
        judged = {outcome.gpu for outcome in self.outcomes}
        unfinished = tuple(gpu for gpu in self.mentioned if gpu not in judged)
        if self.bandwidths and not self.outcomes:
            unfinished = ()  # a measurement: its GPUs get numbers, not verdicts
        return Action(
            self.name,
            self.module,
            tuple(self.outcomes),
            tuple(self.bandwidths),
            tuple(self.errors),
            unfinished,
        )


def parse(text: str) -> Rvs | ToolFailure:
    """Facts of one log. Raises NotUnderstoodError when it has neither an action nor a summary."""
    text = clean(text)
    actions: dict[str, _Open] = {}
    current: _Open | None = None
    early: list[str] = []
    lines = text.split("\n")
    for line in lines:
        match = _LINE.match(line.strip())
        if match is None:
            continue
        rest = match["rest"]
        if name := _ACTION_NAME.match(rest):
            current = actions.setdefault(name["name"].strip(), _Open(name["name"].strip()))
            continue
        if (module := _MODULE_NAME.match(rest)) and current is not None:
            current.module = module["name"].strip()
            continue
        of = _OF_ACTION.match(rest)
        if of is not None and of["name"] in actions:
            current = actions[of["name"]]
        if current is None:
            if match["level"] == "ERROR":
                early.append(excerpt(rest, 200))
            continue
        _note(current, match["level"], rest)
    summary = _summary(lines)
    if not actions and not summary:
        failure = find_failure(text, _FAILURES)
        if failure is not None:
            return failure
        raise NotUnderstoodError(
            f"The log of '{TOOL}' has no '[RESULT] ... Action name :' line and no whole "
            "summary: it shows no test."
        )
    return Rvs(tuple(each.closed() for each in actions.values()), summary, tuple(early))


def _note(action: _Open, level: str, rest: str) -> None:
    if level == "ERROR":
        action.errors.append(excerpt(rest, 200))
        return
    speed = _GBPS.search(rest)
    if speed is not None:
        gbs = float(speed["number"]) if speed["number"] else None
        action.bandwidths.append(Bandwidth(excerpt(rest, 200), gbs, level == "RESULT"))
        return
    if level != "RESULT":
        return
    gpu = _gpu_of(rest)
    if gpu is not None:
        action.mentioned[gpu] = None
    verdict = _VERDICT.search(rest)
    if verdict is not None:
        action.outcomes.append(Outcome(gpu, _is_pass(verdict), excerpt(rest, 200)))


def _gpu_of(rest: str) -> str | None:
    if match := _GPU.search(rest):
        return match["id"] or match["a"]
    if match := _MODULE_GPU.search(rest):
        return match["id"]
    return None


def _is_pass(verdict: re.Match[str]) -> bool:
    if verdict["count"] is not None:
        return verdict["count"].strip("0") == ""
    word = verdict["word"] or verdict["bare"] or verdict["peqt"] or verdict["test"]
    return word.lower() in ("true", "pass", "passed")


def _summary(lines: list[str]) -> tuple[SummaryRow, ...] | None:
    """Rows of the last table, if the table is closed by its frame."""
    start = next((n for n, line in enumerate(lines) if _SUMMARY_HEADER.search(line)), None)
    if start is None:
        return None
    rows: list[SummaryRow] = []
    closed = False
    for line in lines[start + 1 :]:
        stripped = line.strip()
        if stripped.startswith(("+=", "+-")):
            closed = bool(rows) and stripped.endswith("+")
        elif match := _SUMMARY_ROW.match(stripped):
            closed = False
            rows.append(SummaryRow(match["a"], match["m"], match["r"].upper()))
        elif stripped:
            break
    return tuple(rows) if closed else None
