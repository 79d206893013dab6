"""Connection settings: honoured as Ansible honours them, or refused by name. Never ignored."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hfprov import inventory
from hfprov.declare.connection import GLOBAL_KNOWN_HOSTS, USER_KNOWN_HOSTS, JumpHost
from hfprov.declare.ssh_options import SshOptions
from hfprov.errors import InventoryError, UnsupportedSettingError


@pytest.fixture
def connect(tmp_path, monkeypatch):
    """Returns a function: variables of a group (YAML) -> the connection of its host 'x'."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hosts.yml").write_text("a: {hosts: {x: {ansible_host: 192.0.2.1}, y: }}\n")
    (tmp_path / "group_vars").mkdir()

    def load(variables):
        (tmp_path / "group_vars/a.yml").write_text(variables)
        found = inventory.load(
            [Path("hosts.yml")], playbook=tmp_path / "playbooks/provision.yml", limit="x"
        )
        return found.hosts[0].connection

    return load


def test_without_settings(connect):
    found = connect("")
    assert (found.host, found.address) == ("x", "192.0.2.1")
    # What is None is left to ~/.ssh/config.
    assert (found.port, found.user, found.password) == (None, None, None)
    assert found.known_hosts == USER_KNOWN_HOSTS + GLOBAL_KNOWN_HOSTS
    assert (found.become, found.become_user) == (True, "root")
    assert found.interpreter == "python3"


