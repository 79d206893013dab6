"""Security updates come by themselves and leave alone what jobs depend on; the audit of files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts, check
from hfprov.checks.unit_overrides import DROP_INS, judge_overrides
from hfprov.checks.unit_state import why_not_enabled
from hfprov.checks.written_file import judge_written_file
from hfprov.evidence.audit import AUDIT, LOADED_RULES, is_blanket, parse_rules
from hfprov.evidence.automatic_updates import TIMER_UNITS, TIMERS, UPDATES, service_of
from hfprov.evidence.system import MACHINE, Machine
from hfprov.evidence.systemd import property_of
from hfprov.evidence.text import clean
from hfprov.verdict import (
    Finding,
    Impact,
    NotApplicable,
    compared,
    failed,
    not_applicable,
    passed,
    warned,
)

ROLE = "hardening"
OPTIONS = ("hardening_security_updates", "hardening_updates_excluded")
AUDIT_PATH = "/etc/audit/rules.d/50-hfprov.rules"
WATCHES = (
    "-w /etc/group -p wa -k hfprov-identity",
    "-w /etc/passwd -p wa -k hfprov-identity",
    "-w /etc/shadow -p wa -k hfprov-identity",
    "-w /etc/ssh -p wa -k hfprov-login",
    "-w /etc/sudoers -p wa -k hfprov-privilege",
    "-w /etc/sudoers.d -p wa -k hfprov-privilege",
)


def _excluded(baseline: Baseline) -> list[str]:
    return [str(name) for name in baseline["hardening_updates_excluded"]]


def _statements(text: str) -> list[str]:
    lines = (" ".join(line.split()) for line in clean(text).splitlines())
    return [line for line in lines if line and not line.startswith(("#", "//"))]


def _for_apt(baseline: Baseline) -> list[str]:
    number = 1 if baseline["hardening_security_updates"] else 0
    return [
        f'APT::Periodic::Update-Package-Lists "{number}";',
        f'APT::Periodic::Unattended-Upgrade "{number}";',
        'Unattended-Upgrade::Automatic-Reboot "false";',
        "Unattended-Upgrade::Package-Blacklist {",
        *(f'"^{name}";' for name in _excluded(baseline)),
        "};",
    ]


def _for_dnf(baseline: Baseline) -> list[str]:
    return [
        "[commands]",
        "upgrade_type = security",
        "download_updates = yes",
        f"apply_updates = {'yes' if baseline['hardening_security_updates'] else 'no'}",
        "reboot = never",
        "[emitters]",
        "emit_via = stdio",
        "[base]",
        f"excludepkgs = {' '.join(f'{name}*' for name in _excluded(baseline))}".strip(),
    ]


@check("hardening.updates.file", reads=[UPDATES], role=ROLE, impact=Impact.NONE, judges=OPTIONS)
def updates_file(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The role's own file for apt, or dnf-automatic's."""
    found = facts.get(UPDATES)
    wanted = _for_dnf(baseline) if found.apt is None else _for_apt(baseline)
    yield judge_written_file(found.path, found.file, wanted=wanted, statements=_statements)


def _updates_can_come(apt: Mapping[str, tuple[str, ...]]) -> Iterator[Finding]:
    """Nothing switches off all that apt does by itself, and packages may come from somewhere."""
    observed = apt.get("APT::Periodic::Enable", ("1",))[-1]
    reason = "apt does nothing by itself, whatever the other settings say."
    yield compared("APT::Periodic::Enable", observed=observed, expected="1", reason=reason)
    lists = ("Origins-Pattern", "Allowed-Origins")
    origins = [one for name in lists for one in apt.get(f"Unattended-Upgrade::{name}::", ())]
    observed = "some" if origins else "none"
    reason = "No origin is allowed, so that no update is ever installed."
    yield compared("allowed origins", observed=observed, expected="some", reason=reason)


