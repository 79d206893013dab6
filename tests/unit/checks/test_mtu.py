"""MTU: healthy nodes pass, a spoilt one fails by name, a hostile one never passes."""

from __future__ import annotations

import json

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.ifupdown import parse as parse_interfaces
from hfprov.evidence.ip_link import Interface
from hfprov.evidence.managed_links import default_devices, parse_routes
from hfprov.evidence.networkd import Network, network_file, size
from hfprov.evidence.systemd import Setting
from hfprov.verdict import Outcome
from tests.unit.checks.conftest import NOT_THERE, NOT_WHOLE, WITHOUT_PROFILES

FAIL, UNKNOWN = Outcome.FAIL, Outcome.UNKNOWN
CHECKS = ("mtu.live", "mtu.management", "mtu.persistent", "mtu.rivals", "mtu.files")
LINKS = "run ip -j -d link show"
ROUTE = "run ip -j -4 route show table all"
NETWORKS = "glob /etc/systemd/network/*.network"
DROP_INS = "glob /etc/systemd/network/*.network.d/*.conf"
OURS = "/etc/systemd/network/20-eth1.network.d/90-hfprov-mtu.conf"
INTERFACES = "glob /etc/network/interfaces.d/*"
ETH1 = "/etc/network/interfaces.d/eth1"
UNITS = "units of systemd"
NMCLI_DEVICE = "run nmcli -t -f DEVICE,STATE device"
NMCLI_ACTIVE = "run nmcli -t -f UUID,DEVICE,FILENAME connection show --active"
NMCLI_DETAILS = next(read for read in NOT_THERE if read.startswith("run sh -c"))
INDEX = "3"
"""Of the data interface, in the recorded nodes."""
NETLINKS = "glob /run/systemd/netif/links/*"
NETPLAN_NAME = "90-hfprov-mtu.yaml"
NETPLAN_OURS = f"/etc/netplan/{NETPLAN_NAME}"
NETPLAN_ETC = next(read for read in WITHOUT_PROFILES if "/etc/netplan/" in read)


@pytest.fixture
def link_of(networkd):
    """Change what ip says of one interface."""

    def change(name: str, **values) -> None:
        links = json.loads(networkd.results[LINKS][0]["text"])
        next(link for link in links if link.get("ifname") == name).update(values)
        networkd.put(LINKS, text=json.dumps(links))

    return change


@pytest.mark.parametrize("stack", ["networkd", "ifupdown"])
@pytest.mark.parametrize("check_id", CHECKS)
def test_healthy_node_passes(request, stack, check_id):
    assert request.getfixturevalue(stack).bad(check_id) == {}


def test_live_mtu(networkd, link_of):
    link_of("eth1", mtu=1500)
    assert networkd.bad("mtu.live") == {"eth1": FAIL}


@pytest.mark.parametrize("check_id", ["mtu.live", "mtu.persistent", "mtu.rivals"])
def test_interface_that_is_not_there_fails(networkd, check_id):
    networkd.values["jumbo_mtu_interfaces"] = ["eth1", "eth9"]
    assert networkd.bad(check_id) == {"eth9": FAIL}


@pytest.mark.parametrize("check_id", CHECKS)
def test_no_declared_interface_is_unknown(networkd, check_id):
    networkd.values["jumbo_mtu_interfaces"] = []
    assert set(networkd.bad(check_id).values()) == {UNKNOWN}


def test_default_route_makes_it_management(networkd):
    networkd.put(ROUTE, text='[{"dst": "default", "gateway": "10.0.0.1", "dev": "eth1"}]')
    assert networkd.bad("mtu.management") == {"eth1": FAIL}


def test_default_route_over_a_vlan_or_a_bond_counts_for_what_is_below(networkd, link_of):
    networkd.put(ROUTE, text='[{"dst": "default", "dev": "bond0"}]')
    assert networkd.bad("mtu.management") == {}
    link_of("eth1", master="bond0")
    assert networkd.bad("mtu.management") == {"eth1": FAIL}
    link_of("eth1", master=None)
    networkd.put(ROUTE, text='[{"dst": "default", "dev": "eth0"}]')
    link_of("eth0", link="eth1")
    assert networkd.bad("mtu.management") == {"eth1": FAIL}


def test_missing_drop_in(networkd):
    networkd.remove(DROP_INS, OURS)
    assert networkd.bad("mtu.files") == {OURS: FAIL}
    assert networkd.bad("mtu.persistent") == {"eth1": FAIL}


