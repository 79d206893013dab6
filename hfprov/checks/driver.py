"""The driver's packages: of exactly one version, held, and what runs is what is installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hfprov.baseline import Baseline
from hfprov.catalogue.skus import NONE
from hfprov.checks.driver_declared import (
    AUTO,
    PACKAGED,
    ROLE,
    UNDECLARED,
    Declared,
    declared,
    elsewhere,
    sku_of,
    sku_vendor,
    statements,
    vendor_of,
    wanted_files,
    wanted_packages,
)
from hfprov.checks.registry import Facts, check
from hfprov.checks.written_file import judge_written_file
from hfprov.evidence.accelerators.adapters import ACCELERATORS
from hfprov.evidence.accelerators.driver import DRIVERS
from hfprov.evidence.accelerators.model import Failure, Vendor
from hfprov.evidence.automatic_updates import UPDATES
from hfprov.evidence.driver_node import (
    ASCEND_VERSIONS,
    DRIVER_FILES,
    DRIVER_PACKAGES,
    DROP_INS,
    DriverPackage,
)
from hfprov.evidence.system import MACHINE, OS, Machine
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

REPOSITORY = (
    "accelerator_site_repository",
    "accelerator_site_suite",
    "accelerator_site_key",
)
_SHOWN = 4


@check(
    "driver.vendor",
    reads=[],
    role=ROLE,
    impact=Impact.MANUAL,
    judges=["accelerator_vendor"],
)
def vendor(_: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Somebody declared whose accelerators the node has, and once only."""
    name, sku = vendor_of(baseline), sku_of(baseline)
    chosen, machine = str(baseline["accelerator_vendor"]), str(baseline.get("node_sku") or "")
    if name == UNDECLARED:
        what = f"The catalogue has no machine '{machine}'." if machine else "Nobody declared it."
        reason = f"{what} Set 'node_sku', or 'accelerator_vendor' for a machine of your own."
        yield unknown(reason=reason, expected="a vendor, or 'none'")
    elif chosen != AUTO and sku is not None and chosen != sku_vendor(sku):
        reason = f"'accelerator_vendor' contradicts 'node_sku', which is '{machine}'."
        yield failed("", observed=chosen, expected=sku_vendor(sku), reason=reason)
    elif name == NONE:
        reason = "The node is declared to have no accelerators."
        yield not_applicable(NotApplicable.NO_SUCH_HARDWARE, reason)
    else:
        yield passed(observed=name, expected=name)


