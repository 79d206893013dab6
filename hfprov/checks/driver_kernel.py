"""The driver and the kernel that boots next; services and modules beside the driver.

A kernel update that breaks the driver is found before the reboot: DKMS builds when a kernel is
installed, fails without failing the installation, and nobody reads its log.
"""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.driver_declared import (
    PACKAGED,
    ROLE,
    Declared,
    declared,
    elsewhere,
    statements,
    wanted_drop_ins,
)
from hfprov.checks.registry import Facts, check
from hfprov.checks.unit_state import why_not_enabled
from hfprov.checks.written_file import judge_written_file
from hfprov.errors import NoEvidenceError
from hfprov.evidence.accelerators.driver import DRIVERS
from hfprov.evidence.accelerators.model import Vendor
from hfprov.evidence.boot_loader import LOADER
from hfprov.evidence.dkms import DKMS, Dkms, proof
from hfprov.evidence.driver_node import (
    DRIVER_FILES,
    DRIVER_UNITS,
    DROP_INS,
    FABRIC_MANAGER,
    NOUVEAU,
    PERSISTENCED,
)
from hfprov.evidence.initramfs import INITRAMFS
from hfprov.evidence.modprobe import LOADED_MODULES
from hfprov.evidence.nvidia_node import DIRECT_PATH
from hfprov.evidence.system import MACHINE, Machine
from hfprov.evidence.systemd import Properties, property_of
from hfprov.verdict import (
    Finding,
    Impact,
    NotApplicable,
    compared,
    failed,
    not_applicable,
    passed,
)

_THE_HOSTS = "The kernel and its modules belong to the container's host."


def _target(facts: Facts, baseline: Baseline) -> str:
    """The release of the kernel that boots next; '' in a container without a boot loader.

    Raises NoEvidenceError where a machine does not tell.
    """
    chosen = str(baseline["accelerator_target_kernel"])
    if chosen:
        return chosen
    try:
        return facts.get(LOADER).next.entry.release
    except NoEvidenceError:
        if facts.get(MACHINE) is not Machine.CONTAINER:
            raise
    # A practice node has kernels and no loader: the newest one, as a loader would.
    kernels = facts.get(INITRAMFS).kernels
    return max(kernels, key=_release_order, default="")


def _release_order(release: str) -> tuple[tuple[int, str], ...]:
    parts = release.replace("-", ".").split(".")
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in parts)