def test_other_value_and_added_line_in_the_drop_in(networkd):
    networkd.replace(DROP_INS, "9000", "1500")
    assert networkd.bad("mtu.persistent") == {"eth1": FAIL}
    networkd.replace(DROP_INS, "1500", "9000\n[Network]\nDHCP=yes")
    assert networkd.bad("mtu.persistent") == {}
    assert networkd.bad("mtu.files") == {OURS: FAIL}


def test_later_drop_in_wins(networkd):
    path = "/etc/systemd/network/20-eth1.network.d/99-site.conf"
    networkd.add(DROP_INS, path, "[Link]\nMTUBytes=1500\n")
    assert networkd.bad("mtu.persistent") == {"eth1": FAIL}
    assert networkd.bad("mtu.rivals") == {f"{path}:2": FAIL}


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ("[Link]\nUnmanaged=yes\n", True),
        ("[Link]\nUnmanaged=no\n", False),
        ("[Link]\nActivationPolicy=always-down\n", True),
        ("[Link]\nActivationPolicy=up\n", False),
        ("[Match]\nName=\nName=eth9\n", True),
    ],
)
def test_drop_in_that_has_the_interface_left_alone(networkd, text, bad):
    networkd.add(DROP_INS, "/etc/systemd/network/20-eth1.network.d/95-site.conf", text)
    assert networkd.bad("mtu.rivals") == ({"eth1": FAIL} if bad else {})


def test_folder_that_networkd_cannot_read(networkd):
    """As a umask of 077 leaves it: the drop-in is right, and does nothing."""
    folder = OURS.rpartition("/")[0]
    listed = {"name": folder, "status": "ok", "type": "dir", "uid": 0, "gid": 0}
    networkd.results["list /etc/systemd/network/*.network.d"] = [listed | {"mode": 0o755}]
    assert networkd.bad("mtu.files") == {}
    networkd.results["list /etc/systemd/network/*.network.d"] = [listed | {"mode": 0o700}]
    assert networkd.bad("mtu.files") == {folder: FAIL}


def test_drop_in_of_an_interface_that_is_not_declared_is_left_over(networkd):
    path = "/etc/systemd/network/10-eth0.network.d/90-hfprov-mtu.conf"
    networkd.add(DROP_INS, path, "[Link]\nMTUBytes=9000\n")
    assert networkd.bad("mtu.files") == {path: FAIL}


@pytest.mark.parametrize(
    ("match", "outcome"),
    [
        ("Name=eth1", FAIL),
        ("Name=eth*", FAIL),
        ("Name=!eth0", FAIL),
        ("Type=ether", FAIL),
        ("Name=eth0", None),
        ("Name=!eth*", None),
        ("Name=eth*\nType=wlan", None),
        ("Driver=mlx5_core", UNKNOWN),
        ("Driver=mlx5_core\nName=eth0", None),
        ("", FAIL),
    ],
)
def test_network_file_that_comes_first_takes_the_interface(networkd, match, outcome):
    path = "/etc/systemd/network/05-site.network"
    networkd.add(NETWORKS, path, f"[Match]\n{match}\n")
    assert networkd.bad("mtu.rivals") == ({path: outcome} if outcome else {})


def test_network_file_that_comes_later_does_not(networkd):
    networkd.add(NETWORKS, "/etc/systemd/network/99-site.network", "[Match]\nName=eth1\n")
    assert networkd.bad("mtu.rivals") == {}


def test_file_in_use_that_is_gone(networkd):
    networkd.remove(NETWORKS, "/etc/systemd/network/20-eth1.network")
    assert networkd.bad("mtu.rivals") == {"eth1": FAIL}


@pytest.mark.parametrize(
    ("rule", "is_rival"),
    [
        ('SUBSYSTEM=="net", KERNEL=="eth1", ATTR{mtu}="1500"', True),
        ('SUBSYSTEM=="net", DRIVERS=="mlx5_core", ATTR{mtu}="1500"', True),
        ('KERNEL=="eth*", RUN+="/sbin/ip link set %k \\\n mtu 1500"', True),
        ('SUBSYSTEM=="net", KERNEL=="eth1", ATTR{mtu}="9000"', False),
        ('SUBSYSTEM=="net", KERNEL=="eth7", ATTR{mtu}="1500"', False),
        ('# KERNEL=="eth1", ATTR{mtu}="1500"', False),
        ('ATTR{mtu}=="1500", ENV{SEEN}="1"', False),
    ],
)
def test_rule_of_udev_that_sets_another_mtu(networkd, rule, is_rival):
    assert [one.outcome for one in networkd.findings("mtu.udev")] == [Outcome.PASS]
    path = "/etc/udev/rules.d/70-site.rules"
    networkd.add("glob /etc/udev/rules.d/*.rules", path, rule + "\n")
    last = 1 + rule.count("\n")
    assert networkd.bad("mtu.udev") == ({f"{path}:{last}": FAIL} if is_rival else {})


