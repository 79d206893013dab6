"""Logins go through pam_limits: without it, nobody reads /etc/security/limits.d.

A session may look good all the same: sshd hands the limits of its own unit on.
"""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts, check
from hfprov.errors import NoEvidenceError
from hfprov.evidence.limits import PAM_FILE
from hfprov.evidence.pam_jumps import passed_by
from hfprov.evidence.pam_stack import PAM_FILES, PamFiles, PamRule, rules
from hfprov.evidence.sshd import FILES, READ_PATTERNS, SshdFiles
from hfprov.evidence.text import excerpt
from hfprov.verdict import Finding, Impact, failed, passed, unknown, warned

_SSHD, _LOGIN, _OTHER = "sshd", "login", "other"
_MODULE = "pam_limits.so"
_OWN_FILE = "conf="
_EXPECTED = f"session required {_MODULE}"
_USE_PAM = "usepam"
_NOBODY = "Nobody reads /etc/security/limits.d at such a login."
_BY_HAND = "No role puts it right: a person has to."


@check("limits.pam.stack", reads=[PAM_FILES, FILES], role="limits", impact=Impact.MANUAL)
def stack(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """What logins over SSH and at a console go through has pam_limits, and sshd uses PAM."""
    found = facts.get(PAM_FILES)
    for service in (_SSHD, _LOGIN):
        # Without util-linux's login there are no logins at a console.
        if service == _SSHD or service in found:
            yield _of_service(service, found)
    yield _uses_pam(facts)


def _of_service(service: str, found: PamFiles) -> Finding:
    subject = f"PAM of {service}"
    begin = service if service in found else _OTHER
    if begin not in found:
        observed = f"there is no file for '{service}'"
        return failed(subject, observed=observed, expected=_EXPECTED, reason=_because())
    own: list[PamRule] = []
    try:
        for rule in rules(found, begin, "session"):
            if rule.module != _MODULE:
                continue
            if not _reads_another_file(rule):
                return _reached(subject, begin, found)
            own.append(rule)
    except NoEvidenceError as error:
        return unknown(subject, reason=error.message, expected=_EXPECTED)
    if own:
        observed = excerpt(f"{_MODULE} {' '.join(own[0].arguments)}")
        reason = f"'{own[0].where}' has it read another file in place of limits.d. {_BY_HAND}"
        return failed(subject, observed=observed, expected=_EXPECTED, reason=reason)
    path = found[begin][0]
    observed = f"no {_MODULE} in '{path}' and what it includes"
    return failed(subject, observed=observed, expected=_EXPECTED, reason=_because())


def _reached(subject: str, begin: str, found: PamFiles) -> Finding:
    """Whether logins come to the line that is there: others may jump over it, or end before it."""
    missed = passed_by(found, begin, "session", _MODULE)
    if missed is None:
        return passed(subject, observed=_MODULE, expected=_EXPECTED)
    rule = missed.by
    observed = excerpt(f"'{rule.control} {rule.module}' before it")
    if missed.always:
        reason = f"'{rule.where}' leads past {_MODULE}. {_because()}"
        return failed(subject, observed=observed, expected=_EXPECTED, reason=reason)
    reason = f"'{rule.where}' leads some logins past {_MODULE}: theirs have no declared limits."
    return warned(subject, observed=observed, expected=_EXPECTED, reason=reason)


def _because() -> str:
    return f"{_NOBODY} {_BY_HAND}"


def _reads_another_file(rule: PamRule) -> bool:
    usual = _OWN_FILE + PAM_FILE.request["path"]
    return any(one.startswith(_OWN_FILE) and one != usual for one in rule.arguments)


def _uses_pam(facts: Facts) -> Finding:
    subject, expected = "UsePAM", "yes"
    try:
        files = facts.get(FILES)
    except NoEvidenceError as error:
        return unknown(subject, reason=error.message, expected=expected)
    set_in = next((one for one in files.keywords if one.name == _USE_PAM and not one.match), None)
    if set_in is None:
        if unread := _unread(files):
            reason = f"'{excerpt(unread)}' may set it, and is not read here."
            return unknown(subject, reason=reason, expected=expected)
        reason = f"By itself sshd does not use PAM. {_because()}"
        return failed(subject, observed="not set", expected=expected, reason=reason)
    if set_in.value.lower() == expected:
        return passed(subject, observed=expected, expected=expected)
    reason = f"It is set in '{set_in.where}'. {_because()}"
    return failed(subject, observed=excerpt(set_in.value), expected=expected, reason=reason)


def _unread(files: SshdFiles) -> str:
    """A pattern that sshd's files include and that is not read here; "" where there is none."""
    patterns = (
        one
        for keyword in files.keywords
        if keyword.name == "include"
        for one in keyword.value.split()
    )
    return next((one for one in patterns if one not in READ_PATTERNS), "")
