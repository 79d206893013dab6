"""CPU frequency, idle states, huge pages and swap: as declared, now and at boot.

Repairs that have systemd reload are ``DRAIN``: with systemd-managed control groups a reload takes
the accelerators away from running containers (NVIDIA container toolkit, report 48).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts, check
from hfprov.checks.unit_overrides import DROP_INS, judge_overrides
from hfprov.checks.written_file import judge_written_file
from hfprov.evidence.cpu_power import (
    GOVERNORS,
    HUGE_PAGES,
    IDLE_LATENCIES,
    SWAPS,
)
from hfprov.evidence.performance_units import SWAP_TARGET, SYSCTL_UNIT, UNIT, UNIT_FILE, UNITS
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
LEAVE = "leave"
KERNEL_FILES = (
    ("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor", "performance_governor"),
    (
        "/sys/devices/system/cpu/cpu[0-9]*/power/pm_qos_resume_latency_us",
        "performance_idle_latency_us",
    ),
    ("/sys/kernel/mm/transparent_hugepage/enabled", "performance_transparent_hugepages"),
)
_THE_HOSTS = "It is the kernel's, which belongs to the container's host."


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
    reads=[UNIT_FILE, UNITS, DROP_INS],
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
    # Those of the role's own unit are rivals, whatever they say.
    yield from judge_overrides(facts.get(DROP_INS), SYSCTL_UNIT)


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