def test_service_that_does_not_start_at_boot(networkd):
    networkd.replace(UNITS, "UnitFileState=enabled", "UnitFileState=disabled")
    assert networkd.bad("mtu.rivals") == {"eth1": FAIL}


def test_two_configurations_at_once(networkd):
    text = "auto eth1\niface eth1 inet manual\n    mtu 9000\n"
    networkd.put("file /etc/network/interfaces", status="ok", text=text, mode=0o644, uid=0, gid=0)
    assert networkd.bad("mtu.rivals") == {"eth1": FAIL}


CONNECTION = "5b5dc1f4-2e0b-4a4c-9a53-5b7b0f0d0e11"
OF_SYSTEM = "/etc/NetworkManager/system-connections/data.nmconnection"


def manage(node, *, path=OF_SYSTEM, mtu="9000", autoconnect="yes"):
    """Have NetworkManager, and nothing else, manage the data interface of a node."""
    node.put(NMCLI_DEVICE, status="ok", code=0, text="eth0:unmanaged\neth1:connected\n")
    node.put(NMCLI_ACTIVE, status="ok", code=0, text=f"{CONNECTION}:eth1:{path}\n")
    text = f"uuid:{CONNECTION}\nconnection.autoconnect:{autoconnect}\n802-3-ethernet.mtu:{mtu}\n"
    node.put(NMCLI_DETAILS, status="ok", code=0, text=text)
    node.remove(NETLINKS, "/run/systemd/netif/links/" + INDEX)
    node.remove(DROP_INS, OURS)
    node.replace(
        UNITS,
        "Id=NetworkManager.service\nNames=NetworkManager.service\nLoadState=not-found\n"
        "ActiveState=inactive\nUnitFileState=\n",
        "Id=NetworkManager.service\nNames=NetworkManager.service\nLoadState=loaded\n"
        "ActiveState=active\nUnitFileState=enabled\n",
    )


def bad(node):
    return {check for check in CHECKS if node.bad(check)}


def test_an_interface_of_networkmanager_is_judged_by_its_connection(networkd):
    manage(networkd)
    assert bad(networkd) == set()


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"mtu": "1500"}, "mtu.persistent"),
        ({"mtu": "auto"}, "mtu.persistent"),
        ({"mtu": ""}, "mtu.persistent"),
        ({"autoconnect": "no"}, "mtu.rivals"),
        ({"path": "/run/NetworkManager/system-connections/data.nmconnection"}, "mtu.rivals"),
    ],
)
def test_a_connection_that_does_not_bring_it_back_is_found(networkd, changes, wrong):
    manage(networkd, **changes)
    assert bad(networkd) == {wrong}


def test_networkmanager_that_is_not_started_at_boot_is_found(networkd):
    manage(networkd)
    networkd.replace(UNITS, "UnitFileState=enabled\n\n", "UnitFileState=disabled\n\n")
    assert "mtu.rivals" in bad(networkd)


def test_networkmanager_beside_networkd_is_a_rival(networkd):
    networkd.put(NMCLI_DEVICE, status="ok", code=0, text="eth0:unmanaged\neth1:connected\n")
    assert networkd.bad("mtu.rivals") == {"eth1": FAIL}
    networkd.put(NMCLI_DEVICE, status="ok", code=8, text="")
    assert networkd.bad("mtu.rivals") == {}


