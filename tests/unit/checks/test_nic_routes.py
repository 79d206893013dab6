"""Where packets for a data network go: as the kernel looks it up, one thing spoilt at a time."""

from __future__ import annotations

import json

import pytest

from hfprov.baseline import Baseline, Value
from hfprov.checks.registry import Facts
from hfprov.evidence.ip_rules import IP_RULES, parse_rules
from hfprov.evidence.local_addresses import LOCAL_ADDRESSES
from hfprov.evidence.managed_links import LINKS
from hfprov.judge import find_check, findings_of
from hfprov.reading import Observation
from hfprov.verdict import Outcome

PASS, FAIL, UNKNOWN, NOT = Outcome.PASS, Outcome.FAIL, Outcome.UNKNOWN, Outcome.NOT_APPLICABLE
BASELINE = Baseline("n1", (), {"jumbo_mtu_interfaces": Value(["eth1"], "")})
(LINK,) = LINKS.reads(BASELINE)
V4, V6 = LOCAL_ADDRESSES.reads(BASELINE)
(RULES,) = IP_RULES.reads(BASELINE)
DATA = "10.1.1.0/24"
GOOD = {f"eth1 {DATA}": PASS}


def link(name, **more):
    flags = ["BROADCAST", "MULTICAST", "UP", "LOWER_UP"]
    return {"ifname": name, "mtu": 9000, "flags": flags, "link_type": "ether"} | more


def local(address, device, broadcast="", **more):
    found = [{"type": "local", "dst": address, "dev": device, "table": "local"} | more]
    if broadcast:
        found.append({"type": "broadcast", "dst": broadcast, "dev": device, "table": "local"})
    return found


MINE = [*local("10.1.0.11", "eth0", "10.1.0.255"), *local("10.1.1.11", "eth1", "10.1.1.255")]
MAIN = [
    {"dst": "default", "dev": "eth0", "gateway": "10.1.0.1"},
    {"dst": "10.1.0.0/24", "dev": "eth0", "prefsrc": "10.1.0.11"},
    {"dst": DATA, "dev": "eth1", "prefsrc": "10.1.1.11"},
]
USUAL = [
    {"priority": 0, "src": "all", "table": "local"},
    {"priority": 32766, "src": "all", "table": "main"},
    {"priority": 32767, "src": "all", "table": "default"},
]


def answer(document):
    return [{"name": "ip", "status": "ok", "code": 0, "text": json.dumps(document)}]


def judged(routes=(), rules=(), main=MAIN, mine=MINE, links=None, told=None):
    links = links or [link("eth0"), link("eth1")]
    results = {
        LINK.id: answer(links),
        V4.id: answer([*main, *routes, *mine]),
        V6.id: answer([]),
        RULES.id: answer([*rules, *USUAL]),
    }
    seen = Observation.from_json({"results": results | (told or {})})
    found = findings_of(find_check("nic.routes"), Facts(seen, BASELINE), BASELINE)
    return {one.subject: one.outcome for one in found}


def test_the_kernels_own_route_is_right():
    assert judged() == GOOD


@pytest.mark.parametrize(
    ("route", "subject"),
    [
        ({"type": "blackhole", "dst": "10.1.1.12"}, "10.1.1.12/32"),
        ({"type": "unreachable", "dst": "10.1.1.128/25"}, "10.1.1.128/25"),
        ({"dst": "10.1.1.12", "dev": "eth0"}, "10.1.1.12/32"),
        ({"dst": "10.1.1.0/25", "dev": "eth0", "gateway": "10.1.0.1"}, "10.1.1.0/25"),
        ({"dst": "10.1.1.0/25", "nexthops": [{"dev": "eth1"}, {"dev": "eth0"}]}, "10.1.1.0/25"),
        ({"type": "local", "dst": "10.1.1.12", "dev": "lo", "table": "local"}, "10.1.1.12/32"),
    ],
)
def test_a_part_of_the_network_led_elsewhere(route, subject):
    assert judged([route]) == {f"eth1 {DATA} to {subject}": FAIL}


