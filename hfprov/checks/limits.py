"""Limits reach every way a process can start: login, service, user manager; now and after a reboot.

Repairs that have systemd reload are ``DRAIN``: with systemd-managed control groups a reload takes
the accelerators away from running containers (NVIDIA container toolkit, report 48).
"""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.limits_declared import (
    AMOUNTS,
    compare,
    for_pam,
    for_systemd,
    is_told,
    login_rivals,
    manager_rivals,
    shell_rivals,
    wanted_limits,
)
from hfprov.checks.registry import Facts, check
from hfprov.checks.rivals import why
from hfprov.checks.written_file import judge_written_file
from hfprov.evidence.limits import (
    PAM,
    RESOURCES,
    SESSION,
    Limit,
    Limits,
    amount,
    limits_of_services,
    parse_pam,
)
from hfprov.evidence.shell_limits import SHELLS, ShellLimit
from hfprov.evidence.systemd import Layers, Properties, layered, parse_settings, property_of
from hfprov.evidence.unit_limits import DEFAULTS, REMOVE_IPC, UNITS, USER_UNIT, drop_ins
from hfprov.verdict import Finding, Impact, NotApplicable, failed, not_applicable, passed, warned

PAM_PATH = "/etc/security/limits.d/90-hfprov.conf"
DROP_IN = "90-hfprov-limits.conf"
LOGIND_PATH = f"/etc/systemd/logind.conf.d/{DROP_IN}"
RIVALS = "limits_rivals"

SYSTEM_CONF = layered("system.conf")
USER_CONF = layered("user.conf")
LOGIND_CONF = layered("logind.conf")
DROP_INS = drop_ins(DROP_IN)
RUNNING = limits_of_services("limits of running services", "limits_services")


def _from_properties(unit: Properties, prefix: str) -> Limits:
    return {
        one.name: Limit(
            amount(property_of(unit, f"{prefix}{one.systemd}Soft")),
            amount(property_of(unit, f"{prefix}{one.systemd}")),
        )
        for one in RESOURCES
    }


