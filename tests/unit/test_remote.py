"""One command over SSH, on a server within this process: whose key is accepted, and from whom."""

import contextlib
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import fabric
import paramiko
import pytest

from hfprov import remote, transport
from hfprov.declare.connection import Connection, JumpHost
from hfprov.errors import RemoteError

KEY, OTHER = paramiko.ECDSAKey.generate(), paramiko.ECDSAKey.generate()
LINE, OTHER_LINE = (f"{key.get_name()} {key.get_base64()}" for key in (KEY, OTHER))

NEGATIVE = "AAAAB3NzaC1yc2EAAAABAwAAAAH7"
"""An RSA key whose modulus is below zero."""


class Shell(paramiko.ServerInterface):
    """Lets everybody in, and answers each command with itself."""

    def check_auth_password(self, *_):
        return paramiko.AUTH_SUCCESSFUL

    def check_channel_request(self, *_):
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel, command):
        def answer():
            with contextlib.suppress(OSError, EOFError):
                channel.recv(1)  # nothing: by then it has been told that its command runs
                channel.sendall(command)
                channel.send_exit_status(7)
                channel.close()

        threading.Thread(target=answer, daemon=True).start()
        return True


@pytest.fixture
def port():
    """The port of a server on 127.0.0.1 whose host key is KEY."""
    transports = []

    def serve(listening):
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            server = paramiko.Transport(client)
            server.add_server_key(KEY)
            with contextlib.suppress(paramiko.SSHException, EOFError):
                server.start_server(event=threading.Event(), server=Shell())
            transports.append(server)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, args=(listening,), daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
    for one in transports:
        one.close()


@pytest.fixture(autouse=True)
def _own_ssh_config(tmp_path, monkeypatch):
    """Neither the ssh_config of whoever runs the tests, nor what another test has read."""
    path = tmp_path / "ssh_config"
    path.touch()

    def read():
        return fabric.Config(runtime_ssh_path=str(path))

    monkeypatch.setattr(transport, "_fabric_config", transport.functools.cache(read))
    transport._known_hosts.cache_clear()


@pytest.fixture
def node(tmp_path, port):
    """Makes a connection whose known_hosts file has the given lines ('{}': the server's name)."""

    def make(*lines, **settings):
        path = tmp_path / "known_hosts"
        text = "".join(f"{line}\n" for line in lines)
        path.write_text(text.replace("{}", f"[127.0.0.1]:{port}"), encoding="utf-8")
        settings.setdefault("known_hosts", (str(tmp_path / "none"), str(path)))
        return Connection(
            host="node1",
            address="127.0.0.1",
            port=port,
            user="somebody",
            password="secret",
            identities_only=True,
            key_files=(),
            **settings,
        )

    return make


def test_a_command_is_run_where_the_host_key_is_known(node):
    said = remote.run(node(f"{{}} {LINE}"), ["echo", "a b"], deadline=20)
    assert (said.stdout, said.code) == (b"echo 'a b'", 7)


def test_a_command_that_ends_before_it_took_its_input_is_answered(node):
    more_than_a_window = bytes(5_000_000)
    said = remote.run(node(f"{{}} {LINE}"), ["true"], deadline=20, stdin=more_than_a_window)
    assert (said.stdout, said.code) == (b"true", 7)


def test_a_command_that_was_started_waits_for_its_input(node):
    command = remote.start(node(f"{{}} {LINE}"), ["cat"], deadline=20)
    said = command.finish(b"input")
    assert (said.stdout, said.code) == (b"cat", 7)


def test_a_command_that_was_started_early_gets_a_deadline_of_its_own(node):
    command = remote.start(node(f"{{}} {LINE}"), ["true"], deadline=20)
    with pytest.raises(RemoteError, match=r"No answer within 1e-09 s"):
        command.finish(deadline=1e-9)
    late = remote.start(node(f"{{}} {LINE}"), ["true"], deadline=5)
    late._clock = remote.Deadline(0)
    assert late.finish(deadline=20).code == 7


def test_a_command_that_is_not_wanted_any_more_has_its_connection_closed(node):
    command = remote.start(node(f"{{}} {LINE}"), ["true"], deadline=20)
    way = command._channel.get_transport()
    assert way.is_active()
    command.close()
    assert not way.is_active()


@pytest.mark.parametrize(
    ("settings", "has"),
    [
        ({}, True),
        ({"become": True}, True),
        ({"become": True, "become_password": "x"}, False),
        ({"become": True, "become_password": "x", "become_user": "somebody"}, True),
    ],
)
def test_where_sudo_reads_a_password_a_command_has_no_input(node, settings, has):
    assert remote.has_stdin(node(**settings)) is has


