"""systemd-networkd: what it says of each link, and its files, as far as the MTU depends on them."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NotUnderstoodError
from hfprov.evidence.ip_link import Interface
from hfprov.evidence.systemd import PLACES, Setting, parse_settings
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import Observation, Read, Result, Source, complete_text, glob, listing
from hfprov.regex import regex

LINKS_READ = glob("/run/systemd/netif/links/*", limit=16 * 1024)
FILES = tuple(glob(f"{place}/network/*.network") for place in PLACES)
DROP_INS = tuple(glob(f"{place}/network/*.network.d/*.conf") for place in PLACES)


def network_file(text: str) -> str:
    """The file that networkd applied to a link, from its state file; "" when it leaves it alone."""
    found = dict(line.split("=", 1) for line in clean(text).splitlines() if "=" in line)
    if "ADMIN_STATE" not in found:
        raise NotUnderstoodError(f"'{excerpt(text)}' is not networkd's state of a link.")
    return "" if found["ADMIN_STATE"] == "unmanaged" else found.get("NETWORK_FILE", "")


def _parse_links(seen: Observation, _: Baseline) -> Mapping[int, str]:
    found = {}
    for result in seen.each(LINKS_READ):
        # A link that went away while we looked is not there, as one that never was.
        if result.status != "absent":
            index = result.name.rpartition("/")[2]
            if not index.isdigit():
                raise NotUnderstoodError(f"'{excerpt(index)}' is not the number of a link.")
            found[int(index)] = network_file(complete_text(LINKS_READ, result))
    return found


APPLIED: Source[Mapping[int, str]] = Source(
    "network files in use", lambda _: (LINKS_READ,), _parse_links
)
"""Path of the file in use ("" for none) by number of the link. Empty when networkd does not run."""


class Network(Struct, frozen=True):
    """One ``.network`` file with its drop-ins, in the order in which they are applied."""

    path: str
    settings: tuple[Setting, ...]

    def values(self, section: str, key: str) -> list[Setting]:
        return [one for one in self.settings if (one.section, one.key) == (section, key)]

    @property
    def mtu(self) -> Setting | None:
        """The assignment of MTUBytes that holds."""
        found = self.values("Link", "MTUBytes")
        return found[-1] if found and found[-1].value else None

    def matches(self, link: Interface) -> bool | None:
        """Whether it applies to a link; None when that hangs on something not known here."""
        rules: dict[str, list[str]] = {}
        for one in self.settings:
            if one.section == "Match":
                words = rules.setdefault(one.key, [])
                if one.value:
                    words.extend(one.value.split())
                else:
                    words.clear()
        answers = [_rule_matches(key, words, link) for key, words in rules.items() if words]
        if False in answers:
            return False
        return None if None in answers else True


def _rule_matches(key: str, words: list[str], link: Interface) -> bool | None:
    """One line of [Match]; systemd.network(5). A leading '!' turns all of it round."""
    values = {
        "Name": (link.name, *link.alternative_names),
        "MACAddress": (link.hardware_address,),
        "PermanentMACAddress": (link.permanent_address or link.hardware_address,),
        "Type": (link.link_type,),
        "Kind": (link.kind,),
    }.get(key)
    if values is None or None in values:
        return None
    negated = words[0].startswith("!")
    patterns = [word.lstrip("!") for word in words]
    if "MAC" in key:
        patterns = [pattern.replace("-", ":").lower() for pattern in patterns]
    found = any(
        fnmatch.fnmatchcase(value, pattern) for value in values if value for pattern in patterns
    )
    return found != negated


class Networks(Struct, frozen=True):
    """All ``.network`` files, in the order in which networkd tries them."""

    files: tuple[Network, ...]
    results: Mapping[str, Result]
    """Files and drop-ins that were read, by path."""

    def find(self, path: str) -> Network | None:
        return next((one for one in self.files if one.path == path), None)


def _parse_networks(seen: Observation, _: Baseline) -> Networks:
    files, results = _by_name(seen, FILES, 1)
    drop_ins, more = _by_name(seen, DROP_INS, 2)
    networks = []
    for name in sorted(files):
        read, result = files[name]
        if result.type != "file":
            continue
        settings = list(parse_settings(complete_text(read, result), result.name)[0])
        for key in sorted(key for key in drop_ins if key.startswith(f"{name}.d/")):
            read, extra = drop_ins[key]
            if extra.type == "file":
                settings += parse_settings(complete_text(read, extra), extra.name)[0]
        networks.append(Network(result.name, tuple(settings)))
    return Networks(tuple(networks), results | more)


def _by_name(
    seen: Observation, reads: Iterable[Read], parts: int
) -> tuple[dict[str, tuple[Read, Result]], dict[str, Result]]:
    """Results by the last ``parts`` parts of their path, the highest place first; and by path."""
    names: dict[str, tuple[Read, Result]] = {}
    paths: dict[str, Result] = {}
    for read in reads:
        for result in seen.each(read):
            if result.status != "absent":
                paths[result.name] = result
                names.setdefault("/".join(result.name.split("/")[-parts:]), (read, result))
    return names, paths


NETWORKS: Source[Networks] = Source("network files", lambda _: (*FILES, *DROP_INS), _parse_networks)

_FOLDERS = listing("/etc/systemd/network/*.network.d")
_READABLE = 0o005


def _parse_folders(seen: Observation, _: Baseline) -> frozenset[str]:
    found = (one for one in seen.each(_FOLDERS) if one.ok and one.type == "dir")
    return frozenset(one.name for one in found if (one.mode or 0) & _READABLE != _READABLE)


SHUT_FOLDERS: Source[frozenset[str]] = Source(
    "folders that networkd cannot read", lambda _: (_FOLDERS,), _parse_folders
)
"""Folders of drop-ins that are not everybody's to read: networkd does not run as root."""

_SIZE = regex(r"(\d+)\s*([KMG]?)")


def size(text: str) -> int:
    """A number of bytes as systemd reads it. Raises NotUnderstoodError."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise NotUnderstoodError(f"'{excerpt(text)}' is not a number of bytes.")
    factor: int = 1024 ** " KMG".index(match[2] or " ")
    return int(match[1]) * factor
