"""The practice rack's decisions, without root and without nodes."""

import ipaddress
import json
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from hfprov.cli import lab as cli_lab
from hfprov.errors import LabError
from hfprov.lab import __main__ as command
from hfprov.lab import access, host, network, registry, removal
from hfprov.lab.container import ContainerEngine
from hfprov.lab.faults import faults, find_fault
from hfprov.lab.image import REPOSITORY, Recipe, ensure_image, find_image, write_repository
from hfprov.lab.rack import Rack
from hfprov.lab.rack_status import NodeStatus, RackStatus
from hfprov.lab.seed import node_files
from hfprov.lab.state import (
    MAX_NODES,
    NetworkStack,
    NodeSpec,
    RackPaths,
    RackState,
    load_state,
    rack_lock,
    save_state,
)

SERVER = NodeSpec("timeserver", 0, NetworkStack.NETWORKD)
FIRST = NodeSpec("node01", 1, NetworkStack.NETWORKD)
THIRD = NodeSpec("node03", 3, NetworkStack.IFUPDOWN)
STATE = RackState(
    rack_id="abc123",
    engine="container",
    suite="bookworm",
    image="bookworm-0123",
    management="10.150.2.0/24",
    data="10.150.3.0/24",
    nodes=(SERVER, FIRST, THIRD),
    faults=(("node01", "mtu-runtime"),),
)


@pytest.fixture
def paths(tmp_path):
    return RackPaths(tmp_path)


def files_of(node):
    return node_files(STATE, node, host_key="H", host_key_public="P", authorized="A")


# State


def test_state_survives_the_disk(paths):
    save_state(paths, STATE)
    assert load_state(paths) == STATE


def test_no_state_is_no_rack(paths):
    assert load_state(paths) is None


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "null", '{"format": 2}', '{"format": 1}', '{"format": 1, "nodes": 7}',
     '{"format": 1, "nodes": [{"name": "n", "index": 1, "network": "token ring"}], "faults": []}'],
)  # fmt: skip
def test_a_state_that_is_not_ours_is_refused_by_name(paths, text):
    paths.state.write_text(text, encoding="utf-8")
    with pytest.raises(LabError, match=r"rack\.json"):
        load_state(paths)


def test_two_commands_on_one_rack_exclude_each_other(paths, monkeypatch):
    monkeypatch.setattr("hfprov.lab.state._LOCK_PATIENCE", 0.2)
    with rack_lock(paths), pytest.raises(LabError, match="Another command"), rack_lock(paths):
        pass
    with rack_lock(paths):
        pass


def test_every_node_has_addresses_of_its_own():
    nodes = [NodeSpec(f"n{i}", i, NetworkStack.NETWORKD) for i in range(MAX_NODES + 1)]
    addresses = [STATE.management_address(node) for node in nodes] + [STATE.controller_address]
    assert len(set(addresses)) == MAX_NODES + 2
    assert all(
        ipaddress.ip_address(address) in ipaddress.ip_network(STATE.management)
        for address in addresses
    )


# Subnets and shared settings


def test_subnets_avoid_every_network_the_machine_knows(monkeypatch):
    first = registry.choose_subnets.__globals__["_POOL"]
    pairs = list(first.subnets(new_prefix=23))
    start = int("abc123", 16) % len(pairs)
    monkeypatch.setattr(registry, "used_networks", list)
    management, data = map(ipaddress.IPv4Network, registry.choose_subnets("abc123"))
    assert (management.supernet(1), data.supernet(1)) == (pairs[start], pairs[start])
    # The data half in use is enough to pass over the pair; so is a route around the next.
    taken = [data, next(pairs[start + 1].subnets(new_prefix=26))]
    monkeypatch.setattr(registry, "used_networks", lambda: taken)
    chosen = [ipaddress.IPv4Network(text) for text in registry.choose_subnets("abc123")]
    assert chosen[0].supernet(1) == pairs[start + 2]


def test_no_subnet_left_is_an_error(monkeypatch):
    monkeypatch.setattr(registry, "used_networks", lambda: [ipaddress.IPv4Network("10.0.0.0/8")])
    with pytest.raises(LabError, match="in use"):
        registry.choose_subnets("abc123")


