"""Inventories: what Ansible would lose in silence is an error, and all errors come at once."""

import subprocess
import sys
from pathlib import Path

import pytest

from hfprov import inventory
from hfprov.errors import HfprovError, InventoryError, NoHostsError

HOSTS = """\
accelerators:
  children:
    rack_a:
      hosts:
        gpu-a01: {ansible_host: 192.0.2.11}
        gpu-a02: {ansible_host: 192.0.2.12}
    rack_b:
      hosts:
        gpu-b01: {ansible_host: 192.0.2.21}
"""


@pytest.fixture
def rack(tmp_path, monkeypatch):
    """Returns a function that writes files below a folder and loads its inventory."""
    monkeypatch.chdir(tmp_path)

    def write_and_load(files=None, *, paths=("inv",), **kwargs):
        for name, text in {"inv/hosts.yml": HOSTS, **(files or {})}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        playbook = tmp_path / "playbooks" / "provision.yml"
        return inventory.load([Path(p) for p in paths], playbook=playbook, **kwargs)

    return write_and_load


def complaint(load, *args, error=InventoryError, **kwargs):
    with pytest.raises(error) as caught:
        load(*args, **kwargs)
    return f"{caught.value.message} {caught.value.hint}"


def names(found):
    return [host.name for host in found.hosts]


def test_hosts_come_in_the_order_of_the_inventory_with_their_groups(rack):
    found = rack()
    assert names(found) == ["gpu-a01", "gpu-a02", "gpu-b01"]
    assert found.hosts[0].groups == ("accelerators", "rack_a")
    assert found.hosts[2].connection.address == "192.0.2.21"


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("rack_a", ["gpu-a01", "gpu-a02"]),
        ("rack_a,rack_b", ["gpu-a01", "gpu-a02", "gpu-b01"]),
        ("accelerators:!rack_a", ["gpu-b01"]),
        ("gpu-a*", ["gpu-a01", "gpu-a02"]),
        ("~gpu-.02", ["gpu-a02"]),
        ("rack_a[1]", ["gpu-a02"]),
        ("accelerators:&rack_b", ["gpu-b01"]),
        ("gpu-b01,gpu-a01", ["gpu-a01", "gpu-b01"]),
    ],
)
def test_limit_selects_as_ansible_does(rack, limit, expected):
    assert names(rack(limit=limit)) == expected


def test_limit_reads_a_file_of_hosts(rack, tmp_path):
    (tmp_path / "retry").write_text("gpu-b01\n\ngpu-a02\n")
    assert names(rack(limit="@retry")) == ["gpu-a02", "gpu-b01"]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("gpu_nodez", "'gpu_nodez'"),
        ("rack_a,rak_b", "matches 'rak_b' (did you mean 'rack_b'?)."),
        ("rack_a:!gpu-a2", "matches 'gpu-a2' (did you mean 'gpu-a02'?)."),
        ("grouped", "matches 'grouped'."),
        ("gpu-c*", "'gpu-c*'"),
        ("localhost", "'localhost'"),
        ("rack_a[7]", "rack_a[7]"),
        ("~(", "~("),
        ("@missing", "missing"),
        ("  ", "The limit is empty"),
    ],
)
def test_every_part_of_a_limit_must_name_something(rack, limit, expected):
    assert expected in complaint(rack, limit=limit)


def test_a_limit_that_leaves_nothing_over_is_no_success(rack):
    assert "rack_a:!rack_a" in complaint(rack, limit="rack_a:!rack_a", error=NoHostsError)


def test_an_empty_group_in_the_limit_is_named(rack):
    files = {"inv/hosts.yml": HOSTS + "    rack_c: {}\n"}
    assert "'rack_c' has no hosts" in complaint(rack, files, limit="rack_a,rack_c")


