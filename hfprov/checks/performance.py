"""CPU frequency, idle states, huge pages, swap and kernel settings: as declared, now and at boot.

Repairs that have systemd reload are ``DRAIN``: with systemd-managed control groups a reload takes
the accelerators away from running containers (NVIDIA container toolkit, issue 48).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts, check
from hfprov.checks.written_file import judge_written_file
from hfprov.evidence.cpu_power import (
    AMD_ACCELERATOR,
    GOVERNORS,
    HUGE_PAGES,
    IDLE_LATENCIES,
    SWAPS,
)
from hfprov.evidence.performance_units import SWAP_TARGET, SYSCTL_UNIT, UNIT, UNIT_FILE, UNITS
from hfprov.evidence.sysctl_files import FILES, live_settings, parse
from hfprov.evidence.system import MACHINE, Machine
from hfprov.evidence.systemd import parse_settings, property_of
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
SYSCTL_FILE = "/etc/sysctl.d/99-zz-hfprov.conf"
LEAVE = "leave"
NAMESPACED = re.compile(r"net\.ipv[46]\.|net\.core\.somaxconn$")
"""Settings that a network namespace has of its own; all others are the container's host's."""
OFF_WHERE_ABSENT = frozenset({"kernel.numa_balancing", "vm.zone_reclaim_mode"})
"""A kernel that was built without the feature has no such setting, and does not do it."""
KERNEL_FILES = (
    ("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor", "performance_governor"),
    (
        "/sys/devices/system/cpu/cpu[0-9]*/power/pm_qos_resume_latency_us",
        "performance_idle_latency_us",
    ),
    ("/sys/kernel/mm/transparent_hugepage/enabled", "performance_transparent_hugepages"),
)
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


def _per_cpu(found: Mapping[int, str], wanted: str, reason: str) -> Iterator[Finding]:
    """One finding on all CPUs together: hundreds of equal lines help nobody."""
    bad = {cpu: value for cpu, value in found.items() if value != wanted}
    if not bad:
        yield passed(observed=f"{wanted} on {len(found)} CPUs", expected=wanted)
        return
    shown = ", ".join(f"CPU {cpu} {value}" for cpu, value in list(bad.items())[:3])
    more = f" and {len(bad) - 3} more" if len(bad) > 3 else ""  # noqa: PLR2004 - as many as shown
    observed = f"{shown}{more} of {len(found)}"
    yield failed("", observed=observed, expected=wanted, reason=reason)


def _left(baseline: Baseline, facts: Facts, variable: str) -> Finding | None:
    """The finding on what is not ours to judge, or None."""
    if str(baseline[variable]) == LEAVE:
        return not_applicable(NotApplicable.NOT_REQUESTED, f"'{variable}' is '{LEAVE}'.")
    if facts.get(MACHINE) is Machine.CONTAINER:
        return not_applicable(NotApplicable.CONTAINER, _THE_HOSTS)
    return None


@check(
    "performance.governor",
    reads=[MACHINE, GOVERNORS],
    role=ROLE,
    impact=Impact.NONE,
    judges=["performance_governor"],
)
def governor(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The governor of every CPU, now."""
    left = _left(baseline, facts, "performance_governor")
    if left is not None:
        yield left
        return
    wanted, found = str(baseline["performance_governor"]), facts.get(GOVERNORS)
    if not found and facts.get(MACHINE) is Machine.VIRTUAL:
        reason = "The frequency of a virtual machine's CPUs is its host's."
        yield not_applicable(NotApplicable.VIRTUAL_MACHINE, reason)
    elif not found:
        reason = "The kernel cannot set the CPUs' frequency: the firmware does."
        yield failed("", observed="no governor", expected=wanted, reason=reason)
    else:
        yield from _per_cpu(found, wanted, "CPUs run with another governor than the declared one.")


