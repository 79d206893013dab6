"""The role with Debian's real packages of NVIDIA's driver, built for a kernel that does not run.

Takes about ten minutes of CPU and 400 MB of downloads, so that it is not part of 'make test': 'make
test-driver' runs it. Needs root, a mirror of Debian with non-free, and what practice nodes need.
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

from hfprov.lab.rack import Rack

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.lab,
    pytest.mark.slow,
    pytest.mark.skipif(
        "HFPROV_TEST_DRIVER" not in os.environ, reason="it is 'make test-driver' that runs it"
    ),
]


@dataclass(frozen=True)
class Site:
    """One node that is given the packages, and how the role's first run on it ended."""

    rack: Rack
    version: str
    kernel: str

    def on_node(self, script, *, stdin=None, timeout=120):
        done = subprocess.run(
            ["ssh", "-F", self.rack.paths.ssh_config, "node01", script],
            stdin=stdin, capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def converge(self, play):
        variables = {
            "accelerator_vendor": "nvidia",
            "node_sku": "",
            "accelerator_driver_version": self.version,
            "accelerator_target_kernel": self.kernel,
        }
        extra = play.with_name("vars.yml")
        extra.write_text(yaml.safe_dump(variables))
        done = subprocess.run(
            [
                Path(sys.executable).with_name("ansible-playbook"), play,
                "-i", self.rack.paths.inventory, "-e", f"@{extra}",
            ],
            cwd=ROOT,
            env={**os.environ, "ANSIBLE_ROLES_PATH": str(ROOT / "roles"),
                 "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default"},
            capture_output=True, text=True, timeout=3600, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-4000:]
        return int(re.findall(r"changed=(\d+)", done.stdout)[0])


@pytest.fixture(scope="module")
def home():
    folder = Path(tempfile.mkdtemp(prefix="hfprov-driver-", dir="/var/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def play(home):
    path = home / "play.yml"
    roles = [{"hosts": "node01", "become": True, "gather_facts": False, "roles": ["accelerator"]}]
    path.write_text(yaml.safe_dump(roles))
    return path


@pytest.fixture(scope="module")
def site(home):
    """The node with the repository, before anything is installed."""
    rack = Rack(home / "rack")
    try:
        rack.up(1)
        started = Site(rack, "", "")
        (home / "status").write_text(started.on_node("cat /var/lib/dpkg/status"))
        told = subprocess.run(
            ["sh", Path(__file__).with_name("download.sh"), home / "debs", home / "status"],
            stdout=subprocess.PIPE, text=True, timeout=1800, check=True,
        ).stdout  # fmt: skip
        version, kernel = told.split()[-2:]
        with subprocess.Popen(
            ["tar", "-C", home / "debs", "-c", "."], stdout=subprocess.PIPE
        ) as packed:
            started.on_node(
                "mkdir -p /srv/driver && tar -C /srv/driver -x", stdin=packed.stdout, timeout=600
            )
        started.on_node(
            "echo 'deb [trusted=yes] file:/srv/driver ./' > /etc/apt/sources.list.d/driver.list && "
            "apt-get -q update && apt-get -q -y --no-install-recommends install "
            f"unattended-upgrades hfprov-witness=0.1-1 && mkdir -p /lib/modules/{kernel}"
        )
        yield Site(rack, version, kernel)
    finally:
        rack.down()


@pytest.fixture(scope="module")
def installed(site, play):
    assert site.converge(play) > 0
    return site


def driver_packages(site):
    text = site.on_node("dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\\n'")
    rows = [line.split() for line in text.splitlines()]
    # glx-alternative-nvidia only keeps links in order, for whichever driver there is.
    ours = ("nvidia-", "libnvidia-", "firmware-nvidia-", "libcuda1")
    return {row[0]: tuple(row[1:]) for row in rows if row[0].startswith(ours)}


def test_the_modules_are_there_for_a_kernel_that_does_not_run(installed):
    kernel = installed.kernel
    assert installed.on_node("uname -r").strip() != kernel
    files = installed.on_node(f"ls /lib/modules/{kernel}/updates/dkms").split()
    assert {"nvidia-current.ko", "nvidia-current-uvm.ko"} <= {
        re.sub(r"\.(xz|zst|gz)$", "", name) for name in files
    }
    said = installed.on_node(f"modinfo -k {kernel} -F vermagic nvidia-current").split()
    assert said[0] == kernel
    version = installed.on_node(f"modinfo -k {kernel} -F version nvidia-current").strip()
    assert version == installed.version
    assert "installed" in installed.on_node(f"dkms status -k {kernel}")


def test_every_package_is_of_the_declared_version_and_held(installed):
    found = driver_packages(installed)
    assert {"nvidia-kernel-dkms", "nvidia-smi", "libnvidia-ml1", "libcuda1"} <= set(found)
    assert {name for name, (_, state) in found.items() if state != "hi"} == set()
    assert found["libcuda1"][0].startswith(f"{installed.version}-")


def test_a_second_run_changes_nothing(installed, play):
    assert installed.converge(play) == 0


def test_unattended_upgrades_leave_the_driver_alone(installed):
    before = driver_packages(installed)
    installed.on_node(
        "echo 'Unattended-Upgrade::Origins-Pattern { \"origin=hfprov-test\"; };' "
        "> /etc/apt/apt.conf.d/99test && apt-get -q update && unattended-upgrade -v",
        timeout=600,
    )
    assert driver_packages(installed) == before
    witness = installed.on_node("dpkg-query -W -f '${Version}' hfprov-witness")
    assert witness == "999.0-1", "the upgrade did not run, so that it shows nothing"
