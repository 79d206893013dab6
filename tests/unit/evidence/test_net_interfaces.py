"""ip, bonding and LLDP: newer JSON, other modes, other switches, and what is cut off."""

from __future__ import annotations

import json

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.evidence import bonding, ip_link, lldp
from hfprov.evidence.bonding import BondMode

LINK = {
    "ifindex": 4,
    "ifname": "bond0",
    "flags": ["BROADCAST", "MULTICAST", "MASTER", "UP", "LOWER_UP"],
    "mtu": 9000,
    "min_mtu": 68,
    "max_mtu": 65535,
    "operstate": "UP",
    "link_type": "ether",
    "address": "b8:3f:d2:00:00:01",
    "altnames": ["bond-data"],
    "linkinfo": {"info_kind": "bond", "info_data": {"mode": "802.3ad", "tlb_dynamic_lb": True}},
    "addr_info": [
        {"family": "inet", "local": "10.0.0.1", "prefixlen": 24, "scope": "global"},
        {},
    ],
    "stats64": {
        "rx": {"bytes": 1, "packets": 2, "errors": 3, "dropped": 4, "over_errors": 5},
        "tx": {"bytes": 6, "packets": 7, "errors": 0, "dropped": 0, "carrier_errors": 8},
    },
}


def test_json_with_details_statistics_and_addresses():
    facts = ip_link.parse(json.dumps([{}, LINK]))
    bond = facts.find("bond-data")
    assert (bond.name, bond.mtu_bytes, bond.max_mtu_bytes) == ("bond0", 9000, 65535)
    assert bond.is_up
    assert bond.kind == "bond"
    assert bond.details == {"mode": "802.3ad", "tlb_dynamic_lb": "on"}
    assert [address.address for address in bond.addresses] == ["10.0.0.1"]
    assert (bond.received.overruns, bond.sent.carrier_errors) == (5, 8)


def test_an_interface_without_carrier_is_not_up():
    down = {**LINK, "flags": ["NO-CARRIER", "BROADCAST", "UP"], "operstate": "DOWN"}
    assert not ip_link.parse(json.dumps([down])).interfaces[0].is_up


def test_no_interface_is_an_empty_list_and_not_a_refusal():
    assert ip_link.parse("[]").interfaces == ()
    assert ip_link.parse("[{}]").find("eth0") is None


@pytest.mark.parametrize(
    "change", [{"mtu": "big"}, {"mtu": None, "operstate": None}, {"mtu": 1e999}]
)
def test_json_with_a_value_that_is_none_is_refused(change):
    node = {key: value for key, value in {**LINK, **change}.items() if value is not None}
    node.pop("addr_info")
    with pytest.raises(NotUnderstoodError):
        ip_link.parse(json.dumps([node]))


def test_text_of_newer_ip_with_other_counter_names():
    text = (
        "2: eth0@if3: <BROADCAST,UP,LOWER_UP> mtu 9000 qdisc mq state UP mode DEFAULT qlen 1000\n"
        "    link/ether b8:3f:d2:00:00:01 brd ff:ff:ff:ff:ff:ff permaddr b8:3f:d2:00:00:02\n"
        "    RX:  bytes packets errors dropped  missed   mcast           \n"
        "       1000      10      1       2       3       4 \n"
        "    TX:  bytes packets errors dropped carrier collsns           \n"
        "       2000      20      0       0       5       6 \n"
        "    altname enp1s0f0np0\n"
    )
    eth0 = ip_link.parse(text).find("enp1s0f0np0")
    assert (eth0.parent, eth0.permanent_address) == ("if3", "b8:3f:d2:00:00:02")
    assert (eth0.received.overruns, eth0.received.multicast) == (3, 4)
    assert (eth0.sent.carrier_errors, eth0.sent.collisions) == (5, 6)


def test_one_line_and_brief_forms():
    one = r"2: eth0: <UP> mtu 1500 qdisc mq state DOWN \    link/ether b8:3f:d2:00:00:01 brd x"
    assert ip_link.parse(one).interfaces[0].hardware_address == "b8:3f:d2:00:00:01"
    brief = (
        "eth0  UP  b8:3f:d2:00:00:01 <BROADCAST,UP,LOWER_UP>\nib0  DOWN  10.0.0.1/24 fe80::1/64\n"
    )
    eth0, ib0 = ip_link.parse(brief).interfaces
    assert eth0.is_up
    assert ib0.operstate == "DOWN"
    assert [address.family for address in ib0.addresses] == ["inet", "inet6"]


