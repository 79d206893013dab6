"""Hardening of the kernel: its settings, its modules; and what is said of mounts.

What a hardening must not break is judged here as well, whoever broke it: modules of RDMA, and of
file systems that the node boots from.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts, check, require
from hfprov.checks.written_file import judge_written_file
from hfprov.evidence.modprobe import (
    ALL_MOUNTS,
    LOADED_MODULES,
    MODPROBE,
    Ban,
    modules_of,
    parse_statements,
)
from hfprov.evidence.sysctl_files import FILES, parse
from hfprov.evidence.sysctl_patterns import live_values, rivals, written_out
from hfprov.evidence.system import MACHINE, Machine
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
SYSCTL_PATH = "/etc/sysctl.d/99-zz-hfprov-hardening.conf"
MODPROBE_PATH = "/etc/modprobe.d/hfprov-hardening.conf"
SETTINGS = (
    "hardening_ptrace_scope",
    "hardening_rp_filter",
    "hardening_kptr_restrict",
    "hardening_dmesg_restrict",
    "hardening_accept_redirects",
    "hardening_extra_sysctls",
)
NAMESPACED = ("net.ipv4.", "net.ipv6.")
"""Of a network namespace; other settings are the whole kernel's, and so a container's host's."""
RDMA_MODULES = ("ib_*", "rdma_*", "iw_*", "mlx[45]_*", "irdma", "bnxt_re", "qedr", "efa", "siw")
WANTED_OPTIONS = ("nosuid", "nodev")
SHARED = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - judged, not used
"""Where every user may write."""


def wanted_settings(baseline: Baseline) -> dict[str, str]:
    """The declared kernel settings; ``*`` stands for every interface."""
    redirects = "1" if baseline["hardening_accept_redirects"] else "0"
    wanted = {
        "kernel.dmesg_restrict": baseline["hardening_dmesg_restrict"],
        "kernel.kptr_restrict": baseline["hardening_kptr_restrict"],
        "kernel.yama.ptrace_scope": baseline["hardening_ptrace_scope"],
        "net.ipv4.conf.*.accept_redirects": redirects,
        "net.ipv4.conf.*.accept_source_route": "0",
        "net.ipv4.conf.*.rp_filter": baseline["hardening_rp_filter"],
        "net.ipv4.conf.*.send_redirects": redirects,
        "net.ipv6.conf.*.accept_redirects": redirects,
    } | dict(baseline["hardening_extra_sysctls"])
    return {name: " ".join(str(value).split()) for name, value in wanted.items()}


LIVE = live_values("kernel settings of hardening", wanted_settings)


