"""The practice rack itself, on real nodes: start, access, reboot, growth, and its end."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hfprov.errors import LabError
from hfprov.lab import host, network, registry
from hfprov.lab.rack import Rack
from hfprov.lab.state import NetworkStack, load_state

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.usefixtures("able_machine")]


@pytest.fixture(scope="module")
def rack(tmp_path_factory):
    rack = Rack(tmp_path_factory.mktemp("lab") / "rack")
    try:
        rack.up(3)
        yield rack
    finally:
        rack.down()


def ssh(rack, node, command, *options):
    argv = ["ssh", "-F", str(rack.paths.ssh_config), *options, node, command]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def traces(rack, rack_id):
    """Everything on this machine that carries the rack's name."""
    name = network.namespace(rack_id)
    groups = [root / name for root in host.cgroup_roots()]
    return [
        *(str(group) for group in groups if group.exists()),
        *(str(point) for point in host.mountpoints_below(rack.paths.directory)),
        *([name] if network.interface_exists(rack_id) else []),
        *([f"netns {name}"] if network.namespace_file(rack_id).exists() else []),
        *(str(claim) for claim in registry.RUN_DIRECTORY.glob(f"rack-{rack_id}")),
        *(str(left) for left in Path("/run/systemd/nspawn").glob(f"*/{name}-*")),
        *([str(rack.paths.directory)] if rack.paths.directory.exists() else []),
    ]


def test_every_node_runs_a_whole_systemd(rack):
    status = rack.status()
    assert [node.name for node in status.nodes] == ["node01", "node02", "node03"]
    assert [node.systemd for node in status.nodes] == ["running"] * 3
    assert status.all_running


def test_the_third_node_has_its_data_nic_under_ifupdown(rack):
    assert [node.network for node in rack.status().nodes] == [
        NetworkStack.NETWORKD,
        NetworkStack.NETWORKD,
        NetworkStack.IFUPDOWN,
    ]
    assert ssh(rack, "node03", "ifquery --state eth1").stdout == "eth1=eth1\n"
    assert "unmanaged" in ssh(rack, "node03", "networkctl list eth1 --no-legend").stdout
    assert "unmanaged" not in ssh(rack, "node02", "networkctl list eth1 --no-legend").stdout


def test_jumbo_frames_pass_once_both_ends_have_them_and_not_before(rack):
    ping = "ping -M do -c1 -W2 -s 8972 {}-data"
    assert ssh(rack, "node01", ping.format("node02")).returncode != 0
    for node in ("node01", "node02"):
        assert ssh(rack, node, "ip link set eth1 mtu 9000").returncode == 0
    assert ssh(rack, "node01", ping.format("node02")).returncode == 0
    assert ssh(rack, "node02", ping.format("node01")).returncode == 0
    assert ssh(rack, "node01", ping.format("node03")).returncode != 0


def test_a_wrong_host_key_is_refused(rack, tmp_path):
    right = rack.paths.known_hosts.read_text(encoding="utf-8").splitlines()
    keys = {line.split()[0]: line.split()[2] for line in right}
    first, second = (node.address for node in rack.status().nodes[:2])
    swapped = tmp_path / "known_hosts"
    swapped.write_text(f"{first} ssh-ed25519 {keys[second]}\n", encoding="utf-8")
    assert ssh(rack, "node01", "true").returncode == 0
    refused = ssh(rack, "node01", "true", "-o", f"UserKnownHostsFile={swapped}")
    assert refused.returncode == 255
    assert "Host key verification failed" in refused.stderr


def test_ansible_reads_the_inventory_and_reaches_every_node(rack):
    argv = [str(Path(sys.executable).with_name("ansible")), "-i", str(rack.paths.inventory),
            "practice_rack", "-m", "ansible.builtin.ping"]  # fmt: skip
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('"pong"') == 3


def test_packages_install_without_a_way_out(rack):
    assert ssh(rack, "node02", "ethtool --version").returncode == 127
    done = ssh(rack, "node02", "apt-get -qq update && apt-get -qq install -y ethtool")
    assert done.returncode == 0, done.stderr
    assert ssh(rack, "node02", "ethtool --version").returncode == 0
    assert ssh(rack, "node02", "ip route show default").stdout == ""


def test_a_reboot_keeps_the_disk_and_the_network(rack):
    before = ssh(rack, "node02", "touch /etc/kept; cat /proc/sys/kernel/random/boot_id").stdout
    ssh(rack, "node02", "systemctl reboot")
    deadline = time.monotonic() + 60
    after = before
    while after in (before, "") and time.monotonic() < deadline:
        after = ssh(rack, "node02", "cat /proc/sys/kernel/random/boot_id").stdout
    assert len(after) == len(before)
    assert after != before
    assert ssh(rack, "node02", "ls /etc/kept").returncode == 0
    assert ssh(rack, "node01", "ping -c1 -W5 node02-data").returncode == 0


def test_a_second_up_changes_nothing_that_runs(rack):
    boots = [
        ssh(rack, n, "cat /proc/sys/kernel/random/boot_id").stdout for n in ("node01", "node02")
    ]
    state = rack.paths.state.read_text(encoding="utf-8")
    rack.up(3)
    assert rack.paths.state.read_text(encoding="utf-8") == state
    assert boots == [
        ssh(rack, n, "cat /proc/sys/kernel/random/boot_id").stdout for n in ("node01", "node02")
    ]


