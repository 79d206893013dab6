"""``hfprov reboot`` of virtual machines, and what goes wrong meanwhile."""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from dataclasses import dataclass

from hfprov.lab.vm_node import find_entry

ANSWERING, STOPPING = 20, 40  # seconds of a shutdown
AWAY = 30  # seconds that a node may take to come back, which it does not
SSH_FAILED = 255
_MENU = "/boot/grub/grub.cfg"
_DEADLINE = ("--deadline", "900")
_WAIT = 3000
_DELAY = f"""
mkdir -p /run/systemd/logind.conf.d
printf '[Login]\\nInhibitDelayMaxSec={ANSWERING}\\n' > /run/systemd/logind.conf.d/hfprov-test.conf
systemctl restart systemd-logind
systemd-run --quiet --unit=hfprov-test-delay systemd-inhibit --what=shutdown --mode=delay \\
    --who=test --why=test sleep infinity
"""


@dataclass(frozen=True)
class Reboot:
    """One 'hfprov reboot' of a node that takes long to shut down."""

    boot_before: str
    ended_early: bool
    """hfprov was done before the slow node was seen to stop."""
    boot_meanwhile: str
    """While it stopped."""
    meanwhile: dict
    """The run as the record had it then."""
    code: int
    document: dict


def reboot_slowly(rack, node):
    """Reboot a node, and look at it while it stops."""
    before = node.boot_id()
    # At first it answers as if nothing had been ordered, and then while it stops.
    node.run(["sh", "-euc", _DELAY])
    node.hold_shutdown(STOPPING)
    process = subprocess.Popen(
        rack.argv("reboot", "--limit", node.name, "--json", *_DEADLINE),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        ended_early = not _seen_stopping(node, process)
        boot = node.ssh(["cat", "/proc/sys/kernel/random/boot_id"]).stdout.strip()
        meanwhile = rack.recorded(rack.last_run(node))
        output, errors = process.communicate(timeout=_WAIT)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(60)
    assert "Traceback" not in errors, errors
    return Reboot(before, ended_early, boot, meanwhile, process.returncode, json.loads(output))


def _seen_stopping(node, process):
    deadline = time.monotonic() + _WAIT
    while process.poll() is None and time.monotonic() < deadline:
        done = node.ssh(["systemctl", "is-system-running"], timeout=60)
        if done.stdout.strip() == "stopping":
            return process.poll() is None
        time.sleep(1)
    return False


def _set_default(old, new):
    """A shell command that has another entry boot by default."""
    return f'sed -i \'s|set default="{old}"|set default="{new}"|\' {_MENU} && sync'


@dataclass(frozen=True)
class WrongKernel:
    """A reboot that ended in another kernel than the declared one."""

    old: str
    new: str
    boot_before: str
    entry: str
    """GRUB's name of what booted."""
    document: dict


def reboot_into(rack, node, old):
    """Reboot a node into its new kernel, with the menu changed to ``old`` before the order.

    The menu is right again afterwards; the kernel is not.
    """
    menu = node.run(["cat", _MENU])
    [new] = [name for name in node.run(["ls", "/lib/modules"]).split() if name != old]
    entries = {release: find_entry(menu, release) for release in (old, new)}
    assert f'set default="{entries[new]}"' in menu
    change = shlex.quote(_set_default(entries[new], entries[old]))
    drain = f"ssh -F {rack.rack.paths.ssh_config} {{host}} {shlex.quote(f'sh -c {change}')}"
    before = node.boot_id()
    options = ("--limit", node.name, "--kernel", new, "--settle", "0")
    hooks = ("--drain", drain, "--release", "false {host}")
    document = rack.patient("reboot", *options, *hooks)
    node.run(["sh", "-c", _set_default(entries[old], entries[new])])
    return WrongKernel(old, new, before, entries[old], document)


@dataclass(frozen=True)
class Away:
    """A rollout whose first node did not come back."""

    other_boot: str
    """The second node's boot before it."""
    document: dict


def reboot_for_good(rack):
    """Reboot one node after the other, the first of which stays off; it is then switched on."""
    one, two = rack.nodes
    other = two.boot_id()
    one.stay_off_at_next_reboot()
    document = rack.patient("reboot", "--all", "--waves", "1", "--wait", str(AWAY))
    one.wait_until_off(1200)
    one.power_on()
    one.wait_for_ssh()
    return Away(other, document)


def cut_power(node):
    """Cut a node's power and switch it on again: its boot before, and whether it was off."""
    before = node.boot_id()
    node.run(["sh", "-c", "echo kept > /var/tmp/kept && sync"])
    node.power_off()
    off = not node.is_on() and node.ssh(["true"], timeout=10).returncode == SSH_FAILED
    node.power_on()
    node.wait_for_ssh()
    return before, off


def states(run):
    return {one["host"]: one["state"] for one in run["hosts"]}


def events(run, kind):
    return [one["host"] for one in run["events"] if one["kind"] == kind]