@pytest.mark.parametrize(
    ("variables", "field", "expected"),
    [
        ("ansible_port: 2022", "port", 2022),
        ("ansible_port: '2022'", "port", 2022),
        ("ansible_ssh_port: 2022", "port", 2022),
        ("ansible_user: ops", "user", "ops"),
        ("ansible_user: \"{{ 'o' + 'ps' }}\"", "user", "ops"),
        ('ansible_host: "{{ inventory_hostname }}.mgmt"', "address", "192.0.2.1"),
        ("ansible_ssh_private_key_file: ~/.ssh/k", "key_files", ("~/.ssh/k",)),
        ("ansible_password: pw", "password", "pw"),
        ("ansible_ssh_pass: pw", "password", "pw"),
        ("ansible_password: 0123", "password", "83"),  # YAML's octal, as Ansible would send it
        ("ansible_become: false", "become", False),
        ("ansible_become: 'no'", "become", False),
        ("ansible_user: root", "become", False),
        ("{ansible_user: root, ansible_become: true}", "become", True),
        ("ansible_become_user: adm", "become_user", "adm"),
        ("ansible_become_password: pw", "become_password", "pw"),
        ("ansible_become_pass: pw", "become_password", "pw"),
        ("ansible_become_flags: -H -n", "become", True),
        ("ansible_become_method: ansible.builtin.sudo", "become", True),
        ("ansible_python_interpreter: /opt/py/bin/python3", "interpreter", "/opt/py/bin/python3"),
        ("ansible_python_interpreter: auto_silent", "interpreter", "python3"),
        ("ansible_ssh_timeout: 7", "connect_timeout", 7.0),
        ("ansible_ssh_common_args: -p 2022", "port", 2022),
        ("{ansible_port: 22, ansible_ssh_common_args: -p 2022}", "port", 22),
        ("{ansible_port: 22, ansible_ssh_args: -p2022}", "port", 2022),
        ("ansible_ssh_common_args: -l ops", "user", "ops"),
        ("ansible_ssh_extra_args: -i a -o IdentityFile=b", "key_files", ("a", "b")),
        ("ansible_ssh_common_args: -o IdentitiesOnly=yes", "identities_only", True),
        ("ansible_ssh_common_args: -oStrictHostKeyChecking=yes", "user", None),
        (
            "ansible_ssh_common_args: -o UserKnownHostsFile=./kh -o 'GlobalKnownHostsFile a b'",
            "known_hosts",
            ("./kh", "a", "b"),
        ),
        (
            "ansible_ssh_common_args: -o ProxyJump=u@j1:22,[2001:db8::1]:23",
            "jump",
            ("u@j1:22", "2001:db8::1:23"),
        ),
        ("ansible_ssh_common_args: -J j1", "jump", ("j1",)),
        ("ansible_ssh_common_args: -J none", "jump", ()),
        (
            'ansible_ssh_common_args: -o ProxyCommand="ssh -W %h:%p -l %r gw"',
            "proxy_command",
            "ssh -W %h:%p -l %r gw",
        ),
        (
            "ansible_ssh_args: -C -q -tt -v -o ControlMaster=auto -o KexAlgorithms=sntrup761",
            "port",
            None,
        ),
        ("ansible_connection: smart", "port", None),
        ("ansible_shell_type: sh", "port", None),
        ("ansible_shell_executable: /bin/bash", "port", None),
        ("ansible_ssh_retries: 3", "port", None),
    ],
)
def test_honoured(connect, variables, field, expected):
    found = getattr(connect(variables), field)
    if field == "jump":
        found = tuple(
            f"{jump.user}@" * bool(jump.user) + jump.address + f":{jump.port}" * bool(jump.port)
            for jump in found
        )
    assert found == expected


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ("ansible_connection: docker", "docker"),
        ("ansible_connection: local", "local"),
        ("ansible_become_method: su", "su"),
        ("ansible_become_exe: doas", "doas"),
        ("ansible_become_flags: -i", "-i"),
        # Inputs, each of which must be refused: nobody gets hfprov to leave host keys unchecked.
        ("ansible_host_key_checking: false", "StrictHostKeyChecking=no"),
        ("ansible_ssh_host_key_checking: 'no'", "StrictHostKeyChecking=no"),
        ("ansible_ssh_common_args: -o StrictHostKeyChecking=no", "StrictHostKeyChecking=no"),
        ("ansible_ssh_common_args: -o stricthostkeychecking=accept-new", "accept-new"),
        ("ansible_ssh_common_args: -o UserKnownHostsFile=/dev/null", "/dev/null"),
        ("ansible_ssh_common_args: -o UserKnownHostsFile=~/kh.%h", "%h"),
        ("ansible_ssh_common_args: -o Ciphers=aes128-ctr", "Ciphers=aes128-ctr"),
        ("ansible_ssh_common_args: -c aes128-ctr", "aes128-ctr"),
        ("ansible_ssh_common_args: -F other", "other"),
        ("ansible_ssh_common_args: -L 1:x:2", "1:x:2"),
        ("ansible_ssh_common_args: -o HostName=other", "HostName=other"),
        ("ansible_ssh_common_args: -o NotAnOption=1", "NotAnOption"),
        ("ansible_ssh_common_args: -Z", "-Z"),
        ("ansible_ssh_common_args: stray", "stray"),
        ("ansible_ssh_common_args: -o", "no argument"),
        ('ansible_ssh_common_args: "-o \'x"', "cannot be split"),
        ("ansible_ssh_common_args: -J 'a b'", "jump"),
        ("ansible_ssh_args: -p 0", "65535"),
        ("ansible_ssh_args: -o ConnectTimeout=soon", "seconds"),
        ("ansible_ssh_executable: /opt/ssh", "ssh_executable"),
        ("ansible_ssh_pkcs11_provider: /lib/p.so", "pkcs11_provider"),
        ("ansible_shell_type: powershell", "powershell"),
        ("ansible_shell_executable: /usr/bin/fish", "fish"),
        ("ansible_ssh_private_key_file: k.%h", "k.%h"),
    ],
)
def test_refused(connect, variables, expected):
    with pytest.raises(UnsupportedSettingError) as caught:
        connect(variables)
    assert "'x'" in caught.value.message
    assert expected in caught.value.message


def test_a_secret_setting_that_is_refused_is_not_shown(connect):
    with pytest.raises(UnsupportedSettingError) as caught:
        connect("ansible_ssh_private_key_passphrase: canary")
    assert "passphrase" in caught.value.message
    assert "canary" not in caught.value.message


