"""Is this a sound machine to work on at all? Independent of any role."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime

from hfprov.baseline import Baseline
from hfprov.catalogue.systems import systems
from hfprov.checks.registry import Facts, check
from hfprov.evidence.filesystems import FILESYSTEMS, SHARED
from hfprov.evidence.folders import FOLDERS, Folder
from hfprov.evidence.host_names import HOST_NAMES
from hfprov.evidence.identity import IDENTITY
from hfprov.evidence.system import CPUS, KERNEL, MACHINE, OS, PROCESSES, UNITS, Machine
from hfprov.verdict import (
    Finding,
    Impact,
    NotApplicable,
    failed,
    not_applicable,
    passed,
    unknown,
    warned,
)

FULL_PERCENT = 95.0
NEARLY_FULL_PERCENT = 85.0


@check("node.identity", reads=[IDENTITY], impact=Impact.MANUAL)
def identity(facts: Facts, _: Baseline) -> Iterator[Finding]:
    facts.get(IDENTITY)
    # Which one is kept with the host: here it would make the verdicts of equal hosts unequal.
    yield passed(observed="a machine id", expected="a machine id of its own")


@check("node.host_name", reads=[HOST_NAMES], impact=Impact.MANUAL)
def host_name(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """The kernel has the name that the next boot gives. Domains are not compared."""
    names = facts.get(HOST_NAMES)
    if not names.written:
        reason = "'/etc/hostname' names no host: the name comes from elsewhere."
        yield not_applicable(NotApplicable.NOT_REQUESTED, reason)
    elif not names.agree:
        reason = "Whatever goes by the host name takes this node for another one, now or later."
        observed, expected = f"'{names.live}'", f"'{names.written}' of '/etc/hostname'"
        yield failed("", observed=observed, expected=expected, reason=reason)
    else:
        # Without the name, as above.
        yield passed(observed="as in '/etc/hostname'", expected="as in '/etc/hostname'")


@check("node.os", reads=[OS], impact=Impact.MANUAL)
def operating_system(facts: Facts, _: Baseline) -> Iterator[Finding]:
    os_id, version = facts.get(OS)
    observed = f"{os_id} {version}".strip()
    expected = ", ".join(f"{one.id} {one.version}" for one in systems().systems)
    system = systems().find(os_id, version)
    if system is None:
        yield failed(
            "", observed=observed, expected=expected, reason="The roles do not know this system."
        )
    elif system.level != "tested":
        yield warned(
            "",
            observed=observed,
            expected=expected,
            reason="The roles are written for this system, but were never run on it by us.",
        )
    else:
        yield passed(observed=observed, expected=expected)


@check("node.kernel_support", reads=[KERNEL, OS, MACHINE], impact=Impact.REBOOT)
def kernel_support(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """The running kernel is one that somebody maintains, and will for a while."""
    if facts.get(MACHINE) is Machine.CONTAINER:
        yield not_applicable(NotApplicable.CONTAINER, "The kernel belongs to the container's host.")
        return
    release = facts.get(KERNEL).release
    os_id, version = facts.get(OS)
    series = ".".join(release.split("-")[0].split(".")[:2])
    system = systems().find(os_id, version)
    long_term = systems().long_term(series)
    until = max(
        [one.until for one in (long_term,) if one]
        + [one.lts_until for one in (system,) if one and one.kernel == series],
        default=None,
    )
    expected = "a kernel of the distribution or of kernel.org's long-term series"
    if until is None:
        yield failed("", observed=release, expected=expected, reason=f"Series {series} is neither.")
    elif until < _today():
        yield failed(
            "", observed=release, expected=expected, reason=f"Its support ended on {until}."
        )
    else:
        yield passed(observed=f"{release}, supported until {until}", expected=expected)


def _today() -> date:
    return datetime.now(UTC).date()


@check("node.leftover_work", reads=[PROCESSES], impact=Impact.MANUAL)
def leftover_work(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """An interrupted converge can leave a module running on the node for long."""
    processes = facts.get(PROCESSES).leftovers
    if processes:
        yield failed(
            "",
            observed="; ".join(processes[:3]),
            expected="no Ansible module at work",
            reason=f"{len(processes)} processes of an earlier or foreign run are still at work.",
        )
    else:
        yield passed(observed="none", expected="no Ansible module at work")


@check("node.units", reads=[UNITS], impact=Impact.RESTART)
def units(facts: Facts, _: Baseline) -> Iterator[Finding]:
    found = facts.get(UNITS)
    for name in found.failed:
        yield warned(
            name, observed="failed", expected="not failed", reason="systemd reports it as failed."
        )
    if found.state in ("running", "degraded"):
        yield passed(observed=found.state, expected="running")
    else:
        yield unknown(reason=f"systemd says '{found.state}': the node is not up, or is going down.")


@check("node.filesystems", reads=[FILESYSTEMS], impact=Impact.MANUAL)
def filesystems(facts: Facts, _: Baseline) -> Iterator[Finding]:
    for one in facts.get(FILESYSTEMS):
        observed = f"{one.used_percent:.0f} % used" + (", read-only" if one.read_only else "")
        expected = f"writable, at most {NEARLY_FULL_PERCENT:.0f} % used"
        if one.read_only:
            reason = "It is mounted read-only, often after an I/O error."
            yield failed(one.mount, observed=observed, expected=expected, reason=reason)
        else:
            yield _filled(one.mount, "used", one.used_percent, expected)
        inodes = one.inodes_used_percent
        if inodes is not None:
            expected = f"at most {NEARLY_FULL_PERCENT:.0f} % of inodes used"
            yield _filled(f"{one.mount} inodes", "of inodes used", inodes, expected)


def _filled(subject: str, of_what: str, percent: float, expected: str) -> Finding:
    observed = f"{percent:.0f} % {of_what}"
    if subject.startswith(SHARED) and percent > NEARLY_FULL_PERCENT:
        # A job that runs may need all of it.
        reason = "Jobs end with bus errors when it is full: an earlier one may have left it so."
        return warned(subject, observed=observed, expected=expected, reason=reason)
    if percent > FULL_PERCENT:
        reason = "Packages and logs can no longer be written."
        return failed(subject, observed=observed, expected=expected, reason=reason)
    if percent > NEARLY_FULL_PERCENT:
        reason = "It will be full soon."
        return warned(subject, observed=observed, expected=expected, reason=reason)
    # In tens, which stay the same from run to run; the exact figure is in the evidence.
    tens = min(10 * (int(percent) // 10 + 1), round(NEARLY_FULL_PERCENT))
    return passed(subject, observed=f"up to {tens} % {of_what}", expected=expected)


@check("node.folders", reads=[FOLDERS], impact=Impact.MANUAL)
def folders(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """Nobody but root may put files where root's programs take theirs from."""
    found = facts.get(FOLDERS)
    open_ones = {path: one for path, one in sorted(found.items()) if _is_open(one)}
    for path, one in open_ones.items():
        observed = f"{one.mode:04o} {one.owner}:{one.group}"
        reason = "Who may write this folder may have root run or obey a file of his own."
        yield failed(path, observed=observed, expected="writable for root alone", reason=reason)
    if not open_ones:
        yield passed(observed="writable for root alone", expected="writable for root alone")


def _is_open(one: Folder) -> bool:
    by_group = bool(one.mode & 0o020) and not one.empty_group
    return one.owner != 0 or by_group or bool(one.mode & 0o002)


@check("node.cpus", reads=[CPUS, MACHINE], impact=Impact.MANUAL)
def cpus(facts: Facts, _: Baseline) -> Iterator[Finding]:
    if facts.get(MACHINE) is Machine.CONTAINER:
        yield not_applicable(NotApplicable.CONTAINER, "The CPUs belong to the container's host.")
        return
    found = facts.get(CPUS)
    observed, expected = f"{found.online} online", f"{found.present} online"
    if found.online < found.present:
        reason = f"{found.present - found.online} CPUs are present but switched off."
        yield failed("", observed=observed, expected=expected, reason=reason)
    else:
        yield passed(observed=observed, expected=expected)
