"""The files as the libraries would read them. Shares no code with the role or the checks."""

WANTED = {
    "NCCL_DEBUG": "WARN",
    "NCCL_IB_ADDR_RANGE": "10.0.0.0/8",
    "NCCL_IB_HCA": "=mlx5_0:1,mlx5_1",
    "NCCL_IB_SL": "3",
    "NCCL_IB_TC": "106",
    "NCCL_SOCKET_IFNAME": "=eth1",
}


def as_the_library_reads(text):
    """Up to the first equals sign is the name; the first value of a name counts."""
    found = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals:
            found.setdefault(name, value)
    return found


def test_nccl_and_rccl_are_told_the_same(host):
    for path in ("/etc/nccl.conf", "/etc/rccl.conf"):
        assert as_the_library_reads(host.check_output(f"cat {path}")) == WANTED
        assert host.check_output(f"stat -c '%a %U %F' {path}") == "644 root regular file"


def test_ucx_is_told_its_devices_only(host):
    text = host.check_output("cat /etc/ucx/ucx.conf")
    assert as_the_library_reads(text) == {"UCX_NET_DEVICES": "mlx5_0:1"}
    assert host.check_output("stat -c %a /etc/ucx") == "755"
    # A user can read it.
    host.check_output("su -s /bin/sh nobody -c 'cat /etc/ucx/ucx.conf /etc/nccl.conf'")
