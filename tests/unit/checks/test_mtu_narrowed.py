"""A data interface with the declared MTU of which somebody else takes a part away."""

from __future__ import annotations

import json

import pytest

from hfprov.baseline import Baseline
from hfprov.errors import NotUnderstoodError
from hfprov.evidence import netplan
from hfprov.evidence.ifupdown import Option
from hfprov.evidence.managed_links import parse_routes
from hfprov.evidence.sysctl_files import FILES
from hfprov.verdict import Outcome
from tests.unit.checks.conftest import NOT_THERE, NOT_WHOLE, WITHOUT_PROFILES

FAIL, UNKNOWN = Outcome.FAIL, Outcome.UNKNOWN
NOW, LATER = "mtu.narrowed", "mtu.narrowed.files"
LINKS = "run ip -j -d link"
ROUTES = "run ip -j -4 route show table all"
IPV6 = "file /proc/sys/net/ipv6/conf/eth1/mtu"
NETPLAN_ETC = next(read for read in WITHOUT_PROFILES if "/etc/netplan/" in read)
NMCLI_ACTIVE, NMCLI_DETAILS = (read for read in NOT_THERE if read.startswith("run "))


def completed(node):
    """With what the recorded nodes were not asked for yet."""
    for read in FILES.reads(Baseline("node", ())):
        is_file = read.request["kind"] == "file"
        absent = [{"name": read.request.get("path"), "status": "absent"}]
        node.results.setdefault(read.id, absent if is_file else [])
    node.results[IPV6] = [{"name": IPV6, "status": "ok", "text": "9000\n"}]
    return node


@pytest.fixture
def node(networkd):
    return completed(networkd)


@pytest.fixture
def link_of(node):
    def change(name, **values):
        links = json.loads(node.results[node.read(LINKS)][0]["text"])
        mine = [link for link in links if link.get("ifname") == name]
        if not mine:
            mine = [{"ifname": name, "ifindex": 99, "flags": [], "mtu": 1500}]
            links += mine
        mine[0].update(values)
        node.put(LINKS, text=json.dumps(links))

    return change


@pytest.mark.parametrize("stack", ["networkd", "ifupdown"])
@pytest.mark.parametrize("check_id", [NOW, LATER])
def test_healthy_node_passes(request, stack, check_id):
    assert completed(request.getfixturevalue(stack)).bad(check_id) == {}


@pytest.mark.parametrize(
    ("route", "bad"),
    [
        ({"dev": "eth1", "metrics": [{"mtu": 1500}]}, "eth1 route 10.1.0.0/16"),
        ({"dev": "eth1", "metrics": [{"mtu": 9000}]}, None),
        ({"dev": "eth1", "metrics": [{"advmss": 1460}]}, None),
        ({"dev": "eth1"}, None),
        ({"dev": "eth0", "metrics": [{"mtu": 1500}]}, None),
        (
            {"dev": "eth1", "table": "101", "metrics": [{"mtu": 1500}]},
            "eth1 route 10.1.0.0/16 of table 101",
        ),
        (
            {"nexthops": [{"dev": "eth0"}, {"dev": "eth1"}], "metrics": [{"mtu": 1450}]},
            "eth1 route 10.1.0.0/16",
        ),
        ({"type": "blackhole", "metrics": [{"mtu": 1450}]}, None),
    ],
)
def test_routes(node, route, bad):
    node.put(ROUTES, text=json.dumps([{"dst": "10.1.0.0/16", "flags": [], **route}]))
    assert node.bad(NOW) == ({bad: FAIL} if bad else {})


def test_routes_by_a_bond_are_those_of_its_members(node, link_of):
    node.put(ROUTES, text='[{"dst": "default", "dev": "bond0", "metrics": [{"mtu": 1500}]}]')
    assert node.bad(NOW) == {}
    link_of("eth1", master="bond0")
    assert node.bad(NOW) == {"eth1 route default": FAIL}


@pytest.mark.parametrize(
    ("kind", "mtu", "bad"),
    [
        ("bond", 1500, True),
        ("bridge", 1500, True),
        ("bond", 9000, False),
        ("openvswitch", 1500, False),
    ],
)
def test_bond_above(node, link_of, kind, mtu, bad):
    """What Open vSwitch has above its ports carries no packets."""
    link_of("eth1", master="up0")
    link_of("up0", mtu=mtu, linkinfo={"info_kind": kind})
    assert node.bad(NOW) == ({"eth1 up0": FAIL} if bad else {})


def test_ipv6_with_an_mtu_of_its_own(node, link_of):
    node.put(IPV6, text="1500\n")
    assert node.bad(NOW) == {"eth1 IPv6": FAIL}
    link_of("eth1", mtu=1500)
    assert node.bad(NOW) == {}, "that is what 'mtu.live' says"
    link_of("eth1", mtu=9000)
    node.put(IPV6, status="absent", text="")
    assert node.bad(NOW) == {}, "IPv6 is off"


@pytest.mark.parametrize("text", ["", "x", "-1", "9000 9000", "9" * 400, "\0", "\x1b[31mbad"])
def test_ipv6_that_is_not_understood_is_unknown(node, text):
    node.put(IPV6, text=text)
    assert node.bad(NOW) == {"": UNKNOWN}


