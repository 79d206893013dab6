"""``hfprov path-mtu`` on a practice rack: nodes, cables and switches that are really too small."""

from __future__ import annotations

import contextlib
import subprocess

import pytest

from hfprov.lab.network import namespace
from hfprov.lab.state import load_state
from hfprov.record.store import Record

pytestmark = [pytest.mark.lab, pytest.mark.slow]


@pytest.fixture
def switch(site):
    """Change the MTU of a switch's port, which no node can see; put back at the end."""
    inside = namespace(load_state(site.rack.paths).rack_id)

    def ip(*argv):
        return subprocess.run(
            ["ip", "-n", inside, *argv], check=True, capture_output=True, text=True, timeout=20
        ).stdout

    with contextlib.ExitStack() as undo:

        def shrink(port, mtu):
            ip("link", "set", port, "mtu", str(mtu))
            undo.callback(ip, "link", "set", port, "mtu", "9000")

        yield ip, shrink


def data_port(site, ip, name):
    """The switch's end of a node's data cable."""
    state = load_state(site.rack.paths)
    node = next(node for node in state.nodes if node.name == name)
    index = site.inside(name, "cat /sys/class/net/eth1/iflink").strip()
    for line in ip("-o", "link").splitlines():
        number, port = line.split(": ")[:2]
        if number == index:
            return port.partition("@")[0]
    raise AssertionError(f"no port of {node.name}")


def causes(done):
    return [
        (cause["kind"], cause["hosts"])
        for rail in done.document["rails"]
        for cause in rail["causes"]
    ]


def test_a_good_rack_carries_what_it_promises(site):
    done = site.hfprov("path-mtu", "--json")
    [rail] = done.document["rails"]
    assert done.code == 0
    assert rail["hosts"] == ["node01", "node02", "node03"]
    assert [one["bytes"] for one in rail["trials"]] == [9000] * 6
    with Record.open(site.db) as record:
        stored = record.measurements("node02")
    assert [(one.test, one.value) for one in stored] == [("path mtu", 0.0)]


def test_a_node_whose_interface_is_too_small_is_named_with_its_mtu(site):
    site.inside("node02", "ip link set eth1 mtu 1500")
    try:
        done = site.hfprov("path-mtu", "--json")
    finally:
        site.inside("node02", "ip link set eth1 mtu 9000")
    assert done.code == 1
    assert causes(done) == [("host", [["node02"]])]
    [cause] = done.document["rails"][0]["causes"]
    assert "'eth1' of 'node02' has MTU 1500 instead of 9000" in cause["says"]


def test_a_port_that_only_the_switch_knows_to_be_too_small_is_found(site, switch):
    ip, shrink = switch
    shrink(data_port(site, ip, "node03"), 1500)
    assert site.hfprov("drift", "--json").failing("node03") == set()
    done = site.hfprov("path-mtu", "--json")
    assert done.code == 1
    assert causes(done) == [("host", [["node03"]])]
    assert "Packets of 1500 bytes pass" in done.document["rails"][0]["causes"][0]["says"]
    told = site.hfprov("path-mtu")
    assert "node03: 2 of 2 pairs fail" in told.out


def test_a_node_that_does_not_answer_is_not_tested_and_that_is_no_success(site):
    site.inside("node01", "systemctl stop ssh.socket ssh.service")
    try:
        done = site.hfprov("path-mtu", "--json")
    finally:
        site.inside("node01", "systemctl start ssh.service")
    assert done.code == 3
    assert "node01" in done.document["untested"]