@pytest.mark.parametrize(
    "route",
    [
        {"dst": "10.1.1.12", "dev": "eth1"},
        {"dst": "10.1.0.0/16", "dev": "eth0"},
        {"dst": "10.1.2.0/24", "dev": "eth0"},
        {"type": "blackhole", "dst": "10.0.0.0/8"},
        {"dst": DATA, "dev": "eth0", "metric": 100},
        {"dst": "10.1.1.12", "dev": "eth0", "table": "77"},
        {"type": "throw", "dst": "10.1.1.12"},
        {"type": "multicast", "dst": "10.1.1.12", "dev": "eth0", "table": "local"},
    ],
)
def test_what_leads_nothing_of_it_elsewhere(route):
    assert judged([route]) == GOOD


def test_of_two_routes_that_fit_alike_the_lower_metric_is_taken():
    both = [{"dst": DATA, "dev": "eth1", "metric": 200}, {"dst": DATA, "dev": "eth0", "metric": 50}]
    assert judged(main=both) == {f"eth1 {DATA}": FAIL}


@pytest.mark.parametrize("main", [MAIN[:2], [], [{"type": "throw", "dst": DATA}]])
def test_without_the_kernels_route_the_network_is_still_known(main):
    assert judged(main=main) == {f"eth1 {DATA}": FAIL}


@pytest.mark.parametrize(
    ("rule", "is_right"),
    [
        ({"src": "all", "dst": "10.1.1.0", "dstlen": 24, "action": "prohibit"}, False),
        ({"src": "all", "action": "blackhole"}, False),
        ({"src": "10.1.1.11", "table": "77"}, False),
        ({"src": "10.1.1.0", "srclen": 24, "iif": "lo", "table": "77"}, False),
        ({"not": None, "src": "10.1.0.11", "table": "77"}, False),
        ({"not": None, "src": "all", "fwmark": "0x1", "table": "77"}, False),
        ({"src": "10.1.1.11", "table": "77", "suppress_prefixlen": 0}, True),
        ({"src": "10.1.0.11", "table": "77"}, True),
        ({"not": None, "src": "10.1.1.11", "table": "77"}, True),
        ({"src": "all", "fwmark": "0x1", "table": "77"}, True),
        ({"src": "all", "iif": "eth0", "table": "77"}, True),
        ({"src": "all", "dst": "10.9.0.0", "dstlen": 16, "action": "prohibit"}, True),
        ({"src": "10.1.1.11", "table": "78"}, True),
        ({"src": "10.1.1.11", "table": "99"}, True),
        ({"src": "all", "nop": None}, True),
    ],
)
def test_rules_of_policy_routing(rule, is_right):
    tables = [
        {"dst": "default", "dev": "eth0", "table": "77"},
        {"dst": "default", "dev": "eth1", "gateway": "10.1.1.1", "table": "78"},
    ]
    expected = GOOD if is_right else {f"eth1 {DATA}": FAIL}
    assert judged(tables, [{"priority": 100} | rule]) == expected


def test_a_rule_for_a_part_of_the_network_decides_that_part_alone():
    rule = {"priority": 100, "src": "all", "dst": "10.1.1.12", "action": "unreachable"}
    assert judged(rules=[rule]) == {f"eth1 {DATA} to 10.1.1.12/32": FAIL}


def test_a_jump_passes_rules_by():
    rules = [
        {"priority": 10, "src": "all", "goto": 32766},
        {"priority": 20, "src": "all", "action": "prohibit"},
    ]
    assert judged(rules=rules) == GOOD
    assert judged(rules=rules[1:]) == {f"eth1 {DATA}": FAIL}


def test_rails_in_one_network_may_send_for_each_other():
    mine = [*MINE, *local("10.1.1.21", "eth2", "10.1.1.255")]
    main = [{"dst": DATA, "dev": "eth2"}, *MAIN]
    assert judged(main=main, mine=mine) == GOOD


