"""The node as a host of containers: configuration that its daemons accept, and a way to devices."""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.hardware import has_accelerators, in_container
from hfprov.checks.registry import Facts, check
from hfprov.evidence.cdi import CdiSpec
from hfprov.evidence.container_node import (
    CONTAINERD,
    DOCKER,
    RUNTIMES,
    SPECIFICATIONS,
    Invalid,
    Runtimes,
)
from hfprov.evidence.containerd import ContainerdConfig
from hfprov.evidence.docker_daemon import DaemonConfig
from hfprov.evidence.nic_node import Each
from hfprov.evidence.pci_devices import PCI_DEVICES
from hfprov.evidence.system import MACHINE
from hfprov.verdict import (
    Finding,
    Impact,
    NotApplicable,
    failed,
    not_applicable,
    passed,
    unknown,
)

_FILES = {DOCKER: "/etc/docker/daemon.json", CONTAINERD: "/etc/containerd/config.toml"}
_DEVICE_RUNTIMES = ("nvidia", "amd", "ascend", "habana")
"""Names of runtimes that put accelerators into containers by themselves."""


def _none() -> Finding:
    reason = "Neither docker nor containerd is installed on the node."
    return not_applicable(NotApplicable.NOT_REQUESTED, reason)


@check("container_host.config", reads=[RUNTIMES], impact=Impact.MANUAL)
def config(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """A file that cannot be read stops the daemon at its next start."""
    found = facts.get(RUNTIMES)
    if not found.installed:
        yield _none()
    for name, settings in ((DOCKER, found.docker), (CONTAINERD, found.containerd)):
        if name in found.installed:
            yield judge_config(_FILES[name], settings)


def judge_config(path: str, settings: DaemonConfig | ContainerdConfig | Invalid | None) -> Finding:
    expected = "valid, or absent"
    if isinstance(settings, Invalid):
        reason = f"The daemon will not start again with it: {settings.reason}"
        return failed(path, observed="invalid", expected=expected, reason=reason)
    observed = "absent" if settings is None else "valid"
    return passed(path, observed=observed, expected=expected)


@check(
    "container_host.devices",
    reads=[MACHINE, RUNTIMES, SPECIFICATIONS, PCI_DEVICES],
    impact=Impact.MANUAL,
)
def devices(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """On a node with accelerators a container can be given them."""
    if elsewhere := in_container(facts, "the accelerators"):
        yield elsewhere
    elif not has_accelerators(facts.get(PCI_DEVICES)):
        reason = "No accelerator is on the bus."
        yield not_applicable(NotApplicable.NO_SUCH_HARDWARE, reason)
    elif not facts.get(RUNTIMES).installed:
        yield _none()
    else:
        yield from judge_devices(facts.get(RUNTIMES), facts.get(SPECIFICATIONS))


def judge_devices(runtimes: Runtimes, specs: Each[CdiSpec]) -> Iterator[Finding]:
    """A CDI specification with devices in it, or a runtime of the vendor's that is configured."""
    for path, reason in specs.reasons.items():
        yield failed(path, observed="not usable", expected="a CDI specification", reason=reason)
    for path, spec in specs.facts.items():
        yield judge_spec(path, spec)
    usable = [path for path, spec in specs.facts.items() if spec.devices and not spec.placeholders]
    named = sorted(_vendor_runtimes(runtimes))
    ways = [f"CDI {path}" for path in usable] + [f"runtime '{name}'" for name in named]
    expected = "a CDI specification, or the vendor's runtime"
    if ways:
        yield passed(observed=", ".join(ways), expected=expected)
    elif Invalid in (type(runtimes.docker), type(runtimes.containerd)):
        yield unknown(reason="The daemon's configuration cannot be read.", expected=expected)
    else:
        reason = "Containers will report that no device is found."
        yield failed("", observed="none", expected=expected, reason=reason)


def judge_spec(path: str, spec: CdiSpec) -> Finding:
    expected = "devices, and nothing left to fill in"
    if spec.placeholders:
        reason = "It is a template that was never filled in."
        observed = f"placeholders: {', '.join(spec.placeholders[:4])}"
        return failed(path, observed=observed, expected=expected, reason=reason)
    if not spec.devices:
        reason = "It names no device: it was written while the driver showed none."
        return failed(path, observed="no device", expected=expected, reason=reason)
    return passed(path, observed=f"{len(spec.devices)} devices of {spec.kind}", expected=expected)


def _vendor_runtimes(runtimes: Runtimes) -> set[str]:
    names: set[str] = set()
    for settings in (runtimes.docker, runtimes.containerd):
        if isinstance(settings, (DaemonConfig, ContainerdConfig)):
            names |= {one.name for one in settings.runtimes}
            names |= {settings.default_runtime or ""}
    return {name for name in names if name.lower().startswith(_DEVICE_RUNTIMES)}
