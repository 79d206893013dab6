"""One clock for all nodes: chrony follows the declared servers, and nothing else sets the time."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts, check, require
from hfprov.checks.rivals import why
from hfprov.checks.time_declared import (
    OPTIONS_BY_FILE,
    OUR_FILES,
    STEP,
    assigned,
    is_declared,
    normal,
    servers,
    step,
)
from hfprov.checks.unit_overrides import DROP_INS, judge_overrides
from hfprov.checks.unit_state import why_not_enabled
from hfprov.checks.written_file import judge_rights, judge_written_file
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
from hfprov.verdict import Finding, Impact, compared, failed, passed

DROP_IN = "90-hfprov-clock.conf"
CLOCK_DROP_INS = drop_ins(DROP_IN)
RIVAL_LINES = "time_sync_rivals"
NOT_INSTALLED = "chrony is not installed."
NO_CHRONYC = "There is no 'chronyc' to ask."


def _not_running(facts: Facts) -> str:
    """Why chronyd does not run, or "" where it may; that nothing is there is evidence."""
    unit = chrony_unit(facts.get(TIME_UNITS))
    if unit is None:
        return NOT_INSTALLED
    state = property_of(unit, "ActiveState")
    # Somebody may have started one without systemd.
    if state in ("inactive", "failed") and not facts.get(DAEMONS):
        return f"chronyd does not run: systemd says '{state}'."
    return ""


def _absent(reason: str, expected: str) -> Finding:
    return failed("", observed="absent", expected=expected, reason=reason)


@check("time.daemon", reads=[TIME_UNITS, DROP_INS], role="time_sync", impact=Impact.RESTART)
def daemon(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """The daemon runs now and starts at boot, as its package has it; systemd has read its unit."""
    unit = chrony_unit(facts.get(TIME_UNITS))
    if unit is None:
        yield _absent(NOT_INSTALLED, "installed, active, enabled")
        return
    name = property_of(unit, "Id")
    for key, expected, reason in (
        ("ActiveState", "active", "chrony does not run."),
        ("UnitFileState", "enabled", "chrony is not started at boot."),
        ("NeedDaemonReload", "no", "systemd has not read the unit's files since they changed."),
    ):
        observed = property_of(unit, key)
        why_not = why_not_enabled(observed, reason)
        yield compared(f"{name} {key}", observed=observed, expected=expected, reason=why_not)
    yield from judge_overrides(facts.get(DROP_INS), name)


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
    if found is None:
        yield _absent(f"There is no chrony.conf: {NOT_INSTALLED}", "written by the role")
        return
    path = OUR_FILES[found.main]
    yield judge_written_file(
        path,
        found.results.get(path),
        wanted=[f"server {server} iburst" for server in servers(baseline)]
        + [f"makestep {step(baseline)}", "rtcsync"],
        statements=lambda text: [one.statement for one in parse_directives(text, path)],
    )
    yield judge_rights(found.main, found.results[found.main])


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
    declared = servers(baseline)
    if found is None:
        yield _absent(f"There is no chrony.conf: {NOT_INSTALLED}", "the declared servers")
        return
    strays = [one for one in found.sources if not is_declared(one.words, declared)]
    for one in strays:
        what = "This source is not declared."
        reason = _why(what, one, found, baseline)
        yield failed(one.where, observed=one.statement, expected="no other source", reason=reason)
    named = {one.words[1] for one in found.sources if len(one.words) > 1}
    for server in declared:
        observed = "configured" if server in named else "not configured"
        reason = "chrony will not follow this server after its next start."
        yield compared(server, observed=observed, expected="configured", reason=reason)
    expected = f"makestep {step(baseline)}"
    for name, wanted in (("makestep", expected), ("rtcsync", "rtcsync")):
        last = found.last(name)
        observed, reason = "not set", "What is declared is not set."
        if last:
            observed = normal(last.words)
            what = f"What holds is not what is declared: {last.where}."
            reason = _why(what, last, found, baseline)
        yield compared(name, observed=observed, expected=wanted, reason=reason)


def _why(what: str, line: Directive, found: Configuration, baseline: Baseline) -> str:
    if line.path == found.main:
        return what  # which the role edits whatever happens to rivals elsewhere
    return why(what, RIVAL_LINES, baseline, line.path, found.results.get(line.path))


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
    options, found = facts.get(OPTIONS), chrony_unit(facts.get(TIME_UNITS))
    if found is None:
        yield _absent(NOT_INSTALLED, "installed")
        return
    if options is None:
        yield _absent("There is no file of options for chronyd.", "written by the role")
        return
    variable, usual = OPTIONS_BY_FILE[options.name]
    expected = usual if control else f"{usual} -x"
    yield compared(
        options.name,
        observed=assigned(options.text, variable),
        expected=expected,
        reason="chronyd will be started with other options than the role sets.",
    )
    yield judge_rights(f"{options.name} rights", options)
    unit = property_of(found, "Id")
    yield _clock_drop_in(facts, f"/etc/systemd/system/{unit}.d/{DROP_IN}", control=control)
    words = "sets the clock" if control else "leaves the clock alone"
    if reason := _not_running(facts):
        yield failed("running", observed="absent", expected=words, reason=reason)
        return
    daemons = facts.get(DAEMONS)
    require(daemons, "No process of chronyd was seen, though systemd says that it runs.")
    for arguments in sorted(set(daemons)):
        sets = "leaves the clock alone" if "-x" in arguments else "sets the clock"
        reason = "The running chronyd was started with other options."
        yield compared("running", observed=sets, expected=words, reason=reason)


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


@check("time.stale", reads=[TIME_UNITS, DAEMONS, WRITTEN], role="time_sync", impact=Impact.RESTART)
def stale(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """The daemon has read its files since they were last written."""
    unit = chrony_unit(facts.get(TIME_UNITS))
    reason = _not_running(facts)
    if unit is None or reason:
        yield _absent(reason, "a daemon that has read its files")
        return
    stamp = property_of(unit, "ActiveEnterTimestamp")
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
    reads=[TIME_UNITS, DAEMONS, SOURCES],
    role="time_sync",
    impact=Impact.RESTART,
    judges=["time_sync_servers"],
)
def sources(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The running chronyd follows the declared servers, reaches each, and has selected one."""
    declared = servers(baseline)
    if reason := _not_running(facts):
        yield _absent(reason, f"follows {', '.join(declared)}")
        return
    seen = facts.get(SOURCES)
    if seen is None:
        yield _absent(NO_CHRONYC, f"follows {', '.join(declared)}")
        return
    # A reference clock of the machine itself is the site's own.
    found = {one.name: one for one in seen if one.mode != "#"}
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
    selected = [one.name for one in seen if one.state == "*"]
    if selected:
        yield passed("selected", observed=selected[0], expected="one of the servers")
    else:
        reason = "chronyd has selected no source: the clock runs free."
        yield failed("selected", observed="none", expected="one of the servers", reason=reason)


_STEPS = (0.001, 0.01, 0.1, 1.0)


@check(
    "time.offset",
    reads=[TIME_UNITS, DAEMONS, TRACKING],
    role="time_sync",
    impact=Impact.NONE,
    judges=["time_sync_max_offset_seconds"],
)
def offset(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """How far the clock is off, as chrony measures it."""
    most = float(baseline["time_sync_max_offset_seconds"])
    expected = f"at most {most:g} s"
    if reason := _not_running(facts):
        yield _absent(reason, expected)
        return
    found = facts.get(TRACKING)
    if found is None:
        yield _absent(NO_CHRONYC, expected)
        return
    observed = f"{abs(found.offset_seconds):.6f} s"
    if found.leap == "Not synchronised":
        reason = "chronyd is not synchronised to any source."
        yield failed("", observed=found.leap, expected=expected, reason=reason)
    elif abs(found.offset_seconds) > most:
        reason = f"The clock is off by more than is allowed, measured against {found.reference}."
        yield failed("", observed=observed, expected=expected, reason=reason)
    else:
        # In words that stay the same from run to run; the exact figure is in the evidence.
        step = next((one for one in _STEPS if abs(found.offset_seconds) < one), most)
        yield passed(observed=f"under {step:g} s", expected=expected)
