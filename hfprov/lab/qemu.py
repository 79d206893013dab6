"""One virtual machine as QEMU's command line.

Two sockets are two NUMA nodes. The data NIC sits behind a root port of the second one: an 'igb'
with several queues where QEMU has it (8.0 on), otherwise a virtio NIC on the first.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import uuid
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from hfprov.errors import LabError
from hfprov.lab.host import MIB, run

TOOLS = {
    "losetup": "mount",
    "mkfs.ext4": "e2fsprogs",
    "partx": "util-linux",
    "qemu-img": "qemu-utils",
    "qemu-system-x86_64": "qemu-system-x86",
    "setpriv": "util-linux",
    "sfdisk": "fdisk",
}
"""Command -> Debian package that has it, beside those of the containers."""
ACCEL_VARIABLE = "HFPROV_LAB_ACCEL"
QEMU = "qemu-system-x86_64"
KVM = Path("/dev/kvm")
SNAPSHOT = "booted"
MANAGEMENT_NIC = "mgmt"
DATA_NIC = "data"

_OVERHEAD = 448 * MIB
"""QEMU's own memory beside the guest's: 440-510 MiB in all for a guest that uses 250."""


class Accelerator(StrEnum):
    KVM = "kvm"
    TCG = "tcg"


@dataclass(frozen=True, slots=True)
class Machine:
    """What the hardware of a node is. A snapshot fits the same machine only.

    ``version`` is QEMU's; ``memory`` in MiB, halved between two NUMA nodes.
    """

    accelerator: Accelerator
    version: str
    data_nic: str
    cpus: int = 4
    memory: int = 1024

    @property
    def name(self) -> str:
        digest = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()
        return f"{self.accelerator}-{digest[:10]}"

    @property
    def host_memory(self) -> int:
        """Bytes that a running node can take on this machine."""
        return self.memory * MIB + _OVERHEAD


@dataclass(frozen=True, slots=True)
class Place:
    """Where one machine keeps its things, and what sets it apart from the next one.

    Unix socket paths must be short, so ``sockets`` is not below ``home``.
    """

    home: Path
    sockets: Path
    index: int

    @property
    def disk(self) -> Path:
        return self.home / "disk.qcow2"

    @property
    def monitor(self) -> Path:
        return self.sockets / f"{self.index:02d}.qmp"

    @property
    def agent(self) -> Path:
        return self.sockets / f"{self.index:02d}.agent"

    @property
    def console(self) -> Path:
        return self.home / "console.log"


def wanted_accelerator() -> Accelerator | None:
    """What ``HFPROV_LAB_ACCEL`` (auto, kvm or tcg) forces; ``None`` when we may choose.

    Raises :class:`LabError` for another word, and for KVM where it cannot be opened.
    """
    word = os.environ.get(ACCEL_VARIABLE) or "auto"
    if word not in ("auto", *Accelerator):
        raise LabError(
            f"{ACCEL_VARIABLE} is '{word}'.", hint=f"One of auto, {', '.join(Accelerator)}."
        )
    if word == Accelerator.KVM and not kvm_opens():
        raise LabError(
            f"{ACCEL_VARIABLE} asks for KVM and '{KVM}' cannot be opened for writing.",
            hint=f"Load kvm_intel or kvm_amd, or set {ACCEL_VARIABLE}=tcg (ten times slower).",
        )
    return None if word == "auto" else Accelerator(word)


def kvm_opens() -> bool:
    try:
        os.close(os.open(KVM, os.O_RDWR))
    except OSError:
        return False
    return True


def describe_machine(accelerator: Accelerator) -> Machine:
    """The machine that this QEMU can make."""
    said = run([QEMU, "-version"], timeout=20)
    match = re.search(r"version (\S+)(?: \(([^)]*)\))?", said)
    if match is None:
        raise LabError(f"'{QEMU} -version' does not say a version: {said[:100]!r}.")
    devices = run([QEMU, "-device", "help"], timeout=20)
    return Machine(
        accelerator=accelerator,
        version=match[2] or match[1],
        data_nic="igb" if '"igb"' in devices else "virtio-net-pci",
    )


def mac(index: int, nic: str) -> str:
    """A locally administered address, the same in every rack: racks do not meet."""
    return f"52:54:00:68:{1 if nic == DATA_NIC else 0:02x}:{index:02x}"


def ports(index: int, machine: Machine) -> dict[str, tuple[str, int]]:
    """The tap of each NIC on the rack's side, with its number of queues."""
    return {
        MANAGEMENT_NIC: (f"m{index:02d}", 1),
        DATA_NIC: (f"d{index:02d}", machine.cpus),
    }