def test_a_hashed_name_is_known(node, tmp_path):
    connection = node(f"{{}} {LINE}")
    argv = ["ssh-keygen", "-H", "-f", tmp_path / "known_hosts"]
    subprocess.run(argv, check=True, capture_output=True, timeout=20)
    assert "127.0.0.1" not in (tmp_path / "known_hosts").read_text(encoding="ascii")
    assert remote.run(connection, ["true"], deadline=20).code == 7


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((), "is not known"),
        ((f"127.0.0.1 {LINE}",), "is not known"),
        ((f"* {LINE}",), "is not known"),
        (("{} ecdsa-sha2-nistp256 AAAA", "{} no-such-kind AAAA", "{} ssh-rsa A"), "is not known"),
        ((f"{{}} ssh-rsa {NEGATIVE}",), "is not known"),
        ((f"{{}} {OTHER_LINE}",), "is not the one on record"),
        ((f"{{}} {OTHER_LINE}", f"{{}} {LINE}"), "is not the one on record"),
        ((f"{{}} {LINE}", f"@revoked * {LINE}"), "is revoked"),
    ],
)
def test_without_its_host_key_no_host_is_talked_to(node, lines, said):
    with pytest.raises(RemoteError, match=said):
        remote.run(node(*lines), ["true"], deadline=20)


def test_a_revoked_key_does_not_hide_the_new_one(node):
    lines = f"{{}} {OTHER_LINE}", f"@revoked {{}} {OTHER_LINE}", f"{{}} {LINE}"
    assert remote.run(node(*lines), ["true"], deadline=20).code == 7


def test_known_hosts_that_cannot_be_read_are_named(node, tmp_path):
    with pytest.raises(RemoteError, match=f"'{tmp_path}' cannot be read: Is a directory"):
        remote.run(node(known_hosts=(str(tmp_path),)), ["true"], deadline=20)


def test_many_hosts_share_one_configuration_and_none_changes_it(node, monkeypatch):
    changed = []
    transport._fabric_config()
    monkeypatch.setattr(fabric.Config, "merge", lambda *_: changed.append("merged"))
    connection = node(f"{{}} {LINE}")
    with ThreadPoolExecutor(4) as pool:
        jobs = [
            pool.submit(transport._connection, connection, remote.Deadline(9), []) for _ in "1234"
        ]
        assert len({id(job.result().config) for job in jobs}) == 1
    assert not changed


def test_one_file_is_read_once_for_all_threads(node, monkeypatch):
    read, load = [], transport.KnownHosts.load

    def slowly(path):
        read.append(path)
        time.sleep(0.1)
        return load(path)

    monkeypatch.setattr(transport.KnownHosts, "load", slowly)
    connection = node(f"{{}} {LINE}")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: remote.run(connection, ["true"], deadline=20), range(8)))
    assert sorted(read) == sorted(connection.known_hosts)


def policies(way):
    while isinstance(way, fabric.Connection):
        yield way.host, type(way.client._policy), way.connect_timeout
        way = way.gateway


def test_a_way_over_jump_hosts_of_the_inventory_is_one_chain(node):
    hops = []
    jump = JumpHost("first"), JumpHost("second")
    made = transport._connection(node(jump=jump), remote.Deadline(9), hops)
    assert [hop.host for hop in hops] == ["first", "second", "127.0.0.1"]
    assert list(policies(made)) == [
        ("127.0.0.1", paramiko.RejectPolicy, 8),
        ("second", paramiko.RejectPolicy, 8),
        ("first", paramiko.RejectPolicy, 8),
    ]


def test_a_jump_host_of_ssh_config_is_checked_bounded_and_closed(node, tmp_path):
    (tmp_path / "ssh_config").write_text(
        "Host 127.*\nProxyJump way\nHost way\nProxyJump first\nConnectTimeout 3\n",
        encoding="ascii",
    )
    hops = []
    made = transport._connection(node(), remote.Deadline(9), hops)
    assert [hop.host for hop in hops] == ["first", "way", "127.0.0.1"]
    assert list(policies(made)) == [
        ("127.0.0.1", paramiko.RejectPolicy, 8),
        ("way", paramiko.RejectPolicy, 3),
        ("first", paramiko.RejectPolicy, 8),
    ]
    assert hops[0].connect_kwargs["auth_timeout"] == pytest.approx(9, abs=1)
