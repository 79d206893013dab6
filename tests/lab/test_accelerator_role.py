"""The role 'accelerator' on a node with packages that stand in for NVIDIA's driver.

No GPU is needed: the packages have the names, versions and relations of Debian's, and DKMS is a
stand-in that builds at once. apt, dpkg, unattended-upgrade, systemd and initramfs-tools are real.
HFPROV_TEST_ACCELERATOR_RACK names a rack that is up already and stays up: for writing tests.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from hfprov.baseline import Baseline, Value
from hfprov.inventory import load
from hfprov.judge import judge, reads_for
from hfprov.lab.rack import Rack
from hfprov.observe import observe
from hfprov.verdict import Outcome

# The first test waits for the node, an initramfs and the first run of the role.
pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(1200)]
ROOT = Path(__file__).parents[2]
KERNEL, NEW_KERNEL = "6.1.0-98-amd64", "6.12.0-99-amd64"
DECLARED = {"node_sku": "l40s-8", "accelerator_driver_version": "535.161.08"}
MUTATIONS = yaml.safe_load(Path(__file__).with_name("accelerator_mutations.yml").read_text())
UNPROVOKED = {
    "driver.vendor": "the declaration, not the node; tests/unit/checks/driver/test_driver.py",
    "driver.loaded": "the kernel is the machine's; tests/unit/checks/driver/test_driver.py",
    "driver.nouveau": "the kernel is the machine's; unit/checks/driver/test_driver_kernel.py",
    "driver.gpudirect": "the kernel is the machine's; unit/checks/driver/test_driver_kernel.py",
    "driver.installer": "another vendor's; tests/unit/checks/driver/test_driver.py",
    "driver.firmware": "another vendor's; tests/unit/checks/driver/test_driver.py",
}


@dataclass(frozen=True)
class Gpu:
    """One node that is to have a driver."""

    rack: Rack

    def run(self, script, *, stdin="", timeout=180):
        done = subprocess.run(
            ["ssh", "-F", self.rack.paths.ssh_config, "node01", script],
            input=stdin, capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    def play(self, *options, **changes):
        """Run the role; how it ended and what it printed."""
        folder = self.rack.paths.inventory.parent
        playbook, variables = folder / "accelerator.yml", folder / "accelerator-vars.yml"
        playbook.write_text(
            yaml.safe_dump([{"hosts": "node01", "become": True, "gather_facts": False,
                             "roles": ["accelerator"]}])
        )  # fmt: skip
        variables.write_text(yaml.safe_dump(DECLARED | changes))
        return subprocess.run(
            [Path(sys.executable).with_name("ansible-playbook"), playbook, *options,
             "-i", self.rack.paths.inventory, "-e", f"@{variables}"],
            cwd=ROOT,
            env={**os.environ, "ANSIBLE_ROLES_PATH": str(ROOT / "roles"),
                 "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default"},
            capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip

    def converge(self, *options, **changes):
        """How many tasks changed the node, or would."""
        done = self.play(*options, **changes)
        assert done.returncode == 0, done.stdout[-3000:]
        return int(re.findall(r"changed=(\d+)", done.stdout)[0])

    def bad(self, **changes):
        """Verdicts of the role's checks that do not pass, seen and judged now."""
        values = yaml.safe_load((ROOT / "roles/accelerator/defaults/main.yml").read_text())
        values |= DECLARED | changes
        named = {name: Value(value, "") for name, value in values.items()}
        base = Baseline("node01", ("accelerator",), named)
        (host,) = load((self.rack.paths.inventory,), limit="node01").hosts
        answer = observe(host.connection, reads_for(base))
        assert answer.observation is not None, answer.error
        found = [one for one in judge(answer.observation, base) if one.check.startswith("driver.")]
        assert found
        bad = (Outcome.FAIL, Outcome.UNKNOWN)
        return [one for one in found if one.outcome in bad]

    def bad_checks(self, **changes):
        return {one.check for one in self.bad(**changes)}


