"""Nobody has masked what applies, at boot, the files that the roles and packages write."""

from __future__ import annotations

from collections.abc import Iterator

from hfprov.baseline import Baseline
from hfprov.checks.registry import Facts, check
from hfprov.evidence.boot_services import BOOT_SERVICES, DEVICES, SERVICES
from hfprov.evidence.system import MACHINE, Machine
from hfprov.evidence.systemd import property_of
from hfprov.verdict import Finding, Impact, failed, passed

_EXPECTED = "not masked"


@check("boot.services", reads=[BOOT_SERVICES, MACHINE], impact=Impact.MANUAL)
def services(facts: Facts, _: Baseline) -> Iterator[Finding]:
    """Services of the boot are there and not masked, and udev is at work on the node's devices."""
    found, in_container = facts.get(BOOT_SERVICES), facts.get(MACHINE) is Machine.CONTAINER
    for name, lost in SERVICES.items():
        unit = found[name]
        state, active = property_of(unit, "LoadState"), property_of(unit, "ActiveState")
        if state == "masked":
            yield failed(name, observed=state, expected=_EXPECTED, reason=lost)
        elif name == DEVICES and active in ("inactive", "failed") and not in_container:
            # In a container it does not start: the devices are the host's.
            yield failed(name, observed=active, expected="active", reason=lost)
        else:
            yield passed(name, observed=_EXPECTED, expected=_EXPECTED)
