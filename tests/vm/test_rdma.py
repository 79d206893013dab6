"""Soft-RoCE between two nodes: found by GID, and used by what measures it.

Emulated, and over an emulated NIC: that data arrives is what counts here, not how much.
"""

from __future__ import annotations

import ipaddress
import time

import pytest

from hfprov.cli.options import (
    selection,
)
from hfprov.cli.site import open_site
from hfprov.evidence import perftest
from hfprov.evidence.rdma_settings import GID_TABLE, IDENTITIES, select_gid
from hfprov.observe import observe


def seen(rack, node):
    """RDMA devices and the table of GIDs, as hfprov has them of a node."""
    fleet = open_site(selection([rack.inventory], node.name)).fleet
    baseline = fleet.baselines[node.name]
    reads = [*IDENTITIES.reads(baseline), *GID_TABLE.reads(baseline)]
    answer = observe(fleet.connections[node.name], reads, deadline=600)
    assert answer.observation is not None, answer.error
    return tuple(one.parse(answer.observation, baseline) for one in (IDENTITIES, GID_TABLE))


@pytest.fixture(scope="module")
def chosen(declared, provisioned):  # noqa: ARG001 - there is none before
    """The device and the GID for the data NIC of each node."""
    found = {}
    for node in declared.nodes:
        [device], table = seen(declared, node)
        found[node.name] = device.name, select_gid(table, "eth1")
    return found


def test_a_gid_is_found_by_type_and_interface(declared, chosen):
    for node in declared.nodes:
        device, gid = chosen[node.name]
        assert gid is not None
        assert gid.device == device
        address = ipaddress.IPv6Address(gid.gid).ipv4_mapped
        assert str(address) == node.data_address
        entry = f"/sys/class/infiniband/{device}/ports/{gid.port}/gid_attrs"
        assert node.run(["cat", f"{entry}/types/{gid.index}"]).strip() == "RoCE v2"


def test_data_crosses_and_its_figures_are_read(declared, chosen, note):
    one, two = declared.nodes
    words = {
        name: ["-d", device, "-x", str(gid.index), "-F", "-n", "100"]
        for name, (device, gid) in chosen.items()
    }
    server = ["systemd-run", "--quiet", "--collect", "--unit=hfprov-test-bw", "ib_write_bw"]
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
    note(
        f"RDMA {one.name} -> {two.name}: ib_write_bw {point.iterations} x {point.message_bytes} B, "
        f"average {point.average_bps / 1e6:.1f} Mbit/s"
    )


NO_CLOCK = "could not tell how fast the CPU's clock runs"


@pytest.mark.usefixtures("provisioned")
def test_it_is_measured_both_ways(declared, note):
    document = declared.patient("measure", "rdma", "--seconds", "1")
    found = {
        (one["host"], one["peer"]): one
        for one in document["results"]
        if one["test"] == "ib_write_bw"
    }
    assert set(found) == {("node01", "node02"), ("node02", "node01")}, document
    if not all(one["samples"] for one in found.values()):
        # An emulated machine's time may stand still for longer than perftest forgives.
        blamed = [str(one) for one in found.values() if not one["samples"]]
        assert all(NO_CLOCK in one for one in blamed), blamed
        pytest.skip(f"perftest says so three times in a row: it {NO_CLOCK}.")
    for (host, peer), one in found.items():
        assert min(one["samples"]) > 0
        note(f"RDMA {host} -> {peer}: hfprov measure, {one['samples']} {one.get('unit', '')}")
