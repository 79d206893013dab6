"""``hfprov container-smoke`` with Docker on two practice nodes, and the certificates that need it.

The image is made of the node's own Python, and handed to its Docker: no registry is asked.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import yaml

from hfprov.container_smoke.judge import DEVICES, IMAGE, NODES, RESULT, START
from hfprov.lab.rack import Rack
from hfprov.record.store import Record
from tests.lab.conftest import Site

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(1200)]
ROOT = Path(__file__).parents[2]
HOSTS = ("node01", "node02")
PLAY = """\
- hosts: accelerators
  become: true
  gather_facts: false
  roles: [limits, container_runtime]
"""
PROFILES = """\
smoked: {title: t, require: [node.identity], validity_hours: 1, container_smoke: {max_age_hours: 1}}
"""
TREE = """
mkdir -p /opt/smoke/usr/bin /opt/smoke/usr/lib
python=$(readlink -f /usr/bin/python3)
cp $python /opt/smoke/usr/bin/python3
cp -a /usr/lib/python3* /opt/smoke/usr/lib/
for one in $python /usr/lib/python3*/lib-dynload/*.so; do ldd $one || :; done |
  grep -o '/[^ ]*' | grep -v ':$' | sort -u |
  while read -r library; do
    mkdir -p /opt/smoke$(dirname $library)
    cp -L $library /opt/smoke$library
  done
rm -f /opt/smoke/usr/lib/python3*/sitecustomize.py"""
# Python runs this before the program, as a faulty library or a made-up image would.
SABOTAGED = {
    "good": "",
    "wrong": "import builtins; s = builtins.sum; builtins.sum = lambda all: s(all) + 1",
    "silent": "import os; os._exit(0)",
    "hanging": "import time; time.sleep(900)",
    "boasting": "import os; os.write(1, b'SUCCESS: every device computed right'); os._exit(0)",
}
ADD = """
for lib in /opt/smoke/usr/lib/python3.*; do echo "{text}" > $lib/sitecustomize.py; done
tar -C /opt/smoke -c . | docker import - smoke:{name} >/dev/null"""
ABSENT = "site/absent@sha256:" + "0" * 64


class SmokeSite(Site):
    """The rack with Docker and images; what is declared can be changed for a while."""

    def declare(self, **values):
        path = self.inventory / "group_vars" / "accelerators.yml"
        known = yaml.safe_load(path.read_text(encoding="utf-8"))
        path.write_text(yaml.safe_dump(known | values), encoding="utf-8")

    def smoke(self, *options):
        done = self.hfprov("container-smoke", "--json", "--wait", "20", *options)
        return done.code, {
            host["host"]: {one["check"]: one["outcome"] for one in host["verdicts"]}
            for host in done.document["hosts"]
        }

    def certify(self):
        """Exit code, and by host what blocks."""
        profiles = self.db.with_name("profiles.yml")
        profiles.write_text(PROFILES, encoding="utf-8")
        done = self.hfprov("certify", "--json", "--profiles", profiles, "--profile", "smoked")
        blocked = {
            host: {(one["check"], one["outcome"]) for one in found}
            for host, found in done.document["blockers"].items()
        }
        assert set(done.document["certificates"]) == set(HOSTS) - set(blocked)
        return done.code, blocked, done.document["certificates"]

    def containers(self, name):
        return self.inside(name, "docker ps --all --quiet").split()


@pytest.fixture(scope="module")
def built(able_machine):  # noqa: ARG001 - skips first
    home = Path(tempfile.mkdtemp(prefix="hfprov-smoke-", dir="/var/tmp"))
    rack = Rack(home / "rack")
    try:
        rack.up(len(HOSTS))
        site = SmokeSite(rack, home / "record.db")
        site.declare(container_runtime_engine="docker", node_container_smoke_image="smoke:good")
        play = home / "play.yml"
        play.write_text(PLAY, encoding="utf-8")
        subprocess.run(
            [Path(sys.executable).with_name("ansible-playbook"), play, "-i", rack.paths.inventory],
            cwd=ROOT, env={**os.environ, "ANSIBLE_ROLES_PATH": str(ROOT / "roles")},
            check=True, capture_output=True, timeout=600,
        )  # fmt: skip
        images = TREE + "".join(
            ADD.format(text=text, name=name) for name, text in SABOTAGED.items()
        )
        for name in HOSTS:
            site.inside(name, images, timeout=300)
        yield site
    finally:
        rack.down()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def site(built):
    """The rack as it was built, with a fresh record; nothing of ours may be left on a node."""
    home = Path(tempfile.mkdtemp(prefix="hfprov-record-", dir="/var/tmp"))
    variables = built.inventory / "group_vars" / "accelerators.yml"
    text = variables.read_text(encoding="utf-8")
    try:
        yield SmokeSite(built.rack, home / "record.db")
        assert [built.containers(name) for name in HOSTS] == [[], []]
    finally:
        variables.write_text(text, encoding="utf-8")
        shutil.rmtree(home, ignore_errors=True)


def test_nodes_that_compute_right_and_find_each_other_are_certified(site):
    code, blocked, _ = site.certify()
    assert (code, blocked["node01"]) == (1, {("container_smoke", "absent")})
    # By what is in them: made on each node, the images have ids of their own.
    hosts = site.inventory / "host_vars"
    hosts.mkdir(exist_ok=True)
    ids = {}
    try:
        for name in HOSTS:
            ids[name] = site.inside(name, "docker image inspect -f '{{.Id}}' smoke:good").strip()
            (hosts / f"{name}.yml").write_text(f"node_container_smoke_image: '{ids[name]}'\n")
        code, found = site.smoke()
        assert (code, found["node01"], found["node02"]) == (
            0, *[dict.fromkeys((START, IMAGE, DEVICES, RESULT, NODES), "pass")] * 2,
        )  # fmt: skip
        code, blocked, issued = site.certify()
    finally:
        shutil.rmtree(hosts)
    assert (code, blocked) == (0, {})
    told = issued["node02"]["container_smoke"]
    assert (told["image_id"], told["nodes"]) == (ids["node02"], list(HOSTS))
    with Record.open(site.db) as record:
        values = {one.test: one.value for one in record.measurements("node01")}
    assert values == {"container smoke devices": os.cpu_count(), "container smoke nodes": 2}
    # Another image is declared again, and was never tried.
    assert site.certify()[0] == 3


def test_a_name_by_tag_is_a_warning_and_the_certificate_says_what_it_was(site):
    code, found = site.smoke()
    assert (code, found["node01"][IMAGE]) == (0, "warn")
    _, blocked, issued = site.certify()
    assert blocked == {}
    assert issued["node01"]["container_smoke"]["image_id"].startswith("sha256:")


@pytest.mark.parametrize(
    ("declared", "code", "outcomes"),
    [
        ({"node_container_smoke_image": "smoke:wrong"}, 1, {RESULT: "fail", NODES: "fail"}),
        (
            {"node_container_smoke_image": "smoke:silent"},
            3,
            {DEVICES: "unknown", RESULT: "unknown"},
        ),
        ({"node_container_smoke_image": "smoke:boasting"}, 3, {DEVICES: "unknown"}),
        ({"node_container_smoke_image": ABSENT}, 3, {IMAGE: "unknown", START: "unknown"}),
        ({"node_container_smoke_cpus": 4096}, 1, {DEVICES: "fail", RESULT: "pass"}),
        ({"node_container_smoke_python": "no-such-python"}, 3, {START: "fail", NODES: "unknown"}),
    ],
)
def test_whatever_is_not_right_blocks(site, declared, code, outcomes):
    assert site.smoke()[0] == 0
    assert site.certify()[0] == 0
    site.declare(**declared)
    done, found = site.smoke()
    assert done == code
    for name in HOSTS:
        assert outcomes.items() <= found[name].items()
    assert site.hfprov("certificates", "--json").document["certificates"][0]["revoke_reason"]
    done, blocked, _ = site.certify()
    assert done != 0
    bad = {(check, outcome) for check, outcome in outcomes.items() if outcome != "pass"}
    assert all(bad <= blocked[name] for name in HOSTS)


@pytest.mark.parametrize(
    ("break_it", "mend"),
    [
        ("iptables -I INPUT -i eth1 -j DROP", "iptables -D INPUT -i eth1 -j DROP"),
        ("ip link set eth1 down", "ip link set eth1 up"),
    ],
    ids=["firewall", "interface"],
)
def test_a_node_that_others_do_not_find_blocks(site, break_it, mend):
    site.inside("node02", break_it)
    try:
        code, found = site.smoke()
    finally:
        site.inside("node02", mend)
    assert (code, found["node02"][NODES], found["node02"][RESULT]) == (1, "fail", "pass")
    _, blocked, _ = site.certify()
    assert (NODES, "fail") in blocked["node02"]


def test_a_runtime_that_does_not_answer_is_that_nodes_own_fault(site):
    site.inside("node02", "systemctl stop docker.socket docker.service")
    try:
        code, found = site.smoke()
    finally:
        site.inside("node02", "systemctl start docker.service")
    assert (code, found["node02"][START], found["node02"][NODES]) == (3, "fail", "unknown")
    assert (found["node01"][START], found["node01"][NODES]) == ("pass", "warn")
    _, blocked, issued = site.certify()
    assert (set(blocked), set(issued)) == ({"node02"}, {"node01"})


def test_nodes_that_were_only_tested_one_by_one_are_not_certified_together(site):
    for name in HOSTS:
        assert site.smoke("--limit", name)[0] == 0
    code, blocked, _ = site.certify()
    assert (code, blocked) == (3, {name: {(NODES, "unknown")} for name in HOSTS})


def test_without_a_runtime_it_is_not_required_and_that_is_said(site):
    site.declare(container_runtime_engine="none")
    code, found = site.smoke()
    assert (code, found["node01"]) == (4, {"container_smoke.made": "not_applicable"})
    code, _, issued = site.certify()
    assert code == 0
    assert "no runtime declared" in issued["node01"]["container_smoke"]["reason"]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "crash"])
def test_a_controller_that_goes_leaves_no_container(site, how):
    site.declare(node_container_smoke_image="smoke:hanging")
    running = site.start("container-smoke")
    site.until(lambda: all(site.containers(name) for name in HOSTS))
    running.send_signal(how)
    running.communicate(timeout=60)
    assert running.returncode == (130 if how == signal.SIGINT else -how)
    site.until(lambda: not any(site.containers(name) for name in HOSTS))
