"""The declared kernel is installed, with its headers and modules, kept, and nothing is in its way.

Installing a kernel or headers is ``DRAIN``: DKMS then builds every module for it, on all CPUs.
"""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.kernel_declared import (
    LOCKS_FILE,
    PREFERENCES_FILE,
    ROLE,
    declared,
    left_to_host,
    to_hold,
)
from hfprov.checks.registry import Facts, check
from hfprov.checks.written_file import judge_rights, judge_written_file
from hfprov.evidence.apt_preferences import PREFERENCES, statements
from hfprov.evidence.boot_loader import LOADER
from hfprov.evidence.dkms import DKMS, proof
from hfprov.evidence.initramfs import INITRAMFS, SMALLEST
from hfprov.evidence.kernel_packages import KERNEL_PACKAGES, Manager
from hfprov.evidence.system import KERNEL, MACHINE, OS, Machine
from hfprov.verdict import (
    Finding,
    Impact,
    NotApplicable,
    compared,
    failed,
    not_applicable,
    passed,
    unknown,
    warned,
)

PACKAGES = (MACHINE, OS, KERNEL_PACKAGES)
WHICH = ("kernel_stream", "kernel_version", "kernel_in_containers")


@check("kernel.packages", reads=PACKAGES, role=ROLE, impact=Impact.DRAIN, judges=WHICH)
def packages(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The declared kernel is installed, in the declared version, and its installation ended."""
    if elsewhere := left_to_host(facts, baseline):
        yield elsewhere
        return
    found = declared(facts, baseline)
    pin = str(baseline["kernel_version"])
    expected = f"version {pin}" if pin else "installed"
    if found.problem:
        yield failed(found.image, observed="not so", expected=expected, reason=found.problem)
    else:
        observed = f"version {found.version}, kernel {found.release}"
        yield passed(found.image, observed=observed, expected=expected)
    if found.packages.is_interrupted:
        reason = "dpkg was killed and has to be told to go on: 'dpkg --configure -a'."
        yield failed("dpkg", observed="interrupted", expected="at rest", reason=reason)
    for versions in found.packages.packages.values():
        for one in versions:
            if not one.is_whole:
                reason = "Its installation did not end."
                yield failed(one.name, observed="half installed", expected="whole", reason=reason)
    if found.release and found.release not in found.packages.releases():
        reason = "The package that has the kernel in it is not installed."
        yield failed(found.release, observed="absent", expected="installed", reason=reason)


@check("kernel.headers", reads=PACKAGES, role=ROLE, impact=Impact.DRAIN, judges=["kernel_headers"])
def headers(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Headers of the declared kernel, whichever runs: DKMS builds with them for the next boot."""
    if elsewhere := left_to_host(facts, baseline):
        yield elsewhere
        return
    if not baseline["kernel_headers"]:
        yield not_applicable(NotApplicable.NOT_REQUESTED, "'kernel_headers' is false.")
        return
    found = declared(facts, baseline)
    release = found.required_release()
    reason = "Modules cannot be built for the kernel that boots next."
    if found.packages.manager is Manager.RPM:
        versions = [one.version for one in found.packages.packages.get(found.headers, ())]
        observed = found.version if found.version in versions else ", ".join(versions) or "absent"
        yield compared(found.headers, observed=observed, expected=found.version, reason=reason)
        return
    always = found.packages.get(found.headers)
    observed = always.version if always else "absent"
    yield compared(found.headers, observed=observed, expected=found.version, reason=reason)
    ours = found.packages.get(f"linux-headers-{release}")
    observed = ours.version if ours else "absent"
    yield compared(
        f"linux-headers-{release}", observed=observed, expected=found.version, reason=reason
    )


@check("kernel.hold", reads=PACKAGES, role=ROLE, impact=Impact.NONE, judges=["kernel_hold"])
def hold(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Packages with the kernel in it, and those that always need the newest, are held."""
    if elsewhere := left_to_host(facts, baseline):
        yield elsewhere
        return
    found = declared(facts, baseline)
    found.required_release()
    expected = "held" if baseline["kernel_hold"] else "not held"
    held = "An upgrade would bring another kernel, without the modules of this node."
    free = "It was held, and is declared not to be."
    for one in to_hold(found):
        yield compared(
            one.name,
            observed="held" if one.is_held else "not held",
            expected=expected,
            reason=held if baseline["kernel_hold"] else free,
        )


@check(
    "kernel.preferences",
    reads=[*PACKAGES, PREFERENCES],
    role=ROLE,
    impact=Impact.NONE,
    judges=["kernel_hold"],
)
def preferences(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The present version is preferred by apt; on EL the list of kept versions is root's file."""
    if elsewhere := left_to_host(facts, baseline):
        yield elsewhere
        return
    found, files = declared(facts, baseline), facts.get(PREFERENCES)
    if found.packages.manager is Manager.RPM:
        if baseline["kernel_hold"] and LOCKS_FILE in files:
            yield judge_rights(LOCKS_FILE, files[LOCKS_FILE])
        elif baseline["kernel_hold"]:
            reason = "dnf keeps no version."
            yield failed(LOCKS_FILE, observed="absent", expected="there", reason=reason)
        else:
            yield not_applicable(NotApplicable.NOT_REQUESTED, "'kernel_hold' is false.")
        return
    result = files.get(PREFERENCES_FILE)
    if not baseline["kernel_hold"]:
        reason = "A preference is left over that is not declared."
        observed = "there" if result else "absent"
        yield compared(PREFERENCES_FILE, observed=observed, expected="absent", reason=reason)
        return
    found.required_release()
    yield judge_written_file(
        PREFERENCES_FILE,
        result,
        wanted=[
            f"Package: {found.image} {found.headers}",
            f"Pin: version {found.version}",
            "Pin-Priority: 1001",
        ],
        statements=statements,
    )


@check(
    "kernel.old",
    reads=[*PACKAGES, KERNEL, LOADER],
    role=ROLE,
    impact=Impact.NONE,
    judges=["kernel_old_kept"],
)
def old(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """No more kernels than declared beside the declared one; the running one may always stay."""
    if elsewhere := left_to_host(facts, baseline):
        yield elsewhere
        return
    found = declared(facts, baseline)
    release = found.required_release()
    installed = set(found.packages.releases())
    running = "" if facts.get(MACHINE) is Machine.CONTAINER else facts.get(KERNEL).release
    never = {running, facts.get(LOADER).default.entry.release} & installed - {release}
    others = installed - {release}
    most = max(int(baseline["kernel_old_kept"]), len(never))
    expected = f"at most {most} beside {release}"
    if len(others) > most:
        reason = "They fill /boot, and each update of an initramfs takes the longer."
        shown = ", ".join(sorted(others))
        yield failed("", observed=f"{len(others)}: {shown}", expected=expected, reason=reason)
    else:
        yield passed(observed=str(len(others)), expected=expected)


@check(
    "kernel.modules",
    reads=[*PACKAGES, DKMS],
    role=ROLE,
    impact=Impact.DRAIN,
    judges=["kernel_required_modules"],
)
def modules(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Modules from outside of the kernel are there for the declared one, whichever runs."""
    if elsewhere := left_to_host(facts, baseline):
        yield elsewhere
        return
    release, found = declared(facts, baseline).required_release(), facts.get(DKMS)
    expected = f"there for {release}"
    required = [str(one) for one in baseline["kernel_required_modules"]]
    for name in required:
        result = proof(found, name, release)
        if result.holds:
            yield passed(name, observed=result.path, expected=expected)
        else:
            observed = result.path or "absent"
            yield failed(name, observed=observed, expected=expected, reason=result.problem)
    builds = found.status.builds if found.status else ()
    for name in dict.fromkeys(one.module for one in builds):
        states = [one for one in builds if (one.module, one.kernel) == (name, release)]
        observed = ", ".join(f"{one.version} {one.state}" for one in states) or "not built"
        if any(one.is_installed for one in states):
            yield passed(f"dkms {name}", observed=observed, expected=expected)
        else:
            reason = (
                "After the next boot the module is gone: DKMS has it for other kernels at most."
            )
            yield failed(f"dkms {name}", observed=observed, expected=expected, reason=reason)
    if not required and not builds:
        reason = "No module from outside of the kernel is declared, and DKMS has none."
        yield not_applicable(NotApplicable.NOT_REQUESTED, reason)


@check(
    "kernel.initramfs",
    reads=[*PACKAGES, INITRAMFS, LOADER],
    role=ROLE,
    impact=Impact.NONE,
    judges=["kernel_version"],
)
def initramfs(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The declared kernel's files lie in /boot, and its initial file system is not outdated."""
    if elsewhere := left_to_host(facts, baseline):
        yield elsewhere
        return
    release, found = declared(facts, baseline).required_release(), facts.get(INITRAMFS)
    expected = "there, and newer than what it is made of"
    observed = "there" if release in found.kernels else "absent"
    reason = "The kernel's file is lost: it cannot boot."
    yield compared(f"vmlinuz-{release}", observed=observed, expected="there", reason=reason)
    image = found.images.get(release)
    if image is None or image.size < SMALLEST:
        observed = f"{image.size} bytes" if image else "absent"
        reason = "The declared kernel will not find its disks."
        yield failed("initramfs", observed=observed, expected=expected, reason=reason)
        return
    newer = found.newer_inputs(release)
    makers = [one.path for one in newer if not one.path.startswith("/etc/modprobe.d/")]
    if makers:
        reason = f"'{makers[0]}' was changed since, and is not in it."
        yield failed("initramfs", observed="outdated", expected=expected, reason=reason)
    elif newer:
        reason = f"'{newer[0].path}' was changed since; it counts for what is loaded early on only."
        yield warned("initramfs", observed="older", expected=expected, reason=reason)
    else:
        yield passed("initramfs", observed="there", expected=expected)
    entry = facts.get(LOADER).of_release(release)
    if entry is None:
        yield unknown("entry", reason=f"The menu has no entry for '{release}'.")
    else:
        observed = "loaded" if entry.initrds else "not loaded"
        reason = "The menu's entry does not load the initramfs."
        yield compared("entry", observed=observed, expected="loaded", reason=reason)