def test_all_refusals_come_at_once_with_their_hosts(tmp_path):
    (tmp_path / "hosts.yml").write_text(
        "a: {hosts: {x: , y: {ansible_become_method: su}}, vars: {ansible_ssh_common_args: -Z}}\n"
    )
    with pytest.raises(UnsupportedSettingError) as caught:
        inventory.load([tmp_path / "hosts.yml"], playbook=tmp_path / "p.yml")
    assert "'x', 'y': ansible_ssh_common_args: -Z" in caught.value.message
    assert "\n  'y': ansible_become_method" in caught.value.message


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ("a: 1\nansible_port: many", "host 'x'"),
        ("ansible_become: perhaps", "perhaps"),
        ('a: 1\nansible_user: "{{ nobody }}"', "group_vars/a.yml:2: 'ansible_user'"),
        ('ansible_user: "{{ ansible_user }}"', "group_vars/a.yml:1: 'ansible_user'"),
        ('ansible_user: "{% if %}"', "group_vars/a.yml:1: 'ansible_user'"),
    ],
)
def test_impossible_values(connect, variables, expected):
    with pytest.raises(InventoryError) as caught:
        connect(variables)
    assert expected in caught.value.message


def test_an_address_that_would_be_an_option(tmp_path):
    (tmp_path / "hosts.yml").write_text("a: {hosts: {x: {ansible_host: -oProxyCommand=evil}}}")
    with pytest.raises(UnsupportedSettingError, match="ProxyCommand"):
        inventory.load([tmp_path / "hosts.yml"], playbook=tmp_path / "p.yml")


def test_templates_are_rendered_for_each_host(tmp_path):
    (tmp_path / "hosts.yml").write_text(
        "a: {hosts: {x: , y: }, vars: {ansible_host: '{{ inventory_hostname }}.mgmt', "
        "ansible_user: 'u-{{ inventory_hostname }}'}}"
    )
    found = inventory.load([tmp_path / "hosts.yml"], playbook=tmp_path / "p.yml").hosts
    assert [h.connection.address for h in found] == ["x.mgmt", "y.mgmt"]
    assert [h.connection.user for h in found] == ["u-x", "u-y"]


def test_passwords_are_not_in_the_repr(connect):
    found = connect("{ansible_password: canary1, ansible_become_password: canary2}")
    assert (found.password, found.become_password) == ("canary1", "canary2")
    assert "canary" not in repr(found)
    assert "canary" not in repr(JumpHost("x", password="canary"))


def test_the_first_value_of_an_option_counts_as_in_openssh():
    """Against OpenSSH itself: what 'ssh -G' prints for the same words."""
    line = "-p 2022 -o Port=22 -l a -o User=b -o ConnectTimeout=5 -oConnectTimeout=6"
    options = SshOptions()
    options.add_line(line, "test")
    done = subprocess.run(
        ["ssh", "-F", "/dev/null", "-G", *line.split(), "host"],
        capture_output=True, text=True, check=True, timeout=10,
    )  # fmt: skip
    printed = dict(row.split(" ", 1) for row in done.stdout.splitlines() if " " in row)
    assert options.values == {"port": "2022", "user": "a", "connecttimeout": "5"}
    assert {name: printed[name] for name in options.values} == options.values


def test_configuration_and_environment_count(tmp_path):
    """In a process of its own: Ansible reads both when it is imported."""
    # An input that must be refused, as the last line says; nothing is contacted.
    (tmp_path / "ansible.cfg").write_text(
        "[defaults]\nremote_user = cfg\nhost_key_checking = False\n"
    )
    (tmp_path / "hosts.yml").write_text("a: {hosts: {x: }}")
    code = (
        "import sys, pathlib; from hfprov import inventory, errors\n"
        "try:\n inventory.load([pathlib.Path('hosts.yml')], playbook=pathlib.Path('p.yml'))\n"
        "except errors.UnsupportedSettingError as error:\n print(error.message)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(inventory.__file__).parent.parent)}
    env.pop("ANSIBLE_CONFIG", None)
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=True, cwd=tmp_path, env=env, timeout=60,
    )  # fmt: skip
    assert "ansible.cfg: StrictHostKeyChecking=no" in done.stdout