@check(
    "driver.target_kernel",
    reads=[DKMS, LOADER, INITRAMFS, MACHINE],
    role=ROLE,
    impact=Impact.DRAIN,
    judges=["accelerator_target_kernel", "accelerator_driver_version"],
)
def target_kernel(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The kernel that boots next has the driver's module, of the declared version."""
    if out := elsewhere(baseline, *PACKAGED):
        yield out
        return
    want, release = declared(baseline), _target(facts, baseline)
    if not release:
        yield not_applicable(NotApplicable.CONTAINER, _THE_HOSTS)
        return
    yield judge_target(want, facts.get(DKMS), release)


def judge_target(want: Declared, found: Dkms, release: str) -> Finding:
    """Whether one kernel would find the driver's module, and what DKMS says of it."""
    names = want.driver.modules if want.driver else ()
    builds = want.driver.builds if want.driver else ()
    proofs = [proof(found, name, release) for name in names]
    there = next((one for one in proofs if one.path), None)
    said = [
        one for name in builds for one in (found.status.of(name, release) if found.status else ())
    ]
    expected = f"driver {want.version} for kernel {release}"
    reason = f"Kernel '{release}' boots next, and would come up without the driver."
    state = ", ".join(f"{one.module}/{one.version} {one.state}" for one in said)
    if there is None or not there.holds:
        # Of a module's several names, the one that is there for another kernel says most.
        problem = max(([there] if there else proofs), key=lambda one: len(one.problem)).problem
        observed = f"{problem} DKMS: {state or 'not built for it'}."
        return failed(release, observed=observed, expected=expected, reason=reason)
    right = [one for one in said if want.version in (one.version, one.version.partition("-")[0])]
    if said and not any(one.is_installed for one in right):
        observed = f"'{there.path}', and DKMS: {state}"
        return failed(release, observed=observed, expected=expected, reason=reason)
    return passed(release, observed=f"{there.path} {state}".strip(), expected=expected)


@check(
    "driver.nouveau",
    reads=[MACHINE, LOADED_MODULES],
    role=ROLE,
    impact=Impact.REBOOT,
)
def nouveau(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The kernel's own driver keeps off the GPUs: it is not loaded."""
    if out := elsewhere(baseline, Vendor.NVIDIA):
        yield out
        return
    if facts.get(MACHINE) is Machine.CONTAINER:
        yield not_applicable(NotApplicable.CONTAINER, _THE_HOSTS)
        return
    observed = "loaded" if "nouveau" in facts.get(LOADED_MODULES) else "not loaded"
    reason = "nouveau holds the GPUs, which NVIDIA's driver then cannot take: reboot the node."
    yield compared("", observed=observed, expected="not loaded", reason=reason)


@check(
    "driver.initramfs",
    reads=[MACHINE, INITRAMFS, LOADER],
    role=ROLE,
    impact=Impact.NONE,
    judges=["accelerator_target_kernel"],
)
def initramfs(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The initramfs of the kernel that boots next was made after nouveau was forbidden."""
    if out := elsewhere(baseline, Vendor.NVIDIA):
        yield out
    else:
        yield _banned_early(facts, _target(facts, baseline))


def _banned_early(facts: Facts, release: str) -> Finding:
    found = facts.get(INITRAMFS)
    image = found.images.get(release)
    if image is None:
        reason = "The kernel that boots next has no initramfs."
        return not_applicable(NotApplicable.NO_SUCH_HARDWARE, reason)
    ban = next((one for one in found.inputs if one.path == NOUVEAU), None)
    expected = "made after the ban was written"
    if ban is None or ban.changed > image.changed:
        reason = "nouveau may be loaded from the initramfs, before anything can forbid it."
        observed = "older than the ban" if ban else "without a ban"
        return failed(release, observed=observed, expected=expected, reason=reason)
    return passed(release, observed=image.path, expected=expected)


@check(
    "driver.units",
    reads=[DRIVER_UNITS, DRIVER_FILES, DRIVERS, MACHINE],
    role=ROLE,
    impact=Impact.DRAIN,
    judges=["accelerator_persistence", "accelerator_fabric_manager"],
)
def services(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Persistence daemon and fabric manager start at boot, before what needs them, and run."""
    needs_none = elsewhere(baseline, Vendor.NVIDIA)
    want = None if needs_none else declared(baseline)
    found, wanted = facts.get(DRIVER_FILES), wanted_drop_ins(want)
    for path, lines in wanted.items():
        yield judge_written_file(path, found.get(path), wanted=lines, statements=statements)
    left = [path for path in DROP_INS.values() if path in found and path not in wanted]
    for path in left:
        reason = "A file of the role is left over that is not declared."
        yield failed(path, observed="there", expected="absent", reason=reason)
    if needs_none and not left:
        yield needs_none
    if want is None:
        return
    runs = facts.get(MACHINE) is not Machine.CONTAINER and _is_loaded(facts, want)
    names = {PERSISTENCED: want.persistenced, FABRIC_MANAGER: want.fabric_manager}
    for name in (name for name, needed in names.items() if needed):
        yield _service(name, facts.get(DRIVER_UNITS)[name], runs=runs)
    if not wanted and not left:
        yield not_applicable(NotApplicable.NOT_REQUESTED, "No service of the driver is declared.")


def _is_loaded(facts: Facts, want: Declared) -> bool:
    return facts.get(DRIVERS)[want.vendor].loaded


def _service(name: str, unit: Properties, *, runs: bool) -> Finding:
    """Without a driver no such service can run, and 'driver.loaded' says why there is none."""
    if property_of(unit, "LoadState") == "not-found":
        reason = "The service is not there: its package is missing."
        return failed(name, observed="not installed", expected="enabled", reason=reason)
    state = property_of(unit, "UnitFileState")
    enabled = "enabled" if state.startswith("enabled") else state or "not enabled"
    stale = "yes" if property_of(unit, "NeedDaemonReload") == "yes" else "no"
    observed, expected = f"{enabled}, reload needed: {stale}", "enabled, reload needed: no"
    if runs:
        observed += f", {property_of(unit, 'ActiveState')}"
        expected += ", active"
    reason = "It does not run, not after a reboot, or not in the declared order."
    reason = why_not_enabled(enabled, reason)
    return compared(name, observed=observed, expected=expected, reason=reason)


@check(
    "driver.gpudirect",
    reads=[MACHINE, DIRECT_PATH, DRIVERS],
    role=ROLE,
    impact=Impact.NONE,
    judges=["accelerator_gpudirect"],
)
def gpudirect(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """nvidia-peermem is loaded where it is what opens GPU memory to NICs."""
    if out := elsewhere(baseline, Vendor.NVIDIA):
        yield out
        return
    want = declared(baseline)
    if not want.peermem:
        reason = "DMA-BUF, which needs no module, or nothing is declared."
        yield not_applicable(NotApplicable.NOT_REQUESTED, reason)
    elif facts.get(MACHINE) is Machine.CONTAINER:
        yield not_applicable(NotApplicable.CONTAINER, _THE_HOSTS)
    elif not _is_loaded(facts, want):
        reason = "The driver itself is not loaded."
        yield failed("", observed="not loaded", expected="loaded", reason=reason)
    else:
        observed = "loaded" if facts.get(DIRECT_PATH).peermem else "not loaded"
        reason = "Messages between nodes pass through host memory."
        yield compared("", observed=observed, expected="loaded", reason=reason)