@pytest.fixture(scope="module")
def gpu(able_machine):  # noqa: ARG001 - skips first
    """The node at its baseline."""
    given = os.environ.get("HFPROV_TEST_ACCELERATOR_RACK")
    home = Path(tempfile.mkdtemp(prefix="hfprov-gpu-", dir="/var/tmp"))
    rack = Rack(given or home / "rack")
    try:
        rack.up(1)
        node = Gpu(rack)
        script = Path(__file__).with_name("fake_driver.sh").read_text()
        node.run("test -e /srv/fake-driver/Release || sh -s /srv/fake-driver", stdin=script)
        node.run(
            "apt-get -qq -y --no-install-recommends install unattended-upgrades "
            "initramfs-tools >/dev/null 2>&1; apt-get -qq -y install "
            f"linux-image-{KERNEL} hfprov-witness=535.161.08-1 --allow-downgrades >/dev/null 2>&1; "
            f"test -e /boot/initrd.img-{KERNEL} || update-initramfs -c -k {KERNEL} 2>/dev/null"
        )
        assert node.converge() > 0 or given
        yield node
    finally:
        if not given:
            rack.down()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def whole(gpu):
    """The same; what a test breaks is mended by the role and, where that must not, by hand."""
    assert gpu.bad() == []
    yield gpu
    gpu.run(
        "rm -rf /etc/apt/apt.conf.d/99* /etc/fake-dkms-fails-for; apt-get -qq -y purge "
        f"linux-image-{NEW_KERNEL} linux-headers-{NEW_KERNEL} >/dev/null 2>&1; "
        f"rm -rf /lib/modules/{NEW_KERNEL} /boot/*{NEW_KERNEL}; dpkg --configure -a >/dev/null"
    )
    gpu.converge()


def test_a_second_run_changes_nothing(gpu):
    assert gpu.converge() == 0
    assert gpu.converge("--check") == 0


def test_every_check_is_provoked_or_says_where(able_machine):  # noqa: ARG001 - see gpu
    from hfprov.checks.registry import all_checks  # noqa: PLC0415 - costs an import of everything

    ours = {one.id for one in all_checks() if one.role == "accelerator"}
    assert ours - {one["seen_by"] for one in MUTATIONS} == set(UNPROVOKED)


ROUNDS = sorted({one["round"] for one in MUTATIONS if one["round"] != "by hand"})


def apply(gpu, mutation):
    """Break one effect; the check that sees it must say something that it did not say before."""
    before = gpu.bad()
    gpu.run(mutation["how"])
    new = [one for one in gpu.bad() if one not in before]
    assert mutation["seen_by"] in {one.check for one in new}, mutation["what"]


@pytest.mark.parametrize("number", ROUNDS)
def test_mutations_are_found_and_repaired(whole, number):
    """Each is found by itself; one run makes all good, and a check run foretells it."""
    for mutation in (one for one in MUTATIONS if one["round"] == number):
        apply(whole, mutation)
    assert whole.converge("--check") > 0
    assert whole.converge() > 0
    assert whole.bad() == []
    assert whole.converge() == 0


@pytest.mark.parametrize(
    "mutation",
    [one for one in MUTATIONS if one["round"] == "by hand"],
    ids=lambda one: one["what"].replace(" ", "_"),
)
def test_what_the_role_leaves_to_a_person_is_found(whole, mutation):
    apply(whole, mutation)


# A2: unattended upgrades replace libraries under the loaded module


def test_unattended_upgrade_leaves_the_driver_alone(whole):
    allow = 'Unattended-Upgrade::Origins-Pattern { "origin=hfprov-test"; };'
    whole.run(f"printf '%s\\n' '{allow}' > /etc/apt/apt.conf.d/99test && unattended-upgrade -v")
    witness = whole.run("dpkg-query -W -f '${Version}' hfprov-witness")
    assert witness == "535.183.01-1", "the upgrade did not run, so that it shows nothing"
    whole.run("apt-get -qq -y --allow-downgrades install hfprov-witness=535.161.08-1 >/dev/null")
    assert whole.bad() == []


def test_without_hold_and_pin_the_exclusion_alone_keeps_unattended_upgrades_away(whole):
    allow = 'Unattended-Upgrade::Origins-Pattern { "origin=hfprov-test"; };'
    whole.run(
        "apt-mark -qq unhold '.*nvidia.*' libcuda1; rm /etc/apt/preferences.d/90-hfprov*; "
        f"printf '%s\\n' '{allow}' > /etc/apt/apt.conf.d/99test && unattended-upgrade"
    )
    assert whole.bad_checks() == {"driver.hold", "driver.files"}


