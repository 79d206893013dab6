"""Where apt takes packages from, and what keeps it from taking security updates.

Of each archive apt keeps a Release file, and unattended-upgrade goes by what its head says.
Sources: apt_preferences(5); apt-secure(8); unattended-upgrade(8), Origins-Pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError
from hfprov.evidence.apt_preferences import PREFERENCES
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import Observation, Source, glob, listing

_RELEASES = glob("/var/lib/apt/lists/*Release", limit=1024)
_FIELDS = ("Origin", "Label", "Suite", "Codename")
DISTRIBUTIONS = ("Debian", "Ubuntu")
MOST_NEVER = 100
"""Below this, a version never takes the place of one that is installed; apt_preferences(5)."""


class Archive(Struct, frozen=True):
    """One archive that apt takes packages from, as its Release file tells."""

    site: str
    """Name of the server; "" for a directory of the node itself."""
    origin: str
    label: str
    suite: str
    codename: str

    @property
    def is_security(self) -> bool:
        """Whether it is one of security updates: Debian and Ubuntu have it in its name."""
        return "security" in f"{self.label} {self.suite} {self.codename}".lower()

    def has(self, key: str, pattern: str) -> bool:
        """Whether one condition holds; the keys of apt_preferences(5) and of Origins-Pattern."""
        values = {
            "o": [self.origin],
            "l": [self.label],
            "a": [self.suite],
            "n": [self.codename],
            "s": [self.site],
            "c": ["main"],
            # A word without a key is either name of it.
            "": [self.suite, self.codename],
        }
        return any(fnmatchcase(one, pattern) for one in values.get(key, ()))


def parse_archive(path: str, text: str) -> Archive:
    """The head of a Release file, of which the rest may be missing."""
    found = {
        name: value.strip()
        for name, colon, value in (line.partition(":") for line in clean(text).splitlines()[:40])
        if colon and name in _FIELDS
    }
    fields = (excerpt(found.get(name, ""), 80) for name in _FIELDS)
    return Archive(path.rpartition("/")[2].partition("_")[0], *fields)


_LISTS = listing("/var/lib/apt/lists/*_Packages*")


def _parse_archives(seen: Observation, _: Baseline) -> tuple[Archive, ...]:
    found = []
    for result in seen.each(_RELEASES):
        if result.status not in ("ok", "absent"):
            raise NoEvidenceError(f"'{result.name}' could not be read: {result.stderr}")
        if result.ok and result.type == "file":
            found.append(parse_archive(result.name, result.text))
    return tuple(found)


ARCHIVES: Source[tuple[Archive, ...]] = Source(
    "archives of packages", lambda _: (_RELEASES,), _parse_archives
)
"""Empty where apt has not fetched any, and where there is no apt."""


def _parse_lists(seen: Observation, _: Baseline) -> bool:
    found = [result for result in seen.each(_LISTS) if result.status != "absent"]
    if any(not result.ok for result in found):
        raise NoEvidenceError("Lists of packages of apt could not be looked at.")
    return bool(found)


HAS_LISTS: Source[bool] = Source("lists of packages", lambda _: (_LISTS,), _parse_lists)
"""Whether apt has fetched any list of packages, of archives without a Release file, too."""

_KEYS = {
    "origin": "o",
    "label": "l",
    "archive": "a",
    "suite": "a",
    "codename": "n",
    "component": "c",
    "site": "s",
}


def is_allowed(archive: Archive, apt: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether unattended-upgrade takes what comes from there. Its macros may stand for anything."""
    patterns = [re.sub(r"\$\{[^{}]*\}", "*", one) for one in apt.get(_ORIGINS, ())]
    older = [re.sub(r"\$\{[^{}]*\}", "*", one) for one in apt.get(_ALLOWED, ())]
    return any(
        all(
            archive.has(_KEYS.get(key.strip(), key.strip()), value.strip())
            for key, _, value in (part.partition("=") for part in pattern.split(","))
        )
        for pattern in patterns
    ) or any(
        archive.has("o", origin) and archive.has("a", suite)
        for origin, _, suite in (pattern.partition(":") for pattern in older)
    )


_ORIGINS = "Unattended-Upgrade::Origins-Pattern::"
_ALLOWED = "Unattended-Upgrade::Allowed-Origins::"


class Pin(Struct, frozen=True):
    """One record of preferences that is for all packages."""

    path: str
    what: str
    """As ``release a=stable-security``."""
    priority: int

    @property
    def statement(self) -> str:
        return f"{self.what}, priority {self.priority}"

    def takes(self, archive: Archive) -> bool:
        """Whether it gives its priority to what comes from an archive."""
        kind, _, rest = self.what.partition(" ")
        words = rest.replace('"', "").strip()
        if kind == "origin":
            return bool(words) and archive.has("s", words)
        if kind == "version":
            return words == "*"
        parts = [part.strip().partition("=") for part in words.split(",")]
        return kind == "release" and all(
            archive.has(key.strip(), value.strip()) if equals else archive.has("", key)
            for key, equals, value in parts
        )


def parse_pins(text: str, path: str) -> Iterator[Pin]:
    """Records for all packages, in order; apt_preferences(5). Others are passed over."""
    for record in re.split(r"\n[ \t]*\n", clean(text)):
        lines = (one for one in record.splitlines() if not one.lstrip().startswith("#"))
        fields = {
            key.strip().lower(): " ".join(value.split())
            for key, colon, value in (line.partition(":") for line in lines)
            if colon
        }
        priority = fields.get("pin-priority", "")
        if "*" in fields.get("package", "").split() and re.fullmatch(r"-?[0-9]{1,9}", priority):
            yield Pin(path, excerpt(fields.get("pin", "")), int(priority))


def _parse_all(seen: Observation, baseline: Baseline) -> tuple[Pin, ...]:
    found = PREFERENCES.parse(seen, baseline)
    # apt reads files without a suffix, or with this one.
    read = [path for path in found if path.endswith(".pref") or "." not in path.rpartition("/")[2]]
    ordered = sorted(read, key=lambda path: (path.startswith("/etc/apt/preferences.d/"), path))
    return tuple(pin for path in ordered for pin in parse_pins(found[path].text, path))


PINS: Source[tuple[Pin, ...]] = Source("pins of all packages", PREFERENCES.reads, _parse_all)
"""In the order in which apt tries them: the first that takes an archive holds."""


def holding(archive: Archive, pins: tuple[Pin, ...]) -> Pin | None:
    """The pin that gives an archive its priority."""
    return next((pin for pin in pins if pin.takes(archive)), None)