def test_a_dead_node_is_started_again_with_its_disk(rack):
    ssh(rack, "node01", "touch /etc/kept")
    state = load_state(rack.paths)
    ssh(rack, "node01", "systemctl poweroff")
    deadline = time.monotonic() + 60
    while rack._engine.is_running(state, state.inventory_nodes[0]):
        assert time.monotonic() < deadline, "the node does not power off"
        time.sleep(0.1)
    assert rack.status().nodes[0].systemd == "unreachable"
    rack.up(3)
    assert rack.status().nodes[0].systemd == "running"
    assert ssh(rack, "node01", "ls /etc/kept").returncode == 0


def test_reset_gives_a_node_a_fresh_disk_and_the_same_key(rack):
    ssh(rack, "node01", "touch /etc/soiled")
    known = rack.paths.known_hosts.read_text(encoding="utf-8")
    rack.reset(["node01"])
    assert ssh(rack, "node01", "ls /etc/soiled").returncode == 2
    assert rack.paths.known_hosts.read_text(encoding="utf-8") == known


def test_more_nodes_are_added_and_fewer_refused(rack):
    rack.up(4)
    assert [node.systemd for node in rack.status().nodes] == ["running"] * 4
    with pytest.raises(LabError, match="has 4 nodes"):
        rack.up(2)


def test_two_racks_share_nothing(rack, tmp_path):
    other = Rack(tmp_path / "other")
    status = other.up(1, stacks=[NetworkStack.IFUPDOWN])
    try:
        assert status.all_running
        mine = rack.status()
        assert {mine.management, mine.data}.isdisjoint({status.management, status.data})
    finally:
        rack_id = load_state(other.paths).rack_id
        assert other.down()
    assert traces(other, rack_id) == []
    assert rack.status().all_running


def test_nothing_is_left_after_down_and_files_of_others_stay(tmp_path):
    rack = Rack(tmp_path / "rack")
    rack.up(1)
    rack_id = load_state(rack.paths).rack_id
    (rack.paths.directory / "notes.txt").write_text("mine", encoding="utf-8")
    assert rack.down()
    assert [path.name for path in rack.paths.directory.iterdir()] == ["notes.txt"]
    (rack.paths.directory / "notes.txt").unlink()
    rack.paths.directory.rmdir()
    assert traces(rack, rack_id) == []
    assert not rack.down()


@pytest.mark.parametrize("moment", ["planned", "wired", "networked", "mounted", "booting"])
def test_down_cleans_up_after_an_up_that_was_killed(tmp_path, moment):
    rack = Rack(tmp_path / "rack")
    happened = {
        "planned": rack.paths.state.exists,
        "wired": network.namespace_file(registry.identity(rack.paths.directory)).exists,
        "networked": rack.paths.known_hosts.exists,
        "mounted": lambda: any(rack.paths.nodes.glob("*/filled")),
        "booting": lambda: any(rack.paths.nodes.glob("node02/console.log")),
    }[moment]
    argv = [sys.executable, "-m", "hfprov.lab", "up", "--nodes", "6", "--dir",
            str(rack.paths.directory)]  # fmt: skip
    up = subprocess.Popen(
        argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    deadline = time.monotonic() + 120
    while not happened():
        assert up.poll() is None, "'up' ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.002)
    os.killpg(up.pid, signal.SIGKILL)
    up.wait()
    rack_id = registry.identity(rack.paths.directory)
    assert traces(rack, rack_id) != []
    assert rack.down()
    assert traces(rack, rack_id) == []


def test_a_rack_whose_files_were_deleted_can_still_be_taken_down(tmp_path):
    rack = Rack(tmp_path / "rack")
    rack.up(1)
    rack_id = load_state(rack.paths).rack_id
    rack.paths.state.unlink()
    assert rack.down()
    assert traces(rack, rack_id) == []


def test_a_half_made_namespace_does_not_stop_up(tmp_path):
    rack = Rack(tmp_path / "rack")
    rack.up(1)
    rack_id = load_state(rack.paths).rack_id
    try:
        rack._engine.discard_rack(rack_id)
        host.run(["ip", "netns", "delete", network.namespace(rack_id)], timeout=10)
        network.namespace_file(rack_id).touch()
        assert rack.up(1).all_running
    finally:
        assert rack.down()
    assert traces(rack, rack_id) == []


def test_down_refuses_an_interface_that_is_not_ours(tmp_path):
    rack = Rack(tmp_path / "rack")
    rack.up(1)
    name = network.namespace(load_state(rack.paths).rack_id)
    label = json.loads(host.run(["ip", "-json", "link", "show", name], timeout=10))[0]["ifalias"]
    host.run(["ip", "link", "set", name, "alias", "somebody else's"], timeout=10)
    try:
        with pytest.raises(LabError, match="does not belong"):
            rack.down()
        assert network.interface_exists(load_state(rack.paths).rack_id)
    finally:
        host.run(["ip", "link", "set", name, "alias", label], timeout=10)
        assert rack.down()
