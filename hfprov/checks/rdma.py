"""One RDMA stack, whole, with its modules: installed, loaded, and loaded again at boot."""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.hardware import in_container
from hfprov.checks.rdma_modprobe import EXPECTED, judge_lines
from hfprov.checks.registry import Facts, check
from hfprov.checks.written_file import judge_written_file
from hfprov.evidence.modprobe import LOADED_MODULES, MODPROBE, parse_statements
from hfprov.evidence.package_facts import Manager
from hfprov.evidence.rdma_boot import (
    MODPROBE_FILE,
    MODPROBE_LINES,
    MODULES_FILE,
    UDEV_OVERRIDES,
    UNITS,
    WRITTEN,
)
from hfprov.evidence.rdma_settings import KERNEL_MODULES, NAMESPACES
from hfprov.evidence.rdma_stack import (
    DEBIAN,
    EL,
    HALVES,
    KEY_FILE,
    PACKAGES,
    REPOSITORY,
    REPOSITORY_FILES,
    Stack,
)
from hfprov.evidence.system import MACHINE
from hfprov.evidence.systemd import property_of
from hfprov.reading import Result
from hfprov.verdict import (
    Finding,
    Impact,
    NotApplicable,
    compared,
    failed,
    not_applicable,
    passed,
)

ROLE, LEAVE = "rdma", "leave"
THE_KERNEL = "the kernel and its RDMA devices"
SITE = ("rdma_site_repository", "rdma_site_suite", "rdma_site_key")
DRIVERS = frozenset(
    {"ib_core", "ib_cm", "rdma_cm", "iw_cm", "ib_uverbs", "rdma_ucm", "ib_umad"}
    | {"mlx5_core", "mlx5_ib", "bnxt_re", "irdma", "ionic_rdma", "efa"}
)
"""Modules without which some adapter has no RDMA, beside those that are declared."""


