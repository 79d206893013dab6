"""The vendors' diagnoses: how each is run at a level, and what its output means. Pure.

All skipped, or nothing at all, is unknown: an exit code of 0 proves nothing (dcgmi ends with 0 when
every test was skipped).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from hfprov.errors import NotUnderstoodError
from hfprov.evidence import rvs, xpu_smi
from hfprov.evidence.accelerators.model import Vendor
from hfprov.evidence.dcgmi import forms as dcgmi
from hfprov.evidence.dcgmi.model import (
    JUDGED,
    DcgmiFailure,
    DiagReport,
    DiagResult,
    DiagStatus,
    Health,
    NvlinkStates,
)
from hfprov.evidence.failures import ToolFailure
from hfprov.evidence.xpu_smi_facts import XpuSmi
from hfprov.reading import Read, command
from hfprov.remote import Output
from hfprov.verdict import (
    Finding,
    NotApplicable,
    Outcome,
    failed,
    not_applicable,
    passed,
    unknown,
    warned,
)
from hfprov.words import plural

TIMED_OUT = (124, 137)
"""Exit codes of timeout(1) when the command did not end in time, by TERM or by KILL."""
MOST_FINDINGS = 500

Judge = Callable[[str, int | None], list[Finding]]
"""From the output, and the number of devices that must appear in it (None: not known)."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One vendor's diagnosis."""

    vendor: Vendor
    name: str
    package: str
    presence: Read
    argv: Mapping[int, tuple[str, ...]]
    """By level, 1 to 4; a level that the tool does not have is its highest."""
    seconds: Mapping[int, float]
    judge: Judge | None
    """None: its output has no parser yet, so that it is recorded and judged by a person."""

    @property
    def check(self) -> str:
        return f"diagnose.{self.name}"

    def command(self, level: int) -> tuple[str, ...]:
        return self.argv[level]


def judge_output(tool: Tool, output: Output, devices: int | None) -> list[Finding]:
    """The findings of one run. What did not end in time, or is not understood, is unknown."""
    if output.code in TIMED_OUT:
        return [unknown(reason=f"'{tool.name}' did not end within its time and was stopped.")]
    text = output.stdout.decode("utf-8", "backslashreplace")
    if tool.judge is None:
        return [
            unknown(
                reason=f"The output of '{tool.name}' (exit code {output.code}) is recorded; this "
                "version cannot judge it."
            )
        ]
    try:
        findings = tool.judge(text if text.strip() else output.stderr, devices)
    except NotUnderstoodError as error:
        return [unknown(reason=f"{error.message} Exit code {output.code}.")]
    if output.code and not any(one.outcome is not Outcome.PASS for one in findings):
        reason = f"'{tool.name}' ended with exit code {output.code}, and names no failed test."
        findings.append(unknown("exit code", reason=reason))
    return _bounded(findings)


def _bounded(findings: list[Finding]) -> list[Finding]:
    """The worst first where there are more than any machine has; never cut off unseen."""
    if len(findings) <= MOST_FINDINGS:
        return findings
    bad = [one for one in findings if one.outcome is not Outcome.PASS]
    reason = f"{len(findings)} results are more than any machine has."
    return [*bad[: MOST_FINDINGS - 1], unknown("and more", reason=reason)]


def _nothing(tool: str) -> Finding:
    return unknown(reason=f"'{tool}' judged nothing: every test was skipped or none was run.")


# -- NVIDIA ---------------------------------------------------------------------------------------


def judge_dcgmi(text: str, devices: int | None) -> list[Finding]:
    """``dcgmi diag`` in any form; ``health`` and ``nvlink -s`` too."""
    facts = dcgmi.parse(text)
    if isinstance(facts, DcgmiFailure):
        return [unknown(reason=f"dcgmi could not diagnose: {facts.message}")]
    if isinstance(facts, NvlinkStates):
        return list(_nvlinks(facts))
    if isinstance(facts, Health):
        return list(_health(facts))
    if not isinstance(facts, DiagReport):
        raise NotUnderstoodError(f"This output of dcgmi is no diagnosis ({type(facts).__name__}).")
    return list(_diag(facts, devices))


