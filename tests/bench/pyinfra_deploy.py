"""What the roles declare by default for a practice node; bench_observe.py runs it with ``--dry``.

79 operations a node (134 commands), as users of pyinfra write them, each in the cheapest form that
pyinfra has for it. None would change a node that was just provisioned. They are

* 1 for 21 packages;
* 8 for kernel settings, 5 of these for every interface: all by one command;
* 1 for the MTU of the data NIC, now;
* 30 for files (one is of the MTU at boot; under ifupdown, a line) and 3 for directories, with
  content, owner and mode; 6 for files that must not be there;
* 3 for lines of chrony's own files, and 2 for the owner and mode of these;
* 8 for units that start at boot, 3 of which must run now, and 17 for units that must do neither.

Values and contents are the roles' own (pyinfra_state.py); to read them takes 0.07 s, once a run.

Everything here is judged by ``hfprov drift``, too, and nothing twice. Of the 210 verdicts that it
reached on such a node when this was written (2026-11-30) these operations cover 88. The other 122
are not asked of pyinfra, which has nothing usual for them, so that the comparison still favours
pyinfra: whether 16 tools start; limits in effect, of sessions, services and systemd (28); what all
files of sshd and apt come to (14); other files that win over the roles', and mounts (23); whether
daemons have read what was written, and how they do (17); leftovers of other distributions and
options (8); what no role declares (16).
Settings of the kernel that a container shares with its host are declared, too, but not judged there
by hfprov, and so not asked of pyinfra.
"""

import sys
from io import StringIO
from pathlib import Path

from pyinfra import host
from pyinfra.api import operation
from pyinfra.facts.hardware import NetworkDevices
from pyinfra.facts.server import Sysctl
from pyinfra.operations import apt, files, systemd

sys.path.insert(0, str(Path(__file__).resolve().parent))
from pyinfra_state import declared

state = declared(host.data.ssh_config_file)
DIRECTORIES = state.directories()
ROOTS = {"user": "root", "group": "root"}


@operation()
def kernel_setting(names, value, live):
    for name in names:
        if live.get(name) != value:
            yield f"sysctl -w '{name}={value}'"


@operation()
def mtu(interface, octets, live):
    if live.get(interface, {}).get("mtu") != octets:
        yield f"ip link set dev {interface} mtu {octets}"


def written(file):
    files.put(
        name=file.path,
        src=StringIO(file.text),
        dest=file.path,
        mode=file.mode,
        create_remote_dir=file.is_drop_in and str(Path(file.path).parent) not in DIRECTORIES,
        **ROOTS,
    )


apt.packages(name="packages", packages=state.packages())

# Looked at once: pyinfra keeps no fact from one operation to the next.
links = host.get_fact(NetworkDevices)
settings = state.kernel_settings(["all", "default", *links])
live = host.get_fact(Sysctl, keys=[name for _, names, _ in settings for name in names])
for pattern, names, value in settings:
    kernel_setting(name=pattern, names=names, value=value, live=live)

octets = state["jumbo_mtu_bytes"]
for interface, drop_in in state.mtu_drop_ins.items():
    mtu(name=f"MTU of {interface}", interface=interface, octets=octets, live=links)
    if state.has_ifupdown(host.name):
        path = f"/etc/network/interfaces.d/{interface}"
        files.line(name=path, path=path, line=f"    mtu {octets}")
    else:
        written(drop_in)

for path in DIRECTORIES:
    files.directory(name=path, path=path, mode="755", **ROOTS)

for file in state.files:
    written(file)

for path in state.absent():
    files.file(name=f"no {path}", path=path, present=False)

chrony, options = state.of("__time_sync_main_file", "__time_sync_options_file")
files.replace(
    name=f"{chrony}: no source of the distribution",
    path=chrony,
    text=r"^[[:space:]]*((pool|server|peer|makestep|rtcsync|sourcedir[[:space:]]+/run/).*)$",
    replace=r"# \1",
    extended_regex=True,
)
files.line(name=f"{chrony}: its directory", path=chrony, line=state.chrony_directory())
files.line(
    name=f"{options}: its options",
    path=options,
    line=f"^{state['__time_sync_options_variable']}=.*$",
    replace=state.chrony_options(),
)
for path in (chrony, options):
    files.file(name=f"{path}: its rights", path=path, mode="644", **ROOTS)

for unit in state.of("__time_sync_service", "__hardening_updates_timers"):
    systemd.service(name=unit, service=unit, running=True, enabled=True)
for unit in state.units_at_boot():
    systemd.service(name=unit, service=unit, running=None, enabled=True)
for unit in state.units_off():
    systemd.service(name=f"no {unit}", service=unit, running=False, enabled=False)
