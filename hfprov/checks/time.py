"""One clock for all nodes: chrony follows the declared servers, and nothing else sets the time."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts, check, require
from hfprov.checks.rivals import why
from hfprov.checks.written_file import MODE, judge_written_file
from hfprov.evidence.chrony import (
    CONFIGURATION,
    DAEMONS,
    OPTIONS,
    RIVALS,
    SOURCES,
    TIME_UNITS,
    TRACKING,
    WRITTEN,
    Configuration,
    Directive,
    chrony_unit,
    parse_directives,
)
from hfprov.evidence.systemd import parse_settings, property_of
from hfprov.evidence.unit_limits import drop_ins
from hfprov.reading import Result
from hfprov.verdict import Finding, Impact, compared, failed, passed

OUR_FILES = {
    "/etc/chrony/chrony.conf": "/etc/chrony/conf.d/90-hfprov.conf",
    "/etc/chrony.conf": "/etc/chrony.d/90-hfprov.conf",
}
"""The role's file, by chrony's main file."""
DROP_IN = "90-hfprov-clock.conf"
CLOCK_DROP_INS = drop_ins(DROP_IN)
OPTIONS_BY_FILE = {
    "/etc/default/chrony": ("DAEMON_OPTS", "-F 1"),
    "/etc/sysconfig/chronyd": ("OPTIONS", "-F 2"),
}
RIVAL_LINES = "time_sync_rivals"
STEP = ("time_sync_step_threshold_seconds", "time_sync_step_updates")


def _servers(baseline: Baseline) -> list[str]:
    servers = [str(server) for server in baseline["time_sync_servers"]]
    require(servers, "No server is declared in 'time_sync_servers'.")
    return servers


@check("time.daemon", reads=[TIME_UNITS], role="time_sync", impact=Impact.RESTART)
def daemon(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """The daemon runs now and starts at boot, and systemd has read its unit."""
    unit = chrony_unit(facts.get(TIME_UNITS))
    name = property_of(unit, "Id")
    for key, expected, reason in (
        ("ActiveState", "active", "chrony does not run."),
        ("UnitFileState", "enabled", "chrony is not started at boot."),
        ("NeedDaemonReload", "no", "systemd has not read the unit's files since they changed."),
    ):
        observed = property_of(unit, key)
        yield compared(f"{name} {key}", observed=observed, expected=expected, reason=reason)


@check("time.rivals", reads=[TIME_UNITS], role="time_sync", impact=Impact.NONE)
def rivals(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """No second time daemon runs, or will after a reboot: two would pull the clock apart."""
    found = facts.get(TIME_UNITS)
    for name in RIVALS:
        unit = found.get(name)
        if unit is None or property_of(unit, "LoadState") == "not-found":
            yield passed(name, observed="not installed", expected="off")
            continue
        states = property_of(unit, "ActiveState"), property_of(unit, "UnitFileState")
        runs = states[0] in ("active", "activating", "reloading")
        if runs or states[1].startswith("enabled"):
            reason = "Two daemons that set one clock work against each other."
            yield failed(name, observed=", ".join(states), expected="off", reason=reason)
        else:
            yield passed(name, observed=", ".join(states), expected="off")


@check(
    "time.files",
    reads=[CONFIGURATION],
    role="time_sync",
    impact=Impact.RESTART,
    judges=["time_sync_servers", *STEP],
)
def files(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The role's own file, and the owner and mode of the main one."""
    found = facts.get(CONFIGURATION)
    path = OUR_FILES[found.main]
    yield judge_written_file(
        path,
        found.results.get(path),
        wanted=[f"server {server} iburst" for server in _servers(baseline)]
        + [f"makestep {_step(baseline)}", "rtcsync"],
        statements=lambda text: [one.statement for one in parse_directives(text, path)],
    )
    yield _rights(found.main, found.results[found.main])


def _step(baseline: Baseline) -> str:
    return f"{float(baseline[STEP[0]])} {int(baseline[STEP[1]])}"


def _rights(subject: str, result: Result) -> Finding:
    return compared(
        subject,
        observed=f"{result.mode or 0:04o} {result.uid}:{result.gid}",
        expected=f"{MODE:04o} 0:0",
        reason="Owner or mode are not as the role sets them.",
    )