def arguments(machine: Machine, place: Place, *, restore: bool) -> list[str]:
    """QEMU's argv. ``restore`` continues from the snapshot instead of switching on."""
    return [
        *(QEMU, "-name", f"hfprov-{place.index:02d}", "-no-user-config", "-nodefaults"),
        *("-machine", "q35", *_processor(machine), *_memory(machine)),
        *("-display", "none", "-vga", "none", "-rtc", "base=utc"),
        *("-uuid", str(uuid.uuid5(uuid.NAMESPACE_DNS, f"node{place.index:02d}.hfprov.invalid"))),
        *("-smbios", f"type=1,manufacturer=hfprov,product=practice,serial=HFP{place.index:05d}"),
        *("-drive", f"if=none,id=disk,file={_escaped(place.disk)},format=qcow2,cache=unsafe"),
        *("-device", "virtio-blk-pci,drive=disk,bus=pcie.0,addr=0x2"),
        *_nics(machine, place.index),
        *("-device", "virtio-serial-pci,bus=pcie.0,addr=0x4"),
        *("-chardev", f"socket,id=agent,path={_escaped(place.agent)},server=on,wait=off"),
        *("-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0"),
        *("-chardev", f"file,id=console,path={_escaped(place.console)},append=on"),
        *("-serial", "chardev:console"),
        *("-qmp", f"unix:{_escaped(place.monitor)},server=on,wait=off"),
        *(("-loadvm", SNAPSHOT) if restore else ()),
    ]


def _processor(machine: Machine) -> list[str]:
    if machine.accelerator is Accelerator.KVM:
        chosen = ["-accel", "kvm", "-cpu", "host"]
    else:
        chosen = ["-accel", "tcg,thread=multi,tb-size=512", "-cpu", "qemu64"]
    return [*chosen, "-smp", f"{machine.cpus},sockets=2,cores={machine.cpus // 2},threads=1"]


def _memory(machine: Machine) -> list[str]:
    words = ["-m", str(machine.memory)]
    half = machine.cpus // 2
    for node in range(2):
        words += ["-object", f"memory-backend-ram,id=m{node},size={machine.memory // 2}M"]
        cpus = f"{node * half}-{node * half + half - 1}"
        words += ["-numa", f"node,nodeid={node},cpus={cpus},memdev=m{node}"]
    return words


def _nics(machine: Machine, index: int) -> list[str]:
    words: list[str] = []
    for nic, (tap, queues) in ports(index, machine).items():
        several = f",queues={queues}" if queues > 1 else ""
        netdev = f"tap,id=net-{nic},ifname={tap},script=no,downscript=no,vhost=off{several}"
        words += ["-netdev", netdev]
    management, data = (
        f"id={nic},netdev=net-{nic},mac={mac(index, nic)},romfile="
        for nic in (MANAGEMENT_NIC, DATA_NIC)
    )
    words += ["-device", f"virtio-net-pci,{management},bus=pcie.0,addr=0x3"]
    if machine.data_nic == "igb":
        words += ["-device", "pxb-pcie,id=socket1,bus_nr=0x80,bus=pcie.0,numa_node=1,addr=0x5"]
        words += [
            "-device",
            "pcie-root-port,id=slot1,bus=socket1,chassis=1,slot=1,x-speed=16,x-width=8",
        ]
        return [*words, "-device", f"igb,{data},bus=slot1"]
    vectors = 2 * machine.cpus + 2
    return [*words, "-device", f"virtio-net-pci,{data},mq=on,vectors={vectors},bus=pcie.0,addr=0x6"]


def _escaped(path: Path) -> str:
    """A comma ends an option's value unless it is doubled."""
    return str(path).replace(",", ",,")