def test_used_networks_are_addresses_and_routes_without_the_default(monkeypatch):
    answers = {
        "address": [{"addr_info": [{"local": "192.0.2.2", "prefixlen": 24}]}, {}],
        "route": [{"dst": "default"}, {"dst": "198.51.100.0/25"}, {"dst": "203.0.113.9"}],
    }
    monkeypatch.setattr(registry, "run", lambda argv, **_: json.dumps(answers[argv[3]]))
    assert [str(network) for network in registry.used_networks()] == [
        "192.0.2.0/24",
        "198.51.100.0/25",
        "203.0.113.9/32",
    ]


@pytest.fixture
def machine(monkeypatch, tmp_path):
    limit = tmp_path / "max_user_instances"
    limit.write_text("128\n", encoding="ascii")
    monkeypatch.setattr(registry, "RUN_DIRECTORY", tmp_path / "run")
    monkeypatch.setattr(registry, "INOTIFY_LIMIT", limit)
    return limit


def test_the_inotify_limit_comes_back_with_the_last_rack_only(machine):
    with registry.registry_lock():
        first = registry.claim_identity(Path("/one"))
        registry.raise_inotify_limit()
        second = registry.claim_identity(Path("/two"))
        registry.raise_inotify_limit()
        registry.release_identity(first)
        registry.restore_inotify_limit()
        assert machine.read_text(encoding="ascii") == str(registry.INOTIFY_NEEDED)
        registry.release_identity(second)
        registry.restore_inotify_limit()
    assert machine.read_text(encoding="ascii").strip() == "128"


def test_a_limit_somebody_else_has_changed_since_is_left_alone(machine):
    with registry.registry_lock():
        rack_id = registry.claim_identity(Path("/one"))
        registry.raise_inotify_limit()
        machine.write_text("9999", encoding="ascii")
        registry.release_identity(rack_id)
        registry.restore_inotify_limit()
    assert machine.read_text(encoding="ascii") == "9999"


@pytest.mark.usefixtures("machine")
def test_an_identity_taken_by_another_directory_is_refused():
    with registry.registry_lock():
        rack_id = registry.claim_identity(Path("/one"))
        assert registry.claim_identity(Path("/one")) == rack_id
        (registry.RUN_DIRECTORY / f"rack-{rack_id}").write_text("/elsewhere", encoding="utf-8")
        with pytest.raises(LabError, match="/elsewhere"):
            registry.claim_identity(Path("/one"))


def test_interface_names_fit_the_kernel():
    # IFNAMSIZ is 16 with the closing zero.
    assert len(network.namespace("abc123")) <= 15


# What a node is given


def test_a_node_starts_at_the_default_mtu_with_its_own_address():
    networkd = files_of(FIRST)["/etc/systemd/network/20-eth1.network"].content
    ifupdown = files_of(THIRD)["/etc/network/interfaces.d/eth1"].content
    assert "Address=10.150.3.11/24" in networkd
    assert "address 10.150.3.13/24" in ifupdown
    assert "mtu" not in (networkd + ifupdown).lower()
    assert "/etc/systemd/network/20-eth1.network" not in files_of(THIRD)


def test_private_keys_are_readable_by_root_only():
    files = files_of(FIRST)
    assert files["/etc/ssh/ssh_host_ed25519_key"].mode == 0o600
    assert files["/root/.ssh/authorized_keys"].mode == 0o600


def test_names_in_a_node_do_not_depend_on_how_many_there_are():
    small = RackState(**{**_fields(STATE), "nodes": (SERVER, FIRST)})
    one = node_files(small, FIRST, host_key="H", host_key_public="P", authorized="A")
    assert one["/etc/hosts"].content == files_of(FIRST)["/etc/hosts"].content
    assert f"node{MAX_NODES}" in one["/etc/hosts"].content


def test_the_time_server_never_touches_the_machines_clock():
    unit = files_of(SERVER)["/etc/systemd/system/chrony.service"].content
    assert " -x " in unit


