"""The running system: kernel, boot, what kind of machine it is, failed units, leftover work."""

from __future__ import annotations

import re
from enum import StrEnum

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.systemd_units import manager, shown_manager
from hfprov.evidence.text import clean
from hfprov.reading import Observation, Source, file, glob, text_source
from hfprov.regex import regex

KERNEL_RELEASE = file("/proc/sys/kernel/osrelease", limit=1024)
BOOT_ID = file("/proc/sys/kernel/random/boot_id", limit=1024)
CMDLINE = file("/proc/cmdline", limit=16 * 1024)
VIRTUALIZATION = manager(("Virtualization",))
STATE = manager(("SystemState", "NFailedUnits"))
COMMAND_LINES = glob("/proc/[0-9]*/cmdline", limit=512, most=20_000)
MOUNTS = file("/proc/self/mounts", limit=1 << 20)
OS_RELEASE = file("/etc/os-release")
CPUS_ONLINE = file("/sys/devices/system/cpu/online", limit=4096)
CPUS_PRESENT = file("/sys/devices/system/cpu/present", limit=4096)


class Machine(StrEnum):
    """What kind of machine a kernel believes to run on."""

    BARE_METAL = "bare_metal"
    VIRTUAL = "virtual_machine"
    CONTAINER = "container"


_CONTAINERS = frozenset(
    {"systemd-nspawn", "lxc", "lxc-libvirt", "docker", "podman", "openvz", "rkt", "wsl", "proot"}
    | {"pouch", "container-other"}
)
"""Container technologies that systemd-detect-virt(1) names; any other name is a hypervisor."""


def parse_virt(name: str) -> Machine:
    """From systemd's ``Virtualization``, which is empty on bare metal; org.freedesktop.systemd1(5).

    systemd finds it out as systemd-detect-virt(1) does, with the same names.
    """
    if name in ("", "none"):
        return Machine.BARE_METAL
    if not re.fullmatch(r"[a-z0-9-]+", name):
        raise NotUnderstoodError(f"systemd calls its virtualization '{name[:40]}'.")
    return Machine.CONTAINER if name in _CONTAINERS else Machine.VIRTUAL


MACHINE: Source[Machine] = Source(
    "machine",
    lambda _: (VIRTUALIZATION,),
    lambda seen, _: parse_virt(shown_manager(seen, VIRTUALIZATION)[0]["Virtualization"]),
)


class Kernel(Struct, frozen=True):
    """The running kernel and boot."""

    release: str
    boot_id: str
    cmdline: str


def _parse_kernel(seen: Observation, _: Baseline) -> Kernel:
    release = clean(seen.text(KERNEL_RELEASE)).strip()
    boot_id = clean(seen.text(BOOT_ID)).strip()
    if not re.match(r"\d+\.\d+", release):
        raise NotUnderstoodError(f"'{release[:60]}' is not a kernel release.")
    if not re.fullmatch(r"[0-9a-f-]{36}", boot_id):
        raise NotUnderstoodError(f"'{boot_id[:60]}' is not a boot id.")
    return Kernel(release, boot_id, clean(seen.text(CMDLINE)).strip())


KERNEL = Source("kernel", lambda _: (KERNEL_RELEASE, BOOT_ID, CMDLINE), _parse_kernel)


class Units(Struct, frozen=True):
    """What systemd says of itself, and the units that failed."""

    state: str
    """``running``, ``degraded``, ``starting`` …; systemctl(1), is-system-running."""
    failed: tuple[str, ...]


_STATES = frozenset(
    {"initializing", "starting", "running", "degraded", "maintenance", "stopping", "offline"}
)


def parse_failed_units(text: str) -> tuple[str, ...]:
    """Names from ``systemctl list-units --failed --plain --no-legend``."""
    names = []
    for line in clean(text).splitlines():
        fields = line.split()
        if not fields:
            continue
        if "." not in fields[0]:
            raise NotUnderstoodError(f"'{line[:60]}' is not a line of 'systemctl list-units'.")
        names.append(fields[0])
    return tuple(names)


