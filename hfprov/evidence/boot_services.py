"""systemd's own services that bring into effect, at boot, what files of other folders say.

Sources: systemd-udevd.service(8), systemd-modules-load.service(8),
systemd-user-sessions.service(8).
"""

from __future__ import annotations

from collections.abc import Mapping

from hfprov.evidence.systemd import Properties
from hfprov.evidence.systemd_units import shown_units, units
from hfprov.reading import Source

DEVICES = "systemd-udevd.service"
SERVICES: Mapping[str, str] = {
    DEVICES: "Names of interfaces, modes of devices and rules of udev are not applied.",
    "systemd-udev-trigger.service": "Devices that are there at boot get no rules, names or modes.",
    "systemd-modules-load.service": "Modules of RDMA and of accelerators are not loaded at boot.",
    "systemd-user-sessions.service": "Nobody but root can log in after a reboot.",
}
"""What is missing without each."""
# No more is asked than a list of units tells: that costs a node least.
_READ = units(*SERVICES, properties=("ActiveState",))

BOOT_SERVICES: Source[Mapping[str, Properties]] = Source(
    "services of the boot", lambda _: (_READ,), lambda seen, _: shown_units(seen, _READ)[1]
)