@check(
    "hardening.sysctl.live", reads=[MACHINE, LIVE], role=ROLE, impact=Impact.NONE, judges=SETTINGS
)
def sysctl_live(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """What holds in the running kernel, for every interface that is there."""
    in_container, found = facts.get(MACHINE) is Machine.CONTAINER, facts.get(LIVE)
    for name, expected in sorted(wanted_settings(baseline).items()):
        values = found[name]
        wrong = {path: value for path, value in values.items() if value != expected}
        if in_container and not name.startswith(NAMESPACED):
            reason = "The setting belongs to the kernel of the container's host."
            yield not_applicable(NotApplicable.CONTAINER, reason, name)
        elif not values and name.startswith("net.ipv6."):
            yield passed(name, observed="this kernel has no IPv6", expected=expected)
        elif not values:
            reason = "The kernel has no such setting; is a module missing?"
            yield failed(name, observed="absent", expected=expected, reason=reason)
        elif wrong:
            observed = ", ".join(f"{path} is {value}" for path, value in sorted(wrong.items())[:4])
            reason = "The running kernel has another value than the declared one."
            yield failed(name, observed=observed, expected=expected, reason=reason)
        else:
            yield passed(name, observed=expected, expected=expected)


@check("hardening.sysctl.file", reads=[FILES], role=ROLE, impact=Impact.NONE, judges=SETTINGS)
def sysctl_file(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The role's own file, which is applied at boot."""

    def statements(text: str) -> list[str]:
        found, strange = parse(text, SYSCTL_PATH)
        return [one.statement for one in found] + list(strange)

    yield judge_written_file(
        SYSCTL_PATH,
        facts.get(FILES).results.get(SYSCTL_PATH),
        wanted=[f"{name} = {value}" for name, value in written_out(wanted_settings(baseline))],
        statements=statements,
    )


@check("hardening.sysctl.rivals", reads=[FILES], role=ROLE, impact=Impact.MANUAL, judges=SETTINGS)
def sysctl_rivals(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """No other file has the last word: at boot, or when somebody runs ``sysctl --system``."""
    lines = list(rivals(facts.get(FILES), SYSCTL_PATH, wanted_settings(baseline)))
    for line in lines:
        reason = "This line wins over the role's, at boot or when 'sysctl --system' is run."
        expected = "no other value"
        yield failed(line.where, observed=line.statement, expected=expected, reason=reason)
    if not lines:
        yield passed(observed="none", expected="no line that wins over the role's")


@check(
    "hardening.modules.file",
    reads=[MODPROBE],
    role=ROLE,
    impact=Impact.NONE,
    judges=["hardening_disabled_modules"],
)
def modules_file(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The role's own file of modules that may not be loaded."""
    yield judge_written_file(
        MODPROBE_PATH,
        facts.get(MODPROBE).results.get(MODPROBE_PATH),
        wanted=[f"install {name} /bin/false" for name in sorted(_disabled(baseline))],
        statements=parse_statements,
    )


def _disabled(baseline: Baseline) -> list[str]:
    return [str(name) for name in baseline["hardening_disabled_modules"]]


@check(
    "hardening.modules.loaded",
    reads=[LOADED_MODULES, MACHINE],
    role=ROLE,
    impact=Impact.MANUAL,
    judges=["hardening_disabled_modules"],
)
def modules_loaded(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """None of the disabled modules was loaded before it was disabled."""
    if facts.get(MACHINE) is Machine.CONTAINER:
        yield not_applicable(NotApplicable.CONTAINER, "Modules belong to the container's host.")
        return
    loaded = facts.get(LOADED_MODULES)
    for name in sorted(_disabled(baseline)):
        observed = "loaded" if name.replace("-", "_") in loaded else "not loaded"
        reason = "It is loaded although it is disabled: unload it, or wait for the next boot."
        yield compared(name, observed=observed, expected="not loaded", reason=reason)


@check("hardening.modules.needed", reads=[MODPROBE, ALL_MOUNTS], role=ROLE, impact=Impact.MANUAL)
def modules_needed(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """Nobody disabled a module of RDMA, or of a file system that this node mounts."""
    mounts = facts.get(ALL_MOUNTS)
    require(mounts, "No mount was found, not even that of '/'.")
    needed = {name: one for one in mounts for name in modules_of(one)}
    problems = 0
    for ban in facts.get(MODPROBE).bans:
        reason = _why_needed(ban, needed[ban.module].target if ban.module in needed else "")
        if reason:
            problems += 1
            subject = f"{ban.module} in {ban.path}"
            expected = "not disabled"
            yield failed(subject, observed=ban.statement, expected=expected, reason=reason)
    if not problems:
        yield passed(observed="none", expected="no needed module disabled")


def _why_needed(ban: Ban, target: str) -> str:
    if any(fnmatchcase(ban.module, pattern) for pattern in RDMA_MODULES):
        return "RDMA, and the fabric manager of NVLink, need this module."
    if target:
        return f"'{target}' is of this kind: the node might not boot."
    return ""


@check("hardening.mounts", reads=[ALL_MOUNTS], role=ROLE, impact=Impact.MANUAL)
def mounts(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """How places are mounted where everybody may write. Only reported: no role changes a mount."""
    live = {one.target: one for one in facts.get(ALL_MOUNTS) if one.path == "/proc/self/mounts"}
    require("/" in live, "'/' is not among the mounts.")
    for target in SHARED:
        if target not in live:
            yield passed(target, observed="no mount of its own", expected="")
            continue
        options = live[target].options
        missing = [one for one in WANTED_OPTIONS if one not in options]
        shown, expected = ",".join(options), ",".join(WANTED_OPTIONS)
        if "noexec" in options and target == "/dev/shm":  # noqa: S108 - judged, not used
            reason = "Programs that compile at run time, and some MPI, cannot run code from here."
            yield warned(target, observed=shown, expected="no noexec", reason=reason)
        elif missing:
            reason = f"Everybody may write here, and '{', '.join(missing)}' is not set."
            yield warned(target, observed=shown, expected=expected, reason=reason)
        else:
            yield passed(target, observed=shown, expected=expected)