def test_missing_path(rack):
    assert "Did you mean 'inv'?" in complaint(rack, paths=("inw",))
    assert "No inventory was given" in complaint(rack, paths=())
    assert "comma" in complaint(rack, paths=("a,b",))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:\n  hosts:\n   x: [\n", "inv/hosts.yml:4"),
        ("a: {hosts: {x: }}\n\tb: 1\n", "inv/hosts.yml:2"),
        ("", "empty"),
        ("# nothing\n", "empty"),
        ("- gpu-a01\n", "does not start with group names"),
        ("gpu-a01\ngpu-a02\n", "does not start with group names"),
        ("a: {hosts: {123: }}", '123\' as a number, not as a name. Quote it: "123":'),
        ("a: {hosts: {0x10: }}", "'0x10' as a number"),
        ("a: {hosts: {1.0e+3: }}", "'1.0e+3' as a number"),
        ("a: {hosts: {1_000: }}", "'1_000' as a number"),
        ("a: {hosts: {12:30:45: }}", "'12:30:45' as a number"),
        ("a: {hosts: {no: }}", "'no' as a truth value"),
        ("a: {hosts: {on: }}", "'on' as a truth value"),
        ("a: {hosts: {2024-01-01: }}", "'2024-01-01' as a date"),
        ("a: {hosts: {~: }}", "'~' as nothing at all"),
        ("yes: {hosts: {x: }}", "group name 'yes' as a truth value"),
        ("a: {hosts: {x: {}, x: {}}}", "'x' stands here a second time; the first is in line 1"),
        ("a:\n  hosts:\n    x:\n    y:\n    x:\n", "hosts.yml:5: The key 'x' stands here a second"),
        ("a: {hosts: {x: {v: {k: 1, k: 2}}}}", "'k' stands here a second time"),
        ("a: {hosts: [x]}", "'hosts:' of the group 'a' is not a mapping"),
        ("a: {hosts: {x: 192.0.2.1}}", "The variables of the host 'x' are not a mapping"),
        ("a: {host: {x: }}", "'host', which Ansible would skip. Did you mean 'hosts'?"),
        ("a: {rack_b: {hosts: {x: }}}", "'rack_b', which Ansible would skip"),
        ("a: {children: {b: [x]}}", "The group 'b' holds neither"),
        ("a: {hosts: {'x y': }}", "x y"),
        ("a: {hosts: {-x: }}", "'-x'"),
    ],
)
def test_a_bad_inventory_file_is_explained(rack, text, expected):
    assert expected in complaint(rack, {"inv/hosts.yml": text}, error=HfprovError)


def test_names_that_only_look_like_numbers_are_names(rack):
    text = "a: {hosts: {'123': , 1e3: , \"no\": , 10.0.0.1: }}"
    assert names(rack({"inv/hosts.yml": text})) == ["123", "1e3", "no", "10.0.0.1"]


def test_all_problems_of_all_files_come_at_once(rack):
    text = complaint(
        rack,
        {
            "inv/hosts.yml": "a: {hosts: {no: , 1: }}",
            "inv/more.yml": "b: {hosts: {x: }\n",
            "inv/group_vars/a.yml": "k: 1\nk: 2\n",
            "inv/host_vars/x/v.yml": "- 1\n",
        },
    )
    for expected in ("5 problems", "'no'", "'1'", "more.yml:", "a.yml:2"):
        assert expected in text
    assert "inv/host_vars/x/v.yml: The file is not a mapping" in text


def test_an_inventory_without_hosts_is_no_success(rack):
    assert "no hosts" in complaint(rack, {"inv/hosts.yml": "a: {hosts: }"}, error=NoHostsError)


def test_broken_yaml_is_never_read_as_a_list_of_hosts(rack):
    """The INI plugin would make a host called 'all' of it."""
    text = complaint(rack, {"inv/hosts.yml": "all:\n"}, error=(InventoryError, NoHostsError))
    assert "no hosts" in text


def test_the_configuration_of_an_unknown_plugin_is_never_read_as_a_host(rack):
    """The INI plugin would make one host of the whole line."""
    assert "c.json" in complaint(rack, {"inv/c.json": '{"plugin":"nope"}'})


def test_a_file_that_ansible_skips_is_named(rack):
    assert "'.txt'" in complaint(rack, {"inv/rack_c.txt": "[c]\nx\n"})


def test_a_broken_ini_file_is_an_error(rack):
    text = complaint(rack, {"inv/more": "[a\nx y z\n"})
    assert "inv/more" in text


def test_ini_and_several_inventories(rack):
    files = {"ini/hosts": "[c]\nx ansible_host=192.0.2.9 ansible_port=22\n"}
    found = rack(files, paths=("inv", "ini/hosts"))
    # Ansible's order: from the top of the tree of groups downwards.
    assert names(found) == ["x", "gpu-a01", "gpu-a02", "gpu-b01"]
    assert found.hosts[0].connection.port == 22


def test_dynamic_inventories(rack, tmp_path):
    script = tmp_path / "dynamic"
    script.write_text(
        '#!/bin/sh\necho \'{"a": {"hosts": ["d1"]},'
        ' "_meta": {"hostvars": {"d1": {"ansible_port": 2022}}}}\'\n'
    )
    script.chmod(0o755)
    assert rack(paths=("dynamic",)).hosts[0].connection.port == 2022
    plugin = {
        "c/rack.yml": "plugin: ansible.builtin.constructed\nstrict: true\ngroups: {odd: true}"
    }
    assert rack(plugin, paths=("inv", "c/rack.yml")).hosts[0].groups == (
        "accelerators",
        "odd",
        "rack_a",
    )
    script.write_text("#!/bin/sh\necho broken; exit 3\n")
    assert "dynamic" in complaint(rack, paths=("dynamic",))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("group_vars/rak_a.yml", "no group 'rak_a', so nothing reads this file. Did you mean"),
        ("group_vars/rak_a/x.yml", "no group 'rak_a'"),
        ("group_vars/gpu-a01.yml", "no group 'gpu-a01'"),
        ("host_vars/gpu-a1.yml", "no host 'gpu-a1', so nothing reads this file. Did you mean"),
        ("group_vars/rack_a.txt", "does not read files that end in '.txt' for the group 'rack_a'"),
        ("group_vars/rack_a/x.txt", "does not read files that end in '.txt'"),
    ],
)
def test_a_variable_file_that_nothing_reads(rack, name, expected):
    assert expected in complaint(rack, {f"inv/{name}": "x: 1\n"})


