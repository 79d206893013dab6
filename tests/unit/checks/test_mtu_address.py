"""Addresses of data interfaces: there, on one interface only, and those of the files."""

from __future__ import annotations

import json

import pytest

from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.local_addresses import addresses_of, parse_address
from hfprov.evidence.managed_links import parse_routes
from hfprov.verdict import Outcome
from tests.unit.checks.conftest import NOT_WHOLE

WARN, FAIL, UNKNOWN = Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN
NOT_APPLICABLE = Outcome.NOT_APPLICABLE
NOW, LATER = "mtu.address", "mtu.address.files"
LINKS = "run ip -j -d link"
IPV4, IPV6 = (f"run ip -j -{family} route show table all" for family in (4, 6))
LOOPBACK = {"type": "local", "dst": "127.0.0.1", "dev": "lo", "table": "local"}
NETWORKD_FILE = "/etc/systemd/network/20-eth1.network"
IFUPDOWN_FILE = "/etc/network/interfaces.d/eth1"


def local(dst, dev="eth1", table="local"):
    return {"type": "local", "dst": dst, "dev": dev, "table": table}


def give(node, *ipv4, ipv6=()):
    node.put(IPV4, text=json.dumps([LOOPBACK, *ipv4]))
    node.put(IPV6, text=json.dumps([local("::1", "lo"), *ipv6]))
    return node


@pytest.fixture
def node(networkd):
    return give(networkd, local("10.144.11.11"), local("10.144.10.11", "eth0"))


@pytest.fixture
def link_of(node):
    def change(name, **values):
        links = json.loads(node.results[node.read(LINKS)][0]["text"])
        mine = [link for link in links if link.get("ifname") == name]
        if not mine:
            mine = [{"ifname": name, "ifindex": 99 + len(links), "flags": [], "mtu": 1500}]
            links += mine
        mine[0].update(values)
        node.put(LINKS, text=json.dumps(links))

    return change


@pytest.mark.parametrize("check_id", [NOW, LATER])
def test_healthy_nodes_pass(node, ifupdown, check_id):
    assert node.bad(check_id) == {}
    assert give(ifupdown, local("10.144.11.12")).bad(check_id) == {}


def test_address_that_was_flushed(node):
    give(node, local("10.144.10.11", "eth0"))
    (finding,) = node.findings(NOW)
    assert (finding.subject, finding.outcome, finding.observed) == ("eth1", FAIL, "none")
    assert node.bad(LATER) == {f"eth1 {NETWORKD_FILE}:5": FAIL}


@pytest.mark.parametrize(
    ("ipv4", "ipv6", "is_bad"),
    [
        (["10.1.0.1"], [], False),
        ([], ["fd00::1"], False),
        ([], ["2001:db8::1"], False),
        ([], ["fe80::1"], True),
        (["169.254.3.4"], ["fe80::1"], True),
        (["10.1.0.0/16"], [], True),
        (["10.1.0.1/32"], [], False),
        ([], [], True),
    ],
)
def test_what_counts_as_an_address(node, ipv4, ipv6, is_bad):
    give(node, *map(local, ipv4), ipv6=map(local, ipv6))
    assert node.bad(NOW) == ({"eth1": FAIL} if is_bad else {})


@pytest.mark.parametrize("kind", ["broadcast", "multicast", "anycast", "", None])
def test_routes_of_other_kinds_are_no_addresses(node, kind):
    other = local("10.1.0.9")
    other.update(type=kind)
    give(node, {key: value for key, value in other.items() if value is not None})
    assert node.bad(NOW) == {"eth1": FAIL}


def test_only_link_local_and_an_interface_that_is_down_are_told(node, link_of):
    give(node, ipv6=[local("fe80::1")])
    assert node.findings(NOW)[0].observed == "link-local only"
    link_of("eth1", flags=["BROADCAST", "MULTICAST"])
    assert "set down" in node.findings(NOW)[0].reason


@pytest.mark.parametrize(
    ("kind", "on_master", "bad"),
    [
        ("bond", True, {}),
        ("team", True, {}),
        ("bond", False, {"eth1": FAIL}),
        ("bridge", True, {}),
        ("bridge", False, {}),
        ("openvswitch", False, {}),
        ("vrf", False, {"eth1": FAIL}),
    ],
)
def test_members_have_the_address_of_what_is_above(node, link_of, kind, on_master, bad):
    link_of("eth1", master="up0")
    link_of("up0", linkinfo={"info_kind": kind})
    give(node, *([local("10.1.0.1", "up0")] if on_master else []))
    assert node.bad(NOW) == bad


