"""What a rack and its surroundings do to hfprov: it says what is wrong, and finishes the rest."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import zlib
from dataclasses import replace
from pathlib import Path

import pexpect
import pytest
import yaml

from hfprov import observe, paths
from hfprov.evidence.identity import MACHINE_ID
from hfprov.inventory import load
from hfprov.observe import observe_many

pytestmark = [pytest.mark.lab, pytest.mark.slow]

PASSWORD = "c4n4ry-s3cr3t-of-op"
TOKEN = "c4n4ry-t0ken-of-the-site"
OPERATOR = f"""
id op >/dev/null 2>&1 || useradd -m -s /bin/bash op
echo 'op:{PASSWORD}' | chpasswd
echo 'op ALL=(ALL) ALL' > /etc/sudoers.d/op
install -d -o op -g op -m 700 /home/op/.ssh
install -o op -g op -m 600 /root/.ssh/authorized_keys /home/op/.ssh/authorized_keys
"""


@pytest.fixture
def home(site):
    """A folder of the test's own, outside pytest's; goes away with the record."""
    return site.db.parent


@pytest.fixture
def inventory(site, home):
    """Make an inventory with other hosts and variables than the rack's own; use it from then on."""

    def make(hosts):
        folder, own = home / "inventory", site.rack.paths.inventory
        shutil.copytree(own / "group_vars", folder / "group_vars", dirs_exist_ok=True)
        known = yaml.safe_load((own / "hosts.yml").read_text())
        nodes = known["accelerators"]["children"]["practice_rack"]["hosts"]
        chosen = {name: nodes.get(name, {}) | more for name, more in hosts.items()}
        (folder / "hosts.yml").write_text(yaml.safe_dump({"accelerators": {"hosts": chosen}}))
        site.inventory = folder
        return folder

    return make


@pytest.fixture
def operator(site):
    """node02 has a user 'op' who needs a password for sudo."""
    site.inside("node02", OPERATOR)
    return {"node02": {"ansible_user": "op", "ansible_become": True}}


@pytest.fixture
def restored(site):
    """Undo what a test does to nodes: pairs of node and script."""
    todo = []
    yield todo
    for name, script in todo:
        site.inside(name, script)


def address(site, name):
    [node] = [one for one in site.rack.status().nodes if one.name == name]
    return node.address


def host_of(document, name):
    [one] = [one for one in document["hosts"] if one["host"] == name]
    return one


def test_every_way_of_not_reaching_a_host_has_its_sentence(site, home, inventory):
    nobody = home / "known_hosts"
    nobody.touch()
    ghost = address(site, "node01").rpartition(".")[0] + ".250"
    inventory({
        "ghost": {"ansible_host": ghost},
        "node01": {},
        "node02": {"ansible_ssh_common_args": f"-o UserKnownHostsFile={nobody}"},
        "node03": {"ansible_port": 1},
    })  # fmt: skip
    done = site.hfprov("drift", "--json")
    assert done.code == 3
    reasons = {one["host"]: one["reason"] for one in done.document["hosts"]}
    assert ghost in reasons["ghost"]
    assert reasons["node01"] == ""
    assert "The host key of 'node02' is not known" in reasons["node02"]
    assert "cannot be reached: Connection refused" in reasons["node03"]
    assert host_of(done.document, "node01")["outcome"] == "pass"


def test_a_node_that_never_answers_is_given_up_at_the_deadline(site, restored):
    restored.append(("node03", "mv /usr/bin/python3.real /usr/bin/python3"))
    site.rack.break_node("node03", "python-hangs")
    done = site.hfprov("drift", "--json", "--deadline", "4")
    assert done.code == 3
    assert "No answer within 4 s" in host_of(done.document, "node03")["reason"]
    assert host_of(done.document, "node01")["outcome"] == "pass"


def test_a_noisy_shell_does_not_matter(site, restored):
    restored.append(("node03", "rm -f /root/.bashrc"))
    site.rack.break_node("node03", "noisy-shell")
    assert site.hfprov("drift", "-l", "node03").code == 0


def test_endless_output_is_cut_off(site, restored):
    restored.append(("node03", "ln -sf python3.11 /usr/bin/python3"))
    shell = "rm /usr/bin/python3; printf '#!/bin/sh\\nexec yes noise\\n' > /usr/bin/python3"
    site.inside("node03", f"{shell}; chmod 755 /usr/bin/python3")
    done = site.hfprov("drift", "-l", "node03", "--json")
    assert done.code == 3
    reason = host_of(done.document, "node03")["reason"]
    assert "'node03' sent more than" in reason or "No answer within" in reason
    assert len(done.out) < 100_000


