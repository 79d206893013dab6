"""The structures of the SMBIOS table as dmidecode prints them, not yet interpreted.

A structure begins with ``Handle 0x0100, DMI type 1, 27 bytes``, names itself, and has indented
``Key: value`` lines; deeper lines without a key belong to the key above them.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from hfprov.evidence.host_values import bad_line, numbered_lines
from hfprov.evidence.text import excerpt
from hfprov.regex import regex

_HANDLE = regex(r"Handle 0x([0-9A-Fa-f]{4}), DMI type ([0-9]{1,3}), ([0-9]{1,5}) bytes\.?")
_ANNOUNCED = regex(r"([0-9]{1,6}) structures occupying ([0-9]{1,9}) bytes\.")
_HEADER = regex(
    r"#|SMBIOS |Getting SMBIOS|Scanning |Table at |Legacy DMI|DMI [0-9.]+ present"
    r"|\d+ structures|Reading SMBIOS|Wrong DMI|Invalid entry|<[A-Z ]+>|\t*<(?:TRUNCATED|BAD)"
)
_DAMAGE = regex(
    r"<TRUNCATED>|<BAD INDEX>|Wrong DMI|Invalid entry length|Broken|denied|sorry|failed"
    r"|not permitted|[Cc]ould not|[Cc]annot|Can't|error|No such"
)
_TAB = 8
"""Blanks that a tab becomes when a script expands it."""
_PART = regex(r"On Board Device (?:[0-9]+ )?Information|Additional Information [0-9]+")
_END_OF_TABLE = 127


class Structure(Struct, frozen=True):
    """One structure. Values of keys with a list below them are the lines of the list, joined."""

    handle: str
    """``0x0100``."""
    type: int
    title: str
    fields: Mapping[str, str]

    def get(self, name: str) -> str | None:
        """The value of a field whatever its case; None where there is no such field."""
        value = self.fields.get(name)
        if value is None:
            lower = name.lower()
            value = next((v for k, v in self.fields.items() if k.lower() == lower), None)
        return value


class Listing(Struct, frozen=True):
    """All structures of one output."""

    is_dmidecode: bool
    structures: tuple[Structure, ...]
    announced: int | None
    complete: bool | None
    warnings: tuple[str, ...]


class _Open:
    """A structure that is being read."""

    __slots__ = ("fields", "handle", "key", "title", "type")

    def __init__(self, handle: str, number: int) -> None:
        self.handle = handle
        self.type = number
        self.title = ""
        self.key = ""
        self.fields: dict[str, str] = {}

    def feed(self, line: str) -> None:
        """Take an indented line."""
        indented = line.lstrip()
        depth = len(line) - len(indented)
        key, colon, value = indented.partition(":")
        nested = line.startswith("\t\t") or (line[0] == " " and depth > _TAB)
        if nested and self.key:
            before = self.fields[self.key]
            self.fields[self.key] = f"{before}\n{indented}" if before else indented
        elif colon:
            self.key = key.strip()
            self.fields.setdefault(self.key, value.strip())
        elif not self.title:
            self.title = indented
        else:
            self.key = self.key or indented
            self.fields.setdefault(self.key, "")

    def closed(self) -> Structure:
        return Structure(self.handle, self.type, self.title, self.fields)


class _Reader:
    """Reads a text line by line."""

    __slots__ = ("announced", "current", "recognised", "structures", "warnings")

    def __init__(self) -> None:
        self.structures: list[Structure] = []
        self.warnings: list[str] = []
        self.announced: int | None = None
        self.recognised = False
        self.current: _Open | None = None

    def feed(self, number: int, line: str) -> bool:
        """Take one line that is not empty. False when the text is no output of dmidecode."""
        if match := _HANDLE.fullmatch(line):
            self.close()
            self.recognised = True
            self.current = _Open(f"0x{match.group(1).upper()}", int(match.group(2)))
            return True
        if self.current is None or line.startswith("#") or _ANNOUNCED.fullmatch(line):
            return self._header(line)
        if line[0] in " \t":
            self.current.feed(line)
        elif not self.current.title:
            self.current.title = line.strip()
        elif _PART.fullmatch(line):
            self.current.key = ""  # DMI types 10 and 40 have one title for each of their parts
        elif _DAMAGE.search(line):
            self.warnings.append(excerpt(line, 160))
        else:
            raise bad_line("dmidecode", number, line, "a field of a structure, or 'Handle 0x…'")
        return True

    def _header(self, line: str) -> bool:
        if match := _ANNOUNCED.fullmatch(line):
            self.announced = int(match.group(1))
        self.recognised = self.recognised or "dmidecode" in line or line.startswith("SMBIOS")
        if _DAMAGE.search(line) or "fully supported" in line or "newer than" in line:
            self.warnings.append(excerpt(line, 160))
            return True
        return self.recognised or _HEADER.match(line) is not None

    def close(self) -> None:
        if self.current is not None:
            self.structures.append(self.current.closed())


def read_structures(text: str) -> Listing:
    """The structures of a text. Lines that belong to none, and are no header, are refused."""
    reader = _Reader()
    for number, line in numbered_lines(text):
        if line and not reader.feed(number, line):
            break
    reader.close()
    damaged = any(_DAMAGE.search(line) for line in reader.warnings)
    return Listing(
        is_dmidecode=reader.recognised,
        structures=tuple(reader.structures),
        announced=reader.announced,
        complete=_complete(reader.structures, reader.announced, damaged=damaged),
        warnings=tuple(reader.warnings),
    )


def _complete(structures: list[Structure], announced: int | None, *, damaged: bool) -> bool | None:
    if damaged:
        return False
    ended = bool(structures) and structures[-1].type == _END_OF_TABLE
    if announced is not None:
        return len(structures) == announced and ended
    if ended:
        return True
    # With "-t" neither a count nor an end is printed: nobody can tell.
    return None
