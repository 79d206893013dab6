"""Each effect of each role, broken by hand on a practice node, is found; and the role repairs it.

Needs a practice rack of its own, converged by playbooks/provision.yml, whose first two nodes have
one network configuration each: HFPROV_TEST_RACK names its directory. For the role 'kernel' such a
rack is given small kernels and a boot menu, and variables that declare one of them.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hfprov.baseline import Baseline, Value
from hfprov.declare.connection import Connection
from hfprov.inventory import load
from hfprov.judge import judge, reads_for
from hfprov.observe import observe
from hfprov.verdict import Outcome

ROOT = Path(__file__).parents[2]
RACK = Path(os.environ.get("HFPROV_TEST_RACK", "/nonexistent"))
MUTATIONS = yaml.safe_load(Path(__file__).with_name("roles_mutations.yml").read_text())
BAD = {Outcome.FAIL, Outcome.UNKNOWN}
GROUPS = {
    "kernel": "kernel.",
    "limits": "limits.",
    "jumbo_mtu": "mtu.",
    "irq_affinity": "irq.",
    "time_sync": "time.",
    "performance": "performance.",
    "comm_library": "comm_library.",
    "diagnostics_tools": "tools.",
    "container_runtime": "container_runtime.",
    "hardening": "hardening.",
    "rdma": "rdma.",
}
CASES = [
    pytest.param(role, mutation, id=f"{role}-{mutation['what'].replace(' ', '_')}")
    for role, mutations in MUTATIONS.items()
    for mutation in mutations
]
ROUNDS = sorted(
    {
        (role, one["round"])
        for role, mutations in MUTATIONS.items()
        for one in mutations
        if one["round"] != "by hand"
    }
)
pytestmark = [
    pytest.mark.lab,
    pytest.mark.slow,
    pytest.mark.skipif(not RACK.is_dir(), reason="HFPROV_TEST_RACK names no practice rack"),
]


def on_node(node: str, *argv: str, stdin: str = "") -> str:
    done = subprocess.run(
        ["ssh", "-F", RACK / "ssh" / "config", node, *argv],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def stack_of(node: str) -> str:
    """What configures the node's data interface."""
    found = on_node(node, "ls /etc/network/interfaces.d/eth1 2>/dev/null || true").strip()
    return "ifupdown" if found else "networkd"


def node_with(stack: str) -> str:
    """The first node whose data interface is configured by this stack."""
    for node in ("node01", "node02"):
        if stack_of(node) == stack:
            return node
    pytest.fail(f"The rack has no node with '{stack}'.")


def baseline() -> Baseline:
    values = {}
    for role in GROUPS:
        values |= yaml.safe_load((ROOT / "roles" / role / "defaults" / "main.yml").read_text())
    values |= yaml.safe_load((RACK / "inventory/group_vars/accelerators.yml").read_text())
    # Defaults that are those of another role, as Ansible resolves them.
    for name in ("memlock_kib", "nofile", "nproc", "stack_kib"):
        values[f"container_runtime_{name}"] = values[f"limits_{name}"]
    return Baseline("node", tuple(GROUPS), {name: Value(v, "") for name, v in values.items()})


def engine() -> str:
    """The container engine that the rack declares."""
    return str(baseline()["container_runtime_engine"])


@functools.cache
def connections() -> dict[str, Connection]:
    """How the nodes of the rack are reached."""
    return {host.name: host.connection for host in load((RACK / "inventory",)).hosts}


def bad_checks(node: str, role: str) -> set[str]:
    """Ids of the role's checks that do not pass on a node, seen and judged now."""
    base = baseline()
    answer = observe(connections()[node], reads_for(base))
    assert answer.observation is not None, answer.error
    verdicts = [
        one for one in judge(answer.observation, base) if one.check.startswith(GROUPS[role])
    ]
    assert verdicts
    return {one.check for one in verdicts if one.outcome in BAD}