def _parse_units(seen: Observation, _: Baseline) -> Units:
    found, listed = shown_manager(seen, STATE)
    state = found["SystemState"]
    if state not in _STATES:
        raise NotUnderstoodError(f"systemd calls its state '{state[:40]}'.")
    failed = parse_failed_units(listed)
    if bool(failed) != (found["NFailedUnits"] != "0"):
        raise NotUnderstoodError(
            f"systemd told of {found['NFailedUnits']} failed units, not which."
        )
    return Units(state, failed)


UNITS = Source("units", lambda _: (STATE,), _parse_units)

# A module that was copied to the node, one that was piped to Python, and one under sudo.
_LEFTOVER = regex(r"AnsiballZ_|ansible-tmp-|python[\d.]* && sleep 0$|BECOME-SUCCESS-")
_WORKLOADS = ("containerd-shim", "docker-containerd-shim", "conmon", "slurmstepd", "pbs_mom-job")
"""Names of processes that stand for a running container or job, one each."""


class Processes(Struct, frozen=True):
    """What is at work on the node, as far as it matters to somebody who wants to change it."""

    leftovers: tuple[str, ...]
    """Ansible modules, of an interrupted or foreign run: ``PID: command line``."""
    workloads: tuple[str, ...]
    """Containers and jobs: ``PID: command line``."""


def _parse_processes(seen: Observation, _: Baseline) -> Processes:
    leftovers, workloads = [], []
    read_any = False
    for result in seen.each(COMMAND_LINES):
        if not result.ok:
            continue  # the process ended while it was being looked at
        read_any = True
        line = clean(result.text.replace("\0", " ")).strip()
        shown = f"{result.name.removeprefix('/proc/').partition('/')[0]}: {line[:200]}"
        if _LEFTOVER.search(line):
            leftovers.append(shown)
        if line.split(" ", 1)[0].rsplit("/", 1)[-1].startswith(_WORKLOADS):
            workloads.append(shown)
    if not read_any:
        raise NoEvidenceError("The node's processes could not be listed.")
    return Processes(tuple(leftovers), tuple(workloads))


PROCESSES = Source("processes", lambda _: (COMMAND_LINES,), _parse_processes)


def parse_os_release(text: str) -> tuple[str, str]:
    """``(ID, VERSION_ID)`` of os-release(5)."""
    fields = {}
    for line in clean(text).splitlines():
        key, equals, value = line.strip().partition("=")
        if equals and re.fullmatch(r"[A-Z][A-Z0-9_]*", key):
            fields[key] = value.strip().strip("\"'")
    if not fields.get("ID"):
        raise NotUnderstoodError("'/etc/os-release' has no 'ID'.")
    return fields["ID"], fields.get("VERSION_ID", "")


OS = text_source("os", OS_RELEASE, parse_os_release)


def cpu_count(text: str) -> int:
    """Number of CPUs in a kernel CPU list such as ``0-3,8,10-11``."""
    total = 0
    text = clean(text).strip()
    if not re.fullmatch(r"\d{1,6}(-\d{1,6})?(,\d{1,6}(-\d{1,6})?)*", text):
        raise NotUnderstoodError(f"'{text[:60]}' is not a list of CPUs.")
    for part in text.split(","):
        first, _, last = part.partition("-")
        total += int(last or first) - int(first) + 1
    return total


class Cpus(Struct, frozen=True):
    """How many CPUs the kernel knows, and how many of them run."""

    online: int
    present: int


CPUS = Source(
    "cpus",
    lambda _: (CPUS_ONLINE, CPUS_PRESENT),
    lambda seen, _: Cpus(cpu_count(seen.text(CPUS_ONLINE)), cpu_count(seen.text(CPUS_PRESENT))),
)
