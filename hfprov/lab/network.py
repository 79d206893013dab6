"""A rack's two networks.

Both bridges live in a network namespace of their own, so the machine sees one new interface, its
firewall (Docker's, for instance) does not filter what nodes say to each other, and deleting the
namespace deletes everything in it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hfprov.errors import LabError
from hfprov.lab.host import mountpoints_below, run
from hfprov.lab.state import RackState

MANAGEMENT_BRIDGE = "mgmt"
DATA_BRIDGE = "data"
UPLINK = "uplink"
MANAGEMENT_MTU = 1500
DATA_MTU = 9000
"""What switch and cable can do; nodes start at 1500 so that there is something to converge."""


def namespace(rack_id: str) -> str:
    return f"hfp{rack_id}"


def namespace_file(rack_id: str) -> Path:
    return Path("/run/netns") / namespace(rack_id)


def ensure_network(state: RackState, directory: Path) -> None:
    """Create what is missing of a rack's networks.

    Raises :class:`LabError` when a name is taken by something that is not this rack's.
    """
    name = namespace(state.rack_id)
    label = _label(directory)
    _remove_half_made(namespace_file(state.rack_id))
    if not namespace_file(state.rack_id).exists():
        _ip("netns", "add", name)
    inside = ("-n", name)
    for bridge, mtu in ((MANAGEMENT_BRIDGE, MANAGEMENT_MTU), (DATA_BRIDGE, DATA_MTU)):
        if _link(bridge, *inside) is None:
            _ip(*inside, "link", "add", bridge, "mtu", str(mtu), "type", "bridge")
        # The bridge's MTU is set by hand so that it does not follow its lowest port.
        _ip(*inside, "link", "set", bridge, "mtu", str(mtu), "alias", label, "up")
    _ip(*inside, "link", "set", "lo", "up")
    if (link := _link(name)) is None:
        _ip("link", "add", name, "type", "veth", "peer", "name", UPLINK, "netns", name)
        _ip("link", "set", name, "alias", label)
    elif link.get("ifalias") != label:
        raise LabError(f"The interface '{name}' exists and does not belong to this rack.")
    _ip(*inside, "link", "set", UPLINK, "master", MANAGEMENT_BRIDGE, "up")
    _ip("address", "replace", f"{state.controller_address}/24", "dev", name)
    _ip("link", "set", name, "up")


def ensure_tap(rack_id: str, name: str, *, bridge: str, mtu: int, queues: int) -> None:
    """Create a virtual machine's end of a cable and plug it into a bridge, unless it exists.

    Goes with the namespace.
    """
    inside = ("-n", namespace(rack_id))
    if _link(name, *inside) is None:
        several = ("multi_queue",) if queues > 1 else ()
        _ip(*inside, "tuntap", "add", "dev", name, "mode", "tap", *several)
    _ip(*inside, "link", "set", name, "master", bridge, "mtu", str(mtu), "up")


def remove_network(rack_id: str, directory: Path) -> None:
    """Delete a rack's namespace and interface, whichever exists.

    Raises :class:`LabError` instead of deleting what another rack or somebody else made.
    """
    name = namespace(rack_id)
    label = _label(directory)
    if (link := _link(name)) is not None:
        # Without an alias it is ours as well: 'up' was killed between creating and labelling it.
        if link.get("ifalias", label) != label:
            raise LabError(f"The interface '{name}' does not belong to the rack in '{directory}'.")
        _ip("link", "delete", name)
    _remove_half_made(namespace_file(rack_id))
    if namespace_file(rack_id).exists():
        bridge = _link(MANAGEMENT_BRIDGE, "-n", name)
        if bridge is not None and bridge.get("ifalias", label) != label:
            raise LabError(f"The namespace '{name}' does not belong to the rack in '{directory}'.")
        _ip("netns", "delete", name)


def _remove_half_made(file: Path) -> None:
    """Delete a namespace's file on which nothing is mounted: 'ip netns add' was killed."""
    if file.exists() and not mountpoints_below(file):
        file.unlink()


def interface_exists(rack_id: str) -> bool:
    return _link(namespace(rack_id)) is not None


def _label(directory: Path) -> str:
    # The kernel keeps 255 bytes; the end of a path says more than its start.
    return "hfprov practice rack " + str(directory)[-200:]


def _link(name: str, *options: str) -> dict[str, Any] | None:
    links = json.loads(run(["ip", *options, "-json", "link", "show"], timeout=20) or "[]")
    found: dict[str, Any] | None = next((link for link in links if link["ifname"] == name), None)
    return found


def _ip(*arguments: str) -> None:
    run(["ip", *arguments], timeout=20)
