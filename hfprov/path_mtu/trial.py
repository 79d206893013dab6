"""One path tried with packets that must not be fragmented: what is run, and what it came to."""

from __future__ import annotations

from dataclasses import dataclass

from hfprov.errors import NotUnderstoodError
from hfprov.evidence import ping
from hfprov.evidence.ping import Ping
from hfprov.path_mtu.paths import Path
from hfprov.reading import Observation, Read, command

SMALLER = (1280, 1500)
"""Packets that failed paths are tried with; RFC 8200 section 5 and IEEE 802.3: what must pass."""
_HEADERS = {4: 20 + 8, 6: 40 + 8}
"""Bytes of the IP and ICMP headers, which ``ping -s`` does not count (RFC 791, 792, 8200, 4443)."""
_TIMEOUT = 8.0


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of packets of one size on one path."""

    path: Path
    bytes: int
    passed: bool | None
    """None: it is not known; ``reason`` says why."""
    reason: str = ""


def ping_read(path: Path, size: int) -> Read:
    """The read that sends packets of ``size`` bytes, headers included, from the path's source."""
    payload = size - _HEADERS[path.source.family]
    return command(
        *("ping", f"-{path.source.family}", "-n", "-M", "do"),
        *("-c", "3", "-i", "0.02", "-w", "1", "-I", path.source.interface),
        *("-s", str(payload), path.target.address),
        timeout=_TIMEOUT,
        limit=8192,
    )


def trial_of(path: Path, size: int, seen: Observation) -> Trial:
    """What the observation of the source's host says of the path."""
    result = seen.one(ping_read(path, size))
    if result.status == "absent":
        reason = "'ping' is not installed."
        return Trial(path, size, None, reason)
    if result.status != "ok":
        return Trial(path, size, None, f"'ping' could not be run: {result.stderr or result.status}")
    try:
        found = ping.parse(result.text, result.stderr)
    except NotUnderstoodError as error:
        return Trial(path, size, None, error.message)
    if found.received:
        return Trial(path, size, passed=True)
    return Trial(path, size, passed=False, reason=_why(found, path))


def _why(found: Ping, path: Path) -> str:
    if found.local_mtu is not None:
        return f"'{path.source.interface}' sends no packet of more than {found.local_mtu} bytes."
    if found.limit_mtu is not None:
        return f"'{found.limit_by}' passes on no packet of more than {found.limit_mtu} bytes."
    if found.unreachable:
        return f"{found.unreachable}."
    return "Nothing came back." if found.sent else "No packet of this size could be sent."