@check("limits.session", reads=[SESSION], role="limits", impact=Impact.RESTART, judges=AMOUNTS)
def session(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The limits of the very session that observes: what a login gets."""
    reason = "A new login does not get the declared limit."
    yield from compare("", facts.get(SESSION), baseline, reason)


@check("limits.pam.file", reads=[PAM], role="limits", impact=Impact.RESTART, judges=AMOUNTS)
def pam_file(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The role's own file for logins."""

    def statements(text: str) -> list[str]:
        lines, strange = parse_pam(text, PAM_PATH)
        return [line.statement for line in lines] + list(strange)

    result = facts.get(PAM).results.get(PAM_PATH)
    yield judge_written_file(PAM_PATH, result, wanted=for_pam(baseline), statements=statements)


@check(
    "limits.pam.rivals",
    reads=[PAM],
    role="limits",
    impact=Impact.RESTART,
    judges=(*AMOUNTS, RIVALS),
)
def pam_rivals(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """No other line wins over ours: a later one for everybody, or one for a user or group."""
    found = facts.get(PAM)
    rivals = login_rivals(found.lines, PAM_PATH, wanted_limits(baseline))
    for line in rivals:
        what = "This line wins over the role's."
        reason = why(what, RIVALS, baseline, line.path, found.results.get(line.path))
        expected = "no other value"
        yield failed(line.where, observed=line.statement, expected=expected, reason=reason)
    if not rivals:
        yield passed(observed="none", expected="no line that wins over the role's")


@check("limits.shells", reads=[SHELLS], role="limits", impact=Impact.MANUAL, judges=AMOUNTS)
def shells(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """No file that login shells read sets a limit once more, to another value."""
    found = facts.get(SHELLS)
    rivals = shell_rivals(found, wanted_limits(baseline))
    for line in rivals:
        yield _of_shell(line)
    if not rivals:
        yield passed(observed="none", expected="no other value of a shell")


def _of_shell(line: ShellLimit) -> Finding:
    observed = f"{line.resource.name} {line.value}"
    if not line.of_user:
        reason = "A login shell sets this after the login got what is declared."
        return failed(line.where, observed=observed, expected="no other value", reason=reason)
    if not is_told(line):
        reason = "Only this user's shell can tell whether it is less than what is declared."
    else:
        reason = "All that this user starts from a shell gets less than what is declared."
        if line.path.startswith("/root/"):
            return failed(line.where, observed=observed, expected="not less", reason=reason)
    # Home directories are often one server's for all nodes: a user must not stop a fleet.
    return warned(line.where, observed=observed, expected="not less", reason=reason)


def _setting_statements(text: str) -> list[str]:
    settings, strange = parse_settings(text, "")
    return [setting.statement for setting in settings] + list(strange)


@check(
    "limits.systemd.files",
    reads=[SYSTEM_CONF, USER_CONF, UNITS, DROP_INS],
    role="limits",
    impact=Impact.DRAIN,
    judges=(*AMOUNTS, "limits_services"),
)
def systemd_files(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The role's own drop-ins for systemd, for user managers and for each service."""
    for source, name in ((SYSTEM_CONF, "system.conf"), (USER_CONF, "user.conf")):
        path = f"/etc/systemd/{name}.d/{DROP_IN}"
        yield judge_written_file(
            path,
            facts.get(source).results.get(path),
            wanted=for_systemd(baseline, "DefaultLimit", "Manager"),
            statements=_setting_statements,
        )
    found = facts.get(DROP_INS)
    units = [name if name != USER_UNIT else "user@.service" for name in facts.get(UNITS)]
    paths = [f"/etc/systemd/system/{unit}.d/{DROP_IN}" for unit in units]
    for path in paths:
        yield judge_written_file(
            path,
            found.get(path),
            wanted=for_systemd(baseline, "Limit", "Service"),
            statements=_setting_statements,
        )


@check(
    "limits.systemd.rivals",
    reads=[SYSTEM_CONF, USER_CONF],
    role="limits",
    impact=Impact.DRAIN,
    judges=(*AMOUNTS, RIVALS),
)
def systemd_rivals(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """No other file wins over the role's drop-ins when systemd is next started or reloaded."""
    for source, name in ((SYSTEM_CONF, "system.conf"), (USER_CONF, "user.conf")):
        rivals = list(_rivals(facts.get(source), f"/etc/systemd/{name}.d/{DROP_IN}", baseline))
        yield from rivals
        if not rivals:
            expected = "no setting that wins over the role's"
            yield passed(name, observed="none", expected=expected)


def _rivals(found: Layers, ours: str, baseline: Baseline) -> Iterator[Finding]:
    for setting, resource in manager_rivals(found, ours, wanted_limits(baseline)):
        what = "This setting wins over the role's."
        yield failed(
            setting.where,
            observed=setting.statement,
            expected=f"DefaultLimit{resource.systemd} as the role sets it",
            reason=why(what, RIVALS, baseline, setting.path, found.results.get(setting.path)),
        )


@check(
    "limits.systemd.defaults",
    reads=[DEFAULTS],
    role="limits",
    impact=Impact.DRAIN,
    judges=AMOUNTS,
)
def systemd_defaults(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """What systemd gives to services that it starts from now on."""
    reason = "A service that is started now does not get the declared limit by default."
    yield from compare("", _from_properties(facts.get(DEFAULTS), "DefaultLimit"), baseline, reason)


@check(
    "limits.units",
    reads=[UNITS],
    role="limits",
    impact=Impact.DRAIN,
    judges=(*AMOUNTS, "limits_services", RIVALS),
)
def units(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """What systemd will give to each named service, and that it has read the unit's files."""
    for name, unit in sorted(facts.get(UNITS).items()):
        reason = _why_units_differ(unit, baseline)
        yield from compare(name, _from_properties(unit, "Limit"), baseline, reason)
        stale = property_of(unit, "NeedDaemonReload") == "yes"
        observed = "changed since systemd read them" if stale else "read"
        reason = "systemd has not read the unit's files since they were changed."
        subject = f"{name} files"
        if stale:
            yield failed(subject, observed=observed, expected="read", reason=reason)
        else:
            yield passed(subject, observed=observed, expected="read")


def _why_units_differ(unit: Properties, baseline: Baseline) -> str:
    what = "The service does not get the declared limit when it is started next."
    paths = unit.get("DropInPaths", "").split()
    later = [path for path in paths if path.rpartition("/")[2] > DROP_IN]
    if not later:
        return what
    return why(f"{what} Read after the role's: '{later[-1]}'.", RIVALS, baseline, later[-1], None)


@check(
    "limits.running",
    reads=[RUNNING],
    role="limits",
    impact=Impact.DRAIN,
    judges=(*AMOUNTS, "limits_services", "limits_restart_services"),
)
def running(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """What each running service has, and hands down to all that it starts."""
    found = facts.get(RUNNING)
    if not found:
        yield not_applicable(NotApplicable.NOT_REQUESTED, "None of the named services runs.")
    allowed = {f"{name}.service" for name in baseline["limits_restart_services"]}
    for name, limits in sorted(found.items()):
        reason = "It was started with other limits, and keeps them until it is restarted" + (
            "." if name in allowed else ", which 'limits_restart_services' does not allow the role."
        )
        yield from compare(name, limits, baseline, reason)


@check(
    "limits.ipc.file",
    reads=[LOGIND_CONF],
    role="limits",
    impact=Impact.NONE,
    judges=["limits_remove_ipc", RIVALS],
)
def ipc_file(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The role's drop-in for logind, and no other that wins over it."""
    value = "yes" if baseline["limits_remove_ipc"] else "no"
    found = facts.get(LOGIND_CONF)
    yield judge_written_file(
        LOGIND_PATH,
        found.results.get(LOGIND_PATH),
        wanted=[f"[Login] RemoveIPC={value}"],
        statements=_setting_statements,
    )
    last = found.last("Login", "RemoveIPC")
    if last and last.path != LOGIND_PATH and last.value != value:
        what = "This setting wins over the role's."
        reason = why(what, RIVALS, baseline, last.path, found.results.get(last.path))
        expected = f"RemoveIPC={value}"
        yield failed(last.where, observed=last.statement, expected=expected, reason=reason)


@check(
    "limits.ipc.live",
    reads=[REMOVE_IPC],
    role="limits",
    impact=Impact.NONE,
    judges=["limits_remove_ipc"],
)
def ipc_live(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """What the running logind does."""
    expected = f"b {'true' if baseline['limits_remove_ipc'] else 'false'}"
    observed = facts.get(REMOVE_IPC)
    reason = "logind runs with another setting than the declared one."
    if observed == expected:
        yield passed(observed=observed, expected=expected)
    else:
        yield failed("", observed=observed, expected=expected, reason=reason)
