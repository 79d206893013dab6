"""``ping`` of iputils: whether packets of one size came back, and what stood in their way.

Only iputils tells the size that did not fit; busybox and inetutils are not understood. Forms seen:
iputils 20180629 to 20240905, IPv4 and IPv6.
"""

from __future__ import annotations

import re

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.text import clean, excerpt
from hfprov.regex import regex

_SUMMARY = regex(
    r"^(\d{1,9}) packets transmitted, (\d{1,9}) (?:packets )?received,"
    r"(?: \+(\d{1,9}) errors,)?(?: \+\d{1,9} duplicates,)? [\d.]+% packet loss",
    re.MULTILINE,
)
_NOTHING_SENT = regex(r"^0 packets transmitted, 0 received\s*$", re.MULTILINE)
"""Without a share of losses: every attempt to send was refused, by a full queue for instance."""
_LOCAL = regex(r"(?:local error: )?message too long,? mtu[=:] ?(\d{1,6})", re.IGNORECASE)
_ON_THE_WAY = regex(
    r"^From ([0-9A-Za-z.:%()_-]+)[^\n]*?"
    r"(?:Frag needed and DF set \(mtu = |Packet too big: mtu[=:] ?)(\d{1,6})",
    re.MULTILINE,
)
_UNREACHABLE = regex(
    r"^From \S+[^\n]* (Destination (?:Host|Net|Port) Unreachable|Destination unreachable[^\n]*|"
    r"Time to live exceeded|Address unreachable|No route[^\n]*)",
    re.MULTILINE | re.IGNORECASE,
)


class Ping(Struct, frozen=True):
    """What became of the packets of one ``ping``."""

    sent: int
    received: int
    local_mtu: int | None = None
    """The sender's own limit, when its packet did not even leave."""
    limit_mtu: int | None = None
    """The limit that a router on the way told."""
    limit_by: str = ""
    unreachable: str = ""
    """What a neighbour or router said of the target, e.g. ``Destination Host Unreachable``."""


def parse(stdout: str, stderr: str = "") -> Ping:
    """Facts of one run. Raises NotUnderstoodError for what is no output of iputils' ping."""
    out, err = clean(stdout), clean(stderr)
    both = f"{out}\n{err}"
    local, way = _LOCAL.search(both), _ON_THE_WAY.search(out)
    summary = _SUMMARY.search(out)
    if summary is None and _NOTHING_SENT.search(out):
        return Ping(0, 0, local_mtu=int(local.group(1)) if local else None)
    if summary is None:
        raise NotUnderstoodError(f"This is no summary of ping: '{excerpt(both.strip())}'.")
    said = _UNREACHABLE.search(out)
    return Ping(
        sent=int(summary.group(1)),
        received=int(summary.group(2)),
        local_mtu=int(local.group(1)) if local else None,
        limit_mtu=int(way.group(2)) if way else None,
        limit_by=way.group(1) if way else "",
        unreachable=said.group(1) if said else "",
    )