def _fields(state):
    return {name: getattr(state, name) for name in state.__slots__}


# Access


@pytest.fixture
def reachable(paths):
    access.ensure_keys(paths, STATE.nodes)
    access.write_ssh_files(STATE, paths)
    access.write_inventory(STATE, paths)
    return paths


def test_each_address_is_pinned_to_the_key_its_node_will_have(reachable):
    pinned = [line.split() for line in reachable.known_hosts.read_text().splitlines()]
    assert [line[0] for line in pinned] == ["10.150.2.2", "10.150.2.11", "10.150.2.13"]
    for node, line in zip(STATE.nodes, pinned, strict=True):
        assert access.public_key(access.host_key(reachable, node)).split()[:2] == line[1:]
    assert len({line[2] for line in pinned}) == 3


def test_keys_are_made_once(reachable):
    before = reachable.key.read_text(), reachable.known_hosts.read_text()
    access.ensure_keys(reachable, STATE.nodes)
    access.write_ssh_files(STATE, reachable)
    assert (reachable.key.read_text(), reachable.known_hosts.read_text()) == before
    assert reachable.key.stat().st_mode & 0o077 == 0


def test_the_inventory_lists_nodes_but_not_the_time_server(reachable):
    hosts = yaml.safe_load((reachable.inventory / "hosts.yml").read_text())
    rack = hosts["accelerators"]["children"]["practice_rack"]["hosts"]
    assert rack == {
        "node01": {"ansible_host": "10.150.2.11"},
        "node03": {"ansible_host": "10.150.2.13"},
    }


def test_the_inventory_checks_host_keys_and_points_at_the_racks_time(reachable):
    variables = yaml.safe_load((reachable.inventory / "group_vars/accelerators.yml").read_text())
    assert "StrictHostKeyChecking=yes" in variables["ansible_ssh_common_args"]
    assert str(reachable.known_hosts) in variables["ansible_ssh_common_args"]
    assert variables["time_sync_servers"] == [STATE.time_server_address]
    assert variables["jumbo_mtu_interfaces"] == ["eth1"]


def test_group_variables_are_the_users_once_written(reachable):
    mine = reachable.inventory / "group_vars/accelerators.yml"
    mine.write_text("mine: true\n")
    access.write_inventory(STATE, reachable)
    assert mine.read_text() == "mine: true\n"


def test_limits_are_left_to_the_roles_where_root_may_raise_them(monkeypatch):
    monkeypatch.setattr(host, "may_raise_limits", lambda: True)
    assert access.attainable_limits() == {}


def test_limits_are_what_nodes_inherit_where_root_may_not_raise_them(monkeypatch):
    hard = {
        access.resource.RLIMIT_MEMLOCK: 8 * host.MIB,
        access.resource.RLIMIT_NOFILE: 1_000_000,
        access.resource.RLIMIT_NPROC: access.resource.RLIM_INFINITY,
    }
    monkeypatch.setattr(host, "may_raise_limits", lambda: False)
    monkeypatch.setattr(access.resource, "getrlimit", lambda kind: (1, hard[kind]))
    assert access.attainable_limits() == {"limits_memlock_kib": "8192", "limits_nofile": 131072}


# Images


def test_an_image_is_named_by_everything_it_is_made_of():
    recipes = [Recipe(), Recipe("trixie"), Recipe(packages=("a",)), Recipe(repository=("a",)),
               Recipe(layers=()), Recipe(revision=99)]  # fmt: skip
    assert len({recipe.name for recipe in recipes}) == len(recipes)
    assert Recipe().name == Recipe().name


def test_an_unknown_suite_is_refused_before_anything_is_made(tmp_path):
    with pytest.raises(LabError, match="'potato'"):
        ensure_image(tmp_path, Recipe("potato"), print)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_build_leaves_no_image_and_no_rubbish(tmp_path, monkeypatch):
    def fail(building, *_):
        (building / "root").mkdir()
        raise LabError("no mirror")

    monkeypatch.setattr("hfprov.lab.image._build", fail)
    with pytest.raises(LabError, match="no mirror"):
        ensure_image(tmp_path, Recipe(), print)
    assert find_image(tmp_path, Recipe()) is None
    assert [path.name for path in (tmp_path / "images").iterdir()] == [".lock"]


