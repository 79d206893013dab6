"""What the role jumbo_mtu would do to a node: its planning script, run on made-up nodes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import yaml

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
    route = "iface eth1 inet dhcp\n up ip -4 route add 10.1.0.0/16 dev eth1 mtu 1500"
    assert list(plan.foreign_commands({"f": route.split("\n")}, "eth1")) == []
    both = f"{route} && ip link set eth1 mtu 1500\n".split("\n")
    assert len(list(plan.foreign_commands({"f": both}, "eth1"))) == 1


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
        (["NetworkManager"], None),
        (["netplan"], None),
        (["ifupdown"], ""),
    ],
)
def test_stacks_that_are_refused(plan, found, words):
    problems = list(plan.manager_problems("eth1", found))
    assert [words in problem for problem in problems] == ([True] if words else [])


def links(**changes):
    """A VLAN on a bond of two ports, and a bridge with one port; ``changes`` are MTUs."""
    made = [
        {"ifname": "eth1", "master": "bond0", "mtu": 1500},
        {"ifname": "eth2", "master": "bond0", "mtu": 1500},
        {"ifname": "bond0", "linkinfo": {"info_kind": "bond"}, "mtu": 1500},
        {"ifname": "vlan7", "link": "bond0", "linkinfo": {"info_kind": "vlan"}, "mtu": 1500},
        {"ifname": "eth3", "master": "br0", "mtu": 1500},
        {"ifname": "br0", "linkinfo": {"info_kind": "bridge"}, "mtu": 1500},
        {"ifname": "ib0", "link_type": "infiniband", "mtu": 2044},
    ]
    for one in made:
        one["mtu"] = changes.get(one["ifname"], one["mtu"])
    return {one["ifname"]: one for one in made}


def order(plan, found, names, mtu):
    return [one["name"] for one in plan.in_order([found[name] for name in names], mtu, found)]


def test_what_is_below_goes_up_first_and_down_last(plan):
    names = ["br0", "vlan7", "eth3", "bond0"]
    up = order(plan, links(), names, 9000)
    assert up.index("bond0") < up.index("vlan7")
    assert up.index("eth3") < up.index("br0")
    high = links(bond0=9000, vlan7=9000, eth3=9000, br0=9000)
    down = order(plan, high, names, 1500)
    assert down.index("vlan7") < down.index("bond0")
    assert down.index("br0") < down.index("eth3")


@pytest.mark.parametrize(
    ("name", "asked", "said"),
    [
        ("eth1", ["eth1"], "member of 'bond0'"),
        ("vlan7", ["vlan7"], "built on 'bond0'"),
        ("vlan7", ["vlan7", "bond0"], None),
        ("br0", ["br0"], "built on 'eth3'"),
        ("br0", ["br0", "eth3"], None),
        ("bond0", ["bond0"], None),
        ("ib0", ["ib0"], "InfiniBand in an unknown mode"),
    ],
)
def test_what_an_interface_stands_on_must_carry_it_too(plan, name, asked, said):
    found = links()
    problems = " ".join(plan.link_problems(found[name], 9000, asked, found))
    assert said in problems if said else not problems


PROFILES = SCRIPT.with_name("plan_profiles.py")


@pytest.fixture
def profiles(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("plan_profiles", PROFILES)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "DIRECTORIES", (str(tmp_path),))
    monkeypatch.setattr(module, "address_of", lambda _: "02:00:00:00:00:01")
    return module


@pytest.mark.parametrize(
    "definition",
    [
        "eth1: {}",
        "lan: {match: {name: 'eth*'}}",
        "lan: {match: {macaddress: '02:00:00:00:00:01'}}",
        "lan: {match: {name: ens9}, set-name: eth1}",
    ],
)
def test_netplan_gets_the_mtu_under_the_name_that_it_has_there(profiles, tmp_path, definition):
    (tmp_path / "50.yaml").write_text("network:\n  ethernets:\n    " + definition + "\n")
    problems = []
    asked = {"file": str(tmp_path / "90-hfprov-mtu.yaml"), "mtu": 9000}
    text = profiles.plan_netplan(["eth1"], asked, problems)
    assert problems == []
    assert f"{definition.split(':')[0]}:\n      mtu: 9000" in text


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"50.yaml": "network: {}"}, "found: none"),
        ({"50.yaml": "network: {ethernets: {eth1: {}, a: {match: {name: eth1}}}}"}, "'a', 'eth1'"),
        (
            {
                "50.yaml": "network: {ethernets: {eth1: {}}}",
                "95.yaml": "network: {ethernets: {eth1: {mtu: 1500}}}",
            },
            "after the role's file",
        ),
    ],
)
def test_netplan_files_that_leave_it_open_are_refused(profiles, tmp_path, files, said):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    problems = []
    asked = {"file": str(tmp_path / "90-hfprov-mtu.yaml"), "mtu": 9000}
    profiles.plan_netplan(["eth1"], asked, problems)
    assert said in " ".join(problems)


@pytest.mark.parametrize(
    ("mode", "shut"),
    [(0o700, True), (0o750, True), (0o754, True), (0o751, True), (0o755, False), (0o777, False)],
)
def test_a_folder_that_networkd_cannot_read_is_opened(plan, tmp_path, mode, shut):
    folder = tmp_path / "20-eth1.network.d"
    folder.mkdir()
    folder.chmod(mode)
    assert plan.is_shut(str(folder)) is shut


def test_a_folder_that_is_missing_is_made_and_not_shut(plan, tmp_path):
    assert not plan.is_shut(str(tmp_path / "none.network.d"))
    (tmp_path / "file").write_text("")
    assert not plan.is_shut(str(tmp_path / "file"))


def test_the_task_sees_to_folders_that_are_missing_and_to_those_that_are_shut():
    tasks = yaml.safe_load((SCRIPT.parents[1] / "tasks/configure.yml").read_text())
    (folders,) = (one for one in tasks if "directories" in one["name"])
    assert folders["ansible.builtin.file"]["mode"] == "0755"
    assert folders["loop"] == (
        "{{ __jumbo_mtu_plan.missing_directories + __jumbo_mtu_plan.shut_directories }}"
    )
