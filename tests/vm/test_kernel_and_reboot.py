"""From the distribution's kernel to the one of backports, and what reboots can come to.

One node goes through it all in the order of this file: the role and what it announces, a slow
shutdown into the new kernel, a boot loader that was changed meanwhile, a node that stays away.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hfprov.lab.vm_node import find_entry

SERIES = "6.12"
PARAMETERS = ["iommu=pt", "transparent_hugepage=never"]
HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage/enabled"
MENU = "/boot/grub/grub.cfg"
DEADLINE = ("--deadline", "900")
WAIT = 3000
ANSWERING, STOPPING = 30, 45  # seconds of a shutdown
DELAY = f"""
mkdir -p /run/systemd/logind.conf.d
printf '[Login]\\nInhibitDelayMaxSec={ANSWERING}\\n' > /run/systemd/logind.conf.d/hfprov-test.conf
systemctl restart systemd-logind
systemd-run --quiet --unit=hfprov-test-delay systemd-inhibit --what=shutdown --mode=delay \\
    --who=test --why=test sleep infinity
"""


@pytest.fixture(scope="module")
def site(vm_rack):
    """The rack, with nothing declared but a kernel; the first node is a new one afterwards."""
    with vm_rack.declaring(
        "kernel",
        kernel_stream="backports",
        kernel_version=SERIES,
        kernel_headers=False,
        kernel_parameters=PARAMETERS,
    ):
        yield vm_rack
    vm_rack.reset(vm_rack.nodes[0])


def outcomes(verdicts):
    """Outcomes by check; what is said of a check's subjects goes into one set."""
    found = {}
    for one in verdicts:
        found.setdefault(one["check"], set()).add(one["outcome"])
    return found


def recorded(site, run):
    """A run as the record has it."""
    argv = [
        Path(sys.executable).with_name("hfprov"),
        "show",
        run,
        "--db",
        site.db,
        "--json",
    ]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True)
    return json.loads(done.stdout)


def states(run):
    return {one["host"]: one["state"] for one in run["hosts"]}


def events(run, kind):
    return [one["host"] for one in run["events"] if one["kind"] == kind]


# -- the role, and what it announces ----------------------------------------------------------


@pytest.fixture(scope="module")
def upgraded(site):
    """The kernel that ran before, its boot, and what 'provision' said."""
    node = site.nodes[0]
    assert node.kernel_release().startswith("6.1.0-")
    before = node.kernel_release(), node.boot_id()
    document = site.patient("provision", "--limit", node.name)
    return before, document


def test_provision_says_that_a_reboot_is_needed_and_does_not_reboot(site, upgraded):
    (kernel, boot), document = upgraded
    assert document["plan"]["roles"] == {"node01": ["kernel"]}
    assert document["failed"] == {}
    assert "a reboot is needed" in document["reboot_needed"]["node01"]
    node = site.nodes[0]
    assert (node.kernel_release(), node.boot_id()) == (kernel, boot)
    [host] = document["hosts"]
    found = outcomes(host["verdicts"])
    assert found["kernel.default"] == {"pass"}
    assert found["kernel.running"] == {"fail"}
    assert "fail" in found["kernel.cmdline"]
    assert events(recorded(site, document["run"]), "reboot_needed") == ["node01"]


# -- A6: a slow shutdown is no reboot ---------------------------------------------------------


