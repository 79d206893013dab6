"""What every login and job gets: nothing that hides devices, slows programs, or keeps users out."""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.catalogue.job_variables import Effect, job_variables
from hfprov.checks.registry import Facts, check, require
from hfprov.evidence.access import ACCESS
from hfprov.evidence.job_environment import CLOSED, PRELOADED, VARIABLES
from hfprov.verdict import Finding, Impact, failed, passed, warned


@check("environment.variables", reads=[VARIABLES], impact=Impact.MANUAL)
def variables(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """No file sets for every login a variable that belongs to a single job."""
    catalogue, found = job_variables(), 0
    for one in facts.get(VARIABLES):
        row = catalogue.find(one.name)
        if row is None or one.value in row.harmless:
            continue
        found += 1
        tell = failed if row.effect is Effect.TAKES_AWAY else warned
        yield tell(
            f"{one.where} {one.name}",
            observed=f"{one.name}={one.value}",
            expected="not set for every login",
            reason=row.advice,
        )
    if not found:
        yield passed(observed="none", expected="no such variable")


@check("environment.preload", reads=[PRELOADED], impact=Impact.MANUAL)
def preload(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """No library is loaded into every program."""
    libraries, expected = facts.get(PRELOADED), "no library"
    reason = "It is loaded into every program of the node, and changes what is measured and run."
    for one in libraries:
        yield warned(one, observed="preloaded", expected=expected, reason=reason)
    if not libraries:
        yield passed(observed="none", expected=expected)


@check("environment.logins", reads=[CLOSED], impact=Impact.MANUAL)
def logins(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """Users may log in, and not only root."""
    closed, expected = facts.get(CLOSED), "users may log in"
    reason = "While the file is there, PAM turns away everybody but root, and jobs with them."
    for path in closed:
        yield failed(path, observed="users are turned away", expected=expected, reason=reason)
    if not closed:
        yield passed(observed=expected, expected=expected)


@check("environment.access", reads=[ACCESS], impact=Impact.MANUAL)
def access(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """Users may use what every program needs, and only root may change it."""
    found, wrong = facts.get(ACCESS), 0
    require(found, "Not even '/tmp' was found.")
    for one in found:
        if one.is_right:
            continue
        wrong += 1
        observed = f"mode {one.mode:04o}, owner {one.owner}"
        reason = "Programs of users fail in odd ways, or somebody may change what all rely on."
        if one.wanted.may_be_meant:
            reason = "Only root and its group can use it; an option of the driver may do that."
        tell = warned if one.wanted.may_be_meant and not one.owner else failed
        yield tell(one.path, observed=observed, expected=one.expected, reason=reason)
    if not wrong:
        yield passed(observed=f"{len(found)} places as they should be", expected="as it should be")
