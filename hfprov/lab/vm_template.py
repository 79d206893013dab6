"""Nodes that have started already: for each node number a disk with a snapshot of the machine.

Starting takes half a minute of emulation, continuing two seconds. Each number has its own, because
serial number, addresses and boot id of a machine are in its memory and must differ.
"""

from __future__ import annotations

import os
import platform
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from hfprov.errors import LabError
from hfprov.lab import monitor
from hfprov.lab.host import printable, run
from hfprov.lab.image import Say, build_once
from hfprov.lab.qemu import (
    SNAPSHOT,
    Accelerator,
    Machine,
    Place,
    describe_machine,
    kvm_opens,
    ports,
    wanted_accelerator,
)
from hfprov.lab.vm_image import DISK
from hfprov.lab.vm_power import await_agent, switch_on

_BOOT_DEADLINE = {Accelerator.KVM: 90.0, Accelerator.TCG: 900.0}
"""Seconds. Emulated: 35 on two quiet cores, ten times that beside other work."""
_SAVE_DEADLINE = 180.0
_KVM_FAILED = "kvm-does-not-boot"

_SETTLE = """\
systemctl is-system-running --wait || :
systemctl reset-failed
sync
echo 3 > /proc/sys/vm/drop_caches
"""


def choose_machine(image: Path, say: Say) -> Machine:
    """The machine that nodes get here: with KVM when it is asked for, or there and really boots.

    Some machines have ``/dev/kvm`` and cannot boot a stock kernel with it. That is found out once
    per QEMU and kernel of this machine, by trying.
    """
    if (wanted := wanted_accelerator()) is not None:
        return describe_machine(wanted)
    if not kvm_opens():
        return describe_machine(Accelerator.TCG)
    machine = describe_machine(Accelerator.KVM)
    note = image / _KVM_FAILED
    attempt = f"{machine.name} {platform.release()}\n"
    if note.exists() and note.read_text(encoding="utf-8") == attempt:
        return describe_machine(Accelerator.TCG)
    try:
        ensure_template(image, machine, 1, say)
    except LabError as error:
        say(f"KVM does not boot a virtual machine here, so it is emulated: {error.message}")
        note.write_text(attempt, encoding="utf-8")
        return describe_machine(Accelerator.TCG)
    return machine


def ensure_template(image: Path, machine: Machine, index: int, say: Say) -> Path:
    """The disk with the snapshot for node ``index``, made first when it is not in the cache."""

    def build(building: Path) -> None:
        say(f"Starting virtual machine {index} for the first time ({machine.accelerator}) ...")
        _boot(image, building, machine, index)

    return build_once(image / machine.name, f"{index:02d}", build) / DISK


def _boot(image: Path, building: Path, machine: Machine, index: int) -> None:
    with tempfile.TemporaryDirectory(prefix="hfprov-vm-") as sockets:
        place = Place(building, Path(sockets), index)
        run(
            ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", image / DISK,
             place.disk],
            timeout=30,
        )  # fmt: skip
        process = switch_on(machine, place, restore=False, wrap=_alone(index, machine), groups=())
        try:
            deadline = _BOOT_DEADLINE[machine.accelerator]
            await_agent(place, lambda: process.poll() is None, timeout=deadline)
            _save(place)
            process.wait(timeout=60)
        except LabError as error:
            raise LabError(f"{error.message} {_last_words(place)}", hint=error.hint) from error
        except subprocess.TimeoutExpired as error:
            raise LabError("QEMU did not end when it was told to.") from error
        finally:
            process.kill()
            process.wait()


def _save(place: Place) -> None:
    done = monitor.run_in_guest(
        place.agent, ["sh", "-eu", "-c", _SETTLE], timeout=_BOOT_DEADLINE[Accelerator.TCG]
    )
    if done.returncode != 0:
        raise LabError(f"The new node could not settle: {printable(done.stderr[-300:])}")
    monitor.monitor_line(place.monitor, f"savevm {SNAPSHOT}", timeout=_SAVE_DEADLINE)
    with suppress(LabError):  # it may be gone before it has answered
        monitor.monitor(place.monitor, "quit", timeout=20)


def _alone(index: int, machine: Machine) -> list[str]:
    """Words in front of QEMU: the same NICs as in a rack, plugged into nothing; ends with us."""
    script = []
    for tap, queues in ports(index, machine).values():
        script.append(f"ip tuntap add dev {tap} mode tap{' multi_queue' if queues > 1 else ''}")
        script.append(f"ip link set {tap} up")
    return [
        *("setpriv", "--pdeathsig", "KILL", "unshare", "--net"),
        *("sh", "-euc", "; ".join([*script, 'exec setpriv --pdeathsig KILL "$@"']), "vm"),
    ]


def _last_words(place: Place) -> str:
    try:
        with place.console.open("rb") as console:
            console.seek(max(0, os.fstat(console.fileno()).st_size - 300))
            text = console.read().decode("utf-8", errors="replace").strip()
    except OSError:
        text = ""
    return f"Its console ends with: {printable(text)}" if text else "Its console is empty."
