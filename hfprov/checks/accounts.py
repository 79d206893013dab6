"""Who may become root, and that those who may can: accounts and sudo."""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts, check
from hfprov.evidence.accounts import OPEN, ROOTS
from hfprov.evidence.sudoers import MAIN, SUDOERS, Sudoers
from hfprov.evidence.text import excerpt
from hfprov.reading import Result
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

_OTHERS_MAY_WRITE = 0o002
_GROUP_MAY_WRITE = 0o020


@check("accounts.root", reads=[ROOTS], impact=Impact.MANUAL)
def root(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """No other account has the number of root."""
    found, expected = facts.get(ROOTS), "root alone"
    if not any(one.name == "root" for one in found):
        reason = "'/etc/passwd' has no line for root of the usual form."
        yield unknown("root", reason=reason, expected=expected)
    others = [one for one in found if one.name != "root"]
    for one in others:
        reason = "Whoever logs in by it is root, and no record tells the two apart."
        yield failed(
            f"{one.where} {one.name}", observed="is root", expected=expected, reason=reason
        )
    if found and not others:
        yield passed(observed=expected, expected=expected)


@check("accounts.passwords", reads=[OPEN], impact=Impact.MANUAL)
def passwords(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """Every account has a password, or none that fits."""
    found, expected = facts.get(OPEN), "no account without a password"
    for one in found:
        reason = "Anybody gets in by this name where no key is asked for: at the console, by 'su'."
        observed = "an empty password"
        yield failed(f"{one.where} {one.name}", observed=observed, expected=expected, reason=reason)
    if not found:
        yield passed(observed=expected, expected=expected)


@check("accounts.sudo", reads=[SUDOERS], impact=Impact.MANUAL)
def sudo(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """Sudo understands and trusts its files, and they do not make everybody root."""
    found = facts.get(SUDOERS)
    if not found.is_installed:
        yield not_applicable(NotApplicable.NOT_REQUESTED, "sudo is not installed on the node.")
        return
    if not found.files:
        reason = "sudo works for nobody."
        yield failed(MAIN, observed="absent", expected="a file that sudo reads", reason=reason)
        return
    problems = [*_lines(found), *(one for path in found.files if (one := _rights(path, found)))]
    yield from problems
    if not problems:
        observed = f"{len(found.files)} files as they should be"
        yield passed(observed=observed, expected="files that sudo understands")


def _lines(found: Sudoers) -> Iterator[Finding]:
    for one in found.unreadable:
        reason = "sudo leaves the line out, or, before 1.9.3, works for nobody."
        observed, expected = excerpt(one.text, 120), "a line that sudo understands"
        yield failed(one.where, observed=observed, expected=expected, reason=reason)
    for one in found.for_everybody:
        reason = "Every user of the node may do everything as root."
        observed = excerpt(one.text, 120)
        yield failed(one.where, observed=observed, expected="nothing for ALL", reason=reason)
    for one in found.elsewhere:
        reason = "What it includes is not read here."
        observed, expected = excerpt(one.text, 120), "'/etc/sudoers.d' alone"
        yield warned(one.where, observed=observed, expected=expected, reason=reason)


def _rights(path: str, found: Sudoers) -> Finding | None:
    """Sudo refuses a file that others than root could have written."""
    result: Result = found.files[path]
    mode = result.mode or 0
    by_group = mode & _GROUP_MAY_WRITE and result.gid != 0
    if result.uid == 0 and not mode & _OTHERS_MAY_WRITE and not by_group:
        return None
    return failed(
        excerpt(path, 200),
        observed=f"mode {mode:04o}, {result.uid}:{result.gid}",
        expected="root's, to be written by nobody else",
        reason="sudo refuses the file: what it gives is not given, or nobody may do anything.",
    )