def test_an_upgrade_by_hand_is_kept_away_by_the_hold(whole):
    whole.run("apt-get -qq -y dist-upgrade >/dev/null 2>&1")
    assert whole.bad() == []
    whole.run("apt-get -qq -y --allow-downgrades install hfprov-witness=535.161.08-1 >/dev/null")


# A7: the driver is built for a kernel that does not run


def test_a_kernel_update_that_breaks_the_driver_is_found_before_the_reboot(whole):
    whole.run(
        f"mkdir -p /etc/fake-dkms-fails-for && touch /etc/fake-dkms-fails-for/{NEW_KERNEL} && "
        f"apt-get -qq -y install linux-headers-{NEW_KERNEL} linux-image-{NEW_KERNEL} 2>&1"
    )
    [verdict] = [one for one in whole.bad() if one.check == "driver.target_kernel"]
    assert verdict.subject == NEW_KERNEL
    assert f"it is there for '{KERNEL}'" in verdict.finding.observed
    done = whole.play()
    assert done.returncode == 2
    assert f"does not build for kernel {NEW_KERNEL}" in " ".join(done.stdout.split())
    assert "has no member named" in done.stdout, "the end of make.log is not shown"
    # The kernel that ran before is left as it was.
    assert whole.run(f"ls /lib/modules/{KERNEL}/updates/dkms").split() == ["nvidia-current.ko"]


def test_a_driver_that_does_not_build_at_all_is_said_with_its_log(whole):
    whole.run(f"mkdir -p /etc/fake-dkms-fails-for && touch /etc/fake-dkms-fails-for/{KERNEL}")
    done = whole.play(accelerator_driver_version="535.183.01")
    assert done.returncode == 2
    assert "could not be installed" in done.stdout
    assert "has no member named" in done.stdout
    assert "driver.packages" in whole.bad_checks()
    whole.run("rm -r /etc/fake-dkms-fails-for")
    assert whole.converge() > 0
    assert whole.bad() == []


# Declarations


def test_another_version_is_another_driver_and_the_way_back_too(whole):
    assert whole.converge(accelerator_driver_version="535.183.01") > 0
    assert whole.bad(accelerator_driver_version="535.183.01") == []
    found = whole.run(f"modinfo -k {KERNEL} -F version nvidia-current").strip()
    assert found == "535.183.01"
    assert "driver.packages" in whole.bad_checks()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"accelerator_driver_version": ""}, "is not declared"),
        ({"accelerator_driver_version": "latest"}, "which is no version"),
        ({"accelerator_driver_version": "535.1.1"}, "No repository of this node has"),
        ({"accelerator_vendor": "amd"}, "is not what the machine 'l40s-8' has"),
        (
            {"node_sku": "gb200-nvl72-tray", "accelerator_kernel_module": "proprietary"},
            "is not what",
        ),
        ({"node_sku": "hgx-h100-9"}, "the catalogue has no such machine"),
        ({"accelerator_site_repository": "http://192.0.2.1/"}, "needs a public key"),
        ({"accelerator_target_kernel": "5.4.0-1"}, "no such kernel"),
        (
            {"node_sku": "atlas-800t-a2", "accelerator_installer": "http://192.0.2.1/a.run"},
            "checksum",
        ),
    ],
)
def test_what_must_not_be_done_is_refused(gpu, changes, said):
    done = gpu.play(**changes)
    assert done.returncode == 2
    assert said in " ".join(done.stdout.split())
    if "535.1.1" in changes.values():
        gpu.converge()


def test_a_node_that_nobody_declared_gets_no_driver_and_cannot_pass(gpu):
    done = gpu.play(node_sku="", accelerator_driver_version="")
    assert done.returncode == 0
    assert "Nobody declared what this node is" in " ".join(done.stdout.split())
    assert "driver.vendor" in gpu.bad_checks(node_sku="", accelerator_driver_version="")
    gpu.converge()


def test_a_node_without_accelerators_loses_the_roles_files(gpu):
    assert gpu.converge(node_sku="none") > 0
    assert gpu.bad(node_sku="none") == []
    assert gpu.converge(node_sku="none") == 0
    gpu.converge()
    assert gpu.bad() == []
