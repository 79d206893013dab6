"""Where packets for a data network of IPv6 go: one route spoilt at a time."""

from __future__ import annotations

import json

import pytest

from hfprov.baseline import Baseline, Value
from hfprov.checks.registry import Facts
from hfprov.evidence.local_addresses import LOCAL_ADDRESSES
from hfprov.evidence.managed_links import LINKS
from hfprov.judge import find_check, findings_of
from hfprov.reading import Observation
from hfprov.verdict import Outcome

PASS, FAIL, UNKNOWN, NOT = Outcome.PASS, Outcome.FAIL, Outcome.UNKNOWN, Outcome.NOT_APPLICABLE
BASELINE = Baseline("n1", (), {"jumbo_mtu_interfaces": Value(["eth1"], "")})
(LINK,) = LINKS.reads(BASELINE)
V4, V6 = LOCAL_ADDRESSES.reads(BASELINE)
DATA = "fd00:1::/64"
GOOD = {f"eth1 {DATA}": PASS}


def link(name, **more):
    flags = ["BROADCAST", "MULTICAST", "UP", "LOWER_UP"]
    return {"ifname": name, "mtu": 9000, "flags": flags, "link_type": "ether"} | more


def local(address, device):
    return {"type": "local", "dst": address, "dev": device, "table": "local"}


KERNELS = [
    {"dst": DATA, "dev": "eth1", "protocol": "kernel", "metric": 256},
    {"dst": "fe80::/64", "dev": "eth1", "metric": 256},
    {"dst": "default", "dev": "eth0", "metric": 1024},
    local("::1", "lo"),
    local("fd00:1::11", "eth1"),
    local("fe80::1", "eth1"),
    {"type": "anycast", "dst": "fd00:1::", "dev": "eth1", "table": "local"},
    {"type": "multicast", "dst": "ff00::/8", "dev": "eth1", "table": "local"},
]


def answer(document):
    return [{"name": "ip", "status": "ok", "code": 0, "text": json.dumps(document)}]


def judged(*routes, base=KERNELS, links=(), baseline=BASELINE, told=None):
    results = {
        LINK.id: answer([link("eth0"), link("eth1"), *links]),
        V4.id: answer([local("127.0.0.1", "lo")]),
        V6.id: answer([*base, *routes]),
    }
    seen = Observation.from_json({"results": results | (told or {})})
    found = findings_of(find_check("nic.routes.ipv6"), Facts(seen, baseline), baseline)
    return {one.subject: one.outcome for one in found}


def test_the_kernels_own_routes_are_right():
    assert judged() == GOOD


@pytest.mark.parametrize(
    "route",
    [
        {"type": "blackhole", "dst": "fd00:1::12", "dev": "lo", "metric": 1024},
        {"type": "unreachable", "dst": "fd00:1::/80", "dev": "lo", "metric": 1024},
        {"type": "prohibit", "dst": "fd00:1::/80", "metric": 1024},
        {"dst": "fd00:1::12", "dev": "eth0", "gateway": "fe80::9", "metric": 1024},
        {"dst": "fd00:1::12", "nexthops": [{"dev": "eth1"}, {"dev": "eth0"}]},
        local("fd00:1::12", "eth0"),
    ],
)
def test_a_part_of_the_network_led_elsewhere(route):
    ((subject, outcome),) = judged(route).items()
    assert subject.startswith(f"eth1 {DATA} to fd00:1::")
    assert outcome is FAIL


def test_the_whole_network_led_elsewhere_by_a_better_route():
    assert judged({"dst": DATA, "dev": "eth0", "metric": 100}) == {f"eth1 {DATA}": FAIL}
    assert judged({"dst": DATA, "dev": "eth0", "metric": 1024}) == GOOD


def test_what_is_none_of_its_business():
    assert judged({"dst": "fd00:2::/64", "dev": "eth0", "metric": 1}) == GOOD
    assert judged({"type": "throw", "dst": "fd00:1::12", "metric": 1}) == GOOD
    other = {"dst": "fd00:1::12", "dev": "eth0", "metric": 1, "table": "100"}
    assert judged(other) == GOOD
    guest = link("veth0", linkinfo={"info_kind": "veth"})
    assert judged({"dst": "fd00:1::12", "dev": "veth0", "metric": 1}, links=[guest]) == GOOD


def test_rails_may_share_a_network():
    second = [{"dst": DATA, "dev": "eth2", "metric": 256}, local("fd00:1::22", "eth2")]
    assert judged(*second, links=[link("eth2")]) == GOOD


def test_interface_without_a_network_of_ipv6():
    assert judged(base=[local("::1", "lo"), local("fe80::1", "eth1")]) == {"eth1": NOT}
    assert judged(baseline=Baseline("n1", (), {})) == {"": NOT}


def test_routes_that_nobody_told_never_pass():
    assert judged(told={V6.id: [{"name": "", "status": "timeout"}]}) == {"": UNKNOWN}
    assert judged({"dst": "rubbish", "dev": "eth1"}) == {"": UNKNOWN}
    assert judged(told={LINK.id: answer([link("eth0")])}) == {"eth1": FAIL}