def test_the_repository_index_is_what_apt_checks(tmp_path):
    if shutil.which("dpkg-deb") is None:
        # Part of every Debian; a machine of another family has no practice rack to serve it to.
        pytest.skip("dpkg-deb is not installed")
    tree, debs = tmp_path / "tree", tmp_path / "debs"
    (tree / "DEBIAN").mkdir(parents=True)
    debs.mkdir()
    (tree / "DEBIAN/control").write_text(
        "Package: practice\nVersion: 1\nArchitecture: all\nMaintainer: x <x@example.com>\n"
        "Description: a test\n"
    )
    argv = [
        "dpkg-deb",
        "--build",
        "--root-owner-group",
        str(tree),
        str(debs / "practice_1_all.deb"),
    ]
    subprocess.run(argv, check=True, capture_output=True, timeout=60)
    size = (debs / "practice_1_all.deb").stat().st_size
    write_repository(debs, tmp_path / REPOSITORY)
    index = (tmp_path / REPOSITORY / "Packages").read_text()
    assert "Package: practice\n" in index
    assert f"Filename: ./practice_1_all.deb\nSize: {size}\nSHA256: " in index
    assert (tmp_path / REPOSITORY / "practice_1_all.deb").exists()


def test_a_repository_without_packages_is_an_error(tmp_path):
    (tmp_path / "debs").mkdir()
    with pytest.raises(LabError, match="No packages"):
        write_repository(tmp_path / "debs", tmp_path / REPOSITORY)


# Refusals


def test_without_root_nothing_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr(host.os, "geteuid", lambda: 1000)
    rack = Rack(tmp_path / "rack")
    for act in (rack.up, rack.down, lambda: rack.reset([]),
                lambda: rack.break_node("node01", "mtu-runtime")):  # fmt: skip
        with pytest.raises(LabError, match="root") as caught:
            act()
        assert "sudo" in caught.value.hint
    assert not (tmp_path / "rack").exists()


@pytest.mark.parametrize("count", [0, -1, MAX_NODES + 1])
def test_a_number_of_nodes_that_makes_no_rack_is_refused(tmp_path, count):
    with pytest.raises(LabError, match=str(count)):
        Rack(tmp_path / "rack").up(count)


def test_missing_commands_are_answered_with_their_packages(monkeypatch):
    monkeypatch.setattr(host.shutil, "which", lambda _: None)
    with pytest.raises(LabError, match="mmdebstrap") as caught:
        host.require_tools()
    assert "systemd-container" in caught.value.hint