@check(
    "performance.idle_latency",
    reads=[MACHINE, IDLE_LATENCIES],
    role=ROLE,
    impact=Impact.NONE,
    judges=["performance_idle_latency_us"],
)
def idle_latency(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """How long each CPU may take to wake up, now."""
    left = _left(baseline, facts, "performance_idle_latency_us")
    if left is not None:
        yield left
        return
    wanted, found = str(baseline["performance_idle_latency_us"]), facts.get(IDLE_LATENCIES)
    if found:
        yield from _per_cpu(found, wanted, "CPUs may sleep deeper, or less deep, than declared.")
    else:
        reason = "The kernel does not let the latency of CPUs be limited."
        yield failed("", observed="no limit can be set", expected=wanted, reason=reason)


@check(
    "performance.hugepages",
    reads=[MACHINE, HUGE_PAGES],
    role=ROLE,
    impact=Impact.NONE,
    judges=["performance_transparent_hugepages"],
)
def hugepages(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Which memory the kernel puts in transparent huge pages, now."""
    left = _left(baseline, facts, "performance_transparent_hugepages")
    if left is not None:
        yield left
        return
    yield compared(
        "",
        observed=facts.get(HUGE_PAGES),
        expected=str(baseline["performance_transparent_hugepages"]),
        reason="The running kernel has another setting than the declared one.",
    )


def _unit_statements(baseline: Baseline) -> Iterator[str]:
    yield "[Unit] Description=Set CPU frequency, idle states and huge pages as declared"
    yield "[Unit] ConditionVirtualization=!container"
    yield "[Service] Type=oneshot"
    yield "[Service] ExecStart=-udevadm settle --timeout=30"
    for pattern, variable in KERNEL_FILES:
        value = str(baseline[variable])
        if value != LEAVE:
            script = f'if [ -e "$$file" ]; then echo {value} >"$$file"; fi'
            yield f"[Service] ExecStart=/bin/sh -ec 'for file in {pattern}; do {script}; done'"
    yield "[Install] WantedBy=multi-user.target"


def _setting_statements(text: str) -> list[str]:
    settings, strange = parse_settings(text, "")
    return [setting.statement for setting in settings] + list(strange)


@check(
    "performance.unit",
    reads=[UNIT_FILE, UNITS],
    role=ROLE,
    impact=Impact.DRAIN,
    judges=[variable for _, variable in KERNEL_FILES],
)
def unit(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """What sets all this at the next boot: the role's unit, and systemd's own for sysctl.d."""
    path = f"/etc/systemd/system/{UNIT}"
    yield judge_written_file(
        path,
        facts.get(UNIT_FILE),
        wanted=_unit_statements(baseline),
        statements=_setting_statements,
    )
    ours = facts.get(UNITS)[UNIT]
    for key, expected, reason in (
        ("UnitFileState", "enabled", "The unit is not started at boot."),
        ("NeedDaemonReload", "no", "systemd has not read the unit since it changed."),
        ("Result", "success", "It failed when it was last started; see its journal."),
    ):
        observed = property_of(ours, key)
        yield compared(f"{UNIT} {key}", observed=observed, expected=expected, reason=reason)
    observed = property_of(facts.get(UNITS)[SYSCTL_UNIT], "LoadState")
    reason = "Files of sysctl.d are not applied at boot."
    yield compared(SYSCTL_UNIT, observed=observed, expected="loaded", reason=reason)


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


@check(
    "performance.services",
    reads=[UNITS],
    role=ROLE,
    impact=Impact.DRAIN,
    judges=["performance_stop_services"],
)
def services(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """No service that sets the same things runs, or will after a reboot."""
    found = facts.get(UNITS)
    for service in baseline["performance_stop_services"]:
        name = f"{service}.service"
        if property_of(found[name], "LoadState") == "not-found":
            yield passed(name, observed="not installed", expected="off")
            continue
        states = property_of(found[name], "ActiveState"), property_of(found[name], "UnitFileState")
        runs = states[0] in ("active", "activating", "reloading")
        if runs or states[1].startswith("enabled"):
            reason = "It sets the same things as the role, to values of its own."
            yield failed(name, observed=", ".join(states), expected="off", reason=reason)
        else:
            yield passed(name, observed=", ".join(states), expected="off")


@check(
    "performance.swap",
    reads=[MACHINE, SWAPS, UNITS],
    role=ROLE,
    impact=Impact.DRAIN,
    judges=["performance_swap"],
)
def swap(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """No swap space is in use, and none comes back at boot."""
    if baseline["performance_swap"] == LEAVE:
        reason = f"'performance_swap' is '{LEAVE}'."
        yield not_applicable(NotApplicable.NOT_REQUESTED, reason)
        return
    observed = property_of(facts.get(UNITS)[SWAP_TARGET], "LoadState")
    reason = "Swap space that fstab names comes back at boot."
    yield compared(SWAP_TARGET, observed=observed, expected="masked", reason=reason)
    if facts.get(MACHINE) is Machine.CONTAINER:
        yield not_applicable(NotApplicable.CONTAINER, _THE_HOSTS, "in use")
        return
    in_use = facts.get(SWAPS)
    reason = "The kernel may move memory of running jobs to these."
    observed = ", ".join(in_use) or "none"
    yield compared("in use", observed=observed, expected="none", reason=reason)