class Slow:
    """One 'hfprov reboot' through a shutdown that takes long, looked at while it lasts."""

    def __init__(self, site):
        node = site.nodes[0]
        self.before = node.kernel_release(), node.boot_id()
        # At first the node answers as if nothing had been ordered, and then while it stops.
        node.run(["sh", "-euc", DELAY])
        node.hold_shutdown(STOPPING)
        argv = [
            Path(sys.executable).with_name("hfprov"),
            "reboot",
            "-i",
            site.inventory,
        ]
        argv += ["--db", site.db, "--limit", node.name, "--json", *DEADLINE]
        process = subprocess.Popen(
            [str(word) for word in argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            self.ended_early = not self._stopping(node, process)
            self.meanwhile = None if self.ended_early else recorded(site, "last")
            self.boot_meanwhile = node.ssh(["cat", "/proc/sys/kernel/random/boot_id"]).stdout
            output, errors = process.communicate(timeout=WAIT)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(60)
        assert "Traceback" not in errors, errors
        self.code = process.returncode
        self.document = json.loads(output)

    @staticmethod
    def _stopping(node, process):
        """Whether the node was seen to stop before hfprov was done with it."""
        deadline = time.monotonic() + WAIT
        while process.poll() is None and time.monotonic() < deadline:
            done = node.ssh(["systemctl", "is-system-running"], timeout=60)
            if done.stdout.strip() == "stopping":
                return process.poll() is None
            time.sleep(1)
        return False


@pytest.fixture(scope="module")
def rebooted(site, upgraded):  # noqa: ARG001 - there must be something to reboot for
    return Slow(site)


def test_a_node_in_its_old_boot_is_not_rebooted_however_it_answers(rebooted):
    assert not rebooted.ended_early, rebooted.document
    assert rebooted.boot_meanwhile.strip() == rebooted.before[1]
    assert states(rebooted.meanwhile) == {"node01": "rebooting"}
    assert events(rebooted.meanwhile, "rebooted") == []


def test_it_is_back_with_a_new_boot_the_new_kernel_and_its_parameters(site, rebooted):
    document = rebooted.document
    node = site.nodes[0]
    assert rebooted.code == 0, document
    assert document["failed"] == {}
    boots = document["rebooted"]["node01"]
    assert boots["boot_id"] == [rebooted.before[1], node.boot_id()]
    assert boots["boot_id"][0] != boots["boot_id"][1]
    assert boots["kernel"] == [rebooted.before[0], node.kernel_release()]
    assert node.kernel_release().startswith(f"{SERIES}.")
    assert "[never]" in node.run(["cat", HUGE_PAGES])


def test_both_kernels_are_in_the_record_and_the_checks_have_become_good(site, rebooted):
    run = recorded(site, rebooted.document["run"])
    [said] = [one["message"] for one in run["events"] if one["kind"] == "rebooted"]
    for release in rebooted.document["rebooted"]["node01"]["kernel"]:
        assert f"'{release}'" in said
    [host] = run["hosts"]
    found = outcomes(host["phases"]["after reboot"]["verdicts"])
    for check in (
        "kernel.running",
        "kernel.cmdline",
        "kernel.default",
        "kernel.next_boot",
    ):
        assert found[check] == {"pass"}, check


# -- another kernel boots ---------------------------------------------------------------------


def in_menu(old, new):
    """A shell command that has another entry boot by default."""
    return f'sed -i \'s|set default="{old}"|set default="{new}"|\' {MENU} && sync'


@pytest.fixture(scope="module")
def wrong(site, rebooted):
    """What 'reboot' says when the menu is changed between its look and its order."""
    node = site.nodes[0]
    old, new = rebooted.document["rebooted"]["node01"]["kernel"]
    menu = node.run(["cat", MENU])
    entries = {release: find_entry(menu, release) for release in (old, new)}
    assert f'set default="{entries[new]}"' in menu
    change = shlex.quote(in_menu(entries[new], entries[old]))
    drain = f"ssh -F {site.rack.paths.ssh_config} {{host}} {shlex.quote(f'sh -c {change}')}"
    before = node.boot_id()
    options = ("--all", "--limit", node.name, "--kernel", new, "--settle", "0")
    hooks = ("--drain", drain, "--release", "false {host}")
    document = site.patient("reboot", *options, *hooks)
    node.run(["sh", "-c", in_menu(entries[old], entries[new])])
    return document, before, entries[old]


def test_another_kernel_is_a_failure_that_names_the_entry_that_won(site, wrong, rebooted):
    document, _, entry = wrong
    old, new = rebooted.document["rebooted"]["node01"]["kernel"]
    assert document["exit_code"] == 1
    problem = document["failed"]["node01"]
    assert f"It runs kernel '{old}' and not '{new}'." in problem
    assert entry in problem or entry.split(">")[-1] in problem
    # Drained, not proven: the release hook, which would fail, was not run.
    assert document["drained"] == {"node01": problem}
    assert site.nodes[0].kernel_release() == old


def test_it_was_rebooted_once_and_not_again(site, wrong):
    document, before, _ = wrong
    boots = document["rebooted"]["node01"]["boot_id"]
    assert boots[0] == before
    # The boot that was seen first is still the one that runs.
    assert site.nodes[0].boot_id() == boots[1] != before
    run = recorded(site, document["run"])
    assert events(run, "rebooted") == ["node01"]
    assert states(run) == {"node01": "failed"}


# -- a node that stays away -------------------------------------------------------------------


@pytest.fixture(scope="module")
def away(site, wrong):  # noqa: ARG001 - the menu is right again, and the kernel is not
    one, two = site.nodes
    other = two.boot_id()
    one.stay_off_at_next_reboot()
    document = site.patient("reboot", "--all", "--waves", "1", "--wait", "60")
    one.wait_until_off(1200)
    one.power_on()
    return document, other


def test_a_node_that_stays_away_stops_the_rollout(site, away):
    document, other = away
    assert document["plan"]["waves"] == [["node01"], ["node02"]]
    assert "'node01' did not come back within 60 s." in document["failed"]["node01"]
    assert "node01" in document["stopped"]
    assert document["not_attempted"] == ["node02"]
    assert document["rebooted"] == {}
    assert document["exit_code"] in (1, 3)
    run = recorded(site, document["run"])
    assert states(run)["node01"] in ("failed", "unreachable")
    assert states(run)["node02"] == "not_attempted"
    assert site.nodes[1].boot_id() == other


def test_switched_on_again_it_is_what_it_should_be(site, away):  # noqa: ARG001 - it was away
    node = site.nodes[0]
    node.wait_for_ssh()
    assert node.kernel_release().startswith(f"{SERIES}.")
    document = site.patient("drift", "--limit", node.name)
    found = outcomes(document["hosts"][0]["verdicts"])
    assert found["kernel.running"] == {"pass"}
    assert found["kernel.cmdline"] == {"pass"}