def test_address_in_a_vrf_is_the_interface_s_own(node, link_of):
    link_of("eth1", master="vrf1")
    link_of("vrf1", linkinfo={"info_kind": "vrf"})
    give(node, local("10.1.0.1", table="1001"))
    assert node.bad(NOW) == {}


def test_bond_of_a_bridge_is_a_port(node, link_of):
    link_of("eth1", master="bond0")
    link_of("bond0", linkinfo={"info_kind": "bond"}, master="br0")
    link_of("br0", linkinfo={"info_kind": "bridge"})
    give(node)
    assert node.bad(NOW) == {}


@pytest.mark.parametrize(("kind", "bad"), [("vlan", {}), ("macvlan", {}), ("veth", {"eth1": FAIL})])
def test_address_on_top(node, link_of, kind, bad):
    """The two ends of a veth name each other as what is below."""
    link_of("top0", link="eth1", linkinfo={"info_kind": kind})
    give(node, local("10.1.0.1", "top0"))
    assert node.bad(NOW) == bad


def test_interfaces_that_name_each_other_end(node, link_of):
    link_of("bond0", linkinfo={"info_kind": "bond"}, master="bond1")
    link_of("bond1", linkinfo={"info_kind": "bond"}, master="bond0")
    link_of("eth1", master="bond0")
    give(node)
    assert node.bad(NOW) == {"eth1": FAIL}


def test_infiniband_without_an_address_only_warns(node, link_of):
    link_of("eth1", link_type="infiniband")
    give(node)
    assert node.bad(NOW) == {"eth1": WARN}


@pytest.mark.parametrize(
    ("other", "bad"),
    [
        (local("10.144.11.11", "eth0"), {"eth1 10.144.11.11": FAIL}),
        (local("10.144.11.11", "lo"), {}),
        (local("10.144.11.11", "eth0", table="1001"), {}),
        (local("10.144.11.12", "eth0"), {}),
    ],
)
def test_address_of_two_interfaces(node, other, bad):
    give(node, local("10.144.11.11"), other)
    assert node.bad(NOW) == bad


def test_link_local_addresses_may_be_alike(node):
    give(node, local("10.144.11.11"), ipv6=[local("fe80::1"), local("fe80::1", "eth0")])
    assert node.bad(NOW) == {}


@pytest.mark.parametrize("check_id", [NOW, LATER])
def test_interface_that_is_not_there(node, check_id):
    node.values["jumbo_mtu_interfaces"] = ["eth9"]
    assert node.bad(check_id) == {"eth9": FAIL}


@pytest.mark.parametrize(
    ("live", "bad"),
    [
        (["10.144.11.11", "10.144.11.99"], {"eth1 10.144.11.99": WARN}),
        (["10.144.11.99"], {"eth1 10.144.11.99": FAIL, f"eth1 {NETWORKD_FILE}:5": FAIL}),
        (["169.254.1.1", "10.144.11.11"], {}),
    ],
)
def test_address_that_no_file_gives(node, live, bad):
    give(node, *map(local, live), ipv6=[local("2001:db8::5"), local("fe80::1")])
    assert node.bad(LATER) == bad