def test_the_second_of_two_files_for_one_group(rack):
    files = {"inv/group_vars/rack_a.yml": "x: 1", "inv/group_vars/rack_a.yaml": "x: 1"}
    assert "rack_a.yaml: Ansible reads only 'inv/group_vars/rack_a.yml'" in complaint(rack, files)


def test_variable_files_that_are_read_or_meant_for_people(rack):
    good = (
        "all.yml",
        "rack_a",
        "rack_b/x.yml",
        "rack_b/y/z.json",
        "README.md",
        ".hidden",
        "a.yml~",
    )
    assert len(rack({f"inv/group_vars/{name}": "{}" for name in good}).hosts) == 3


def test_variable_files_of_another_inventory_in_the_same_folder(rack):
    files = {"inv/other.yml": "rack_z: {hosts: {z1: }}", "inv/group_vars/rack_z.yml": "x: 1"}
    assert len(rack(files, paths=("inv/hosts.yml",)).hosts) == 3
    files["inv/group_vars/rack_y.yml"] = "x: 1"
    assert "rack_y" in complaint(rack, files, paths=("inv/hosts.yml",))


def test_duplicate_and_nameless_keys_in_variable_files(rack):
    files = {"inv/group_vars/all.yml": "a: 1\nb: {c: 1, c: 2}\na: 3\n1: x\n"}
    text = complaint(rack, files)
    assert "all.yml:3: The key 'a'" in text
    assert "all.yml:2: The key 'c'" in text
    assert "variable name '1' as a number" in text


def test_merge_keys_and_aliases_are_no_duplicates(rack):
    text = "a: &x {k: 1}\nb:\n  <<: *x\n  k: 2\nc: *x\nd: [*x, *x]\n"
    assert len(rack({"inv/group_vars/all.yml": text}).hosts) == 3


def test_two_names_for_one_machine(rack):
    same = "a: {hosts: {x: {ansible_host: 192.0.2.1}, y: {ansible_host: 192.0.2.1}}}"
    assert "same address '192.0.2.1' as the host 'x'" in complaint(rack, {"inv/hosts.yml": same})
    ports = same.replace("y: {", "y: {ansible_port: 2022, ")
    assert len(rack({"inv/hosts.yml": ports}).hosts) == 2
    jump = same.replace("y: {", "y: {ansible_ssh_common_args: '-J other', ")
    assert len(rack({"inv/hosts.yml": jump}).hosts) == 2


def test_a_group_and_a_host_of_one_name(rack):
    text = "a: {hosts: {x: }}\nx: {hosts: {y: }}"
    assert "Found both group and host" in complaint(rack, {"inv/hosts.yml": text})


@pytest.mark.parametrize("name", ["ansible_hots", "ansible_prot", "ansible_usr"])
def test_a_misspelt_connection_variable(rack, name):
    files = {"inv/group_vars/all.yml": f"a: 1\n{name}: 1\n"}
    text = complaint(rack, files)
    assert f"inv/group_vars/all.yml:2: '{name}' is not a setting of Ansible" in text
    assert "Did you mean 'ansible_" in text


def test_a_file_that_is_not_text(rack, tmp_path):
    (tmp_path / "inv/group_vars").mkdir(parents=True)
    (tmp_path / "inv/group_vars/all.yml").write_bytes(b"a: \xff\xfe\n")
    assert "UTF-8" in complaint(rack)


def test_a_second_look_sees_new_files(rack):
    assert rack().hosts[0].connection.user is None
    found = rack({"inv/host_vars/gpu-a01.yml": "ansible_user: ops"})
    assert found.hosts[0].connection.user == "ops"


def test_importing_is_cheap():
    """A command that needs no inventory does not pay for Ansible."""
    code = "import sys, hfprov.inventory, hfprov.resolve; print('ansible' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_nothing_is_printed(rack, capfd):
    with pytest.raises(InventoryError):
        rack({"inv/more": "[a\nx y z\n"})
    assert capfd.readouterr() == ("", "")
