"""ifupdown: ``/etc/network/interfaces`` and the files that it includes, interfaces(5)."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import Observation, Result, Source, complete_text, file, glob
from hfprov.regex import regex

MAIN = file("/etc/network/interfaces")
DIRECTORY = glob("/etc/network/interfaces.d/*")

_STARTS = frozenset(
    {"iface", "mapping", "auto", "no-auto-down", "no-scripts", "source", "source-directory"}
)
_UP = frozenset({"pre-up", "up", "post-up"})
_COMMANDS = _UP | {"pre-down", "down", "post-down"}
_OURS = regex(r"ip link set dev (\$IFACE|\S+) mtu (\d+)")
_ROUTE = regex(r"\bip(?:\s+-\S+)*\s+ro?u?t?e?\s[^;&|]*")
_ROUTE_MTU = regex(r"\bmtu\s+(?:lock\s+)?([0-9]{1,6})\b")
_INCLUDES = regex(r"(/etc/network/)?interfaces\.d(/\*(\.cfg)?)?/?")


class Option(Struct, frozen=True):
    """One line of a stanza."""

    key: str
    value: str
    path: str
    line: int

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"

    @property
    def mtu(self) -> int | None:
        """The MTU that this line sets in a form that the role jumbo_mtu writes."""
        if self.key == "mtu" and self.value.isdigit():
            return int(self.value)
        found = _OURS.fullmatch(self.value) if self.key == "post-up" else None
        return int(found[2]) if found else None

    @property
    def sets_mtu(self) -> bool:
        """Whether it has to do with the interface's MTU at all, in whatever form."""
        command = _ROUTE.sub("", self.value) if self.key in _COMMANDS else ""
        return self.key == "mtu" or bool(re.search(r"\bmtu\b", command))

    @property
    def route_mtus(self) -> tuple[int, ...]:
        """MTUs that this line gives routes when the interface comes up."""
        routes = _ROUTE.findall(self.value) if self.key in _UP else []
        return tuple(int(mtu) for one in routes for mtu in _ROUTE_MTU.findall(one))


class Stanza(Struct, frozen=True):
    """An ``iface`` with its options."""

    name: str
    family: str
    method: str
    options: tuple[Option, ...]


class Interfaces(Struct, frozen=True):
    """All that ifupdown is told."""

    stanzas: tuple[Stanza, ...]
    started: tuple[str, ...]
    """Names, or patterns after a '/', of what is brought up at boot or when it appears."""
    results: Mapping[str, Result]

    def of(self, name: str) -> tuple[Stanza, ...]:
        return tuple(stanza for stanza in self.stanzas if stanza.name == name)

    def is_started(self, name: str) -> bool:
        return any(
            fnmatch.fnmatchcase(name, word[1:]) if word.startswith("/") else word == name
            for word in self.started
        )


def parse_lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """Number and words of each line that says something; lines joined by a backslash are one."""
    pending: list[str] = []
    for number, raw in enumerate(clean(text).splitlines(), start=1):
        line = raw.strip()
        if line.startswith("#") and not pending:
            continue
        joined = line.endswith("\\")
        pending += line.rstrip("\\").split()
        if not joined:
            if pending:
                yield number, pending
            pending = []
    if pending:
        yield number, pending


def parse(texts: Mapping[str, str]) -> tuple[tuple[Stanza, ...], tuple[str, ...], tuple[str, ...]]:
    """Stanzas, names that are started, and what ``source`` lines name; texts are by path."""
    stanzas: list[Stanza] = []
    started: list[str] = []
    included: list[str] = []
    for path, text in texts.items():
        options: list[Option] | None = None
        head = ("", "", "")
        for number, words in [*parse_lines(text), (0, ["source"])]:
            if words[0] in _STARTS or words[0].startswith("allow-"):
                if options is not None:
                    stanzas.append(Stanza(*head, tuple(options)))
                options = None
            if words[0] == "iface":
                name, family, method = (*words[1:4], "", "", "")[:3]
                head = (name, family, method)
                options = []
            elif words[0] in ("auto", "allow-auto", "allow-hotplug"):
                started += words[1:]
            elif words[0] in ("source", "source-directory"):
                included += words[1:]
            elif options is not None:
                options.append(Option(words[0], " ".join(words[1:]), path, number))
    return tuple(stanzas), tuple(started), tuple(included)


def _parse_files(seen: Observation, _: Baseline) -> Interfaces:
    main = seen.one(MAIN)
    if main.status == "absent":
        return Interfaces((), (), {})
    texts = {main.name: complete_text(MAIN, main)}
    results = {main.name: main}
    included = parse(texts)[2]
    for word in included:
        if not _INCLUDES.fullmatch(word):
            raise NoEvidenceError(f"'{excerpt(word)}' of ifupdown was not read.")
    if included:
        for result in seen.each(DIRECTORY):
            if result.status != "absent" and result.type == "file":
                texts[result.name] = complete_text(DIRECTORY, result)
                results[result.name] = result
    found = parse(texts)
    return Interfaces(found[0], found[1], results)


IFUPDOWN: Source[Interfaces] = Source(
    "interfaces of ifupdown", lambda _: (MAIN, DIRECTORY), _parse_files
)