def test_vlan_details():
    text = (
        "5: v10@eth0: <UP> mtu 9000 qdisc noqueue state UP\n    link/ether b8:3f:d2:00:00:01\n"
        "    vlan protocol 802.1Q id 10 <REORDER_HDR> egress-qos-map { 3:3 } numtxqueues 8\n"
    )
    vlan = ip_link.parse(text).interfaces[0]
    assert (vlan.kind, vlan.details["id"], vlan.tx_queues) == ("vlan", "10", 8)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2: eth0: <UP> mtu 9000 qdisc mq state UP\n",
        "2: eth0: <UP> mtu\n",
        "    link/ether b8:3f:d2:00:00:01\n",
        "2: e: <UP> mtu 9000\n    link/ether x\n    RX: bytes  packets  errors  dropped\n    1 2\n",
        "2: e: <UP> mtu 9000\n    link/ether x\n    RX: bytes  packets  errors  dropped\n",
        "10.0.0.1 dev eth0 lladdr 00:00:00:00:00:01\n",
        'Device "eth9" does not exist.\n',
    ],
)
def test_what_is_cut_off_or_no_interface_is_refused(text):
    with pytest.raises(NotUnderstoodError):
        ip_link.parse(text)


MEMBER = """\

Slave Interface: {name}
MII Status: up
Speed: {speed} Mbps
Duplex: full
Link Failure Count: 0
Permanent HW addr: b8:3f:d2:00:00:01
Aggregator ID: {aggregator}
"""
LACP = """\
Ethernet Channel Bonding Driver: v6.8.0-45-generic

Bonding Mode: IEEE 802.3ad Dynamic link aggregation
Transmit Hash Policy: layer3+4 (1)
MII Status: up
MII Polling Interval (ms): 100

802.3ad info
LACP active: on
LACP rate: fast
Active Aggregator Info:
\tAggregator ID: 1
\tNumber of ports: 2
\tPartner Mac Address: 44:38:39:00:00:01
"""
GOOD = (
    LACP
    + MEMBER.format(name="a", speed=400000, aggregator=1)
    + MEMBER.format(name="b", speed=400000, aggregator=1)
)


def test_a_good_lacp_bond_has_no_problem():
    (bond,) = bonding.parse(GOOD)
    assert bond.problems == ()
    assert bond.aggregator.partner_address == "44:38:39:00:00:01"
    assert [member.speed_mbps for member in bond.members] == [400000, 400000]


def test_a_lost_member_is_found_even_when_its_lines_are_missing():
    text = LACP + MEMBER.format(name="a", speed=400000, aggregator=1)
    (bond,) = bonding.parse(text)
    assert bond.problems == ("The aggregator has 2 ports, but 1 members are listed in it.",)


def test_members_of_unlike_speed_are_a_problem():
    (bond,) = bonding.parse(GOOD.replace("Speed: 400000", "Speed: 100000", 1))
    assert "The members that are up do not have the same speed." in bond.problems


@pytest.mark.parametrize(
    ("words", "mode"),
    [
        ("load balancing (round-robin)", BondMode.BALANCE_RR),
        ("fault-tolerance (active-backup) (fail_over_mac active)", BondMode.ACTIVE_BACKUP),
        ("fault-tolerance (broadcast)", BondMode.BROADCAST),
        ("transmit load balancing", BondMode.BALANCE_TLB),
        ("adaptive load balancing", BondMode.BALANCE_ALB),
    ],
)
def test_all_modes(words, mode):
    text = GOOD.replace("IEEE 802.3ad Dynamic link aggregation", words)
    assert bonding.parse(text)[0].mode is mode


def test_two_bonds_in_one_text():
    assert len(bonding.parse(GOOD + GOOD)) == 2


def test_a_bond_cut_off_at_any_line_is_refused_or_has_a_problem():
    lines = GOOD.splitlines()
    for end in range(len(lines)):
        try:
            bonds = bonding.parse("\n".join(lines[:end]))
        except NotUnderstoodError:
            continue
        assert bonds[0].problems, f"cut off after line {end}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        GOOD.replace("IEEE 802.3ad", "IEEE 802.3zz"),
        GOOD.replace("MII Status: up", "MII Status: u"),
        GOOD.replace("Slave Interface: a", "Slave Interface:"),
        GOOD.replace("Aggregator ID: 1", "Aggregator ID: one"),
    ],
)
def test_a_corrupt_bond_is_refused(text):
    with pytest.raises(NotUnderstoodError):
        bonding.parse(text)


JSON0 = {
    "lldp": [
        {
            "interface": [
                {
                    "name": "ens1",
                    "via": "LLDP",
                    "chassis": [
                        {
                            "id": [{"type": "mac", "value": "44:38:39:00:00:01"}],
                            "name": [{"value": "leaf01"}],
                            "mgmt-ip": [{"value": "10.0.0.9"}],
                            "capability": [
                                {"type": "Bridge", "enabled": True},
                                {"type": "Wlan", "enabled": False},
                            ],
                        }
                    ],
                    "port": [
                        {
                            "id": [{"type": "ifname", "value": "swp1"}],
                            "ttl": [{"value": "120"}],
                            "mfs": [{"value": "9216"}],
                        }
                    ],
                }
            ]
        }
    ]
}


