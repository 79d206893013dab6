"""A container has shown that what is declared reaches it: limits, shared memory, devices."""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.container_runtime import ROLE, undeclared
from hfprov.checks.container_settings import LIMITS, ulimits
from hfprov.checks.container_vendor import CDI_DEVICE, CDI_FILE, VENDOR, vendor_for
from hfprov.checks.registry import Facts, check
from hfprov.checks.written_file import judge_rights
from hfprov.evidence.container_engine import ENGINE, FILES, VERSIONS, engine_of
from hfprov.evidence.container_node import SPECIFICATIONS
from hfprov.evidence.container_proof import (
    DRIVERS,
    PROOF,
    SPEC_DIGESTS,
    STAMP_PATH,
    Proof,
    sha256,
)
from hfprov.evidence.pci_devices import PCI_DEVICES
from hfprov.evidence.system import MACHINE
from hfprov.verdict import (
    Finding,
    NotApplicable,
    compared,
    failed,
    not_applicable,
    passed,
    unknown,
)

_DEVICES = "container_runtime_devices"
_SHM = "/dev/shm"  # noqa: S108 - a name to show; nothing is written there


@check(
    "container_runtime.toolkit",
    reads=[MACHINE, PCI_DEVICES, SPECIFICATIONS, DRIVERS, PROOF],
    role=ROLE,
    judges=[ENGINE, VENDOR],
)
def toolkit(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """The vendor's CDI specification is there, and of the driver that is loaded."""
    if engine_of(baseline) == "none":
        yield undeclared()
        return
    vendor = vendor_for(facts, baseline)
    if vendor == "":
        reason = "No accelerator is on the bus, or it is the container's host that has them."
        yield not_applicable(NotApplicable.NO_SUCH_HARDWARE, reason)
    elif vendor not in CDI_FILE:
        reason = f"Devices of '{vendor}' come by a runtime of the vendor's, not by CDI."
        yield not_applicable(NotApplicable.NOT_REQUESTED, reason)
    else:
        yield from _specification(CDI_FILE[vendor], vendor, facts)


def _specification(path: str, vendor: str, facts: Facts) -> Iterator[Finding]:
    found = facts.get(SPECIFICATIONS)
    there = path in found.facts or path in found.reasons
    reason = "The vendor's toolkit is not installed, or never wrote it: containers get no device."
    yield compared(path, observed="there" if there else "absent", expected="there", reason=reason)
    loaded = facts.get(DRIVERS).get(vendor)
    proof = facts.get(PROOF)
    if loaded is None:
        yield unknown("driver", reason=f"No driver of '{vendor}' is loaded that tells a version.")
        return
    reason = "The specification was last written for another driver: its libraries may be gone."
    observed = proof.driver if proof and proof.driver else "not known"
    yield compared("driver", observed=observed, expected=loaded, reason=reason)


@check(
    "container_runtime.proof",
    reads=[MACHINE, PCI_DEVICES, VERSIONS, FILES, SPEC_DIGESTS, SPECIFICATIONS, DRIVERS, PROOF],
    role=ROLE,
    judges=[
        ENGINE,
        _DEVICES,
        VENDOR,
        *LIMITS.values(),
        "container_runtime_shm_mib",
        "container_runtime_pids_limit",
    ],
)
def proof(facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """A container was started with just these settings, and got what is declared."""
    if engine_of(baseline) == "none":
        yield undeclared()
        return
    found = facts.get(PROOF)
    if found is None:
        reason = "No container has shown yet that the settings reach it."
        yield failed(STAMP_PATH, observed="absent", expected="kept by the role", reason=reason)
        return
    yield judge_rights(STAMP_PATH, found.result)
    yield from _still_holds(found, facts, baseline)
    yield from _limits(found, baseline)
    yield from _given(found, facts, baseline)


def _still_holds(found: Proof, facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """What the proof depends on is what it was then."""
    engine = engine_of(baseline)
    reason = "It has changed since a container last proved the settings."
    versions = facts.get(VERSIONS)
    version = next(iter(versions.values()), "")
    yield compared("version", observed=version, expected=found.version, reason=reason)
    yield compared("engine", observed=found.engine, expected=engine, reason=reason)
    files = {path: sha256(result.text) for path, result in facts.get(FILES).items()}
    now = {path: files.get(path, "") for path in found.files}
    if found.specs or baseline[_DEVICES] or vendor_for(facts, baseline) in CDI_DEVICE:
        specs = facts.get(SPEC_DIGESTS)
        now |= {path: specs.get(path, "") for path in {*found.specs, *specs}}
    for path, observed in sorted(now.items()):
        expected = {**found.files, **found.specs}.get(path, "")
        shown = [one[:12] or "absent" for one in (observed, expected)]
        yield compared(path, observed=shown[0], expected=shown[1], reason=reason)


def _limits(found: Proof, baseline: Baseline) -> Iterator[Finding]:
    reason = "The container did not get what is declared."
    for name, (soft, hard) in ulimits(baseline).items():
        got = found.ulimits.get(name, (0, 0))
        # Of the stack the hard limit is left as it is.
        got = (got[0], hard) if name == "stack" else got
        yield compared(
            name, observed=f"{got[0]}:{got[1]}", expected=f"{soft}:{hard}", reason=reason
        )
    engine = engine_of(baseline)
    if engine != "containerd":
        wanted = f"{baseline['container_runtime_shm_mib']} MiB"
        yield compared(_SHM, observed=f"{found.shm_mib} MiB", expected=wanted, reason=reason)
    if engine == "podman" and found.pids_max:
        wanted = str(int(baseline["container_runtime_pids_limit"]) or "max")
        yield compared("pids", observed=found.pids_max, expected=wanted, reason=reason)


def _given(found: Proof, facts: Facts, baseline: Baseline) -> Iterator[Finding]:
    """Each declared device came with nodes that the container could open, all that CDI names."""
    vendor = vendor_for(facts, baseline)
    names = [*map(str, baseline[_DEVICES]), CDI_DEVICE.get(vendor, vendor)]
    for name in sorted({one for one in names if one}):
        if engine_of(baseline) == "containerd":
            reason = "containerd gives devices to containers of Kubernetes only: prove it by a pod."
            yield not_applicable(NotApplicable.NOT_REQUESTED, reason, name)
            continue
        got = {path for path, opened in found.given.get(name, {}).items() if opened}
        missing = sorted(_nodes(name, facts) - got)
        expected = "a device that opens"
        reason = "A container that was given this saw no device of it, or not all, or may not open."
        if missing or not got:
            observed = f"not {', '.join(missing[:4])}" if missing else "none"
            yield failed(name, observed=observed, expected=expected, reason=reason)
        else:
            yield passed(name, observed=", ".join(sorted(got)[:8]), expected=expected)


def _nodes(name: str, facts: Facts) -> set[str]:
    """Paths that the CDI specifications of the node promise for a device."""
    kind, _, device = name.partition("=")
    return {
        node.path
        for spec in facts.get(SPECIFICATIONS).facts.values()
        if spec.kind == kind
        for one in spec.devices
        if one.name == device
        for node in (*spec.edits.device_nodes, *one.edits.device_nodes)
    }
