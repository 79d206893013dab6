"""Practice faults: what goes wrong in real racks, as data. Each is a POSIX shell script that runs
inside the node as root with ``sh -eu``."""

from __future__ import annotations

from dataclasses import dataclass

from hfprov.errors import LabError


@dataclass(frozen=True, slots=True)
class Fault:
    """``trips`` says which checks should notice; ``needs`` what must be so for it to work."""

    name: str
    description: str
    trips: str
    script: str
    needs: str = ""


_FAULTS = (
    Fault("mtu-runtime", "The data NIC runs with an MTU of 1500.", "jumbo_mtu",
          "ip link set dev eth1 mtu 1500"),
)  # fmt: skip


def faults() -> tuple[Fault, ...]:
    """Every fault, in the order in which they are listed."""
    return _FAULTS


def find_fault(name: str) -> Fault:
    """Raises :class:`LabError` for a name that is not listed."""
    for fault in _FAULTS:
        if fault.name == name:
            return fault
    raise LabError(f"There is no fault '{name}'.", hint="hfprov lab break --list")