@pytest.mark.parametrize(
    ("more", "live", "bad"),
    [
        ("[Network]\nDHCP=yes\n", ["10.144.11.11", "10.9.9.9"], {}),
        ("[Network]\nDHCP=ipv4\n", ["10.144.11.11", "10.9.9.9"], {}),
        ("[Network]\nDHCP=ipv6\n", ["10.144.11.11", "10.9.9.9"], {"eth1 10.9.9.9": WARN}),
        ("[Network]\nDHCP=no\n", ["10.144.11.11", "10.9.9.9"], {"eth1 10.9.9.9": WARN}),
        ("[Address]\nAddress=10.9.9.9/8\n", ["10.144.11.11", "10.9.9.9"], {}),
        ("[Address]\nAddress=10.9.9.9/8\n", ["10.144.11.11"], {"eth1 {}:2": FAIL}),
        ("[Network]\nAddress=\nAddress=10.9.9.9/8\n", ["10.9.9.9"], {}),
        ("[Network]\nAddress=\nAddress=0.0.0.0/24\n", ["192.168.7.1"], {}),
        ("[Network]\nAddress=169.254.9.9/16\n", ["10.144.11.11"], {}),
        ("[Network]\nAddress=10.0.0.999/24\n", ["10.144.11.11"], {"": UNKNOWN}),
        ("[Network]\nAddress=\x1b[2J<b>\n", ["10.144.11.11"], {"": UNKNOWN}),
    ],
)
def test_files_of_networkd(node, more, live, bad):
    path = f"{NETWORKD_FILE}.d/50-site.conf"
    node.add("glob /etc/systemd/network/*.network.d/*.conf", path, more)
    give(node, *map(local, live))
    assert node.bad(LATER) == {subject.format(path): one for subject, one in bad.items()}


@pytest.mark.parametrize(
    ("old", "new", "live", "bad"),
    [
        ("", "", ["10.144.11.12"], {}),
        ("", "", [], {f"eth1 {IFUPDOWN_FILE}:4": FAIL}),
        ("", "", ["10.144.11.12", "10.9.9.9"], {"eth1 10.9.9.9": WARN}),
        ("address 10.144.11.12/24", "address 10.144.11.12", ["10.144.11.12"], {}),
        ("mtu 9000", "up ip addr add 10.9.9.9/8 dev eth1", ["10.144.11.12", "10.9.9.9"], {}),
        (
            "mtu 9000",
            "up ip link set eth1 mtu 9000",
            ["10.144.11.12", "10.9.9.9"],
            {"eth1 10.9.9.9": WARN},
        ),
        ("inet static", "inet dhcp", ["10.9.9.9"], {}),
        ("inet static", "inet manual", ["10.9.9.9"], {"eth1 10.9.9.9": FAIL}),
        ("iface eth1 inet", "iface eth1:1 inet", ["10.144.11.12"], {}),
        ("address 10.144.11.12/24", "address nonsense", ["10.144.11.12"], {"": UNKNOWN}),
    ],
)
def test_files_of_ifupdown(ifupdown, old, new, live, bad):
    found = ifupdown.named("glob /etc/network/interfaces.d/*", IFUPDOWN_FILE)
    found["text"] = found["text"].replace(old, new) if old else found["text"]
    assert give(ifupdown, *map(local, live)).bad(LATER) == bad


def test_what_others_configure_is_not_judged_by_files(node):
    for result in node.results["glob /run/systemd/netif/links/*"]:
        result["text"] = "ADMIN_STATE=unmanaged\n"
    assert node.bad(LATER) == {"eth1": NOT_APPLICABLE}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "[1]",
        '[{"type": "local", "dst": "\\u001b[31m<script>", "dev": "eth1"}]',
        '[{"type": "local", "dst": "10.0.0.1/99", "dev": "eth1"}]',
        f'[{{"type": "local", "dst": "{"9" * 5000}", "dev": "eth1"}}]',
        '[{"type": "local", "dst": 5, "dev": "eth1"}]',
        "[" * 5000,
    ],
)
@pytest.mark.parametrize("check_id", [NOW, LATER])
def test_what_is_not_understood_never_passes(node, check_id, text):
    node.put(IPV4, text=text)
    node.put(IPV6, text="[]")
    assert node.bad(check_id) == {"": UNKNOWN}
    with pytest.raises((NoEvidenceError, NotUnderstoodError)):
        addresses_of(parse_routes(text))


@pytest.mark.parametrize("text", ["", "x", "1.2.3", "10.0.0.1 10.0.0.2", "9" * 400])
def test_text_that_is_no_address(text):
    with pytest.raises(NotUnderstoodError):
        parse_address(text)


@pytest.mark.parametrize("check_id", [NOW, LATER])
@pytest.mark.parametrize("spoilt", NOT_WHOLE)
def test_without_whole_evidence_nothing_passes(node, check_id, spoilt):
    assert node.judged_without_whole(check_id, spoilt) == []


@pytest.mark.parametrize("check_id", [NOW, LATER])
def test_what_was_not_observed_is_unknown(node, check_id):
    del node.results[IPV4]
    assert node.bad(check_id) == {"": UNKNOWN}