def test_names_that_are_none_are_not_looked_for(node):
    node.values["jumbo_mtu_interfaces"] = ["eth1", "../../../etc", "..", "a/b"]
    assert [name for name in node.reads_of(NOW) if "ipv6" in name] == [IPV6]


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ("[Route]\nDestination=10.1.0.0/16\nMTUBytes=1500\n", True),
        ("[Route]\nMTUBytes=9000\n[Route]\nMTUBytes=1400\n", True),
        ("[Route]\nMTUBytes=9000\n", False),
        ("[Route]\nMTUBytes=\n", False),
        ("[Network]\nIPv6MTUBytes=1280\n", True),
        ("[Network]\nIPv6MTUBytes=1280\nIPv6MTUBytes=\n", False),
        ("[Network]\nMTUBytes=1500\n", False),
    ],
)
def test_files_of_networkd(node, text, bad):
    path = "/etc/systemd/network/20-eth1.network.d/50-site.conf"
    node.add("glob /etc/systemd/network/*.network.d/*.conf", path, text)
    assert [subject.startswith(f"eth1 {path}:") for subject in node.bad(LATER)] == [True] * bad


@pytest.mark.parametrize(
    ("line", "bad"),
    [
        ("up ip route add 10.1.0.0/16 via 10.0.0.1 mtu 1500", True),
        ("post-up ip -6 ro add fd00::/8 dev $IFACE mtu lock 1280 || true", True),
        ("up ip route add 10.1.0.0/16 via 10.0.0.1 mtu 9000", False),
        ("down ip route del 10.1.0.0/16 mtu 1500", False),
        ("up ip route add 10.1.0.0/16 via 10.0.0.1; echo mtu 1500", False),
    ],
)
def test_commands_of_ifupdown(ifupdown, line, bad):
    node = completed(ifupdown)
    path = "/etc/network/interfaces.d/eth1"
    found = node.named("glob /etc/network/interfaces.d/*", path)
    found["text"] = f"{found['text'].rstrip()}\n    {line}\n"
    assert [subject.startswith(f"eth1 {path}:") for subject in node.bad(LATER)] == [True] * bad


@pytest.mark.parametrize(
    ("line", "sets"),
    [
        ("ip route add 10.1.0.0/16 via 10.0.0.1 mtu 1500", False),
        ("ip route add 10.1.0.0/16 dev eth1 && ip link set eth1 mtu 1500", True),
        ("ip link set eth1 mtu 1500 && ip -4 route add 10.1.0.0/16 dev eth1", True),
        ("ip link set router mtu 1500", True),
    ],
)
def test_mtu_of_a_route_is_not_the_interface_s(line, sets):
    assert Option("up", line, "f", 1).sets_mtu is sets


@pytest.mark.parametrize(
    ("more", "bad"),
    [
        ("ipv6-mtu: 1280", True),
        ("routes: [{to: default, via: 10.0.0.1, mtu: 1500}]", True),
        ("routes: [{to: default, via: 10.0.0.1, mtu: 9000}, {to: 10.0.0.0/8}]", False),
        ("routes: []", False),
    ],
)
def test_files_of_netplan(node, more, bad):
    text = f"network:\n  ethernets:\n    eth1:\n      {more}\n"
    node.results[NETPLAN_ETC] = [{"name": "50-site.yaml", "status": "ok", "code": 0, "text": text}]
    assert node.bad(LATER) == ({"eth1 /etc/netplan/50-site.yaml": FAIL} if bad else {})


@pytest.mark.parametrize("more", ["ipv6-mtu: [1]", "routes: [x]", "routes: [{mtu: -5}]"])
def test_netplan_that_is_not_understood(more):
    with pytest.raises(NotUnderstoodError):
        netplan.parse(f"network:\n  ethernets:\n    eth1:\n      {more}\n")


@pytest.mark.parametrize(
    ("routes", "bad"),
    [
        ("10.1.0.0/16 10.0.0.1 mtu=1500", True),
        ("{ ip = 10.1.0.0/16, nh = 10.0.0.1, mtu = 1500 }", True),
        ("10.1.0.0/16 10.0.0.1 mtu=9000", False),
        ("10.1.0.0/16 10.0.0.1 100", False),
        ("", False),
    ],
)
def test_routes_of_networkmanager(node, routes, bad):
    node.put(NMCLI_ACTIVE, status="ok", code=0, text="u1:eth1:/etc/x.nmconnection\n")
    text = f"uuid:u1\nconnection.autoconnect:yes\nipv4.routes:{routes}\nipv6.routes:\n"
    node.put(NMCLI_DETAILS, status="ok", code=0, text=text)
    assert node.bad(LATER) == ({"eth1 connection u1": FAIL} if bad else {})


def test_kernel_settings(node):
    path = "/etc/sysctl.d/50-site.conf"
    node.add("glob /etc/sysctl.d/*.conf", path, "net.ipv6.conf.eth1.mtu = 1280\n")
    assert node.bad(LATER) == {f"eth1 {path}:1": FAIL}
    node.add("glob /etc/sysctl.d/*.conf", "/etc/sysctl.d/60.conf", "net/ipv6/conf/eth1/mtu=9000\n")
    assert node.bad(LATER) == {}, "the later one holds"


@pytest.mark.parametrize("text", ["{}", "[1]", '[{"metrics": 5}]', "\x1b]0;x\x07", "[" * 5000])
def test_routes_that_are_not_understood_do_not_pass(node, text):
    if not text.startswith("\x1b"):
        with pytest.raises(NotUnderstoodError):
            parse_routes(text)
    node.put(ROUTES, text=text + "x")
    assert node.bad(NOW) == {"": UNKNOWN}


@pytest.mark.parametrize("check_id", [NOW, LATER])
@pytest.mark.parametrize("spoilt", NOT_WHOLE)
def test_without_whole_evidence_nothing_passes(node, check_id, spoilt):
    assert node.judged_without_whole(check_id, spoilt) == []
