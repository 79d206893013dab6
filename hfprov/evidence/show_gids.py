"""``show_gids``: the GID table of every RDMA port, with RoCE versions and network devices.

Rows are read from both ends, because the IPv4 column and the last column may be empty. Also the
table of Huawei's ``hiroce3 gids``.
"""

from __future__ import annotations

import re

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.net_lines import empty, not_understood, numbered
from hfprov.regex import regex


class Gid(Struct, frozen=True):
    """One GID. ``netdev`` is None on an InfiniBand port, or when the interface is gone."""

    device: str
    port: int
    index: int
    gid: str
    ipv4: str | None
    roce_version: int
    netdev: str | None

    @property
    def is_ipv4_mapped(self) -> bool:
        """Whether the GID stands for an IPv4 address; only such GIDs are routed by IPv4."""
        return self.gid.startswith("0000:0000:0000:0000:0000:ffff:")


class GidTable(Struct, frozen=True):
    """All GIDs listed. ``complete``: the tool's own count was there, and it is right."""

    gids: tuple[Gid, ...]
    complete: bool

    def of(self, device: str, port: int = 1) -> tuple[Gid, ...]:
        return tuple(gid for gid in self.gids if (gid.device, gid.port) == (device, port))


_ROW = regex(
    r"(?P<device>\S+)\s+(?P<port>[0-9]{1,3})\s+(?P<index>[0-9]{1,4})"
    r"\s+(?P<gid>[0-9a-f]{4}(?::[0-9a-f]{4}){7})"
    r"(?:\s+(?P<ipv4>[0-9]{1,3}(?:\.[0-9]{1,3}){3}))?\s+v(?P<version>[12])(?:\s+(?P<netdev>\S+))?"
)
_HIROCE_ROW = regex(
    r"(?P<device>\S+)\s+(?:(?P<netdev>\S+)\s+)?(?P<port>[0-9]{1,3})\s+(?P<index>[0-9]{1,4})"
    r"\s+(?P<gid>[0-9a-f]{4}(?::[0-9a-f]{4}){7})\s+(?:RoCE )?v(?P<version>[12])"
    r"(?:\s+(?P<ipv4>[0-9]{1,3}(?:\.[0-9]{1,3}){3}))?\s+(?:up|down)"
)
_HEAD = regex(r"DEV\s+PORT\s+INDEX\s+GID\s+IPv4\s+VER\s*DEV")
_HIROCE_HEAD = regex(r"ib_dev\s+net_dev\s+port\s+idx\s+gid\s.*")
_RULE = regex(r"[-\s]+")
_COUNT = regex(r"n_gids_found=(?P<count>[0-9]{1,6})")


def is_hiroce_head(line: str) -> bool:
    """Whether a line is the heading of ``hiroce3 gids``."""
    return _HIROCE_HEAD.fullmatch(line) is not None


def parse(text: str) -> GidTable:
    """Facts of the table. Raises NotUnderstoodError for half a row, or a count that is wrong."""
    lines = list(numbered(text))
    if not lines:
        raise empty("show_gids")
    row = _HIROCE_ROW if any(is_hiroce_head(line) for _, line in lines) else _ROW
    gids: list[Gid] = []
    headed = False
    count: int | None = None
    for number, line in lines:
        found = _COUNT.fullmatch(line)
        match = row.fullmatch(line.strip())
        if _HEAD.fullmatch(line) or is_hiroce_head(line):
            headed = True
        elif found is not None:
            count = int(found["count"])
        elif match is not None:
            gids.append(_gid(match))
        elif not _RULE.fullmatch(line):
            raise not_understood("show_gids", number, line, "a row of the GID table")
    if not headed:
        raise NotUnderstoodError("show_gids: the heading of the table is missing.")
    if count is not None and count != len(gids):
        raise NotUnderstoodError(f"show_gids: {count} GIDs were found, but {len(gids)} are listed.")
    return GidTable(tuple(gids), complete=count is not None)


def _gid(match: re.Match[str]) -> Gid:
    return Gid(
        match["device"],
        int(match["port"]),
        int(match["index"]),
        match["gid"],
        match["ipv4"],
        int(match["version"]),
        match["netdev"],
    )
