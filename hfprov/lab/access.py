"""How to reach a rack's nodes: keys, and the inventory that Ansible and hfprov read.

Keys are made before the nodes start, so host keys are pinned and never learnt on first contact.
"""

from __future__ import annotations

import resource
import shlex
from collections.abc import Mapping
from pathlib import Path

import yaml

from hfprov.lab import host
from hfprov.lab.host import run
from hfprov.lab.state import NodeSpec, RackPaths, RackState, write_atomically

_LIMITS_NOFILE = 131072
"""The role's default, which a machine with a higher limit need not exceed."""
_HEADER = "# Written by 'hfprov lab up'.\n"


def ensure_keys(paths: RackPaths, nodes: tuple[NodeSpec, ...]) -> None:
    """Create the rack's login key and each node's host key where they are missing."""
    _ensure_key(paths.key, "hfprov practice rack")
    for node in nodes:
        _ensure_key(host_key(paths, node), node.name)


def host_key(paths: RackPaths, node: NodeSpec) -> Path:
    return paths.ssh / "host_keys" / node.name


def _ensure_key(path: Path, comment: str) -> None:
    if path.exists() and path.with_name(f"{path.name}.pub").exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path], timeout=30)


def public_key(path: Path) -> str:
    return path.with_name(f"{path.name}.pub").read_text(encoding="utf-8")


def write_ssh_files(state: RackState, paths: RackPaths) -> None:
    """Write ``ssh/known_hosts`` and ``ssh/config`` (``ssh -F .../ssh/config node01``)."""
    known, hosts = [], []
    for node in state.nodes:
        address = state.management_address(node)
        kind, key, *_ = public_key(host_key(paths, node)).split()
        known.append(f"{address} {kind} {key}\n")
        hosts.append(f"Host {node.name}\n    HostName {address}\n")
    write_atomically(paths.known_hosts, "".join(known))
    common = (
        "Host *\n    User root\n    BatchMode yes\n    StrictHostKeyChecking yes\n"
        f'    UserKnownHostsFile "{paths.known_hosts}"\n    GlobalKnownHostsFile none\n'
        f'    IdentityFile "{paths.key}"\n    IdentitiesOnly yes\n'
        # A seventh of the default's CPU time per connection.
        "    KexAlgorithms curve25519-sha256\n"
    )
    write_atomically(paths.ssh_config, _HEADER + "".join(hosts) + common)


def write_inventory(state: RackState, paths: RackPaths) -> None:
    """Write ``inventory/hosts.yml``, and ``group_vars`` unless it exists.

    That file is the user's to change.
    """
    group_vars = paths.inventory / "group_vars"
    group_vars.mkdir(parents=True, exist_ok=True)
    hosts = {
        node.name: {"ansible_host": state.management_address(node)}
        for node in state.inventory_nodes
    }
    document = {"accelerators": {"children": {"practice_rack": {"hosts": hosts}}}}
    write_atomically(paths.inventory / "hosts.yml", _yaml(_HEADER, document))
    variables = group_vars / "accelerators.yml"
    if not variables.exists():
        write_atomically(variables, _yaml(_HEADER + _ABOUT, _group_vars(state, paths)))


_CONTAINER_VARIABLES: dict[str, str | int] = {"time_sync_control_clock": False}
_VM_VARIABLES: dict[str, str | int] = {"kernel_headers": False}
"""A virtual machine has a clock and limits of its own, and a kernel, of which no headers are at
hand."""
_ABOUT = """# Yours to change: it is written once per rack. eth0 is management, eth1 is data.
# Containers share the machine's clock, so chronyd must not control it (time_sync_control_clock).
# No container runtime is declared (container_runtime_engine), because Docker or Podman would add
# half a minute to the first provisioning of a rack; 'docker' or 'podman' work here as well.
# Limits are set here only where root may not raise them (no CAP_SYS_RESOURCE): to the most that
# containers on this machine can have. Virtual machines have kernels to choose from, but no headers
# of them (kernel_headers).
"""


def attainable_limits() -> dict[str, str | int]:
    """The role variables of limits that nodes on this machine cannot have at their defaults.

    A node inherits our hard limits. Empty where root may raise them, as it usually may.
    """
    if host.may_raise_limits():
        return {}
    most = {
        name: resource.getrlimit(kind)[1]
        for name, kind in (
            ("memlock", resource.RLIMIT_MEMLOCK),
            ("nofile", resource.RLIMIT_NOFILE),
            ("nproc", resource.RLIMIT_NPROC),
        )
    }
    limits: dict[str, str | int] = {}
    if most["memlock"] != resource.RLIM_INFINITY:
        limits["limits_memlock_kib"] = str(most["memlock"] // 1024)
    if most["nofile"] != resource.RLIM_INFINITY:
        limits["limits_nofile"] = min(most["nofile"], _LIMITS_NOFILE)
    if most["nproc"] != resource.RLIM_INFINITY:
        limits["limits_nproc"] = str(most["nproc"])
    return limits


def _group_vars(state: RackState, paths: RackPaths) -> dict[str, object]:
    known_hosts = shlex.quote(str(paths.known_hosts))
    return {
        "ansible_user": "root",
        "ansible_ssh_private_key_file": str(paths.key),
        "ansible_ssh_common_args": (
            f"-o UserKnownHostsFile={known_hosts} -o StrictHostKeyChecking=yes"
        ),
        "ansible_python_interpreter": "/usr/bin/python3",
        "node_sku": "none",
        "jumbo_mtu_interfaces": ["eth1"],
        "time_sync_servers": [state.time_server_address],
        "container_runtime_engine": "none",
        **(_VM_VARIABLES if state.engine == "vm" else _CONTAINER_VARIABLES | attainable_limits()),
    }


def _yaml(header: str, document: Mapping[str, object]) -> str:
    return f"---\n{header}{yaml.safe_dump(document, sort_keys=False)}"
