"""What makes a copy of the image one particular node: its name, keys and network files."""

from __future__ import annotations

import hashlib

from hfprov.lab.engine import NodeFile
from hfprov.lab.state import MAX_NODES, NetworkStack, NodeSpec, RackState, node_name

TIME_SERVER = "timeserver"


def node_files(
    state: RackState, node: NodeSpec, *, host_key: str, host_key_public: str, authorized: str
) -> dict[str, NodeFile]:
    """Files of a new node by absolute path. Keys are the text of OpenSSH key files."""
    files = {
        "/etc/hostname": NodeFile(f"{node.name}\n"),
        "/etc/hosts": NodeFile(_hosts(state)),
        "/etc/machine-id": NodeFile(_machine_id(state, node), 0o444),
        "/etc/ssh/ssh_host_ed25519_key": NodeFile(host_key, 0o600),
        "/etc/ssh/ssh_host_ed25519_key.pub": NodeFile(host_key_public),
        "/root/.ssh/authorized_keys": NodeFile(authorized, 0o600),
        "/etc/systemd/network/10-eth0.network": NodeFile(
            _networkd("eth0", state.management_address(node))
        ),
    }
    if node.is_service:
        files |= _time_service(state)
    elif node.network is NetworkStack.IFUPDOWN:
        files["/etc/network/interfaces.d/eth1"] = NodeFile(
            f"auto eth1\niface eth1 inet static\n    address {state.data_address(node)}/24\n"
        )
    else:
        files["/etc/systemd/network/20-eth1.network"] = NodeFile(
            _networkd("eth1", state.data_address(node))
        )
    return files


def _hosts(state: RackState) -> str:
    """Names of every node the rack could ever have, so that adding one changes no other."""
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
    lines.append(f"{state.time_server_address} {TIME_SERVER}")
    for index in range(1, MAX_NODES + 1):
        other = NodeSpec(node_name(index), index, NetworkStack.NETWORKD)
        lines.append(f"{state.management_address(other)} {other.name}")
        lines.append(f"{state.data_address(other)} {other.name}-data")
    return "\n".join(lines) + "\n"


def _machine_id(state: RackState, node: NodeSpec) -> str:
    return (
        hashlib.md5(  # an identifier, not a secret
            f"{state.rack_id}/{node.name}".encode(), usedforsecurity=False
        ).hexdigest()
        + "\n"
    )


def _networkd(interface: str, address: str) -> str:
    return f"[Match]\nName={interface}\n\n[Network]\nAddress={address}/24\n"


def _time_service(state: RackState) -> dict[str, NodeFile]:
    """A server the nodes can synchronise to.

    '-x' keeps it away from the machine's clock, which it reports as a source good enough for
    practice ('local').
    """
    config = f"local stratum 8\nallow {state.management}\ncmdport 0\npidfile /run/lab-chronyd.pid\n"
    unit = (
        "[Unit]\nDescription=Time source of the practice rack\nAfter=network.target\n\n"
        "[Service]\nExecStart=/usr/sbin/chronyd -d -x -f /etc/lab-chrony.conf\n"
        "Restart=on-failure\n"
    )
    return {
        "/etc/lab-chrony.conf": NodeFile(config),
        # In place of Debian's unit, which the package has enabled: that one does not start without
        # the right to set the clock.
        "/etc/systemd/system/chrony.service": NodeFile(unit),
    }
