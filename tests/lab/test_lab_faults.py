"""Every practice fault does to a node what its description says."""

import subprocess
import time

import pytest

from hfprov.errors import LabError
from hfprov.lab.faults import faults
from hfprov.lab.rack import Rack
from hfprov.lab.state import load_state

pytestmark = [pytest.mark.lab, pytest.mark.slow]

# Stands in for the roles, in file names of its own: faults must find what they break.
PROVISION = r"""
apt-get -qq update && apt-get -qq install -y chrony
mkdir -p /etc/systemd/system/chrony.service.d /etc/systemd/system.conf.d
printf '[Unit]\nConditionCapability=\n' > /etc/systemd/system/chrony.service.d/any.conf
echo 'DAEMON_OPTS="-x"' > /etc/default/chrony
sed -i '/^pool/d' /etc/chrony/chrony.conf
echo 'server timeserver iburst' >> /etc/chrony/chrony.conf
printf '* - memlock 4096\nroot - memlock 4096\n' > /etc/security/limits.d/any.conf
printf '[Manager]\nDefaultLimitMEMLOCK=4M\n' > /etc/systemd/system.conf.d/any.conf
if [ -e /etc/network/interfaces.d/eth1 ]; then
    echo '    mtu 9000' >> /etc/network/interfaces.d/eth1
    ifdown eth1 && ifup eth1
else
    printf '[Link]\nMTUBytes=9000\n' >> /etc/systemd/network/20-eth1.network
    networkctl reload && networkctl reconfigure eth1
fi
systemctl daemon-reload
systemctl restart chrony
"""

# Fault -> a command that succeeds on a healthy, provisioned node only; run over SSH.
HEALTHY = {
    "mtu-runtime": "test $(cat /sys/class/net/eth1/mtu) = 9000",
    "mtu-file": "grep -rqE '^ *(MTUBytes=|mtu )9000' /etc/systemd/network /etc/network",
    "data-link-down": "ip link show dev eth1 up | grep -q eth1",
    "limits-file-removed": "test $(ulimit -Hl) = 4096",
    "limits-value": "test $(ulimit -Hl) = 4096",
    "limits-stray": "test $(ulimit -Hl) = 4096",
    "systemd-limits-dropin-removed":
        "systemctl show -p DefaultLimitMEMLOCK --value | grep -qx 4194304",
    "limits-service":
        "test $(systemctl show -p LimitMEMLOCK --value ssh) != 65536",
    "time-stopped": "systemctl is-active -q chrony",
    "time-disabled": "systemctl is-enabled -q chrony",
    "time-server-changed": "chronyc -n sources | grep -q '10[.]'",
    "time-second-daemon": "! systemctl is-active -q systemd-timesyncd",
    "sshd-down": "true",
    "host-key-changed": "true",
    "python-gone": "/usr/bin/python3 -c pass",
    "python-hangs": "timeout 3 /usr/bin/python3 -c pass",
    "noisy-shell": "true",  # looked at by its output
    "disk-full": "echo needs-a-block > /var/tmp/probe && rm /var/tmp/probe",
    "inodes-used-up": "touch /tmp/probe && rm /tmp/probe",
    "folder-open": "test $(stat -c %a /etc/sysctl.d) = 755",
    "address-lost": "ip -o -4 addr show dev eth1 | grep -q inet",
    "host-name-changed": "test $(hostname) = $(cat /etc/hostname)",
    "package-unfinished": 'test -z "$(dpkg --audit)"',
    "shared-memory-small": "test $(df -k --output=size /dev/shm | tail -n 1) -gt 65536",
}  # fmt: skip


@pytest.fixture(scope="module")
def rack(tmp_path_factory, able_machine):  # noqa: ARG001 - skips first
    rack = Rack(tmp_path_factory.mktemp("lab") / "rack")
    try:
        rack.up(3)
        yield rack
    finally:
        rack.down()


def ssh(rack, node, command):
    argv = ["ssh", "-F", str(rack.paths.ssh_config), "-o", "ConnectTimeout=5", node, command]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout


def provision(rack, name):
    state = load_state(rack.paths)
    node = next(node for node in state.nodes if node.name == name)
    done = rack._engine.execute(state, node, ["sh", "-euc", PROVISION], timeout=120)
    assert done.returncode == 0, done.stderr
    deadline = time.monotonic() + 30  # networkd takes a moment over the new MTU
    while ssh(rack, name, HEALTHY["mtu-runtime"])[0] != 0:
        assert time.monotonic() < deadline


def test_every_fault_is_tried_here():
    assert {fault.name for fault in faults()} == set(HEALTHY)


@pytest.mark.parametrize("fault", faults(), ids=lambda fault: fault.name)
def test_the_fault_breaks_what_it_says(rack, fault):
    rack.reset(["node01"])
    provision(rack, "node01")
    assert ssh(rack, "node01", HEALTHY[fault.name]) == (0, "")
    rack.break_node("node01", fault.name)
    assert ssh(rack, "node01", HEALTHY[fault.name]) != (0, "")
    assert load_state(rack.paths).faults == (("node01", fault.name),)


@pytest.mark.parametrize("name", ["mtu-runtime", "mtu-file"])
def test_mtu_faults_work_under_ifupdown_too(rack, name):
    rack.reset(["node03"])
    provision(rack, "node03")
    assert ssh(rack, "node03", HEALTHY[name])[0] == 0
    rack.break_node("node03", name)
    assert ssh(rack, "node03", HEALTHY[name])[0] != 0


@pytest.mark.parametrize("fault", [f for f in faults() if f.needs], ids=lambda fault: fault.name)
def test_a_fault_with_nothing_to_break_says_so(rack, fault):
    rack.reset(["node02"])
    with pytest.raises(LabError, match="could not be made") as caught:
        rack.break_node("node02", fault.name)
    assert "hfprov provision" in caught.value.hint
    assert ("node02", fault.name) not in load_state(rack.paths).faults