@pytest.mark.parametrize(("memory", "disk", "what"), [(10, 99_999, "memory"), (99_999, 10, "disk")])
def test_a_rack_that_does_not_fit_is_refused(tmp_path, monkeypatch, memory, disk, what):
    monkeypatch.setattr(host, "_available_memory", lambda: memory * host.MIB)
    usage = shutil._ntuple_diskusage(0, 0, disk * host.MIB)
    monkeypatch.setattr(host.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(LabError, match=what):
        host.require_room(
            tmp_path / "not" / "yet", ContainerEngine.room, new_nodes=3, build_image=True
        )


@pytest.mark.parametrize("char", [":", ",", "\\"])
def test_a_path_that_overlay_mounts_cannot_take_is_refused(tmp_path, char):
    with pytest.raises(LabError, match="overlay"):
        Rack(tmp_path / f"a{char}b")


def test_files_are_deleted_only_when_nothing_is_mounted_below(paths, monkeypatch):
    save_state(paths, STATE)
    (paths.nodes / "node01").mkdir(parents=True)
    monkeypatch.setattr(removal, "mountpoints_below", lambda _: [paths.nodes / "node01/root"])
    with pytest.raises(LabError, match="still mounted"):
        removal.remove_rack_files(paths)
    assert paths.state.exists()
    assert (paths.nodes / "node01").exists()


def test_a_link_in_place_of_a_racks_directory_is_not_followed(paths, tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    save_state(paths, STATE)
    paths.nodes.symlink_to(precious)
    with pytest.raises(LabError, match="link"):
        removal.remove_rack_files(paths)
    assert (precious / "file").exists()


def test_mountpoints_are_found_deepest_first_and_by_whole_names(monkeypatch):
    lines = [
        "1 0 0:1 / / rw - ext4 /dev/vda rw",
        "2 1 0:2 / /rack/nodes rw - overlay overlay rw",
        r"3 2 0:3 / /rack/nodes/a\040b/root rw - overlay overlay rw",
        "4 1 0:4 / /rackets rw - tmpfs tmpfs rw",
    ]
    monkeypatch.setattr(host, "_mountinfo", lambda: lines)
    assert host.mountpoints_below(Path("/rack")) == [
        Path("/rack/nodes/a b/root"),
        Path("/rack/nodes"),
    ]


def test_what_a_node_says_cannot_steer_the_terminal():
    assert "\x1b" not in host.printable("\x1b[2Jgone")
    assert host.printable("two\nlines") == "two\nlines"


def test_a_command_that_does_not_end_is_an_error():
    with pytest.raises(LabError, match="did not end"):
        host.run(["sleep", "60"], timeout=0.1)


def test_a_command_that_fails_is_quoted():
    with pytest.raises(LabError, match=r"exit code 3: why\?"):
        host.run(["sh", "-c", "echo 'why?' >&2; exit 3"], timeout=10)


# Faults


def test_fault_names_are_unique_and_each_says_what_and_where():
    assert len({fault.name for fault in faults()}) == len(faults()) > 0
    assert all(fault.description.endswith(".") and fault.trips for fault in faults())


@pytest.mark.parametrize("fault", faults(), ids=lambda fault: fault.name)
def test_fault_scripts_are_shell(fault):
    subprocess.run(["sh", "-n", "-c", fault.script], check=True, timeout=10)


def test_an_unknown_fault_is_refused_with_a_way_to_the_list():
    with pytest.raises(LabError, match="'gremlins'") as caught:
        find_fault("gremlins")
    assert "--list" in caught.value.hint


# The small command line


def test_errors_end_in_a_sentence_and_an_exit_code(capsys, tmp_path):
    assert command.main(["up", "--nodes", "0", "--dir", str(tmp_path / "rack")]) == 2
    assert "error: A practice rack has 1 to" in capsys.readouterr().err


def test_status_of_no_rack_is_nothing_not_success(capsys, tmp_path):
    assert command.main(["status", "--dir", str(tmp_path)]) == 4
    assert "There is no rack" in capsys.readouterr().out


@pytest.mark.parametrize("done", [(), ("mtu-runtime", "limits-value")])
def test_status_says_what_was_done_to_a_node_and_not_that_it_is_so_still(
    monkeypatch, tmp_path, capsys, done
):
    found = RackStatus(
        directory=tmp_path,
        inventory=tmp_path / "inventory",
        ssh_config=tmp_path / "ssh",
        engine="container",
        suite="bookworm",
        management="10.1.0.0/24",
        data="10.2.0.0/24",
        nodes=tuple(
            NodeStatus(
                name,
                "10.1.0.1",
                "10.2.0.1",
                NetworkStack.NETWORKD,
                running=True,
                systemd="running",
                faults=some,
            )
            for name, some in (("n1", done), ("n2", ()))
        ),
    )
    monkeypatch.setattr(cli_lab, "_rack", lambda _: SimpleNamespace(status=lambda: found))
    cli_lab.status(directory=tmp_path)
    head, first, second, *_ = capsys.readouterr().out.splitlines()
    assert "broken" not in head.replace("was broken by", "")
    assert ("was broken by" in head) == bool(done)
    assert first.rstrip().endswith("mtu-runtime, limits-value" if done else "running")
    assert second.rstrip().endswith("running")


def test_an_unknown_network_stack_is_refused(capsys, tmp_path):
    argv = ["up", "--dir", str(tmp_path / "rack"), "--network", "networkd,avian"]
    assert command.main(argv) == 2
    assert "'networkd,avian'" in capsys.readouterr().err
