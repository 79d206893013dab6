"""Lines that switch an adapter's offloads off at boot, or whenever an interface comes up.

Sources: ethtool(8), ``-K``; systemd.link(5), [Link]; interfaces(5) with ethtool's if-up.d.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.evidence.assignments import is_read
from hfprov.evidence.grep import grep, lines
from hfprov.evidence.text import excerpt
from hfprov.reading import Observation, Source
from hfprov.regex import regex

_READ = grep(
    r"ethtool .*off|(Segmentation|Checksum|Receive)Offload[[:space:]]*=|offload-.*off",
    *("/etc/rc.local", "/etc/rc.d/rc.local", "/etc/crontab", "/etc/cron.d"),
    *("/etc/udev/rules.d", "/etc/systemd/system", "/usr/local/lib/systemd/system"),
    *("/etc/network/interfaces", "/etc/network/interfaces.d", "/etc/systemd/network"),
    *("/etc/network/if-pre-up.d", "/etc/network/if-up.d", "/etc/networkd-dispatcher"),
    "/etc/NetworkManager/dispatcher.d",
)
_COMMAND = regex(r"ethtool\s+(?:-K|--offload|--features)\s+(\S+)\s+([^;&|#]+)")
_OFF = regex(r"([\w-]+)\s+off\b")
_NAMES = regex(
    r"(?:rx|tx|sg|tso|gso|gro)|(?:rx|tx)-checksum\S*|(?:tx-)?scatter-gather"
    r"|tx-tcp\S*-segmentation|(?:tcp|generic)-segmentation-offload|generic-receive-offload"
)
_LINK = regex(
    r"\s*((?:Receive|Transmit)ChecksumOffload|(?:TCP6?|Generic)SegmentationOffload"
    r"|GenericReceiveOffload)\s*=\s*(?:0|no|n|false|f|off)\s*",
)
_INTERFACES = regex(r"\s*offload-((?:rx|tx|sg|tso|gso|gro))\s+off\s*")
_VARIABLE = "$%{"


class OffloadLine(Struct, frozen=True):
    """What one line switches off."""

    where: str
    names: tuple[str, ...]
    """As they stand there."""
    device: str = ""
    """The interface; "" where only the whole file, or a variable, tells it."""


def switched_off(line: str) -> tuple[str, tuple[str, ...]]:
    """Interface and names of what a line switches off; no names for nothing.

    >>> switched_off("ExecStart=/sbin/ethtool -K eth1 tso off gro on")
    ('eth1', ('tso',))
    """
    text = line.strip()
    if text.startswith(("#", ";")):
        return "", ()
    if found := _LINK.fullmatch(text) or _INTERFACES.fullmatch(text):
        return "", (found[1],)
    if command := _COMMAND.search(text):
        names = tuple(name for name in _OFF.findall(command[2]) if _NAMES.fullmatch(name))
        device = command[1].strip("\"'")
        return "" if device.startswith(tuple(_VARIABLE)) else device, names
    return "", ()


def _lines(seen: Observation) -> Iterator[OffloadLine]:
    for line in lines(seen, _READ):
        device, names = switched_off(line.text) if is_read(line.path) else ("", ())
        if names:
            yield OffloadLine(line.where, tuple(map(excerpt, names)), excerpt(device))


def _parse(seen: Observation, _: Baseline) -> tuple[OffloadLine, ...]:
    return tuple(_lines(seen))


OFFLOAD_LINES: Source[tuple[OffloadLine, ...]] = Source(
    "offloads switched off at boot", lambda _: (_READ,), _parse
)
