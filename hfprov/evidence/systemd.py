"""systemd: ``systemctl show``, and configuration files with their drop-ins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from hfprov.baseline import Baseline
from hfprov.errors import NotUnderstoodError
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import Observation, Read, Result, Source, complete_text, file, glob

Properties = Mapping[str, str]


def parse(text: str) -> tuple[Properties, ...]:
    """Properties of each unit of ``systemctl show``, in the order in which units were named."""
    blocks = []
    for block in clean(text).strip("\n").split("\n\n"):
        found: dict[str, str] = {}
        for line in block.strip("\n").splitlines():
            name, equals, value = line.partition("=")
            if not equals or not name.replace("@", "").isalnum():
                raise NotUnderstoodError(f"'{excerpt(line)}' is not a property of a unit.")
            found[name] = value
        if not found:
            raise NotUnderstoodError("'systemctl show' said nothing.")
        blocks.append(found)
    return tuple(blocks)


def property_of(unit: Properties, name: str) -> str:
    """A property that must be there. Raises NotUnderstoodError with its name."""
    try:
        return unit[name]
    except KeyError:
        raise NotUnderstoodError(f"'systemctl show' did not tell '{name}'.") from None


class Setting(Struct, frozen=True):
    """One assignment in a configuration file of systemd."""

    section: str
    key: str
    value: str
    path: str
    line: int

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"

    @property
    def statement(self) -> str:
        return f"[{self.section}] {self.key}={self.value}"


def parse_settings(text: str, path: str) -> tuple[tuple[Setting, ...], tuple[str, ...]]:
    """Assignments in order, and the lines that systemd would pass over; systemd.syntax(7)."""
    settings, strange = [], []
    section, pending, first = "", "", 0
    for number, raw in enumerate(clean(text).splitlines(), start=1):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if line.endswith("\\"):
            first = first or number
            pending += line[:-1].rstrip() + " "
            continue
        line, pending, number = pending + line, "", first or number  # noqa: PLW2901 - joined
        first = 0
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
        elif "=" in line and section:
            key, _, value = line.partition("=")
            settings.append(Setting(section, key.strip(), value.strip(), path, number))
        else:
            strange.append(line)
    if pending:
        strange.append(pending.strip())
    return tuple(settings), tuple(strange)


PLACES = ("/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd")
"""Highest first: a file hides one of the same name in a later place."""


class Layers(Struct, frozen=True):
    """A configuration file with its drop-ins."""

    settings: tuple[Setting, ...]
    """Of all files, in the order in which systemd applies them."""
    results: Mapping[str, Result]
    """What was read, by path."""

    def last(self, section: str, key: str) -> Setting | None:
        """The assignment that holds. An empty value takes back what was set before."""
        for setting in reversed(self.settings):
            if (setting.section, setting.key) == (section, key):
                return setting
        return None


def layered_reads(name: str, places: Iterable[str] = PLACES) -> tuple[Read, ...]:
    """Reads of a configuration file and its drop-ins in every place."""
    reads = []
    for place in places:
        reads += [file(f"{place}/{name}"), glob(f"{place}/{name}.d/*.conf")]
    return tuple(reads)


def layers(seen: Observation, reads: Iterable[Read]) -> Layers:
    """Apply systemd's rules to what ``layered_reads`` read, highest place first."""
    main: tuple[Read, Result] | None = None
    drop_ins: dict[str, tuple[Read, Result]] = {}
    results: dict[str, Result] = {}
    for read in reads:
        for result in seen.each(read):
            if result.status == "absent":
                continue
            results[result.name] = result
            if read.request["kind"] == "file":
                main = main or (read, result)
            else:
                drop_ins.setdefault(result.name.rpartition("/")[2], (read, result))
    settings: list[Setting] = []
    in_order = [drop_ins[name] for name in sorted(drop_ins)]
    for read, result in ([main] if main else []) + in_order:
        # A link to /dev/null hides a file; it is not a regular file.
        if result.type == "file":
            settings.extend(parse_settings(complete_text(read, result), result.name)[0])
    return Layers(tuple(settings), results)


def layered(name: str) -> Source[Layers]:
    """The source for a configuration file of systemd itself, e.g. ``system.conf``."""
    reads = layered_reads(name)

    def parse_layers(seen: Observation, _: Baseline) -> Layers:
        return layers(seen, reads)

    return Source(f"settings of {name}", lambda _: reads, parse_layers)