def test_a_second_name_for_a_machine_is_refused_until_the_first_is_forgotten(site, inventory):
    assert site.hfprov("drift", "-l", "node01").code == 0
    inventory({"renamed": {"ansible_host": address(site, "node01")}})
    done = site.hfprov("drift", "--json")
    assert done.code == 3
    [refused] = done.document["hosts"]
    assert "'node01'" in refused["reason"]
    assert "machine-id" in refused["reason"]
    assert [one["kind"] for one in site.run()["events"]] == ["identity_refused"]
    assert site.hfprov("certify", "--json").document["certificates"] == {}
    assert [one["phases"] for one in site.history("node01")] == [{"before": "pass"}]
    assert site.hfprov("forget", "node01").code == 0
    assert site.hfprov("drift").code == 0


def test_sudo_without_its_password_says_what_to_do(site, inventory, operator):
    inventory(operator)
    done = site.hfprov("drift")
    assert done.code == 3
    assert "sudo on the host needs a password that was not given" in done.out
    assert "--ask-become-pass" in done.out


def test_a_wrong_sudo_password_is_refused_with_a_sentence(site, inventory, operator):
    operator["node02"]["ansible_become_password"] = "wrong"
    inventory(operator)
    done = site.hfprov("drift")
    assert done.code == 3
    assert "sudo on the host needs a password that was not given, or refused it" in done.out


def test_the_sudo_password_may_be_typed(site, inventory, operator, restored):
    inventory(operator)
    restored.append(("node02", "ip link set dev eth1 mtu 9000"))
    site.rack.break_node("node02", "mtu-runtime")
    argv = site.argv("provision", "-K")
    terminal = pexpect.spawn(argv[0], argv[1:], timeout=120, encoding="utf-8")
    terminal.expect("sudo password")
    terminal.sendline(PASSWORD)
    said = terminal.read()
    terminal.close()
    assert terminal.exitstatus == 0, said
    assert PASSWORD not in said
    assert site.run()["changes"] != []
    assert PASSWORD.encode() not in stored(site.db)


def stored(db):
    """All bytes of a record's files, and of the compressed parts in them."""
    raw = b"".join(path.read_bytes() for path in db.parent.glob(f"{db.name}*"))
    with contextlib.closing(sqlite3.connect(db)) as plain:
        tables = [
            name for (name,) in plain.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        ]
        for table in tables:
            for row in plain.execute(f'SELECT * FROM "{table}"'):
                for value in row:
                    if isinstance(value, bytes):
                        with contextlib.suppress(zlib.error):
                            raw += zlib.decompress(value)
    return raw


def files_with(folder, texts):
    found = []
    for place, _, names in os.walk(folder):  # what is removed while we look is passed over
        for name in names:
            with contextlib.suppress(OSError):
                content = Path(place, name).read_bytes()
                found += [(name, text) for text in texts if text.encode() in content]
    return found


def vaulted(home, **values):
    """Variables as 'ansible-vault encrypt_string' makes them, and the file with the password."""
    key = home / "vault-password"
    key.write_text("correct horse battery staple\n")
    vault = Path(sys.executable).with_name("ansible-vault")
    texts = []
    for name, value in values.items():
        argv = [str(vault), "encrypt_string", "--vault-password-file", str(key), "-n", name, value]
        texts.append(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)
    return "\n".join(texts), key


def test_no_secret_reaches_the_record_or_the_disk(site, home, inventory, operator, restored):
    folder = inventory(operator)
    text, key = vaulted(home, ansible_become_password=PASSWORD, site_token=TOKEN)
    (folder / "host_vars").mkdir()
    (folder / "host_vars" / "node02.yml").write_text(text)
    # The node itself tells the password, in a file that is evidence.
    canaries = "/etc/security/limits.d/00-canary.conf"
    restored.append(("node02", f"rm -f {canaries}; ip link set dev eth1 mtu 9000"))
    site.inside("node02", f"echo '# {PASSWORD}' > {canaries}")
    site.rack.break_node("node02", "limits-value")
    scratch = home / "tmp"
    scratch.mkdir()
    seen, stop = [], threading.Event()

    def watch():
        while not stop.wait(0.1):
            seen.extend(files_with(scratch, (PASSWORD, TOKEN)))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        done = site.hfprov(
            "provision", "--json", "--vault-password-file", key, env={"TMPDIR": str(scratch)}
        )
    finally:
        stop.set()
        watcher.join()
    assert done.code == 0, done.out
    assert site.run()["changes"] != []
    assert seen == []
    assert files_with(scratch, (PASSWORD, TOKEN)) == []
    assert PASSWORD not in done.out + done.err
    assert b"00-canary.conf" in stored(site.db)
    assert PASSWORD.encode() not in stored(site.db)
    assert TOKEN.encode() not in stored(site.db)


def test_a_full_disk_on_the_node_is_named(site, restored):
    restored.append(("node03", "for at in /tmp /var/tmp /root/.ansible; do umount $at; done"))
    site.rack.break_node("node03", "disk-full")
    done = site.hfprov("drift", "-l", "node03", "--json")
    assert done.code == 1
    assert done.failing("node03") == {"node.filesystems"}
    provision = site.hfprov("provision", "-l", "node03", "--json")
    assert provision.code == 1
    assert provision.document["plan"]["withheld"] == {
        "node03": {"node.filesystems": "no role repairs it"}
    }


