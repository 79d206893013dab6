"""What a node's own name and ``localhost`` lead to by its files, and whether those are asked.

Sources: hosts(5), nsswitch.conf(5), nss-resolve(8).
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.evidence.host_names import LIVE
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import KIB, Observation, Read, Source, file
from hfprov.regex import regex

_HOSTS = file("/etc/hosts", limit=512 * KIB)
_SWITCH = file("/etc/nsswitch.conf", limit=32 * KIB)
_READS: tuple[Read, ...] = (LIVE, _HOSTS, _SWITCH)
_READS_HOSTS = ("files", "resolve")
"""Sources of nsswitch.conf that look into /etc/hosts: systemd-resolved does as well."""
LOCALHOST = "localhost"
_WORD = regex(r"\[[^\]]*\]|[^\s\[]+")

HostAddress = IPv4Address | IPv6Address


class Entry(Struct, frozen=True):
    """An address that a line of /etc/hosts gives a name."""

    address: HostAddress
    where: str


class NameResolution(Struct, frozen=True):
    """What files say of names."""

    own: tuple[Entry, ...]
    """Of the name that the kernel has, whole or without its domain."""
    local: tuple[Entry, ...]
    """Of ``localhost``."""
    others: int
    """How many further names /etc/hosts knows."""
    sources: tuple[str, ...] | None
    """Words of the line ``hosts:``; None without one."""

    @property
    def asks_files(self) -> bool:
        """Whether /etc/hosts is looked at, and not after something that ends the search."""
        # Without a line it is 'dns [!UNAVAIL=return] files'.
        before = True
        for word in self.sources or ():
            if word in _READS_HOSTS:
                return before
            before = before and not ("return" in word.lower() and word.startswith("["))
        return False

    @property
    def knows_localhost(self) -> bool:
        """Whether something else than /etc/hosts knows 'localhost'."""
        return bool({"myhostname", "resolve"} & set(self.sources or ()))


def host_entries(text: str) -> Iterator[tuple[str, Entry]]:
    """Names with their addresses; lines that have none are passed over, as by the library."""
    for number, raw in enumerate(clean(text).splitlines(), start=1):
        address, *names = raw.partition("#")[0].split() or [""]
        try:
            found = ip_address(address.partition("%")[0])
        except ValueError:
            continue
        for name in names:
            yield name.lower().rstrip("."), Entry(found, f"/etc/hosts:{number}")


def parse_switch(text: str) -> tuple[str, ...] | None:
    """Sources of host names, with what is to be done ``[…]``; None without such a line."""
    for raw in clean(text).splitlines():
        name, colon, rest = raw.partition("#")[0].partition(":")
        if colon and name.strip().lower() == "hosts":
            return tuple(excerpt(word, 40) for word in _WORD.findall(rest))
    return None


def _parse(seen: Observation, _: Baseline) -> NameResolution:
    whole = clean(seen.text(LIVE)).strip().lower()
    names = {whole, whole.partition(".")[0]} - {LOCALHOST, "", "(none)"}
    own, local, others = [], [], set()
    for name, entry in host_entries(seen.text(_HOSTS) if seen.exists(_HOSTS) else ""):
        if name in names:
            own.append(entry)
        elif name == LOCALHOST:
            local.append(entry)
        elif not entry.address.is_loopback:
            others.add(name)
    switch = parse_switch(seen.text(_SWITCH)) if seen.exists(_SWITCH) else None
    return NameResolution(tuple(own), tuple(local), len(others), switch)


NAMES: Source[NameResolution] = Source("names by files", lambda _: _READS, _parse)
