"""What the racks of one machine share: identities, subnets, and one kernel limit.

Lives in /run, so it is gone after a reboot, as the racks and the kernel's settings are.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Network
from pathlib import Path

from hfprov.errors import LabError
from hfprov.lab.host import run

RUN_DIRECTORY = Path("/run/hfprov-lab")
INOTIFY_LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
INOTIFY_NEEDED = 4096
"""Debian's 128 is used up by about a dozen systemd nodes."""

_POOL = IPv4Network("10.144.0.0/12")
"""Away from the 10.0, 172.17 and 192.168 networks that people and container engines use."""


@contextmanager
def registry_lock() -> Iterator[None]:
    RUN_DIRECTORY.mkdir(exist_ok=True)
    with (RUN_DIRECTORY / ".lock").open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def identity(directory: Path) -> str:
    """The short name of the rack in a directory: the same every time."""
    return hashlib.sha256(str(directory).encode()).hexdigest()[:6]


def claim_identity(directory: Path) -> str:
    """Take the name of the rack in ``directory`` and return it.

    Call under :func:`registry_lock`. Raises :class:`LabError` when another rack has it.
    """
    rack_id = identity(directory)
    claim = RUN_DIRECTORY / f"rack-{rack_id}"
    if claim.exists() and claim.read_text(encoding="utf-8") != str(directory):
        raise LabError(
            f"The rack in '{claim.read_text(encoding='utf-8')}' already uses the name '{rack_id}'.",
            hint="Choose another directory.",
        )
    claim.write_text(str(directory), encoding="utf-8")
    return rack_id


def is_claimed(directory: Path) -> bool:
    """Whether a rack was made in a directory and not taken down."""
    claim = RUN_DIRECTORY / f"rack-{identity(directory)}"
    try:
        return claim.read_text(encoding="utf-8") == str(directory)
    except FileNotFoundError:
        return False


def release_identity(rack_id: str) -> None:
    """Give a rack's name back, and delete the sockets of its virtual machines."""
    shutil.rmtree(socket_directory(rack_id), ignore_errors=True)
    (RUN_DIRECTORY / f"rack-{rack_id}").unlink(missing_ok=True)


def socket_directory(rack_id: str) -> Path:
    """Where the sockets of a rack's virtual machines are. Paths of sockets must be short."""
    return RUN_DIRECTORY / f"vm-{rack_id}"


def raise_inotify_limit() -> None:
    """Raise the limit when it is too low. Call under :func:`registry_lock`, after claiming."""
    current = int(INOTIFY_LIMIT.read_text(encoding="ascii"))
    if current < INOTIFY_NEEDED:
        _saved_limit().write_text(str(current), encoding="ascii")
        INOTIFY_LIMIT.write_text(str(INOTIFY_NEEDED), encoding="ascii")


def restore_inotify_limit() -> None:
    """Put the old limit back when no rack is left and nobody else has changed it since."""
    saved = _saved_limit()
    if any(RUN_DIRECTORY.glob("rack-*")) or not saved.exists():
        return
    if int(INOTIFY_LIMIT.read_text(encoding="ascii")) == INOTIFY_NEEDED:
        INOTIFY_LIMIT.write_text(saved.read_text(encoding="ascii"), encoding="ascii")
    saved.unlink()


def _saved_limit() -> Path:
    return RUN_DIRECTORY / "inotify-before"


def choose_subnets(rack_id: str) -> tuple[str, str]:
    """Two /24 networks (management, data) that nothing on this machine knows a way to.

    Call under :func:`registry_lock` and create the interface before letting go of it. Raises
    :class:`LabError` when the pool is exhausted.
    """
    used = used_networks()
    pairs = list(_POOL.subnets(new_prefix=23))
    start = int(rack_id, 16) % len(pairs)
    for pair in pairs[start:] + pairs[:start]:
        if not any(pair.overlaps(network) for network in used):
            management, data = pair.subnets(new_prefix=24)
            return str(management), str(data)
    raise LabError(f"Every network in {_POOL} is in use on this machine.")


def used_networks() -> list[IPv4Network]:
    """Networks of this machine's addresses and routes, the default route left out."""
    links = json.loads(run(["ip", "-json", "-4", "address"], timeout=10))
    routes = json.loads(run(["ip", "-json", "-4", "route", "show", "table", "all"], timeout=10))
    texts = [
        f"{entry['local']}/{entry['prefixlen']}"
        for link in links
        for entry in link.get("addr_info", [])
    ]
    texts += [route["dst"] for route in routes if route["dst"] != "default"]
    networks = [IPv4Network(text, strict=False) for text in texts]
    return [network for network in networks if network.prefixlen > 0]
