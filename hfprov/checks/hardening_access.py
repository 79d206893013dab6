"""Who gets in: sshd's settings, as declared, as they come to, and as the daemon has read them."""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts, check, require
from hfprov.checks.unit_overrides import DROP_INS, judge_overrides
from hfprov.checks.written_file import judge_written_file
from hfprov.evidence.nftables import GUARD, GUARD_UNIT
from hfprov.evidence.sshd import (
    EFFECTIVE,
    FILES,
    OVERRIDING,
    READ_PATTERNS,
    SSHD_PID,
    WRITTEN,
    SshdFiles,
    parse_keywords,
)
from hfprov.evidence.systemd import property_of
from hfprov.evidence.text import excerpt
from hfprov.verdict import Finding, Impact, compared, failed, passed, unknown, warned

ROLE = "hardening"
SSH_PATH = "/etc/ssh/sshd_config.d/00-hfprov.conf"
SSH = (
    "hardening_ssh_permit_root_login",
    "hardening_ssh_password_authentication",
    "hardening_ssh_allow_tcp_forwarding",
    "hardening_ssh_x11_forwarding",
)


def _yes(value: object) -> str:
    return "yes" if value else "no"


def wanted_keywords(baseline: Baseline) -> dict[str, str]:
    """The declared settings of sshd, by keyword in lower case, in the order of the role's file."""
    root, password, forwarding, x11 = (baseline[name] for name in SSH)
    return {
        "permitrootlogin": str(root),
        "passwordauthentication": _yes(password),
        "kbdinteractiveauthentication": _yes(password),
        "permitemptypasswords": "no",
        "allowtcpforwarding": _yes(forwarding),
        "x11forwarding": _yes(x11),
        "usepam": "yes",
    }


def _is_same(keyword: str, one: str, other: str) -> bool:
    # sshd -T still shows the older name.
    older = {"without-password": "prohibit-password"} if keyword == "permitrootlogin" else {}
    return older.get(one.lower(), one.lower()) == older.get(other.lower(), other.lower())


