"""Large frames pass, and the MTU comes back. Shares no code with the role or the checks."""

PEERS = {"node01": "node02-data", "node02": "node01-data"}


def test_mtu_now(host):
    assert host.file("/sys/class/net/eth1/mtu").content_string == "9000\n"
    assert host.file("/sys/class/net/eth0/mtu").content_string == "1500\n"


def test_large_frames_pass_whole(host):
    peer = PEERS[host.check_output("hostname")]
    assert host.run(f"ping -c 2 -i 0.2 -W 2 -M do -s 8972 {peer}").rc == 0
    assert host.run(f"ping -c 1 -W 1 -M do -s 8973 {peer}").rc != 0


def test_mtu_comes_back_when_the_network_is_set_up_anew(host):
    if host.file("/etc/network/interfaces.d/eth1").exists:
        anew = "ifdown eth1 && ip link set eth1 mtu 1500 && ifup eth1"
    else:
        anew = "ip link set eth1 mtu 1500 && systemctl restart systemd-networkd"
    wait = "for i in 1 2 3 4 5 6 7 8 9 10; do grep -q 9000 {0} && break; sleep 0.3; done; cat {0}"
    assert host.check_output(f"{anew} && {wait.format('/sys/class/net/eth1/mtu')}") == "9000"
    assert host.interface("eth1").addresses