@check(
    "hardening.updates.effective", reads=[UPDATES], role=ROLE, impact=Impact.MANUAL, judges=OPTIONS
)
def updates_effective(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """What apt makes of all its files: never a reboot, never one of the excluded packages."""
    found = facts.get(UPDATES)
    if found.apt is None:
        reason = "dnf-automatic reads one file only, which is judged by itself."
        yield not_applicable(NotApplicable.NOT_REQUESTED, reason)
        return
    number = "1" if baseline["hardening_security_updates"] else "0"
    for name, expected in (
        ("APT::Periodic::Update-Package-Lists", number),
        ("APT::Periodic::Unattended-Upgrade", number),
        ("Unattended-Upgrade::Automatic-Reboot", "false"),
    ):
        observed = found.apt.get(name, ("not set",))[-1]
        reason = "What apt resolves its files to is not what is declared: which one comes later?"
        yield compared(name, observed=observed, expected=expected, reason=reason)
    if baseline["hardening_security_updates"]:
        yield from _updates_can_come(found.apt)
    listed = found.apt.get("Unattended-Upgrade::Package-Blacklist::", ())
    missing = [name for name in _excluded(baseline) if f"^{name}" not in listed]
    subject, expected = "Unattended-Upgrade::Package-Blacklist", "every declared name"
    if missing:
        shown = f"without {', '.join(missing[:5])}"
        reason = "A package that jobs depend on would be updated under them."
        yield failed(subject, observed=shown, expected=expected, reason=reason)
    else:
        yield passed(subject, observed=f"{len(listed)} patterns", expected=expected)


@check(
    "hardening.updates.timers",
    reads=[UPDATES, TIMER_UNITS, DROP_INS],
    role=ROLE,
    impact=Impact.NONE,
    judges=["hardening_security_updates"],
)
def updates_timers(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """What installs updates is there, and its timers run now and after a reboot."""
    if not baseline["hardening_security_updates"]:
        yield not_applicable(NotApplicable.NOT_REQUESTED, "Automatic updates are not declared.")
        return
    found, units = facts.get(UPDATES), facts.get(TIMER_UNITS)
    observed = "installed" if found.is_installed else "not there, or cannot be run"
    reason = "Nothing installs security updates."
    yield compared("program", observed=observed, expected="installed", reason=reason)
    for name in TIMERS[found.path]:
        states = [property_of(units[name], key) for key in ("ActiveState", "UnitFileState")]
        reason = "The timer does not start updates, or not after a reboot."
        reason = why_not_enabled(states[1], reason)
        expected = "active, enabled"
        yield compared(name, observed=", ".join(states), expected=expected, reason=reason)
        service = service_of(name)
        observed = property_of(units[service], "LoadState")
        reason = "What the timer starts is masked, or not there."
        yield compared(service, observed=observed, expected="loaded", reason=reason)
        yield from judge_overrides(facts.get(DROP_INS), name, service)


@check(
    "hardening.audit.file",
    reads=[AUDIT, MACHINE],
    role=ROLE,
    impact=Impact.RESTART,
    judges=["hardening_auditd"],
)
def audit_file(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The role's rules; and no rule, of anybody, that costs time in every system call."""
    found, in_container = facts.get(AUDIT), facts.get(MACHINE) is Machine.CONTAINER
    if baseline["hardening_auditd"] and in_container:
        reason = "A container has no audit of its own."
        yield not_applicable(NotApplicable.CONTAINER, reason, AUDIT_PATH)
    elif baseline["hardening_auditd"]:
        result = found.results.get(AUDIT_PATH)
        yield judge_written_file(AUDIT_PATH, result, wanted=WATCHES, statements=parse_rules)
    else:
        observed = "there" if AUDIT_PATH in found.results else "absent"
        reason = "Rules of the audit are left over that are not declared."
        yield compared(AUDIT_PATH, observed=observed, expected="absent", reason=reason)
    for path, rules in sorted(found.rules.items()):
        for rule in rules:
            if is_blanket(rule):
                reason = "It costs time in system calls of every process."
                yield warned(f"{path}: {rule}", observed=rule, expected="bounded", reason=reason)


@check(
    "hardening.audit.live",
    reads=[AUDIT, LOADED_RULES, MACHINE],
    role=ROLE,
    impact=Impact.RESTART,
    judges=["hardening_auditd"],
)
def audit_live(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The daemon runs, and the kernel has the declared rules."""
    if not baseline["hardening_auditd"]:
        yield not_applicable(NotApplicable.NOT_REQUESTED, "No audit is declared.")
        return
    if facts.get(MACHINE) is Machine.CONTAINER:
        yield not_applicable(NotApplicable.CONTAINER, "A container has no audit of its own.")
        return
    unit = facts.get(AUDIT).unit
    states = [property_of(unit, key) for key in ("ActiveState", "UnitFileState")]
    observed = ", ".join(states)
    reason = why_not_enabled(states[1], "auditd does not run, or not after a reboot.")
    yield compared("auditd.service", observed=observed, expected="active, enabled", reason=reason)
    loaded = facts.get(LOADED_RULES)
    for rule in WATCHES:
        observed = "loaded" if rule in loaded else "not loaded"
        reason = "The kernel does not have this rule."
        yield compared(rule, observed=observed, expected="loaded", reason=reason)
