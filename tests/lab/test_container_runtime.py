"""The role container_runtime beside containers that already run, on a practice node of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hfprov.lab.rack import Rack
from hfprov.lab.state import load_state

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[2]
PLAY = """\
- hosts: accelerators
  become: true
  gather_facts: false
  roles: [limits, container_runtime]
"""
IMAGE = (
    "mkdir -p /opt/image/bin && cp $(which busybox) /opt/image/bin/ && "
    "tar -C /opt/image -c . | docker import - site >/dev/null"
)
START = (
    "docker run -d --name job --network none --device /dev/null:/dev/accel0 site "
    "/bin/busybox sleep 900"
)
OPENS = "docker exec job /bin/busybox sh -c ': < /dev/accel0 && echo opened'"


class Node:
    def __init__(self, rack, play):
        self.rack, self.play = rack, play

    def inside(self, script):
        [node] = [one for one in load_state(self.rack.paths).nodes if not one.is_service]
        done = self.rack._engine.execute(
            load_state(self.rack.paths), node, ["sh", "-euc", script], timeout=90
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def converge(self, **variables):
        """How many tasks changed something, and all that was said."""
        extra = [f"-e{name}={value}" for name, value in variables.items()]
        done = subprocess.run(
            [
                *(Path(sys.executable).with_name("ansible-playbook"), self.play),
                *("-i", self.rack.paths.inventory, *extra),
            ],
            cwd=ROOT, capture_output=True, text=True, timeout=400, check=False,
            env={
                **os.environ, "ANSIBLE_ROLES_PATH": str(ROOT / "roles"),
                "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default",
            },
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-2000:]
        return int(re.search(r"changed=(\d+)", done.stdout)[1]), done.stdout

    def reloads(self, cursor):
        """How often systemd has read its units again since a place in the journal."""
        # All lines: given a match as well, journalctl of systemd 252 passes over the first one.
        text = self.inside(
            f"journalctl --sync; journalctl -q --no-pager --after-cursor='{cursor}' -o cat"
        )
        return len(re.findall(r"^Reloading\.|^Reloading requested", text, re.MULTILINE))

    def cursor(self):
        text = self.inside("journalctl --sync; journalctl -q -n 1 --show-cursor -o cat")
        return text.rpartition("-- cursor: ")[2]


@pytest.fixture(scope="module")
def node(able_machine):  # noqa: ARG001 - skips first
    home = Path(tempfile.mkdtemp(prefix="hfprov-runtime-", dir="/var/tmp"))
    rack = Rack(home / "rack")
    try:
        rack.up(1)
        variables = rack.paths.inventory / "group_vars" / "accelerators.yml"
        kept = [
            line
            for line in variables.read_text(encoding="utf-8").splitlines()
            if not line.startswith("container_runtime_engine")
        ]
        text = "\n".join([*kept, "container_runtime_engine: docker", ""])
        variables.write_text(text, encoding="utf-8")
        play = home / "play.yml"
        play.write_text(PLAY, encoding="utf-8")
        found = Node(rack, play)
        found.inside("""mkdir -p /etc/docker; echo '{"log-opts": {"max-size": "10m"}}'"""
                     " > /etc/docker/daemon.json")  # fmt: skip
        found.converge()
        found.inside(f"{IMAGE} && {START}")
        yield found
    finally:
        rack.down()
        shutil.rmtree(home, ignore_errors=True)


def test_a_second_run_reloads_nothing_and_leaves_a_container_its_device(node):
    assert node.inside(OPENS) == "opened"
    cursor = node.cursor()
    changed, _ = node.converge()
    assert changed == 0
    assert node.reloads(cursor) == 0
    assert node.inside(OPENS) == "opened"
    # The journal would have told.
    node.inside("systemctl daemon-reload")
    assert node.reloads(cursor) == 1


def test_a_change_keeps_a_running_container_and_what_others_have_set(node):
    pid = node.inside("docker inspect -f '{{.State.Pid}}' job")
    cursor = node.cursor()
    changed, _ = node.converge(container_runtime_shm_mib=1024)
    assert changed > 0
    assert node.reloads(cursor) == 0
    assert node.inside("docker inspect -f '{{.State.Pid}}' job") == pid
    assert node.inside(OPENS) == "opened"
    shown = node.inside("docker run --rm --network none site /bin/busybox df -k /dev/shm")
    assert " 1048576 " in " ".join(shown.split())
    assert '"max-size": "10m"' in node.inside("cat /etc/docker/daemon.json")


def test_a_change_that_would_end_containers_names_them_and_waits(node):
    pid = node.inside("docker inspect -f '{{.State.Pid}}' job")
    _, said = node.converge(
        container_runtime_shm_mib=1024, container_runtime_cgroup_driver="cgroupfs"
    )
    assert "would end: job. It is not restarted" in " ".join(said.split())
    assert node.inside("docker inspect -f '{{.State.Pid}}' job") == pid
    assert node.inside("docker info -f '{{.CgroupDriver}}'") == "systemd"