@check("hardening.ssh.file", reads=[FILES], role=ROLE, impact=Impact.RESTART, judges=SSH)
def ssh_file(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The role's own file of sshd."""
    yield judge_written_file(
        SSH_PATH,
        facts.get(FILES).results.get(SSH_PATH),
        wanted=[f"{name} {value}" for name, value in wanted_keywords(baseline).items()],
        statements=lambda text: [one.statement for one in parse_keywords(text, SSH_PATH)],
    )


FORBIDS_ALL = "disableforwarding"
"""A keyword that the role does not write, and that takes away what two of its own allow."""


def _forwards(baseline: Baseline) -> bool:
    return bool(
        baseline["hardening_ssh_allow_tcp_forwarding"] or baseline["hardening_ssh_x11_forwarding"]
    )


@check("hardening.ssh.effective", reads=[EFFECTIVE], role=ROLE, impact=Impact.RESTART, judges=SSH)
def ssh_effective(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """What all files of sshd come to, for root from this very node."""
    found = facts.get(EFFECTIVE)
    for name, expected in wanted_keywords(baseline).items():
        observed = found.get(name, "not told")
        if _is_same(name, observed, expected):
            yield passed(name, observed=observed, expected=expected)
        else:
            reason = "Another file of sshd comes first, or the role's is not there."
            yield failed(name, observed=observed, expected=expected, reason=reason)
    if _forwards(baseline) and (observed := found.get(FORBIDS_ALL, "no")) != "no":
        # No role's file says otherwise; 'hardening.ssh.rivals' names the line.
        yield failed(FORBIDS_ALL, observed=observed, expected="no", reason=_FORBIDS)


_FORBIDS = "It forbids every forwarding, whatever the other keywords allow. No role takes it away."
_ELSEWHERE = "Whoever may change what it leads to decides who may log in as root."
_ANYBODY = "Who may write this file decides who may log in as root."
_OF_ROOT = ("/etc/", "/usr/lib/", "/usr/share/", "/dev/null")
"""Where links of packages lead; the last one stands for an empty file."""
_COMMAND_LINE = "What is on sshd's command line wins over all its files."


def _includes_unread(found: SshdFiles) -> Iterator[Finding]:
    """Files that sshd reads and this check does not: what they say for some logins is not known."""
    for one in found.keywords:
        for pattern in one.value.split() if one.name == "include" else []:
            if pattern not in READ_PATTERNS:
                reason = f"'{one.where}' includes '{excerpt(pattern)}', which is not read here."
                yield unknown(one.where, reason=reason, expected="no file but those in /etc/ssh")


_LEAST = {"maxstartups": 10, "maxsessions": 2}
"""Logins at one time before sshd turns some away: the default, and what CIS's benchmarks allow;
sessions of one connection: with one, a launcher that keeps it open can start nothing more."""


def _narrow(found: SshdFiles) -> Iterator[Finding]:
    """Lines that let in too few at once; of several the first one holds."""
    holding = {one.name: one for one in reversed(found.keywords) if one.name in _LEAST}
    for name, one in holding.items():
        first, least = one.value.partition(":")[0], _LEAST[name]
        if first.isdecimal() and int(first) < least:
            reason = "Logins that come together (mpirun, pdsh, Ansible) are turned away at random."
            expected = f"{name} of at least {least}"
            yield warned(one.where, observed=one.statement, expected=expected, reason=reason)


def _comes_first(path: str) -> bool:
    folder, name = SSH_PATH.rsplit("/", 1)
    return path.startswith(f"{folder}/") and path.rpartition("/")[2] < name


@check(
    "hardening.ssh.rivals",
    reads=[FILES, OVERRIDING, DROP_INS],
    role=ROLE,
    impact=Impact.MANUAL,
    judges=SSH,
)
def ssh_rivals(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """No file that comes first, no Match block and no option of sshd's start says otherwise."""
    found, wanted = facts.get(FILES), wanted_keywords(baseline)
    if _forwards(baseline):
        wanted[FORBIDS_ALL] = "no"
    require(found.results, "No file of sshd was found: is it installed?")
    strays = [
        one
        for one in found.keywords
        if one.path != SSH_PATH
        and one.name in wanted
        and not _is_same(one.name, one.value, wanted[one.name])
        and (one.match or one.name == FORBIDS_ALL or _comes_first(one.path))
    ]
    for one in strays:
        reason = _FORBIDS if one.name == FORBIDS_ALL else "It comes first."
        if one.match:
            reason = f"It holds for logins that match '{one.match}'."
        expected = f"{one.name} {wanted[one.name]}"
        yield failed(one.where, observed=one.statement, expected=expected, reason=reason)
    others = [
        *_includes_unread(found),
        *_narrow(found),
        *(
            failed(place, observed=options, expected="no option that wins", reason=_COMMAND_LINE)
            for place, options in sorted(facts.get(OVERRIDING).items())
        ),
        *(
            failed(path, observed="writable by others", expected="root's alone", reason=_ANYBODY)
            for path, result in sorted(found.results.items())
            if path != SSH_PATH and ((result.mode or 0) & 0o022 or (result.uid or 0) > 0)
        ),
        *(
            failed(
                path,
                observed=f"a link to '{excerpt(result.link, 200)}'",
                expected="a file in '/etc'",
                reason=_ELSEWHERE,
            )
            for path, result in sorted(found.results.items())
            if path != SSH_PATH and result.link and not result.link.startswith(_OF_ROOT)
        ),
        *judge_overrides(facts.get(DROP_INS), "ssh.service", "sshd.service"),
    ]
    yield from others
    if not strays and not others:
        yield passed(observed="none", expected="nothing that wins over the role's file")


@check("hardening.ssh.stale", reads=[WRITTEN], role=ROLE, impact=Impact.RESTART)
def ssh_stale(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """The daemon has read its files since they were last written."""
    found = {path: at for path, at in facts.get(WRITTEN).items() if path != SSHD_PID}
    started = facts.get(WRITTEN).get(SSHD_PID)
    require(started is not None, f"There is no '{SSHD_PID}': sshd does not run as a daemon.")
    require(found, "No file of sshd was found.")
    newer = sorted(path for path, at in found.items() if at > (started or 0.0))
    for path in newer:
        reason = "sshd was started or reloaded before this file was last written."
        yield failed(path, observed="written later", expected="read", reason=reason)
    if not newer:
        yield passed(observed="read", expected="read")


@check(
    "hardening.guard",
    reads=[GUARD],
    role=ROLE,
    impact=Impact.MANUAL,
    judges=["hardening_confirm_seconds"],
)
def guard(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """No change of sshd or the firewall waits to be confirmed, or else to be taken back."""
    seconds = baseline["hardening_confirm_seconds"]
    yield compared(
        GUARD_UNIT,
        observed=property_of(facts.get(GUARD), "ActiveState"),
        expected="inactive",
        reason=f"A change is not confirmed; the node takes it back within {seconds} seconds.",
    )