@check(
    "time.config",
    reads=[CONFIGURATION],
    role="time_sync",
    impact=Impact.RESTART,
    judges=["time_sync_servers", *STEP, RIVAL_LINES],
)
def config(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """What chrony will do when it is started next, all its files taken together."""
    found = facts.get(CONFIGURATION)
    declared = _servers(baseline)
    strays = [one for one in found.sources if not _is_declared(one.words, declared)]
    for one in strays:
        what = "This source is not declared."
        reason = _why(what, one, found, baseline)
        yield failed(one.where, observed=one.statement, expected="no other source", reason=reason)
    named = {one.words[1] for one in found.sources if len(one.words) > 1}
    for server in declared:
        observed = "configured" if server in named else "not configured"
        reason = "chrony will not follow this server after its next start."
        yield compared(server, observed=observed, expected="configured", reason=reason)
    expected = f"makestep {_step(baseline)}"
    for name, wanted in (("makestep", expected), ("rtcsync", "rtcsync")):
        last = found.last(name)
        observed, reason = "not set", "What is declared is not set."
        if last:
            observed = _normal(last.words)
            what = f"What holds is not what is declared: {last.where}."
            reason = _why(what, last, found, baseline)
        yield compared(name, observed=observed, expected=wanted, reason=reason)


def _why(what: str, line: Directive, found: Configuration, baseline: Baseline) -> str:
    if line.path == found.main:
        return what  # which the role edits whatever happens to rivals elsewhere
    return why(what, RIVAL_LINES, baseline, line.path, found.results.get(line.path))


def _is_declared(words: tuple[str, ...], declared: list[str]) -> bool:
    return words[0].lower() == "server" and words[1:] in [(name, "iburst") for name in declared]


def _normal(words: tuple[str, ...]) -> str:
    """A makestep with its threshold as a plain number, so that 1 and 1.0 are one."""
    if words[0].lower() == "makestep" and len(words) > 1 and re.fullmatch(r"[\d.]+", words[1]):
        return f"makestep {float(words[1])} {' '.join(words[2:])}"
    return " ".join((words[0].lower(), *words[1:]))


@check(
    "time.clock",
    reads=[OPTIONS, CLOCK_DROP_INS, DAEMONS, TIME_UNITS],
    role="time_sync",
    impact=Impact.RESTART,
    judges=["time_sync_control_clock"],
)
def clock(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Whether chronyd sets the clock: after its next start, and as it runs now."""
    control = bool(baseline["time_sync_control_clock"])
    options = facts.get(OPTIONS)
    variable, usual = OPTIONS_BY_FILE[options.name]
    expected = usual if control else f"{usual} -x"
    yield compared(
        options.name,
        observed=_assigned(options.text, variable),
        expected=expected,
        reason="chronyd will be started with other options than the role sets.",
    )
    yield _rights(f"{options.name} rights", options)
    unit = property_of(chrony_unit(facts.get(TIME_UNITS)), "Id")
    yield _clock_drop_in(facts, f"/etc/systemd/system/{unit}.d/{DROP_IN}", control=control)
    daemons = facts.get(DAEMONS)
    require(daemons, "chronyd does not run.")
    words = "sets the clock" if control else "leaves the clock alone"
    for arguments in sorted(set(daemons)):
        sets = "leaves the clock alone" if "-x" in arguments else "sets the clock"
        reason = "The running chronyd was started with other options."
        yield compared("running", observed=sets, expected=words, reason=reason)


def _assigned(text: str, variable: str) -> str:
    """The value of the last assignment in a shell-like file; "" when there is none."""
    found = re.findall(rf"^[ \t]*{variable}=(.*)$", text, flags=re.MULTILINE)
    return found[-1].strip().strip("\"'") if found else ""


def _clock_drop_in(facts: Facts, path: str, *, control: bool) -> Finding:
    result = facts.get(CLOCK_DROP_INS).get(path)
    if not control:
        return judge_written_file(
            path,
            result,
            wanted=["[Unit] ConditionCapability="],
            statements=lambda text: [one.statement for one in parse_settings(text, path)[0]],
        )
    reason = "chrony would start without the right to set the clock, and fail."
    observed = "absent" if result is None else "there"
    return compared(path, observed=observed, expected="absent", reason=reason)


@check("time.stale", reads=[TIME_UNITS, WRITTEN], role="time_sync", impact=Impact.RESTART)
def stale(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """The daemon has read its files since they were last written."""
    stamp = property_of(chrony_unit(facts.get(TIME_UNITS)), "ActiveEnterTimestamp")
    match = re.fullmatch(r"@(\d+)", stamp)
    require(match, "systemd does not say when chrony was started.")
    started = int(match[1]) if match else 0
    newer = sorted(path for path, at in facts.get(WRITTEN).items() if int(at) > started)
    for path in newer:
        reason = "chronyd was started before this file was last written."
        yield failed(path, observed="written later", expected="read", reason=reason)
    if not newer:
        require(facts.get(WRITTEN), "No file of chrony was found.")
        yield passed(observed="read", expected="read")


@check(
    "time.sources",
    reads=[SOURCES],
    role="time_sync",
    impact=Impact.RESTART,
    judges=["time_sync_servers"],
)
def sources(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The running chronyd follows the declared servers, reaches each, and has selected one."""
    # A reference clock of the machine itself is the site's own.
    found = {one.name: one for one in facts.get(SOURCES) if one.mode != "#"}
    declared = _servers(baseline)
    for name in sorted(set(found) - set(declared)):
        reason = "chronyd follows a server that is not declared."
        yield failed(name, observed="in use", expected="not used", reason=reason)
    for name in declared:
        observed, reason = "reachable", "chronyd does not know this server."
        if name not in found:
            observed = "not in use"
        elif found[name].reach == 0:
            observed, reason = "unreachable", "The server answered none of the last eight polls."
        elif found[name].state in "x?":
            observed, reason = "not usable", "chronyd does not trust this server's time."
        yield compared(name, observed=observed, expected="reachable", reason=reason)
    selected = [one.name for one in facts.get(SOURCES) if one.state == "*"]
    if selected:
        yield passed("selected", observed=selected[0], expected="one of the servers")
    else:
        reason = "chronyd has selected no source: the clock runs free."
        yield failed("selected", observed="none", expected="one of the servers", reason=reason)


@check(
    "time.offset",
    reads=[TRACKING],
    role="time_sync",
    impact=Impact.NONE,
    judges=["time_sync_max_offset_seconds"],
)
def offset(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """How far the clock is off, as chrony measures it."""
    found = facts.get(TRACKING)
    most = float(baseline["time_sync_max_offset_seconds"])
    observed, expected = f"{abs(found.offset_seconds):.6f} s", f"at most {most:g} s"
    if found.leap == "Not synchronised":
        reason = "chronyd is not synchronised to any source."
        yield failed("", observed=found.leap, expected=expected, reason=reason)
    elif abs(found.offset_seconds) > most:
        reason = f"The clock is off by more than is allowed, measured against {found.reference}."
        yield failed("", observed=observed, expected=expected, reason=reason)
    else:
        yield passed(observed=observed, expected=expected)
