"""What is declared comes back after a reboot: nothing beside the roles takes it away."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from hfprov.baseline import Baseline
from hfprov.checks import hardening_kernel, performance_settings
from hfprov.checks.registry import Facts, check
from hfprov.checks.unit_state import why_not_enabled
from hfprov.evidence.boot import BOOT_SETTINGS, LOGIN_UNITS, TARGET, BootSetting
from hfprov.evidence.cpu_power import AMD_ACCELERATOR
from hfprov.evidence.sysctl_files import FILES
from hfprov.evidence.systemd import property_of
from hfprov.evidence.text import excerpt
from hfprov.verdict import Finding, Impact, failed, passed

TARGETS = ("multi-user.target", "graphical.target")
_UDEV = "/etc/udev/"
LEAVE = "leave"


@check("boot.target", reads=[TARGET], impact=Impact.MANUAL)
def target(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """The next boot ends where services run, not in rescue mode."""
    observed, expected = facts.get(TARGET), " or ".join(TARGETS)
    if observed in TARGETS:
        yield passed(observed=observed, expected=expected)
    else:
        reason = "The next boot does not start the services: neither the roles' units nor sshd."
        yield failed("", observed=observed, expected=expected, reason=reason)


@check("boot.login", reads=[LOGIN_UNITS], impact=Impact.MANUAL)
def login(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """The daemon of SSH starts at the next boot, by itself or by its socket."""
    states = {
        name: property_of(one, "UnitFileState") for name, one in facts.get(LOGIN_UNITS).items()
    }
    expected = "started at boot"
    if any(state in ("enabled", "generated") for state in states.values()):
        yield passed("sshd", observed=expected, expected=expected)
        return
    observed = "not started at boot"
    reason = "Nobody can log in after a reboot, and nothing can be judged or repaired."
    for name, state in states.items():
        if why_not := why_not_enabled(state, ""):
            observed, reason = f"{name} {state}", why_not
    yield failed("sshd", observed=observed, expected=expected, reason=reason)


def _declared(facts: Facts, baseline: Baseline) -> Mapping[str, str]:
    """What the roles of this host declare, by name; ``*`` stands for every interface."""
    found: dict[str, str] = {}
    if "hardening" in baseline.roles:
        found |= hardening_kernel.wanted_settings(baseline)
    if "performance" in baseline.roles:
        amd = facts.get(AMD_ACCELERATOR)
        found |= performance_settings.wanted_settings(baseline, amd=amd)
        found["governor"] = str(baseline["performance_governor"])
        found["hugepages"] = str(baseline["performance_transparent_hugepages"])
    if "jumbo_mtu" in baseline.roles:
        found["mtu"] = str(baseline["jumbo_mtu_bytes"])
    return {name: value for name, value in found.items() if value != LEAVE}


def _may_be_data(one: BootSetting, baseline: Baseline) -> bool:
    """Whether a line on an MTU may be for a data interface: it names one, or only a variable."""
    named = re.search(r"\b(?:dev|set(?!\s+(?:dev|mtu)\b)|ifconfig)\s+([\w.$%{}-]+)", one.line)
    names = [str(name) for name in baseline["jumbo_mtu_interfaces"]]
    return named is None or named[1].startswith(("$", "%")) or named[1] in names


@check("boot.scripts", reads=[BOOT_SETTINGS, AMD_ACCELERATOR], impact=Impact.MANUAL)
def scripts(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """No script, timer or rule of the site sets at boot what a role sets, to another value."""
    wanted, problems = _declared(facts, baseline), 0
    for one in facts.get(BOOT_SETTINGS):
        values = [value for name, value in wanted.items() if fnmatchcase(one.name, name)]
        if one.name == "mtu" and (
            # Rules of udev are judged by 'mtu.udev'.
            one.where.startswith(_UDEV) or (values and not _may_be_data(one, baseline))
        ):
            continue
        if values and one.value not in values:
            problems += 1
            reason = "It sets this at boot or later, beside the role: the later of both wins."
            expected = f"{one.name} {values[0]}"
            observed = excerpt(one.line, 120)
            yield failed(
                f"{one.where} {one.name}", observed=observed, expected=expected, reason=reason
            )
    if not problems:
        yield passed(observed="none", expected="no script that sets something else")


_FORBIDDEN = "kernel.modules_disabled"
_LEAST = {
    "fs.nr_open": "limits_nofile",
    "kernel.pid_max": "limits_nproc",
    "kernel.threads-max": "limits_nproc",
}
"""Kernel settings that bound a declared limit."""


@check(
    "boot.kernel_settings",
    reads=[FILES],
    impact=Impact.MANUAL,
    judges=["limits_nofile", "limits_nproc"],
)
def kernel_settings(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """No file of kernel settings makes it impossible to load drivers, or to reach the limits."""
    files, problems = facts.get(FILES), 0
    for one in (*{line.name: line for line in files.at_boot}.values(), *files.later):
        least = str(baseline.get(_LEAST.get(one.name, ""), ""))
        expected = "not set, or 0"
        if one.name == _FORBIDDEN and one.value != "0":
            reason = "From then on no module is loaded: neither RDMA's nor an accelerator's driver."
        elif least.isdigit() and one.value.isdigit() and int(one.value) < int(least):
            expected = f"at least {least}"
            reason = f"'{_LEAST[one.name]}' cannot be reached after the next boot: this is less."
        else:
            continue
        problems += 1
        yield failed(one.where, observed=one.statement, expected=expected, reason=reason)
    if not problems:
        yield passed(observed="none", expected="no setting that takes away what is declared")
