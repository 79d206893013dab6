"""Judge one host: declared baseline against what was observed. Pure; re-judges old evidence."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from hfprov.baseline import Baseline
from hfprov.checks.registry import Check, Facts, all_checks, checks_for
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.reading import Observation, Read, once
from hfprov.verdict import Finding, Outcome, Verdict, unknown, worst


def reads_for(baseline: Baseline) -> tuple[Read, ...]:
    """Everything the checks of this host need, each once, in a stable order."""
    return once(
        read
        for check in checks_for(baseline)
        for source in check.sources
        for read in source.reads(baseline)
    )


def wanted_reads(baselines: Mapping[str, Baseline]) -> dict[str, tuple[Read, ...]]:
    """What to read of each host. Hosts of one kind share one tuple, which is then packed once."""
    by_values: dict[tuple[tuple[str, ...], int], tuple[Read, ...]] = {}
    by_reads: dict[tuple[Read, ...], tuple[Read, ...]] = {}
    reads = {}
    for host, baseline in baselines.items():
        # Resolving shares the values of hosts of one kind: the same object says the same.
        kind = baseline.roles, id(baseline.values)
        if kind not in by_values:
            wanted = reads_for(baseline)
            by_values[kind] = by_reads.setdefault(wanted, wanted)
        reads[host] = by_values[kind]
    return reads


def judge(seen: Observation, baseline: Baseline) -> list[Verdict]:
    """Every verdict on one host. A check that cannot say is ``unknown``; it never disappears."""
    return judge_facts(Facts(seen, baseline), baseline)


def judge_facts(facts: Facts, baseline: Baseline) -> list[Verdict]:
    """The same, for a caller that needs the parsed facts as well."""
    verdicts: list[Verdict] = []
    for check in checks_for(baseline):
        verdicts.extend(Verdict(check.id, one) for one in findings_of(check, facts, baseline))
    return verdicts


def findings_of(check: Check, facts: Facts, baseline: Baseline) -> list[Finding]:
    """What one check finds; a check that cannot say, or fails itself, finds *unknown*."""
    findings: list[Finding] = []
    try:
        findings.extend(check.judge(facts, baseline))
    except (NoEvidenceError, NotUnderstoodError) as error:
        findings.append(unknown(reason=error.message))
    except Exception as error:  # noqa: BLE001 - a bug in one check must not hide the others' verdicts
        name = type(error).__name__
        findings.append(
            unknown(reason=f"The check itself failed ({name}: {error}). Please report it.")
        )
    if not findings:
        findings.append(unknown(reason="The check found nothing to judge."))
    return findings


def unreachable(baseline: Baseline, reason: str) -> list[Verdict]:
    """The verdicts on a host that was not observed: every check is unknown, for this reason."""
    return [Verdict(check.id, unknown(reason=reason)) for check in checks_for(baseline)]


def outcome_of(verdicts: list[Verdict]) -> Outcome:
    """The worst outcome of a host."""
    return worst(verdict.outcome for verdict in verdicts)


def find_check(check_id: str) -> Check | None:
    return _by_id().get(check_id)


@cache
def _by_id() -> dict[str, Check]:
    return {check.id: check for check in all_checks()}
