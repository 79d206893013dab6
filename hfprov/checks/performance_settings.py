"""Kernel settings of the role ``performance``: what holds, its file, and what wins over that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts, check
from hfprov.checks.written_file import judge_written_file
from hfprov.evidence.cpu_power import AMD_ACCELERATOR
from hfprov.evidence.performance_units import UNIT, UNITS
from hfprov.evidence.sysctl_files import FILES, live_settings, parse
from hfprov.evidence.system import MACHINE, Machine
from hfprov.evidence.systemd import property_of
from hfprov.regex import regex
from hfprov.verdict import (
    Finding,
    Impact,
    NotApplicable,
    compared,
    failed,
    not_applicable,
    passed,
)

ROLE = "performance"
LEAVE = "leave"
SYSCTL_FILE = "/etc/sysctl.d/99-zz-hfprov.conf"
NAMESPACED = regex(r"net\.ipv[46]\.|net\.core\.somaxconn$")
"""Settings that a network namespace has of its own; all others are the container's host's."""
OFF_WHERE_ABSENT = frozenset({"kernel.numa_balancing", "vm.zone_reclaim_mode"})
"""A kernel that was built without the feature has no such setting, and does not do it."""
SETTINGS = (
    "performance_numa_balancing",
    "performance_swappiness",
    "performance_hugepages",
    "performance_max_map_count",
    "performance_zone_reclaim_mode",
    "performance_socket_buffer_bytes",
    "performance_tcp_buffer_bytes",
    "performance_netdev_max_backlog",
    "performance_tcp_timestamps",
    "performance_extra_sysctls",
)
_THE_HOSTS = "It is the kernel's, which belongs to the container's host."


def wanted_settings(baseline: Baseline, *, amd: bool) -> Mapping[str, str]:
    """The declared kernel settings by name; ``amd``: whether the node has such an accelerator."""
    buffer, tcp = (
        baseline["performance_socket_buffer_bytes"],
        baseline["performance_tcp_buffer_bytes"],
    )
    balancing = baseline["performance_numa_balancing"]
    if balancing == "auto":
        balancing = "disabled" if amd else LEAVE
    pages = int(baseline["performance_hugepages"])
    values = {
        "kernel.numa_balancing": {"disabled": "0", "enabled": "1"}.get(balancing, LEAVE),
        "net.core.netdev_max_backlog": baseline["performance_netdev_max_backlog"],
        "net.core.rmem_max": buffer,
        "net.core.wmem_max": buffer,
        "net.ipv4.tcp_rmem": f"4096 131072 {tcp}",
        "net.ipv4.tcp_timestamps": baseline["performance_tcp_timestamps"],
        "net.ipv4.tcp_wmem": f"4096 16384 {tcp}",
        "vm.max_map_count": baseline["performance_max_map_count"],
        "vm.nr_hugepages": pages if pages > 0 else LEAVE,
        "vm.swappiness": baseline["performance_swappiness"],
        "vm.zone_reclaim_mode": baseline["performance_zone_reclaim_mode"],
    } | dict(baseline["performance_extra_sysctls"])
    texts = {name: " ".join(str(value).split()) for name, value in values.items()}
    return {name: text for name, text in texts.items() if text != LEAVE}


def _names(baseline: Baseline) -> tuple[str, ...]:
    # Whether there is an AMD accelerator is known only with the answer: ask as if there were one.
    return tuple(wanted_settings(baseline, amd=True)) if ROLE in baseline.roles else ()


LIVE = live_settings("kernel settings", _names)


@check(
    "performance.sysctl.live",
    reads=[MACHINE, LIVE, AMD_ACCELERATOR],
    role=ROLE,
    impact=Impact.NONE,
    judges=SETTINGS,
)
def sysctl_live(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """What holds in the running kernel."""
    found, in_container = facts.get(LIVE), facts.get(MACHINE) is Machine.CONTAINER
    wanted = wanted_settings(baseline, amd=facts.get(AMD_ACCELERATOR))
    for name, expected in sorted(wanted.items()):
        value = found[name]
        if in_container and not NAMESPACED.match(name):
            yield not_applicable(NotApplicable.CONTAINER, _THE_HOSTS, name)
        elif value is None and name in OFF_WHERE_ABSENT and expected == "0":
            yield passed(name, observed="this kernel does not have it", expected=expected)
        elif value is None:
            reason = "The kernel has no such setting; is a module missing?"
            yield failed(name, observed="absent", expected=expected, reason=reason)
        else:
            reason = "The running kernel has another value than the declared one."
            yield compared(name, observed=value, expected=expected, reason=reason)


@check(
    "performance.sysctl.file",
    reads=[FILES, AMD_ACCELERATOR],
    role=ROLE,
    impact=Impact.NONE,
    judges=SETTINGS,
)
def sysctl_file(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The role's own file, which is applied at boot."""
    wanted = wanted_settings(baseline, amd=facts.get(AMD_ACCELERATOR))

    def statements(text: str) -> list[str]:
        found, strange = parse(text, SYSCTL_FILE)
        return [one.statement for one in found] + list(strange)

    yield judge_written_file(
        SYSCTL_FILE,
        facts.get(FILES).results.get(SYSCTL_FILE),
        wanted=[f"{name} = {wanted[name]}" for name in sorted(wanted)],
        statements=statements,
    )


@check(
    "performance.rivals",
    reads=[FILES, UNITS, AMD_ACCELERATOR],
    role=ROLE,
    impact=Impact.MANUAL,
    judges=SETTINGS,
)
def rivals(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """No other file has the last word: at boot, or when somebody runs ``sysctl --system``."""
    wanted, files = wanted_settings(baseline, amd=facts.get(AMD_ACCELERATOR)), facts.get(FILES)
    after_ours = {one.name: one for one in files.at_boot if _name(one.path) >= _name(SYSCTL_FILE)}
    others = [one for one in (*after_ours.values(), *files.later) if one.path != SYSCTL_FILE]
    lines = [one for one in others if one.value != wanted.get(one.name, one.value)]
    for one in lines:
        reason = "This line has the last word, at boot or when 'sysctl --system' is run."
        expected = f"{one.name} = {wanted[one.name]}"
        yield failed(one.where, observed=one.statement, expected=expected, reason=reason)
    drop_ins = property_of(facts.get(UNITS)[UNIT], "DropInPaths").split()
    for path in drop_ins:
        reason = f"It changes what '{UNIT}' does."
        yield failed(path, observed="a drop-in", expected="no drop-in", reason=reason)
    if not lines and not drop_ins:
        yield passed(observed="none", expected="nothing that wins over the role's files")


def _name(path: str) -> str:
    return path.rpartition("/")[2]
