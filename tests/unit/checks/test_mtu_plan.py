"""What the role jumbo_mtu would do to a node: its planning script, run on made-up nodes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "roles/jumbo_mtu/files/plan_mtu.py"


@pytest.fixture
def plan():
    spec = importlib.util.spec_from_file_location("plan_mtu", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def edited(plan, text, name="eth1", mtu=9000):
    files = {"f": text.split("\n")}
    plan.edit(files, name, mtu)
    return "\n".join(files["f"])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "auto eth1\niface eth1 inet static\n    address 10.0.0.1/24\n",
            "auto eth1\niface eth1 inet static\n    mtu 9000\n    address 10.0.0.1/24\n",
        ),
        (
            "iface eth1 inet dhcp",
            "iface eth1 inet dhcp\n    post-up ip link set dev $IFACE mtu 9000",
        ),
        (
            "iface eth1 inet manual\n  mtu 1500\n\nauto eth2\niface eth2 inet dhcp\n  mtu 1500\n",
            "iface eth1 inet manual\n    mtu 9000\n\nauto eth2\niface eth2 inet dhcp\n  mtu 1500\n",
        ),
        (
            "iface eth1 inet6 static\n  mtu 1500\niface eth1 inet static\n  address 10.0.0.1/24",
            "iface eth1 inet6 static\niface eth1 inet static\n    mtu 9000\n  address 10.0.0.1/24",
        ),
        (
            "iface eth1 inet static\n  mtu 9000\n  mtu 1500",
            "iface eth1 inet static\n    mtu 9000",
        ),
    ],
)  # fmt: skip
def test_stanza_gets_the_mtu_once_and_the_rest_stays(plan, before, after):
    assert edited(plan, before) == after
    assert edited(plan, after) == after, "not idempotent"


def test_line_of_the_site_that_is_right_already_stays_where_it_is(plan):
    text = "iface eth1 inet static\n  address 10.0.0.1/24\n\tmtu 9000\n"
    assert edited(plan, text) == text


def test_commands_of_the_site_are_told_from_ours(plan):
    text = "iface eth1 inet dhcp\n post-up ip link set dev eth1 mtu 9000\n up ifconfig eth1 mtu 1\n"
    found = list(plan.foreign_commands({"f": text.split("\n")}, "eth1"))
    assert found == [("f", "up ifconfig eth1 mtu 1")]


def link(name, **more):
    return {"ifname": name, "ifindex": 1, "mtu": 1500, "min_mtu": 68, "max_mtu": 9600, **more}


def management(plan, monkeypatch, links, routes=(), session=("10.0.0.9", "10.0.0.1"), dev="eth0"):
    addresses = [{"ifname": "eth0", "addr_info": [{"local": "10.0.0.1"}]}]

    def fake_ip(*arguments):
        if arguments[0] == "-4":
            return list(routes)
        return {"address": addresses, "route": [{"dev": dev}]}.get(arguments[0], [])

    monkeypatch.setattr(plan, "ip", fake_ip)
    monkeypatch.setattr(plan, "session_addresses", lambda: session)
    return plan.management({one["ifname"]: one for one in links}, over_ssh=True)


def test_interface_of_the_session_is_management(plan, monkeypatch):
    reasons, unknown = management(plan, monkeypatch, [link("eth0"), link("eth1")])
    assert (set(reasons), unknown) == ({"eth0"}, [])


def test_way_back_to_the_client_is_management_too(plan, monkeypatch):
    reasons, _ = management(plan, monkeypatch, [link("eth0"), link("eth1")], dev="eth1")
    assert set(reasons) == {"eth0", "eth1"}


def test_default_route_and_all_that_it_is_built_on_is_management(plan, monkeypatch):
    links = [
        link("eth0"), link("eth1", master="bond0"), link("eth2", master="bond0"),
        link("bond0"), link("vlan7", link="bond0"), link("eth3"),
    ]  # fmt: skip
    routes = [{"dst": "default", "nexthops": [{"dev": "vlan7"}]}]
    reasons, _ = management(plan, monkeypatch, links, routes)
    assert set(reasons) == {"eth0", "vlan7", "bond0", "eth1", "eth2"}


def test_session_that_cannot_be_found_stops_the_role(plan, monkeypatch):
    reasons, unknown = management(plan, monkeypatch, [link("eth0")], session=None)
    assert (reasons, len(unknown)) == ({}, 1)


@pytest.mark.parametrize(
    ("one", "mtu", "words"),
    [
        (link("eth1"), 9000, ""),
        (link("eth1"), 9601, "from 68 to 9600, not 9601"),
        (link("eth1", max_mtu=0), 65000, ""),
        (link("eth1", master="bond0"), 9000, "member of 'bond0'"),
        (link("eth1", link="eth0"), 9000, "built on 'eth0'"),
    ],
)
def test_what_an_interface_cannot_have(plan, one, mtu, words):
    bond = link("bond0", linkinfo={"info_kind": "bond"})
    problems = list(plan.link_problems(one, mtu, ["eth1"], {"bond0": bond, "eth0": link("eth0")}))
    assert [words in problem for problem in problems] == ([True] if words else [])


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([], "No network configuration"),
        (["systemd-networkd", "ifupdown"], "at once"),
        (["NetworkManager"], "managed by NetworkManager, which this role does not persist yet."),
        (["netplan"], "managed by netplan, which this role does not persist yet."),
        (["ifupdown"], ""),
    ],
)
def test_stacks_that_are_refused(plan, found, words):
    problems = list(plan.manager_problems("eth1", found))
    assert [words in problem for problem in problems] == ([True] if words else [])