class TestNetplan:
    SITE = "network:\n  ethernets:\n    lan:\n      match: {name: eth1}\n"
    ROLE = "network:\n  ethernets:\n    lan: {mtu: 9000}\n"

    @pytest.fixture
    def node(self, networkd):
        """Netplan has networkd manage the data interface, and the role's file is there."""
        generated = "/run/systemd/network/10-netplan-lan.network"
        (link,) = [one for one in networkd.results[NETLINKS] if one["name"].endswith("/" + INDEX)]
        old = "/etc/systemd/network/20-eth1.network"
        link["text"] = link["text"].replace(old, generated)
        networkd.remove(NETWORKS, old)
        networkd.remove(DROP_INS, OURS)
        networkd.add(
            "glob /run/systemd/network/*.network", generated,
            "[Match]\nName=eth1\n\n[Link]\nMTUBytes=9000\n",
        )  # fmt: skip
        self.write(networkd, ("50-site.yaml", self.SITE), (NETPLAN_NAME, self.ROLE))
        return networkd

    @staticmethod
    def write(node, *files):
        node.results[NETPLAN_ETC] = [
            {"name": name, "status": "ok", "code": 0, "text": text} for name, text in files
        ]
        ours = {"name": NETPLAN_OURS, "status": "ok", "mode": 0o600, "uid": 0, "gid": 0}
        texts = dict(files)
        if NETPLAN_NAME in texts:
            node.put(f"file {NETPLAN_OURS}", **ours, text=texts[NETPLAN_NAME], type="file")

    def test_a_healthy_node_passes(self, node):
        assert bad(node) == set()

    def test_without_the_role_s_file_it_does_not_outlive_a_boot(self, node):
        node.put(f"file {NETPLAN_OURS}", status="absent")
        node.results[NETPLAN_ETC].pop()
        assert bad(node) == {"mtu.persistent", "mtu.files"}

    def test_a_later_file_that_wins_is_found(self, node):
        late = self.ROLE.replace("9000", "1500")
        self.write(
            node, ("50-site.yaml", self.SITE), (NETPLAN_NAME, self.ROLE), ("99-site.yaml", late)
        )
        assert node.bad("mtu.persistent") == {"eth1": FAIL}

    def test_a_file_whose_effect_was_not_made_is_found(self, node):
        """Netplan's MTU that never took effect: canonical/cloud-init #3034."""
        node.replace("glob /run/systemd/network/*.network", "MTUBytes=9000", "RequiredForOnline=no")
        assert node.bad("mtu.persistent") == {"eth1": FAIL}

    def test_a_file_that_others_may_read_is_not_as_written(self, node):
        node.put(f"file {NETPLAN_OURS}", mode=0o644)
        assert bad(node) == {"mtu.files"}

    def test_a_file_left_over_is_found(self, networkd):
        text = self.ROLE
        networkd.put(f"file {NETPLAN_OURS}", status="ok", text=text, mode=0o600, uid=0, gid=0)
        assert networkd.bad("mtu.files") == {NETPLAN_OURS: FAIL}

    def test_yaml_that_is_broken_is_unknown(self, node):
        self.write(node, ("50-site.yaml", "network: [\n"))
        assert UNKNOWN in node.bad("mtu.persistent").values()


def test_an_unconfirmed_change_is_told(networkd):
    assert networkd.bad("mtu.guard") == {}
    networkd.replace(
        UNITS,
        "Id=hfprov-mtu-guard.timer\nNames=hfprov-mtu-guard.timer\nLoadState=not-found\n"
        "ActiveState=inactive",
        "Id=hfprov-mtu-guard.timer\nNames=hfprov-mtu-guard.timer\nLoadState=loaded\n"
        "ActiveState=active",
    )
    assert networkd.bad("mtu.guard") == {"hfprov-mtu-guard.timer": FAIL}


@pytest.mark.parametrize(
    ("old", "new", "persistent", "rivals"),
    [
        ("    mtu 9000\n", "", {"eth1": FAIL}, {}),
        ("mtu 9000", "mtu 1500", {"eth1": FAIL}, {}),
        ("mtu 9000", "mtu 9000\n    mtu 1500", {"eth1": FAIL}, {}),
        ("mtu 9000", "post-up ip link set dev $IFACE mtu 9000", {}, {}),
        ("mtu 9000", "mtu 9000\n    up ip l s eth1 mtu 9000", {"eth1": FAIL}, {f"{ETH1}:4": FAIL}),
        ("auto eth1\n", "", {}, {"eth1": FAIL}),
        ("auto eth1", "allow-hotplug eth1", {}, {}),
        ("auto eth1", "auto /eth*", {}, {}),
        ("mtu 9000", "# mtu 1500\n    mtu 9000", {}, {}),
    ],
)
def test_ifupdown(ifupdown, old, new, persistent, rivals):
    ifupdown.replace(INTERFACES, old, new)
    assert ifupdown.bad("mtu.persistent") == persistent
    assert ifupdown.bad("mtu.rivals") == rivals


