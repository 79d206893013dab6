"""Soft-RoCE between two nodes: brought up by the role, at boot, and used by what measures it.

Emulated, and over an emulated NIC: that data arrives is what counts here, not how much.
"""

from __future__ import annotations

import ipaddress
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from hfprov.cli.options import open_site, selection
from hfprov.evidence import ibv_devinfo, perftest
from hfprov.evidence.rdma_settings import GID_TABLE, IDENTITIES, select_gid
from hfprov.observe import observe

ROLES = ("limits", "jumbo_mtu", "rdma")
DECLARED = {
    "jumbo_mtu_confirm_seconds": 900,
    "rdma_interfaces": ["eth1"],
    "rdma_rxe_interfaces": ["eth1"],
    "rdma_roce_tos": "106",
    "rdma_netns": "shared",
}
IN_SERVICE = ["systemd-run", "--quiet", "--wait", "--pipe", "sh", "-c", "ulimit -l"]
USER = "hfprov-test"


def locked_memory(node):
    """What may be locked in a session of root, of a user, and in a service."""
    return {
        "root": node.run(["sh", "-c", "ulimit -l"]).strip(),
        "user": node.run(["su", "-l", USER, "-c", "ulimit -l"]).strip(),
        "service": node.run(IN_SERVICE).strip(),
    }


@pytest.fixture(scope="module")
def site(vm_rack):
    """Both nodes with the roles that RDMA takes and what measures it; new ones afterwards."""
    install = ["apt-get", "-qq", "-y", "install", "perftest"]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda node: node.run(install, timeout=1800), vm_rack.nodes))
    for node in vm_rack.nodes:
        node.run(["useradd", "--create-home", USER], codes=(0, 9))  # 9: there already
    before = locked_memory(vm_rack.nodes[0])
    with vm_rack.declaring(*ROLES, **DECLARED):
        yield vm_rack, before, vm_rack.patient("provision", "--waves", "100%")
    vm_rack.reset(*vm_rack.nodes)


def ports(node):
    """Ports of every RDMA device, as libibverbs has them."""
    found = ibv_devinfo.parse(node.run(["ibv_devinfo"]))
    assert isinstance(found, ibv_devinfo.Devices)
    return [port for device in found.devices for port in device.ports]


def seen(rack, node, source):
    """What a source of evidence has of a node."""
    fleet = open_site(selection([rack.inventory], node.name)).fleet
    baseline = fleet.baselines[node.name]
    answer = observe(fleet.connections[node.name], source.reads(baseline), deadline=600)
    assert answer.observation is not None, answer.error
    return source.parse(answer.observation, baseline)


def test_the_roles_do_it(site):
    _, _, document = site
    assert document["failed"] == {}
    assert document["reboot_needed"] == {}
    for host in document["hosts"]:
        bad = {
            (one["check"], one["reason"])
            for one in host["verdicts"]
            if one["outcome"] in ("fail", "unknown") and one["role"] in ROLES
        }
        assert bad == set(), host["host"]


def test_memory_may_be_locked_without_limit_in_sessions_and_services(site):
    rack, before, _ = site
    assert "unlimited" not in before.values()
    for node in rack.nodes:
        assert set(locked_memory(node).values()) == {"unlimited"}


def are_up(rack):
    for node in rack.nodes:
        [port] = ports(node)
        assert port.state == "PORT_ACTIVE"
        assert port.active_mtu_bytes == 4096
        tos = node.run(["sh", "-c", "cat /sys/kernel/config/rdma_cm/*/ports/1/default_roce_tos"])
        assert tos.split() in (
            [],
            ["106"],
        )  # configfs shows it where somebody has made its folder


def test_soft_roce_is_up_with_the_largest_mtu(site):
    are_up(site[0])


def test_a_gid_is_found_by_type_and_interface(site):
    rack, _, _ = site
    for node in rack.nodes:
        chosen = select_gid(seen(rack, node, GID_TABLE), "eth1")
        assert chosen is not None
        address = ipaddress.IPv6Address(chosen.gid).ipv4_mapped
        assert str(address) == node.data_address
        entry = f"/sys/class/infiniband/{chosen.device}/ports/{chosen.port}/gid_attrs"
        assert node.run(["cat", f"{entry}/types/{chosen.index}"]).strip() == "RoCE v2"


def test_data_crosses_and_its_figures_are_read(site):
    rack, _, _ = site
    one, two = rack.nodes
    words = {}
    for node in (one, two):
        [device] = seen(rack, node, IDENTITIES)
        gid = select_gid(seen(rack, node, GID_TABLE), "eth1")
        words[node.name] = ["-d", device.name, "-x", str(gid.index), "-F", "-n", "100"]
    server = [
        "systemd-run",
        "--quiet",
        "--collect",
        "--unit=hfprov-test-bw",
        "ib_write_bw",
    ]
    two.run([*server, *words[two.name]])
    client = ["ib_write_bw", *words[one.name], two.data_address]
    deadline = time.monotonic() + 300
    while (done := one.ssh(client, timeout=300)).returncode and time.monotonic() < deadline:
        time.sleep(2)  # the server is not there yet
    assert done.returncode == 0, done.stdout + done.stderr
    found = perftest.parse(done.stdout)
    assert found.ok, found.failures
    [run] = found.runs
    assert (run.kind, run.link_type, run.mtu_bytes) == ("bandwidth", "Ethernet", 4096)
    [point] = run.points
    assert isinstance(point, perftest.BandwidthPoint)
    assert (point.message_bytes, point.iterations) == (65536, 100)
    assert point.average_bps > 0


def test_it_is_measured_both_ways(site):
    rack, _, _ = site
    document = rack.patient("measure", "rdma")
    found = {
        (one["host"], one["peer"]): one
        for one in document["results"]
        if one["test"] == "ib_write_bw"
    }
    assert set(found) == {("node01", "node02"), ("node02", "node01")}, document
    for one in found.values():
        assert one["samples"], one
        assert min(one["samples"]) > 0


def test_after_a_reboot_it_is_up_by_itself(site):
    rack, _, _ = site
    node = rack.nodes[0]
    before = node.boot_id()
    node.ssh(["systemctl", "reboot"])
    node.wait_for_boot(before)
    are_up(rack)
    assert set(locked_memory(node).values()) == {"unlimited"}