def test_lldp_json0():
    (neighbour,) = lldp.parse(json.dumps(JSON0)).of("ens1")
    assert (neighbour.chassis_name, neighbour.port_id) == ("leaf01", "swp1")
    assert neighbour.management_addresses == ("10.0.0.9",)
    assert (neighbour.ttl_s, neighbour.maximum_frame_bytes) == (120, 9216)
    assert neighbour.capabilities == ("Bridge",)


def test_lldp_keyvalue_with_a_dotted_interface():
    text = (
        "lldp.bond0.10.via=LLDP\nlldp.bond0.10.rid=1\nlldp.bond0.10.chassis.mac=44:38:39:00:00:01\n"
        "lldp.bond0.10.chassis.name=leaf01\nlldp.bond0.10.chassis.Bridge.enabled=on\n"
        "lldp.bond0.10.port.ifname=swp1\nlldp.bond0.10.port.ttl=120\n"
    )
    (neighbour,) = lldp.parse(text).neighbours
    assert (neighbour.interface, neighbour.chassis_name) == ("bond0.10", "leaf01")
    assert neighbour.capabilities == ("Bridge",)


def test_lldp_keyvalue_of_parts_that_are_no_chassis_port_or_vlan():
    text = (
        "lldp.bond0.10.via=LLDP\nlldp.bond0.10.chassis.mac=44:38:39:00:00:01\n"
        "lldp.bond0.10.port.ifname=swp1\nlldp.bond0.10.lldp-med.Policy.available=yes\n"
        "lldp.bond0.10.unknown-tlvs.unknown-tlv.len=12\nlldp.ens1.via=LLDP\n"
        "lldp.ens1.chassis.mac=44:38:39:00:00:02\nlldp.ens1.port.ifname=swp2\n"
    )
    neighbours = lldp.parse(text).neighbours
    assert [(one.interface, one.port_id) for one in neighbours] == [
        ("bond0.10", "swp1"),
        ("ens1", "swp2"),
    ]


def test_counters_of_virtual_functions_are_not_those_of_the_interface():
    text = (
        "2: e: <UP> mtu 9000\n    link/ether 02:00:00:00:00:01 brd ff:ff:ff:ff:ff:ff\n"
        "    RX: bytes  packets  errors  dropped\n    10 20 30 40\n"
        "    TX: bytes  packets  errors  dropped\n    11 21 31 41\n"
        "    vf 0     link/ether 02:00:00:00:00:02 brd ff:ff:ff:ff:ff:ff, trust off\n"
        "    RX: bytes  packets  mcast   bcast   dropped\n    1 2 3 4 5\n"
        "    TX: bytes  packets   dropped\n    1 2 3\n"
        "    vf 1     link/ether 02:00:00:00:00:03 brd ff:ff:ff:ff:ff:ff, trust off\n"
    )
    (interface,) = ip_link.parse(text).interfaces
    assert interface.virtual_functions == 2
    assert interface.received is not None
    assert interface.sent is not None
    assert (interface.received.errors, interface.sent.errors) == (30, 31)


def test_lldp_text():
    text = (
        "-----\nLLDP neighbors:\n-----\n"
        "Interface:    ens1, via: LLDP, RID: 1, Time: 0 day, 00:01:02\n"
        "  Chassis:     \n    ChassisID:    mac 44:38:39:00:00:01\n    SysName:      leaf01\n"
        "    Capability:   Bridge, on\n    Capability:   Router, off\n  Port:        \n"
        "    PortID:       ifname swp1\n    TTL:          120\n"
        "  VLAN:         10, pvid: yes VLAN10\n"
    )
    (neighbour,) = lldp.parse(text).neighbours
    assert (neighbour.port_id, neighbour.port_vlan_id) == ("swp1", 10)
    assert neighbour.capabilities == ("Bridge",)


def test_lldp_without_a_neighbour_is_an_empty_answer():
    assert lldp.parse('{"lldp": {}}').neighbours == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"lldp": {"interface": {"eth0": {"port": {}}}}}',
        '{"lldp": {"interface": 3}}',
        "Chassis ID TLV\n\tMAC: 58:f3:9c:e7:ec:95\n",
        "Chassis ID TLV\n\tMAC: 58:f3:9c:e7:ec:95\nPort ID TLV\n\tIfname: Ethernet1/14\n",
        "Chassis ID TLV\n\tMAC: 58:f3:9c:e7:ec:95\nEnd of LLDPDU TLV\n",
        "Agent instance for device not found\n",
    ],
)
def test_lldp_that_is_no_neighbour_is_refused(text):
    with pytest.raises(NotUnderstoodError):
        lldp.parse(text)
