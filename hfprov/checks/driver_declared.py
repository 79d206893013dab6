"""What a baseline declares of the driver. Helpers of :mod:`hfprov.checks.driver` and its kin.

The machine is declared once, by ``node_sku``; ``accelerator_vendor`` stands in for it where the
catalogue does not have the machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hfprov.baseline import Baseline
from hfprov.catalogue.accelerators import accelerators
from hfprov.catalogue.drivers import (
    OPEN_FROM_BRANCH,
    Distribution,
    VendorDriver,
    drivers,
    module_flavour,
)
from hfprov.catalogue.skus import NONE, Sku, find_sku
from hfprov.checks.registry import Facts
from hfprov.errors import NoEvidenceError
from hfprov.evidence.accelerators.model import Vendor
from hfprov.evidence.driver_node import (
    DROP_INS,
    EXCLUSION,
    FABRIC_MANAGER,
    MODULES_LOAD,
    NOUVEAU,
    PERSISTENCED,
    PIN,
    REPOSITORY_APT,
    REPOSITORY_DNF,
    REPOSITORY_KEY,
)
from hfprov.evidence.system import OS
from hfprov.verdict import Finding, NotApplicable, not_applicable

ROLE = "accelerator"
AUTO = "auto"
UNDECLARED = ""


def vendor_of(baseline: Baseline) -> str:
    """The declared vendor or ``none``; '' where nobody said, or the catalogue lacks the machine."""
    chosen = str(baseline["accelerator_vendor"])
    if chosen != AUTO:
        return chosen
    if str(baseline.get("node_sku") or "") == NONE:
        return NONE
    sku = sku_of(baseline)
    return sku_vendor(sku) if sku is not None else UNDECLARED


def sku_of(baseline: Baseline) -> Sku | None:
    return find_sku(str(baseline.get("node_sku") or ""))


def sku_vendor(sku: Sku) -> str:
    model = accelerators().by_id(sku.accelerator)
    return model.vendor if model else UNDECLARED


@dataclass(frozen=True, slots=True)
class Declared:
    """The driver that a node must have."""

    vendor: Vendor
    version: str
    driver: VendorDriver | None
    """None for a vendor whose driver does not come as packages."""
    open_module: bool
    fabric_manager: bool
    persistenced: bool
    peermem: bool


def elsewhere(baseline: Baseline, *vendors: Vendor) -> Finding | None:
    """The finding on a node whose driver is not of these vendors; None where it is.

    That nobody declared a vendor is for ``driver.vendor`` alone to say.
    """
    vendor = vendor_of(baseline)
    if vendor == NONE:
        reason = "The node is declared to have no accelerators."
        return not_applicable(NotApplicable.NO_SUCH_HARDWARE, reason)
    if vendor == UNDECLARED:
        reason = "No vendor is declared; see 'driver.vendor'."
        return not_applicable(NotApplicable.NOT_REQUESTED, reason)
    if vendor not in vendors:
        reason = f"It does not apply to drivers of '{vendor}'."
        return not_applicable(NotApplicable.NO_SUCH_HARDWARE, reason)
    return None


PACKAGED = (Vendor.NVIDIA, Vendor.AMD, Vendor.GAUDI)


def declared(baseline: Baseline) -> Declared:
    """Raises NoEvidenceError where no version is declared: then nothing can be compared."""
    vendor = Vendor(vendor_of(baseline))
    version = str(baseline["accelerator_driver_version"])
    if not version:
        raise NoEvidenceError("No version is declared in 'accelerator_driver_version'.")
    sku, is_nvidia = sku_of(baseline), vendor is Vendor.NVIDIA
    open_module = _is_open(str(baseline["accelerator_kernel_module"]), sku, version)
    manager = str(baseline["accelerator_fabric_manager"])
    path = str(baseline["accelerator_gpudirect"])
    from_sku = manager == AUTO and sku is not None and sku.fabric_manager
    return Declared(
        vendor,
        version,
        drivers().vendors.get(vendor.value),
        open_module=open_module,
        fabric_manager=is_nvidia and (manager == "enabled" or from_sku),
        persistenced=is_nvidia and bool(baseline["accelerator_persistence"]),
        peermem=is_nvidia and (path == "peermem" or (path == AUTO and not open_module)),
    )


def _is_open(chosen: str, sku: Sku | None, version: str) -> bool:
    if chosen != AUTO:
        return chosen == "open"
    needed = module_flavour(sku.accelerator) if sku else "either"
    if needed != "either":
        return needed == "open"
    branch = re.match(r"\d+", version)
    return branch is not None and int(branch[0]) >= OPEN_FROM_BRANCH


def wanted_packages(want: Declared, facts: Facts, baseline: Baseline) -> Mapping[str, str]:
    """Version by package; '' for one whose version is its own."""
    listed = [str(one) for one in baseline["accelerator_packages"]]
    found = {}
    for word in listed or _default_packages(want, _distribution(facts)):
        name, _, version = word.partition("=")
        moves = want.driver is not None and want.driver.moves_with_driver(name)
        found[name] = version or (want.version if moves else "")
    return found


def _distribution(facts: Facts) -> Distribution:
    os_id, version = facts.get(OS)
    found = drivers().distribution(os_id, version)
    if found is None:
        raise NoEvidenceError(
            f"The names of the driver's packages are not known for '{os_id} {version}': "
            "declare them in 'accelerator_packages'."
        )
    return found


def _default_packages(want: Declared, names: Distribution) -> tuple[str, ...]:
    if want.vendor is Vendor.NVIDIA:
        chosen = names.nvidia_open if want.open_module else names.nvidia_proprietary
    else:
        chosen = names.amd if want.vendor is Vendor.AMD else names.gaudi
    manager = names.fabric_manager if want.fabric_manager else ()
    branch = want.version.partition(".")[0]
    return tuple(name.replace("{branch}", branch) for name in (*chosen, *manager))


def wanted_files(
    want: Declared | None, baseline: Baseline, *, with_apt: bool
) -> Mapping[str, tuple[str, ...]]:
    """Statements by path of the files that the node must have, drop-ins left aside.

    ``want`` is None on a node that needs no driver: it must have none of them.
    """
    if want is None or want.driver is None:
        return {}
    files: dict[str, tuple[str, ...]] = {}
    if baseline["accelerator_site_repository"]:
        files |= _repository(baseline, with_apt=with_apt)
    if with_apt:
        files[PIN] = _pin(want.driver, want.version)
        excluded = (f'"^{name}";' for name in want.driver.held)
        files[EXCLUSION] = ("Unattended-Upgrade::Package-Blacklist {", *excluded, "};")
    if want.vendor is Vendor.NVIDIA:
        files[NOUVEAU] = ("blacklist nouveau", "options nouveau modeset=0")
    if want.peermem:
        files[MODULES_LOAD] = ("nvidia-peermem",)
    return files


def _pin(driver: VendorDriver, version: str) -> tuple[str, ...]:
    return (
        f"Package: {' '.join(f'{name}*' for name in driver.same)}",
        f"Pin: version /^([0-9]+:)?{re.escape(version)}(-.*)?$/",
        "Pin-Priority: 1001",
    )


def _repository(baseline: Baseline, *, with_apt: bool) -> Mapping[str, tuple[str, ...]]:
    address = str(baseline["accelerator_site_repository"])
    key = str(baseline["accelerator_site_key"])
    if not with_apt:
        settings = (
            "[hfprov-accelerator]",
            "name=Drivers of accelerators",
            f"baseurl={address}",
            "enabled=1",
            "gpgcheck=1",
            f"gpgkey=file://{REPOSITORY_KEY}",
        )
        return {REPOSITORY_DNF: settings, REPOSITORY_KEY: tuple(statements(key))}
    suite, *components = str(baseline["accelerator_site_suite"]).split() or ["./"]
    lines = ["Types: deb", f"URIs: {address}", f"Suites: {suite}"]
    if baseline["accelerator_site_suite"]:
        lines.append(f"Components: {' '.join(components) or 'main'}")
    armoured = (line.strip() or "." for line in key.strip().splitlines())
    return {REPOSITORY_APT: (*lines, "Signed-By:", *armoured)}


def wanted_drop_ins(want: Declared | None) -> Mapping[str, tuple[str, ...]]:
    """Statements by path of the drop-ins that the node must have."""
    before = "Before=slurmd.service kubelet.service"
    found: dict[str, tuple[str, ...]] = {}
    if want is not None and want.persistenced:
        found[DROP_INS[PERSISTENCED]] = ("[Unit]", before)
    if want is not None and want.fabric_manager:
        found[DROP_INS[FABRIC_MANAGER]] = ("[Unit]", "After=rdma-hw.target", before)
    return found


def statements(text: str) -> list[str]:
    """Lines without comments, of any of the files; spacing does not count."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return [line for line in lines if line and not line.startswith(("#", "//"))]