def test_file_of_ifupdown_that_others_may_write(ifupdown):
    ifupdown.named(INTERFACES, ETH1)["mode"] = 0o666
    assert ifupdown.bad("mtu.files") == {ETH1: FAIL}
    ifupdown.named(INTERFACES, ETH1)["mode"] = 0o600
    assert ifupdown.bad("mtu.files") == {}


def test_include_that_was_not_read_is_unknown(ifupdown):
    ifupdown.put("file /etc/network/interfaces", text="source /srv/network/*\n")
    assert set(ifupdown.bad("mtu.persistent").values()) == {UNKNOWN}


def test_interface_that_nothing_manages(networkd):
    for result in networkd.results[networkd.read("glob /run/systemd/netif")]:
        result["text"] = "ADMIN_STATE=unmanaged\n"
    assert networkd.bad("mtu.persistent") == {"eth1": FAIL}
    assert UNKNOWN in networkd.bad("mtu.files").values()


@pytest.mark.parametrize("check_id", CHECKS)
@pytest.mark.parametrize("spoilt", NOT_WHOLE)
def test_without_whole_evidence_nothing_passes(networkd, check_id, spoilt):
    assert networkd.judged_without_whole(check_id, spoilt) == []


@pytest.mark.parametrize("text", ["", "[]", "\0", '[{"ifname": "eth1"', "[1]", '{"a": []}'])
@pytest.mark.parametrize("check_id", CHECKS)
def test_links_that_are_not_understood_do_not_pass(networkd, check_id, text):
    networkd.put(LINKS, text=text)
    assert not {Outcome.PASS} & {one.outcome for one in networkd.findings(check_id)}


@pytest.mark.parametrize(
    "text",
    ["{}", "default via 10.0.0.1", "[1]", '[{"nexthops": 1}]', '[{"metrics": {"mtu": 1}}]'],
)
def test_routes_that_are_not_understood(text):
    with pytest.raises(NotUnderstoodError):
        parse_routes(text)


def test_routes_with_several_hops():
    text = '[{"dst": "default", "nexthops": [{"dev": "eth0"}, {"dev": "eth1"}]}]'
    assert default_devices(parse_routes(text)) == {"eth0", "eth1"}
    assert default_devices(parse_routes("")) == frozenset()


def test_a_rail_with_a_table_of_its_own_is_not_management(networkd):
    networkd.put(ROUTE, text='[{"dst": "default", "dev": "eth1", "table": "101"}]')
    assert networkd.bad("mtu.management") == {}


def test_state_of_a_link():
    assert network_file("ADMIN_STATE=configured\nNETWORK_FILE=/a\n") == "/a"
    assert network_file("ADMIN_STATE=unmanaged\nNETWORK_FILE=/a\n") == ""
    with pytest.raises(NotUnderstoodError):
        network_file("garbage")


def test_match_by_address_in_any_spelling():
    link = Interface("eth1", hardware_address="aa:bb:cc:dd:ee:ff")
    one = Setting("Match", "MACAddress", "AA-BB-CC-DD-EE-FF", "f", 1)
    assert Network("f", (one,)).matches(link) is True
    assert Network("f", (one,)).matches(Interface("eth1")) is None


@pytest.mark.parametrize(("text", "expected"), [("9000", 9000), ("9K", 9216), (" 1 M ", 1 << 20)])
def test_sizes(text, expected):
    assert size(text) == expected


@pytest.mark.parametrize("text", ["", "nine", "-1", "9000B"])
def test_sizes_that_are_not_understood(text):
    with pytest.raises(NotUnderstoodError):
        size(text)


def test_stanzas_end_where_the_next_begins():
    text = (
        "auto lo eth1\niface eth1 inet static\n  address \\\n 10.0.0.1/24\niface eth2 inet dhcp\n"
    )
    stanzas, started, included = parse_interfaces({"f": text})
    assert [(one.name, one.method, len(one.options)) for one in stanzas] == [
        ("eth1", "static", 1),
        ("eth2", "dhcp", 0),
    ]
    assert stanzas[0].options[0].value == "10.0.0.1/24"
    assert (started, included) == (("lo", "eth1"), ())