def test_an_address_above_the_interface_is_its_own():
    links = [link("eth1", master="bond0"), link("bond0", linkinfo={"info_kind": "bond"})]
    mine = local("10.1.1.11", "bond0", "10.1.1.255")
    assert judged(main=[{"dst": DATA, "dev": "bond0"}], mine=mine, links=links) == GOOD


@pytest.mark.parametrize(
    "mine", [local("10.1.1.11", "eth1"), local("169.254.3.3", "eth1", "169.254.255.255")]
)
def test_without_a_network_of_its_own_nothing_is_judged(mine):
    assert judged(mine=mine) == {"eth1": NOT}


def test_containers_may_have_addresses_of_the_network():
    veth = {"linkinfo": {"info_kind": "veth"}}
    links = [link("eth0", **veth), link("eth1"), link("cali1", **veth)]
    assert judged([{"dst": "10.1.1.50", "dev": "cali1", "scope": "link"}], links=links) == GOOD
    expected = {f"eth1 {DATA} to 10.1.1.50/32": FAIL}
    assert judged([{"dst": "10.1.1.50", "dev": "eth0"}], links=links) == expected
    assert judged([{"dst": "10.1.1.50", "dev": "cali1"}]) == expected


def test_a_vrf_is_left_alone():
    links = [link("eth1", master="red"), link("red", linkinfo={"info_kind": "vrf"})]
    assert judged(links=links) == {"eth1": NOT}


def test_arp_that_is_off_and_an_interface_that_is_gone():
    assert judged(links=[link("eth1", flags=["UP", "NOARP"])]) == {"eth1 ARP": FAIL} | GOOD
    assert judged(links=[link("eth0")]) == {"eth1": FAIL}


def test_many_routes_to_single_nodes_are_a_few_findings():
    many = [{"dst": f"10.1.1.{last}", "dev": "eth0"} for last in range(20, 200)]
    assert len(judged(many)) == 8


@pytest.mark.parametrize("read", [RULES.id, V4.id])
@pytest.mark.parametrize(
    "told",
    [
        [],
        [{"name": "ip", "status": "absent"}],
        [{"name": "ip", "status": "timeout"}],
        [{"name": "ip", "status": "ok", "code": 255, "text": "", "stderr": "unknown option -j"}],
        [{"name": "ip", "status": "ok", "code": 0, "text": "[{]"}],
        [{"name": "ip", "status": "ok", "code": 0, "text": "[]"}],
        [{"name": "ip", "status": "ok", "code": 0, "text": '[{"priority":"x","dst":"\x1b"}]'}],
    ],
)
def test_what_was_not_seen_never_passes(read, told):
    assert judged(told={read: told}) == {"": UNKNOWN}


def test_evidence_of_before_there_was_this_check_is_unknown():
    seen = Observation.from_json({"results": {LINK.id: answer([link("eth1")])}})
    (found,) = findings_of(find_check("nic.routes"), Facts(seen, BASELINE), BASELINE)
    assert found.outcome is UNKNOWN


def test_nobody_is_asked_where_no_data_interface_is_declared():
    bare = Baseline("n1", (), {})
    assert IP_RULES.reads(bare) == ()
    (found,) = findings_of(find_check("nic.routes"), Facts(Observation({}), bare), bare)
    assert found.outcome is NOT


def test_rules_are_sorted_as_the_kernel_asks_them():
    assert [one.priority for one in parse_rules(json.dumps(USUAL[::-1]))] == [0, 32766, 32767]


def test_where_packets_go_instead_is_told():
    routes = [{"type": "blackhole", "dst": "10.1.1.12"}, {"dst": "10.1.1.13", "dev": "eth0"}]
    results = {
        LINK.id: answer([link("eth1")]),
        V4.id: answer([*MAIN, *MINE, *routes]),
        V6.id: answer([]),
        RULES.id: answer(USUAL),
    }
    seen = Observation.from_json({"results": results})
    found = findings_of(find_check("nic.routes"), Facts(seen, BASELINE), BASELINE)
    assert [one.observed for one in found] == ["blackhole", "by 'eth0'"]
