"""A data interface that gets another name at the next boot loses all that goes by its name."""

from __future__ import annotations

import pytest

from hfprov.baseline import Baseline
from hfprov.evidence.link_names import NAMINGS, Naming, of_link_file, of_rules
from hfprov.verdict import Outcome

FAIL, UNKNOWN = Outcome.FAIL, Outcome.UNKNOWN
LINKS = "glob /etc/systemd/network/*.link"
RULES = "glob /etc/udev/rules.d/*.rules"
RULE = "/etc/udev/rules.d/70-persistent-net.rules"


@pytest.fixture
def node(networkd):
    for read in NAMINGS.reads(Baseline("node", ())):
        networkd.results.setdefault(read.id, [])
    return networkd


def link_file(match, name="data0"):
    return f"[Match]\n{match}\n[Link]\nName={name}\n"


def test_healthy_node_passes(node):
    assert node.bad("mtu.name") == {}


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        (link_file("OriginalName=eth1"), True),
        (link_file("OriginalName=eth*"), True),
        (link_file("OriginalName=eth1", "eth1"), False),
        (link_file("OriginalName=eth0"), False),
        (link_file("MACAddress=02:00:00:00:00:99"), False),
        (link_file("Driver=mlx5_core"), False),  # which driver it has is not known
        ("[Match]\nOriginalName=eth1\n[Link]\nMTUBytes=9000\n", False),
    ],
)
def test_link_files(node, text, bad):
    path = "/etc/systemd/network/10-site.link"
    node.add(LINKS, path, text)
    assert node.bad("mtu.name") == ({f"eth1 {path}": FAIL} if bad else {})


def test_only_the_first_link_file_that_matches_decides(node):
    node.add(LINKS, "/etc/systemd/network/10-a.link", link_file("OriginalName=eth1", "eth1"))
    node.add(LINKS, "/etc/systemd/network/20-b.link", link_file("OriginalName=eth1"))
    assert node.bad("mtu.name") == {}


def test_link_file_is_hidden_by_one_of_its_name_above(node):
    node.add(LINKS, "/etc/systemd/network/10-a.link", "", type="other", link="/dev/null")
    below = "/run/systemd/network"
    node.add(f"glob {below}/*.link", f"{below}/10-a.link", link_file("OriginalName=eth1"))
    assert node.bad("mtu.name") == {}


@pytest.mark.parametrize(
    ("line", "bad"),
    [
        ('SUBSYSTEM=="net", ACTION=="add", KERNEL=="eth1", NAME="data0"', True),
        ('SUBSYSTEM=="net", KERNEL=="eth0|eth1", NAME="data0"', True),
        ('SUBSYSTEM=="net", ATTR{address}=="02:00:00:00:00:99", NAME="data0"', False),
        ('SUBSYSTEM=="net", KERNEL=="eth1", NAME="eth1"', False),
        ('KERNEL=="eth1", NAME=="data0", ENV{NAME}="x"', False),
        ('# KERNEL=="eth1", NAME="data0"', False),
        ('NAME="$env{ID_NET_NAME}"', False),
    ],
)
def test_rules_of_udev(node, line, bad):
    node.add(RULES, RULE, f"{line}\n")
    assert node.bad("mtu.name") == ({f"eth1 {RULE}:1": FAIL} if bad else {})


def test_addresses_are_compared_as_the_kernel_writes_them():
    text = '[Match]\nMACAddress=02-00-00-00-00-AA\n[Link]\nName="a"\n'
    assert of_link_file(text, "f").addresses == ("02:00:00:00:00:aa",)
    (rule,) = of_rules('ATTR{address}=="02:00:00:00:00:AA", \\\n NAME="a"\n', "f")
    assert rule == Naming("f:1", "a", (), ("02:00:00:00:00:aa",))


@pytest.mark.parametrize("change", [{"status": "denied"}, {"truncated": True}])
def test_file_that_could_not_be_read_is_unknown(node, change):
    node.add(LINKS, "/etc/systemd/network/10-site.link", "", **change)
    assert set(node.bad("mtu.name").values()) == {UNKNOWN}


def test_interface_that_is_not_there(node):
    node.values["jumbo_mtu_interfaces"] = ["eth7"]
    assert node.bad("mtu.name") == {"eth7": FAIL}