def _diag(report: DiagReport, devices: int | None) -> Iterator[Finding]:
    told = {(one.test, one.iteration) for one in report.results if not one.summary}
    for result in report.results:
        # A summary that fails beside results that pass is news; else it only repeats them.
        repeats = result.summary and (result.test, result.iteration) in told
        if not repeats or result.status is DiagStatus.FAIL:
            yield _diag_result(result)
    judged = report.judged or any(one.status is DiagStatus.FAIL for one in report.results)
    if report.runtime_error:
        yield unknown("run", reason=f"dcgmi reports an error: {report.runtime_error}")
    if report.incomplete:
        yield unknown("run", reason=f"The output is not whole: {report.incomplete}")
    if not judged:
        yield _nothing("dcgmi diag")
    own = [
        one for one in report.results if (one.test, one.iteration) not in told or not one.summary
    ]
    beyond = [one for one in own if one.category not in ("", "Deployment")]
    if beyond and not any(one.status in JUDGED for one in beyond):
        reason = "The hardware was not tested: every test beyond those of the software was skipped."
        yield unknown("hardware", reason=reason)
    covered = {
        one.entity_id
        for one in report.results
        if one.entity_group == "GPU" and one.entity_id is not None
    }
    if covered and devices is not None and len(covered) < devices:
        reason = f"Only {len(covered)} of {devices} GPUs were tested."
        yield unknown("coverage", reason=reason)


def _diag_result(result: DiagResult) -> Finding:
    entity = f" {result.entity_group} {result.entity_id}" if result.entity_id is not None else ""
    subject = f"{result.test}{entity}"
    said = "; ".join(message.text for message in result.messages)[:1000]
    observed = result.status_text or result.status.value
    if result.status is DiagStatus.PASS and said:
        # DCGM 4 passes a memory test that got too little memory to test, and says so beside it.
        reason = f"It passed, but complains: {said}"
        return warned(subject, observed=observed, expected="pass", reason=reason)
    if result.status is DiagStatus.PASS:
        return passed(subject, observed=observed, expected="pass")
    if result.status is DiagStatus.FAIL:
        reason = said or "The vendor's diagnosis failed."
        return failed(subject, observed=observed, expected="pass", reason=reason)
    if result.status is DiagStatus.WARN:
        reason = said or "The vendor's diagnosis warns."
        return warned(subject, observed=observed, expected="pass", reason=reason)
    if result.status in (DiagStatus.SKIP, DiagStatus.NOT_RUN):
        reason = f"It was not run ({observed}). {said}".strip()
        return not_applicable(NotApplicable.NOT_REQUESTED, reason, subject)
    return unknown(subject, reason=f"Its result '{observed}' is not known. {said}".strip())


def _nvlinks(states: NvlinkStates) -> Iterator[Finding]:
    for kind, rows in (("GPU", states.gpus), ("switch", states.switches)):
        for number, letters in rows:
            subject = f"nvlink {kind} {number}"
            down, used = letters.count("D"), [one for one in letters if one in "UD"]
            observed = f"{len(used) - down} of {len(used)} links up"
            if down:
                reason = "NVLinks are down."
                yield failed(subject, observed=observed, expected="all up", reason=reason)
            elif used:
                yield passed(subject, observed=observed, expected="all up")
            else:
                reason = "It has no NVLinks in use."
                yield not_applicable(NotApplicable.NO_SUCH_HARDWARE, reason, subject)
    if states.incomplete:
        yield unknown("run", reason=f"The output is not whole: {states.incomplete}")


def _health(health: Health) -> Iterator[Finding]:
    results = [
        DiagResult(
            item.system or "health",
            item.status,
            entity_group=item.entity_group,
            entity_id=item.entity_id,
        )
        for item in health.items
    ]
    for result in results or [DiagResult("health", health.overall)]:
        yield _diag_result(result)
    if health.incomplete:
        yield unknown("run", reason=f"The output is not whole: {health.incomplete}")


# -- AMD, Intel -----------------------------------------------------------------------------------


def judge_rvs(text: str, devices: int | None) -> list[Finding]:
    """A log of the ROCm Validation Suite."""
    facts = rvs.parse(text)
    if isinstance(facts, ToolFailure):
        return [unknown(reason=f"rvs could not diagnose: {facts.sentence}")]
    findings = [_rvs_action(one) for one in facts.actions]
    findings += [unknown("run", reason=f"rvs reports: {error}") for error in facts.errors]
    for row in facts.summary or ():
        if row.result.upper() == "FAIL":
            reason = "The summary says so."
            findings.append(
                failed(f"{row.action} summary", observed="FAIL", expected="PASS", reason=reason)
            )
    if not any(one.outcome in (Outcome.PASS, Outcome.FAIL) for one in findings):
        findings.append(_nothing("rvs"))
    for action in facts.actions:
        gpus = {outcome.gpu for outcome in action.outcomes if outcome.gpu is not None}
        if gpus and devices is not None and len(gpus) < devices:
            reason = f"Only {len(gpus)} of {devices} GPUs have a verdict."
            findings.append(unknown(f"{action.name} coverage", reason=reason))
    return findings


