"""What will give an interface another name at the next boot: ``.link`` files, rules of udev.

Sources: systemd.link(5), of which the first file that matches decides; udev(7), ``NAME=``.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.evidence.ip_link import Interface
from hfprov.evidence.systemd import PLACES, parse_settings
from hfprov.evidence.text import clean
from hfprov.reading import Observation, Result, Source, complete_text, glob
from hfprov.regex import regex

_LINK_FILES = tuple(glob(f"{place}/network/*.link") for place in PLACES[:-1])
_RULES = tuple(glob(f"/{place}/udev/rules.d/*.rules", limit=64 * 1024) for place in ("etc", "run"))
_GIVES = regex(r'(?<![\w}])NAME="([\w.-]+)"')
_IF_NAME = regex(r'\bKERNEL=="([^"]*)"')
_IF_ADDRESS = regex(r'\bATTR\{address\}=="([^"]*)"')


class Naming(Struct, frozen=True):
    """A name, and for which interface it is."""

    where: str
    name: str
    """The name that it gives; "" for a ``.link`` file that gives none."""
    names: tuple[str, ...]
    """Patterns of names, of which one must match; none: it may be any."""
    addresses: tuple[str, ...]
    """Hardware addresses in lower case, of which it must have one; none: any."""

    def takes(self, link: Interface) -> bool:
        """Whether it is for this interface, as far as names and addresses tell."""
        known = {link.hardware_address, link.permanent_address}
        return (
            bool(self.names or self.addresses)
            and (not self.addresses or not known.isdisjoint(self.addresses))
            and (not self.names or any(fnmatchcase(link.name, one) for one in self.names))
        )


def of_link_file(text: str, path: str) -> Naming:
    """The name that one ``.link`` file gives."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in parse_settings(text, path)[0]:
        found.setdefault((one.section, one.key), []).extend(one.value.split())
    words = [
        word.lower().replace("-", ":")
        for key in ("MACAddress", "PermanentMACAddress")
        for word in found.get(("Match", key), ())
    ]
    name = found.get(("Link", "Name"), [""])[-1]
    return Naming(path, name, tuple(found.get(("Match", "OriginalName"), ())), tuple(words))


def of_rules(text: str, path: str) -> Iterator[Naming]:
    """The names that rules of udev give; a line that ends with a backslash goes on in the next."""
    for number, line in enumerate(clean(text).replace("\\\n", " ").splitlines(), start=1):
        if line.lstrip().startswith("#"):
            continue
        for found in _GIVES.finditer(line):
            names = [part for one in _IF_NAME.findall(line) for part in one.split("|")]
            addresses = [one.lower() for one in _IF_ADDRESS.findall(line)]
            yield Naming(f"{path}:{number}", found[1], tuple(names), tuple(addresses))


class Namings(Struct, frozen=True):
    """All of a node."""

    links: tuple[Naming, ...]
    """Of ``.link`` files, in the order in which they are tried."""
    rules: tuple[Naming, ...]

    def of(self, link: Interface) -> tuple[Naming, ...]:
        """What gives this interface another name than it has."""
        first = [one for one in self.links if one.takes(link)][:1]
        rules = [one for one in self.rules if one.takes(link)]
        return tuple(one for one in (*first, *rules) if one.name not in ("", link.name))


def _parse(seen: Observation, _: Baseline) -> Namings:
    files: dict[str, Result] = {}
    for read in _LINK_FILES:
        for result in seen.each(read):
            files.setdefault(result.name.rpartition("/")[2], result)
    links = [
        of_link_file(complete_text(_LINK_FILES[0], files[name]), files[name].name)
        for name in sorted(files)
        if files[name].type == "file" and files[name].status != "absent"
    ]
    rules = [
        rule
        for read in _RULES
        for result in seen.each(read)
        if result.status != "absent" and result.link != "/dev/null"
        for rule in of_rules(complete_text(read, result), result.name)
    ]
    return Namings(tuple(links), tuple(rules))


NAMINGS: Source[Namings] = Source(
    "names of interfaces to come", lambda _: (*_LINK_FILES, *_RULES), _parse
)