@check(
    "rdma.stack",
    reads=[HALVES],
    role=ROLE,
    impact=Impact.MANUAL,
    judges=["rdma_stack"],
)
def stack(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The node has no part of another stack than the declared one."""
    found, declared = facts.get(HALVES), str(baseline["rdma_stack"])
    parts = {one: f"{one}: {', '.join(found[one])}" for one in Stack if found[one]}
    observed = "; ".join(parts.values()) or "no part of any stack"
    expected = "parts of one stack" if declared == LEAVE else f"no part but of '{declared}'"
    wrong = [one for one in parts if declared not in (LEAVE, one)]
    kernel_only = declared == Stack.VENDOR and parts and not _has_kernel(found[Stack.VENDOR])
    if len(parts) > 1:
        reason = "Half of each stack is there: they were not built for each other."
        yield failed("", observed=observed, expected=expected, reason=reason)
    elif wrong:
        reason = "It is the other stack. To take it away is to take drivers away: by hand."
        yield failed("", observed=observed, expected=expected, reason=reason)
    elif kernel_only:
        reason = "The vendor's user space runs on the distribution's modules."
        yield failed("", observed=observed, expected=expected, reason=reason)
    else:
        yield passed(observed=observed, expected=expected)


def _has_kernel(parts: tuple[str, ...]) -> bool:
    return any("mlnx-of" in part or "mlx_compat" in part for part in parts)


@check(
    "rdma.packages",
    reads=[PACKAGES],
    role=ROLE,
    impact=Impact.NONE,
    judges=["rdma_stack", "rdma_vendor_packages"],
)
def packages(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The packages of the declared stack are installed."""
    found, declared = facts.get(PACKAGES), str(baseline["rdma_stack"])
    names = tuple(map(str, baseline["rdma_vendor_packages"])) if declared == Stack.VENDOR else ()
    if declared == Stack.INBOX:
        names = DEBIAN if found.manager is Manager.DPKG else EL
    if not names:
        yield not_applicable(NotApplicable.NOT_REQUESTED, f"'rdma_stack' is '{declared}'.")
    for name in names:
        if name in found.versions:
            yield passed(name, observed=found.versions[name], expected="installed")
        else:
            reason = "The package is not installed, or its installation did not end."
            observed = found.unfinished.get(name, "not installed")
            yield failed(name, observed=observed, expected="installed", reason=reason)


@check("rdma.repository", reads=[REPOSITORY], role=ROLE, impact=Impact.NONE, judges=SITE)
def repository(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The vendor's repository is set up as declared; without a declaration none is left over."""
    found = facts.get(REPOSITORY)
    apt, dnf = (read.request["path"] for read in REPOSITORY_FILES)
    if baseline["rdma_stack"] != Stack.VENDOR or not baseline[SITE[0]]:
        for path in (apt, dnf):
            observed = "there" if path in found else "absent"
            reason = "A repository is left over that is not declared."
            yield compared(path, observed=observed, expected="absent", reason=reason)
    elif dnf in found:
        key = KEY_FILE.request["path"]
        yield _written(dnf, found.get(dnf), _for_dnf(baseline))
        yield _written(key, found.get(key), str(baseline[SITE[2]]))
    else:
        yield _written(apt, found.get(apt), _for_apt(baseline))


def _written(path: str, result: Result | None, text: str) -> Finding:
    return judge_written_file(path, result, wanted=_lines(text), statements=_lines)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip() and line[0] != "#"]


def _for_apt(baseline: Baseline) -> str:
    suite, *components = str(baseline[SITE[1]]).split() or ["./"]
    lines = ["Types: deb", f"URIs: {baseline[SITE[0]]}", f"Suites: {suite}"]
    if baseline[SITE[1]]:
        lines.append(f"Components: {' '.join(components) or 'main'}")
    key = str(baseline[SITE[2]]).strip().splitlines()
    return "\n".join([*lines, "Signed-By:", *(f" {line.strip() or '.'}" for line in key)])


def _for_dnf(baseline: Baseline) -> str:
    return (
        f"[hfprov-rdma]\nname=RDMA of this site\nbaseurl={baseline[SITE[0]]}\nenabled=1\n"
        "gpgcheck=1\ngpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-hfprov-rdma\n"
    )


@check(
    "rdma.modules.file",
    reads=[WRITTEN],
    role=ROLE,
    impact=Impact.NONE,
    judges=["rdma_modules"],
)
def modules_file(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The list of modules that systemd loads at boot."""
    yield judge_written_file(
        MODULES_FILE,
        facts.get(WRITTEN)[MODULES_FILE],
        wanted=[str(name) for name in baseline["rdma_modules"]],
        statements=_module_names,
    )


def _module_names(text: str) -> list[str]:
    """modules-load.d(5): a name a line; comments begin with ``#`` or ``;``."""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return [line for line in lines if line and line[0] not in "#;"]


@check(
    "rdma.modules.loaded",
    reads=[MACHINE, LOADED_MODULES, KERNEL_MODULES],
    role=ROLE,
    impact=Impact.NONE,
    judges=["rdma_modules"],
)
def modules_loaded(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Each declared module is in the running kernel."""
    if elsewhere := in_container(facts, THE_KERNEL):
        yield elsewhere
        return
    loaded, known = facts.get(LOADED_MODULES), facts.get(KERNEL_MODULES)
    for name in map(str, baseline["rdma_modules"]):
        observed = "loaded" if name.replace("-", "_") in loaded | known else "not loaded"
        reason = "Libraries find no device without it, and fall back to TCP."
        yield compared(name, observed=observed, expected="loaded", reason=reason)


@check(
    "rdma.netns.file",
    reads=[WRITTEN],
    role=ROLE,
    impact=Impact.NONE,
    judges=["rdma_netns"],
)
def netns_file(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """How the module is loaded at the next boot; nothing is left over of an older declaration."""
    result, declared = facts.get(WRITTEN)[MODPROBE_FILE], baseline["rdma_netns"]
    if declared == LEAVE:
        observed = "absent" if result.status == "absent" else "there"
        reason = "The file is left over of an older declaration, and still holds."
        yield compared(MODPROBE_FILE, observed=observed, expected="absent", reason=reason)
        return
    yield judge_written_file(
        MODPROBE_FILE,
        result,
        wanted=[f"options ib_core netns_mode={1 if declared == 'shared' else 0}"],
        statements=parse_statements,
    )


@check(
    "rdma.netns.live",
    reads=[MACHINE, NAMESPACES],
    role=ROLE,
    impact=Impact.REBOOT,
    judges=["rdma_netns"],
)
def netns_live(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The mode of the running kernel."""
    declared = str(baseline["rdma_netns"])
    if declared == LEAVE:
        yield not_applicable(NotApplicable.NOT_REQUESTED, f"'rdma_netns' is '{LEAVE}'.")
    elif elsewhere := in_container(facts, THE_KERNEL):
        yield elsewhere
    else:
        reason = "The running kernel has the other mode; with namespaces in use it takes a reboot."
        observed = facts.get(NAMESPACES)
        yield compared("", observed=observed, expected=declared, reason=reason)


@check(
    "rdma.rivals",
    reads=[MODPROBE, MODPROBE_LINES, UDEV_OVERRIDES, UNITS],
    role=ROLE,
    impact=Impact.MANUAL,
    judges=["rdma_modules", "rdma_netns", "rdma_rxe_interfaces"],
)
def rivals(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Nothing of others keeps modules out, or changes how they are loaded and set."""
    soft = {"rdma_rxe"} if baseline["rdma_rxe_interfaces"] else set()
    needed = DRIVERS | soft | {str(one).replace("-", "_") for one in baseline["rdma_modules"]}
    found = [
        (one.path, one.statement, "It keeps a module from being loaded that RDMA needs.")
        for one in facts.get(MODPROBE).bans
        if one.module in needed
    ]
    for rule in facts.get(UDEV_OVERRIDES):
        reason = "A rule of rdma-core that loads modules is not the one that was installed."
        found.append((rule.where, rule.statement, reason))
    for name, unit in facts.get(UNITS).items():
        paths = property_of(unit, "DropInPaths").split()
        found += [(path, "a drop-in", f"It changes what '{name}' does.") for path in paths]
    netns = baseline["rdma_netns"] != LEAVE
    lines = list(judge_lines(facts.get(MODPROBE_LINES), needed, netns_declared=netns))
    yield from lines
    for where, statement, reason in found:
        yield failed(where, observed=statement, expected=EXPECTED, reason=reason)
    if not found and not lines:
        yield passed(observed="none", expected="nothing that wins over the role's files")