def _rvs_action(action: rvs.Action) -> Finding:
    if action.passed:
        observed = plural(len(action.outcomes), "verdict")
        return passed(action.name, observed=observed, expected="pass")
    bad = [one.line for one in action.outcomes if not one.passed]
    if action.passed is False:
        reason = (bad or list(action.errors))[0]
        return failed(action.name, observed="fail", expected="pass", reason=reason[:1000])
    return unknown(action.name, reason="It has no verdict for every GPU that it mentions.")


def judge_xpu(text: str, devices: int | None) -> list[Finding]:
    """``xpu-smi diag`` or ``health``: one line per component and device."""
    facts = xpu_smi.parse(text)
    if isinstance(facts, ToolFailure):
        return [unknown(reason=f"xpu-smi could not diagnose: {facts.sentence}")]
    return list(_xpu(facts, devices))


def _xpu(facts: XpuSmi, devices: int | None) -> Iterator[Finding]:
    checks = [*facts.checks, *(one for each in facts.diagnoses for one in each.checks)]
    judged = False
    for one in checks:
        where = f" GPU {one.device}" if one.device is not None else ""
        subject = f"{one.component}{where}"
        if one.passed is None:
            reason = f"The tool does not know: {one.message or one.status}"
            yield not_applicable(NotApplicable.NO_SUCH_HARDWARE, reason, subject)
            continue
        judged = True
        if one.passed:
            yield passed(subject, observed=one.status, expected="Pass")
        else:
            reason = one.message or "The vendor's diagnosis failed."
            yield failed(subject, observed=one.status, expected="Pass", reason=reason)
    if not judged:
        yield _nothing("xpu-smi")
    covered = {one.device for one in checks if one.device is not None}
    if covered and devices is not None and len(covered) < devices:
        yield unknown("coverage", reason=f"Only {len(covered)} of {devices} devices were tested.")


# -- the tools ------------------------------------------------------------------------------------

_MINUTE = 60.0


def _levels(*argvs: tuple[str, ...]) -> dict[int, tuple[str, ...]]:
    return {level: argvs[min(level, len(argvs)) - 1] for level in range(1, 5)}


_DCGMI = tuple(("dcgmi", "diag", "-r", str(level), "-j") for level in range(1, 5))
# The level option is from memory: a version without it says so, and the result is unknown.
_RVS = tuple(("rvs", "-r", str(level)) for level in (1, 2, 3, 4))
_ASCEND = tuple(
    ("ascend-dmi", "--dg", "--se", scope, "-fmt", "json", "-q")
    for scope in ("healthCheck", "performanceCheck", "stressTest")
)
_XPU = tuple(("xpu-smi", "diag", "-d", "-1", "-l", str(level)) for level in (1, 2, 3))

TOOLS: tuple[Tool, ...] = (
    Tool(
        Vendor.NVIDIA,
        "dcgmi",
        "datacenter-gpu-manager-4-cuda13",
        command("dcgmi", "--version", limit=4096),
        _levels(*_DCGMI),
        {1: 3 * _MINUTE, 2: 10 * _MINUTE, 3: 45 * _MINUTE, 4: 180 * _MINUTE},
        judge_dcgmi,
    ),
    Tool(
        Vendor.AMD,
        "rvs",
        "rocm-validation-suite",
        command("rvs", "--version", limit=4096),
        _levels(*_RVS),
        {1: 5 * _MINUTE, 2: 15 * _MINUTE, 3: 60 * _MINUTE, 4: 180 * _MINUTE},
        judge_rvs,
    ),
    Tool(
        Vendor.ASCEND,
        "ascend-dmi",
        "Ascend toolbox",
        command("ascend-dmi", "--version", limit=4096),
        _levels(*_ASCEND),
        {1: 10 * _MINUTE, 2: 30 * _MINUTE, 3: 120 * _MINUTE, 4: 120 * _MINUTE},
        None,
    ),
    Tool(
        Vendor.GAUDI,
        "hl_qual",
        "habanalabs-qual",
        command("hl_qual", "-h", limit=4096),
        _levels(
            ("hl_qual", "-gaudi2", "-c", "all", "-rmod", "parallel", "-p", "-b"),
            ("hl_qual", "-gaudi2", "-c", "all", "-rmod", "parallel", "-f2", "-l", "extreme"),
        ),
        {1: 15 * _MINUTE, 2: 60 * _MINUTE, 3: 60 * _MINUTE, 4: 60 * _MINUTE},
        None,
    ),
    Tool(
        Vendor.INTEL,
        "xpu-smi",
        "xpu-smi",
        command("xpu-smi", "-v", limit=4096),
        _levels(*_XPU),
        {1: 5 * _MINUTE, 2: 15 * _MINUTE, 3: 60 * _MINUTE, 4: 60 * _MINUTE},
        judge_xpu,
    ),
)
