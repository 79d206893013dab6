"""Files of known host keys: who is found, who is not, and what is never trusted."""

import subprocess

import pytest

from hfprov.known_hosts import HostKey, KnownHosts

KEY = HostKey("ssh-ed25519", "AAAAC3Nz")
OTHER = HostKey("ssh-rsa", "AAAAB3Nz")


def test_a_host_has_the_keys_of_all_its_lines_in_order():
    known = KnownHosts(
        "# a comment\n\n"
        "node1,10.0.0.1 ssh-rsa AAAAB3Nz root@node1\n"
        "node2 ssh-ed25519 BBBB\n"
        "\tnode1\tssh-ed25519 AAAAC3Nz\n"
    )
    assert known.keys_of("node1") == (OTHER, KEY)
    assert known.keys_of("10.0.0.1") == (OTHER,)
    assert known.keys_of("node") == known.keys_of("# a comment") == ()


def test_a_port_makes_another_name():
    known = KnownHosts("[node1]:2222 ssh-ed25519 AAAAC3Nz\n")
    assert (known.keys_of("[node1]:2222"), known.keys_of("node1")) == ((KEY,), ())


def test_names_that_openssh_hashed_are_found_each_time(tmp_path):
    path = tmp_path / "known_hosts"
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq"
    path.write_text(f"node1 {key}\n[node2]:2222 {key}\nnode2 {key}\n", encoding="ascii")
    subprocess.run(["ssh-keygen", "-H", "-f", path], check=True, capture_output=True, timeout=20)
    assert "node" not in path.read_text(encoding="ascii").replace("nodes", "")
    known = KnownHosts.load(str(path))
    expected = (HostKey(*key.split()),)
    for _ in range(2):
        assert known.keys_of("[node2]:2222") == expected
        assert known.keys_of("node1") == known.keys_of("node2") == expected
        assert known.keys_of("node3") == known.keys_of("[node1]:2222") == ()


def test_hashed_and_plain_lines_of_a_host_add_up():
    hashed = "|1|MTIzNDU2Nzg5MDEyMzQ1Njc4OTA=|GeB3TczuEqIABi+6tumhiOH8chQ="
    known = KnownHosts(f"node1 ssh-ed25519 AAAAC3Nz\n{hashed} ssh-rsa AAAAB3Nz\n")
    assert known.keys_of("node1") == (KEY, OTHER)


@pytest.mark.parametrize(
    "line",
    [
        "node1",
        "node1 ssh-ed25519",
        "@cert-authority node1 ssh-ed25519 AAAAC3Nz",
        "@revoked node1 ssh-ed25519 AAAAC3Nz",
        "#node0,node1 ssh-ed25519 AAAAC3Nz",
        "|1|node1 ssh-ed25519 AAAAC3Nz",
        "|1|%%%|%%% ssh-ed25519 AAAAC3Nz",
        "|1|\xe9|\xe9 ssh-ed25519 AAAAC3Nz",
    ],
)
def test_a_line_of_another_kind_is_nobodys_key(line):
    known = KnownHosts(f"{line}\nnode2 ssh-rsa AAAAB3Nz\n")
    assert (known.keys_of("node1"), known.keys_of("node2")) == ((), (OTHER,))


def test_a_revoked_key_is_told():
    known = KnownHosts("@revoked * ssh-ed25519 AAAAC3Nz stolen\nnode1 ssh-rsa AAAAB3Nz\n")
    assert known.revoked == {"AAAAC3Nz"}


def test_a_file_that_is_not_there_holds_no_keys(tmp_path):
    assert KnownHosts.load(str(tmp_path / "none")).keys_of("node1") == ()
    with pytest.raises(IsADirectoryError):
        KnownHosts.load(str(tmp_path))