@check(
    "driver.files",
    reads=[DRIVER_FILES, UPDATES],
    role=ROLE,
    impact=Impact.NONE,
    judges=[*REPOSITORY, "accelerator_driver_version", "accelerator_gpudirect"],
)
def files(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Repository, pin, exclusion from updates, ban of nouveau, modules to load; none left over."""
    needs_none = elsewhere(baseline, *PACKAGED)
    want = None if needs_none else declared(baseline)
    found = facts.get(DRIVER_FILES)
    wanted = wanted_files(want, baseline, with_apt=facts.get(UPDATES).apt is not None)
    for path, lines in wanted.items():
        yield judge_written_file(path, found.get(path), wanted=lines, statements=statements)
    left = [path for path in found if path not in wanted and path not in DROP_INS.values()]
    for path in left:
        reason = "A file of the role is left over that is not declared."
        yield failed(path, observed="there", expected="absent", reason=reason)
    if needs_none and not left:
        yield needs_none


@check(
    "driver.packages",
    reads=[DRIVER_PACKAGES, OS],
    role=ROLE,
    # Installed on an idle node; that the new driver then waits for a reboot says driver.loaded.
    impact=Impact.DRAIN,
    judges=[
        "accelerator_driver_version",
        "accelerator_packages",
        "accelerator_kernel_module",
        "accelerator_fabric_manager",
    ],
)
def packages(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Every package of the driver is there, whole, and of the declared version; no other is."""
    if out := elsewhere(baseline, *PACKAGED):
        yield out
        return
    want, found = declared(baseline), facts.get(DRIVER_PACKAGES)
    wanted = dict(wanted_packages(want, facts, baseline))
    for name in found:
        if want.driver is not None and want.driver.moves_with_driver(name):
            wanted.setdefault(name, want.version)
    for name, version in wanted.items():
        yield _installed(name, version, found.get(name))


def _installed(name: str, version: str, found: DriverPackage | None) -> Finding:
    expected = version or "installed"
    if found is None:
        reason = "A package of the driver is missing."
        return failed(name, observed="not installed", expected=expected, reason=reason)
    if not found.is_whole:
        reason = "Its installation did not end; the driver's module may not have been built."
        return failed(name, observed=f"half {found.version}", expected=expected, reason=reason)
    if version and not found.is_of(version):
        reason = "It is of another version than the driver that is declared."
        return failed(name, observed=found.version, expected=expected, reason=reason)
    return passed(name, observed=found.version, expected=expected)


@check("driver.hold", reads=[DRIVER_PACKAGES], role=ROLE, impact=Impact.NONE)
def hold(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Nobody's upgrade replaces a package of the driver: all of them are held."""
    if out := elsewhere(baseline, *PACKAGED):
        yield out
        return
    want = declared(baseline)
    ours = {
        name: one
        for name, one in facts.get(DRIVER_PACKAGES).items()
        if want.driver is not None and want.driver.owns(name)
    }
    loose = sorted(name for name, one in ours.items() if not one.is_held)
    if not ours:
        reason = "No package of the driver is installed, so that none can be held."
        yield failed("", observed="none", expected="held", reason=reason)
    elif loose:
        shown = ", ".join(loose[:_SHOWN]) + (" …" if len(loose) > _SHOWN else "")
        reason = "An upgrade would replace the driver's files under the loaded module."
        yield failed("", observed=f"not held: {shown}", expected="held", reason=reason)
    else:
        yield passed(observed=f"{len(ours)} packages held", expected="held")


@check("driver.updates", reads=[UPDATES], role=ROLE, impact=Impact.MANUAL)
def updates(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """What apt makes of all its files keeps automatic updates away from the driver."""
    if out := elsewhere(baseline, *PACKAGED):
        yield out
        return
    want, found = declared(baseline), facts.get(UPDATES)
    if found.apt is None:
        reason = "dnf-automatic keeps to versionlock, which 'driver.hold' judges."
        yield not_applicable(NotApplicable.NOT_REQUESTED, reason)
        return
    listed = found.apt.get("Unattended-Upgrade::Package-Blacklist::", ())
    held = want.driver.held if want.driver else ()
    missing = [name for name in held if f"^{name}" not in listed]
    subject, expected = "Unattended-Upgrade::Package-Blacklist", "every package of the driver"
    if missing:
        reason = "An unattended upgrade would replace the driver. Which file of apt comes later?"
        shown = f"without {', '.join(missing[:_SHOWN])}"
        yield failed(subject, observed=shown, expected=expected, reason=reason)
    else:
        yield passed(subject, observed=f"{len(listed)} patterns", expected=expected)


@check(
    "driver.loaded",
    reads=[MACHINE, DRIVERS, DRIVER_PACKAGES, ACCELERATORS, ASCEND_VERSIONS],
    role=ROLE,
    impact=Impact.REBOOT,
    judges=["accelerator_driver_version"],
)
def loaded(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The module that runs is the declared one, and so are the packages and what the tool loads."""
    if out := elsewhere(baseline, *PACKAGED, Vendor.ASCEND):
        yield out
        return
    want = declared(baseline)
    if facts.get(MACHINE) is Machine.CONTAINER:
        reason = "The kernel and its modules belong to the container's host."
        yield not_applicable(NotApplicable.CONTAINER, reason)
        return
    driver = facts.get(DRIVERS)[want.vendor]
    if not driver.loaded:
        reason = "The driver is not loaded: load its module, or reboot the node."
        yield failed("", observed="not loaded", expected=want.version, reason=reason)
        return
    versions = {"loaded": driver.version, **_on_disk(want, facts)}
    report = facts.get(ACCELERATORS).reports.get(want.vendor)
    mismatch = report is not None and report.failure is Failure.MISMATCH
    yield judge_loaded(versions, want.version, mismatch=mismatch)


def _on_disk(want: Declared, facts: Facts) -> Mapping[str, str]:
    """The version of the packages, or of the installer; several where they differ."""
    if want.driver is None:
        version = facts.get(ASCEND_VERSIONS).get("driver", "")
        return {"installed": version} if version else {}
    found = {
        one.upstream
        for name, one in facts.get(DRIVER_PACKAGES).items()
        if want.driver.moves_with_driver(name)
    }
    return {"packages": " and ".join(sorted(found))} if found else {}


def judge_loaded(versions: Mapping[str, str], wanted: str, *, mismatch: bool) -> Finding:
    """``{"loaded": …, "packages": …}`` against the declared version.

    ``mismatch``: the vendor's tool refused its library because the module is of another version.
    """
    told = {name: version for name, version in versions.items() if version}
    observed = ", ".join(f"{name} {version}" for name, version in told.items())
    if mismatch:
        observed += ", NVML of another version than the module"
    different = len(set(told.values())) > 1
    if mismatch or different:
        reason = (
            "The driver was replaced under the loaded module: a reboot is needed, or, on a drained "
            "node, a reload of the module. The accelerators themselves are not missing."
        )
        return failed("", observed=observed, expected=wanted, reason=reason)
    if "loaded" not in told:
        reason = "The loaded module tells no version, as one that comes with the kernel."
        return warned("", observed=observed or "loaded", expected=wanted, reason=reason)
    return compared(
        "",
        observed=told["loaded"],
        expected=wanted.partition("-")[0],
        reason="Another driver than the declared one is loaded: install it, then reboot.",
    )


@check(
    "driver.installer",
    reads=[ASCEND_VERSIONS],
    role=ROLE,
    impact=Impact.DRAIN,
    judges=["accelerator_driver_version", "accelerator_installer"],
)
def installer(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The driver of a vendor without packages is installed in the declared version."""
    if out := elsewhere(baseline, Vendor.ASCEND):
        yield out
        return
    want = declared(baseline)
    yield compared(
        "",
        observed=facts.get(ASCEND_VERSIONS).get("driver", "not installed"),
        expected=want.version,
        reason="The driver is not of the declared version.",
    )


@check(
    "driver.firmware",
    reads=[ASCEND_VERSIONS],
    role=ROLE,
    impact=Impact.MANUAL,
    judges=["accelerator_firmware_version"],
)
def firmware(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Firmware that belongs to a driver is of the declared version; only a person writes it."""
    if out := elsewhere(baseline, Vendor.ASCEND):
        yield out
        return
    wanted = str(baseline["accelerator_firmware_version"])
    if not wanted:
        reason = "No version is declared in 'accelerator_firmware_version'."
        yield unknown(reason=reason, expected="a version")
        return
    yield compared(
        "",
        observed=facts.get(ASCEND_VERSIONS).get("firmware", "not installed"),
        expected=wanted,
        reason="The firmware is not of the declared version; it is written by hand only.",
    )