def converge(nodes: set[str], role: str, *options: str) -> dict[str, int]:
    """Run one role; by node, how many tasks changed it or would."""
    done = subprocess.run(
        [
            Path(sys.executable).with_name("ansible-playbook"),
            ROOT / "playbooks/provision.yml",
            *("-i", RACK / "inventory", "--limit", ",".join(nodes), "--tags", role),
            *options,
        ],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default"},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    recap = done.stdout.split("PLAY RECAP")[1]
    found = re.findall(r"^(\S+)\s*:.*?changed=(\d+)", recap, flags=re.MULTILINE)
    assert {node for node, _ in found} == nodes
    return {node: int(count) for node, count in found}


PLACES = (
    "etc/security etc/systemd etc/chrony etc/default etc/network "
    "etc/sysctl.d etc/sysctl.conf etc/ufw etc/nccl.conf etc/rccl.conf etc/ucx etc/profile.d "
    "etc/environment root/.nccl.conf root/.profile home usr/share/modules opt/modulefiles "
    "etc/modules-load.d etc/udev etc/ssh etc/modprobe.d etc/apt etc/fstab etc/audit etc/hfprov "
    "etc/docker etc/netplan etc/enroot etc/pam.d var/lib/hfprov/container_runtime.json "
    "usr/local/lib/hfprov etc/udev/rules.d/90-hfprov-irq-affinity.rules"
)
SNAPSHOT = f"cd / && tar -cpf /run/before.tar {PLACES} 2>/dev/null; test -s /run/before.tar"
RESTORE_FILES = f"cd / && rm -rf {PLACES} && tar -xpf /run/before.tar && systemctl daemon-reload\n"
KERNEL_PLACES = "boot var/lib/dpkg usr/lib/modules usr/src"
KERNEL_VARIABLES = """\
kernel_in_containers: true
kernel_version: 6.1.153-1
kernel_parameters: [iommu=pt, pci=realloc=off]
"""
RESTORE = {
    "kernel": (
        f"cd / && rm -rf {KERNEL_PLACES} var/lib/hfprov-dkms etc/initramfs-tools && "
        "tar -xpf /srv/hfprov-kernels/baseline.tar"
    ),
    "limits": (
        "taskset -cp 0-1023 1 >/dev/null; systemctl kill -s HUP systemd-logind; "
        "systemctl restart ssh"
    ),
    "jumbo_mtu": (
        "systemctl stop hfprov-mtu-guard.timer 2>/dev/null; networkctl reload; "
        "mine=$(ip -o -4 addr show dev eth1 | awk '{print $4}'); "
        'test -z "$mine" || ip addr del $mine dev eth0 2>/dev/null; ip addr flush dev eth1; '
        "networkctl reconfigure eth1 2>/dev/null; "
        "test ! -e /etc/network/interfaces.d/eth1 || ifup --force eth1; "
        "ip link set eth1 mtu 9000; sysctl -q -w net.ipv6.conf.eth1.mtu=9000; "
        "ip route flush 198.51.100.0/24; sleep 0.5"
    ),
    "irq_affinity": (
        "test -x /usr/sbin/ethtool || apt-get -qq -y install ethtool >/dev/null; "
        "systemctl reset-failed"
    ),
    "time_sync": (
        "systemctl unmask --runtime chrony; systemctl restart chrony && "
        "chronyc waitsync 30 0 0 0.2 >/dev/null"
    ),
    "performance": "/usr/lib/systemd/systemd-sysctl --prefix=/net/ipv4",
    "comm_library": "true",
    "diagnostics_tools": (
        "for kept in /usr/bin/*.kept /usr/lib/*/*.kept; do "
        "[ ! -e $kept ] || mv -f $kept ${kept%.kept}; done; rm -f /usr/local/bin/ethtool; "
        "dpkg-query -W -f '${db:Status-Status}' numactl | grep -q ^inst || "
        "apt-get -qq -y install numactl >/dev/null; "
        "systemctl stop iperf3 nvmf-autoconnect; systemctl reset-failed"
    ),
    "rdma": (
        "rm -rf /run/v /run/v.deb; dpkg -P mlnx-ofed-kernel-modules 2>/dev/null; "
        "dpkg-query -W -f '${db:Status-Status}' ibverbs-utils | grep -q ^inst || "
        "apt-get -qq -y install ibverbs-utils >/dev/null"
    ),
    "container_runtime": (
        "[ ! -e /usr/bin/docker.kept ] || mv -f /usr/bin/docker.kept /usr/bin/docker; "
        "rm -f /usr/local/sbin/runc; systemctl start containerd; "
        "dpkg-query -W -f '${db:Status-Status}' docker.io | grep -q ^inst || "
        "apt-get -qq -y install docker.io >/dev/null; systemctl reset-failed docker; "
        "sleep 0.1; systemctl restart docker"
    ),
    "hardening": (
        "rm -f /etc/cron.d/site /var/lib/apt/lists/site_Release; "
        "systemctl stop hfprov-guard.timer 2>/dev/null; "
        "nft delete table inet hfprov_management 2>/dev/null; "
        "dpkg-query -W -f '${db:Status-Status}' unattended-upgrades | grep -q ^inst || "
        "apt-get -qq -y install unattended-upgrades >/dev/null; "
        "systemctl start apt-daily.timer apt-daily-upgrade.timer; "
        "/usr/lib/systemd/systemd-sysctl --prefix=/net/ipv4 --prefix=/net/ipv6; "
        "systemctl reload ssh"
    ),
}
STOP_RIVALS = "systemctl stop ntpsec.service ntp.service tuned.service 2>/dev/null\n"


@functools.cache
def prepare_for_kernels(names: tuple[str, ...]) -> None:
    """What a container lacks: kernels, a boot menu, and the wish to have them looked after."""
    variables = RACK / "inventory/group_vars/accelerators.yml"
    declared = variables.read_text()
    if "kernel_in_containers" not in declared:
        variables.write_text(declared.rstrip() + "\n" + KERNEL_VARIABLES)
    script = (ROOT / "molecule/kernel/fake_kernels.sh").read_text()
    nodes = set(names)
    for node in nodes:
        on_node(node, "sh", "-s", stdin=script)
    converge(nodes, "kernel")
    for node in nodes:
        on_node(node, f"cd / && tar -cpf /srv/hfprov-kernels/baseline.tar {KERNEL_PLACES}")


@pytest.fixture
def nodes(role):
    """Name of a node by its stack. What the test changes is undone, without the roles' help."""
    found = {stack: node_with(stack) for stack in ("networkd", "ifupdown")}
    if role == "container_runtime" and engine() != "docker":
        # HFPROV_TEST_RACK names a rack that somebody else declares: practice racks have no engine.
        pytest.skip("The rack's inventory does not declare 'container_runtime_engine: docker'.")
    if role == "kernel":
        prepare_for_kernels(tuple(found.values()))
    for node in found.values():
        on_node(node, SNAPSHOT)
    yield found
    restore = STOP_RIVALS + RESTORE_FILES + RESTORE[role]
    for node in found.values():
        on_node(node, restore)


@pytest.mark.parametrize(("role", "mutation"), CASES)
def test_mutation_is_found(role, mutation, nodes):
    node = nodes[mutation.get("stack", "networkd")]
    assert bad_checks(node, role) == set(), "not converged before the mutation"
    on_node(node, mutation["how"])
    assert mutation["seen_by"] in bad_checks(node, role)


@pytest.mark.parametrize(("role", "number"), ROUNDS)
def test_role_repairs_what_was_found(role, number, nodes):
    """One run makes all of a round good, and a check run foretells that it has something to do."""
    mutations = [one for one in MUTATIONS[role] if one["round"] == number]
    broken = {nodes[one.get("stack", "networkd")] for one in mutations}
    for one in mutations:
        on_node(nodes[one.get("stack", "networkd")], one["how"])
    assert all(bad_checks(node, role) for node in broken)
    assert all(count > 0 for count in converge(broken, role, "--check").values())
    assert all(count > 0 for count in converge(broken, role).values())
    assert {node: bad_checks(node, role) for node in broken} == {node: set() for node in broken}
    assert not any(converge(broken, role, "--check").values()), "not idempotent"