@contextlib.contextmanager
def small_disk(place, size):
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "small", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.mark.parametrize("size", ["16k", "64k", "300k"])
def test_a_full_disk_under_the_record_is_named(site, home, size):
    with small_disk(home / "small", size) as place:
        site.db = place / "record.db"
        done = site.hfprov("drift")
        assert done.code == 2
        assert f"The record '{site.db}'" in done.err
        assert "disk is full" in done.err
        assert "Make room" in done.err


def test_no_room_for_ansible_is_named(site, home, restored):
    restored.append(("node01", "ip link set dev eth1 mtu 9000"))
    site.rack.break_node("node01", "mtu-runtime")
    with small_disk(home / "small", "8k") as place:
        (place / "full").write_bytes(b"x" * 4096)
        done = site.hfprov("provision", "-l", "node01", "--json", env={"TMPDIR": str(place)})
    assert done.code == 1
    assert "cannot be written" in done.document["failed"]["node01"]
    assert "No space left" in done.document["failed"]["node01"]


def test_a_record_of_a_newer_version_is_left_alone(site):
    assert site.hfprov("drift", "-l", "node01").code == 0
    with contextlib.closing(sqlite3.connect(site.db)) as plain, plain:
        plain.execute("UPDATE alembic_version SET version_num = 'ffffffffffff'")
    for command in ("drift", "runs"):
        done = site.hfprov(command)
        assert done.code == 2
        assert "newer" in done.err
        assert done.out == ""


def known_by_data_address(site, home):
    """A known_hosts with the data addresses of the nodes, which the controller cannot reach."""
    text = site.rack.paths.known_hosts.read_text()
    for node in site.rack.status().nodes:
        text = text.replace(f"{node.address} ", f"{node.data_address} ")
    known = home / "known_hosts"
    known.write_text(text)
    return known


def test_a_host_behind_a_jump_host_is_observed(site, home, inventory):
    jump = address(site, "node01")
    [node] = [one for one in site.rack.status().nodes if one.name == "node02"]
    known = known_by_data_address(site, home)
    ssh = home / ".ssh"
    ssh.mkdir(mode=0o700)
    (ssh / "config").write_text(f"Host {jump}\n  IdentityFile {site.rack.paths.key}\n")
    shutil.copy(site.rack.paths.known_hosts, ssh / "known_hosts")
    arguments = f"-o UserKnownHostsFile={known} -o ProxyJump=root@{jump}"
    inventory({
        "node02": {"ansible_host": node.data_address, "ansible_ssh_common_args": arguments}
    })  # fmt: skip
    done = site.hfprov("drift", "--json", env={"HOME": str(home)})
    assert done.code == 0, done.out
    alone = {"ansible_ssh_common_args": f"-o UserKnownHostsFile={known}"}
    inventory({"node02": {"ansible_host": node.data_address, **alone}})
    assert site.hfprov("drift", "--deadline", "5").code == 3


def test_a_host_behind_a_proxy_command_is_provisioned(site, home, inventory, restored):
    [node] = [one for one in site.rack.status().nodes if one.name == "node02"]
    known = known_by_data_address(site, home)
    proxy = f"ssh -F {site.rack.paths.ssh_config} -W %h:%p node01"
    arguments = f"-o UserKnownHostsFile={known} -o ProxyCommand='{proxy}'"
    inventory({
        "node02": {"ansible_host": node.data_address, "ansible_ssh_common_args": arguments}
    })  # fmt: skip
    restored.append(("node02", "systemctl start chrony"))
    site.rack.break_node("node02", "time-stopped")
    done = site.hfprov("provision", "--json")
    assert done.code == 0, done.out
    assert done.document["plan"]["roles"] == {"node02": ["time_sync"]}


def test_two_hundred_connections_run_bounded(site, monkeypatch):
    os.environ.setdefault("ANSIBLE_CONFIG", str(paths.ansible_config()))
    hosts = load([site.inventory]).hosts
    connections = {
        f"host{number:03}": replace(hosts[number % 3].connection, host=f"host{number:03}")
        for number in range(200)
    }
    now, most, lock = 0, 0, threading.Lock()
    really_observe = observe.observe

    def counted(*args, **kwargs):
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        try:
            return really_observe(*args, **kwargs)
        finally:
            with lock:
                now -= 1

    monkeypatch.setattr(observe, "observe", counted)
    threads = threading.active_count()
    answers = list(observe_many(dict.fromkeys(connections, (MACHINE_ID,)), connections, at_once=12))
    assert {answer.host for answer in answers} == set(connections)
    assert [answer.error for answer in answers if answer.error] == []
    assert len({answer.observation.text(MACHINE_ID) for answer in answers}) == 3
    assert 2 <= most <= 12
    site.until(lambda: threading.active_count() <= threads + 2)
