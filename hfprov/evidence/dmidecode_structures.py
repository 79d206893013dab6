"""The structures of the SMBIOS table as dmidecode prints them, not yet interpreted.

A structure begins with ``Handle 0x0100, DMI type 1, 27 bytes``, names itself, and has indented
``Key: value`` lines; deeper lines without a key belong to the key above them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hfprov.evidence.host_values import bad_line, numbered_lines
from hfprov.evidence.text import excerpt

_HANDLE = re.compile(r"Handle 0x([0-9A-Fa-f]{4}), DMI type ([0-9]{1,3}), ([0-9]{1,5}) bytes\.?")
_ANNOUNCED = re.compile(r"([0-9]{1,6}) structures occupying ([0-9]{1,9}) bytes\.")
_HEADER = re.compile(
    r"#|SMBIOS |Getting SMBIOS|Scanning |Table at |Legacy DMI|DMI [0-9.]+ present"
    r"|\d+ structures|Reading SMBIOS|Wrong DMI|Invalid entry|<[A-Z ]+>|\t*<(?:TRUNCATED|BAD)"
)
_DAMAGE = re.compile(
    r"<TRUNCATED>|<BAD INDEX>|Wrong DMI|Invalid entry length|Broken|denied|sorry|failed"
    r"|not permitted|[Cc]ould not|[Cc]annot|Can't|error|No such"
)
_TAB = 8
"""Blanks that a tab becomes when a script expands it."""
_ONBOARD = re.compile(r"On Board Device (?:[0-9]+ )?Information")
_END_OF_TABLE = 127


@dataclass(frozen=True, slots=True)
class Structure:
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


@dataclass(frozen=True, slots=True)
class Listing:
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

    def closed(self) -> Structure:
        return Structure(self.handle, self.type, self.title, self.fields)


def read_structures(text: str) -> Listing:
    """The structures of a text. Lines that belong to none, and are no header, are refused."""
    structures: list[Structure] = []
    warnings: list[str] = []
    announced: int | None = None
    recognised = False
    current: _Open | None = None
    for number, line in numbered_lines(text):
        if not line:
            continue
        if match := _HANDLE.fullmatch(line):
            recognised = True
            if current is not None:
                structures.append(current.closed())
            current = _Open(f"0x{match.group(1).upper()}", int(match.group(2)))
        elif current is None or _is_header(line):
            if match := _ANNOUNCED.fullmatch(line):
                announced = int(match.group(1))
            recognised = recognised or "dmidecode" in line or line.startswith("SMBIOS")
            if not recognised and not _HEADER.match(line) and not _DAMAGE.search(line):
                break
            if _DAMAGE.search(line) or "fully supported" in line or "newer than" in line:
                warnings.append(excerpt(line, 160))
        elif line[0] in " \t":
            _field(current, line)
        elif not current.title:
            current.title = line.strip()
        elif _ONBOARD.fullmatch(line):
            current.key = ""  # DMI type 10 has one title for each device
        elif _DAMAGE.search(line):
            warnings.append(excerpt(line, 160))
        else:
            raise bad_line("dmidecode", number, line, "a field of a structure, or 'Handle 0x…'")
    if current is not None:
        structures.append(current.closed())
    damaged = any(_DAMAGE.search(line) for line in warnings)
    return Listing(
        is_dmidecode=recognised,
        structures=tuple(structures),
        announced=announced,
        complete=_complete(structures, announced, damaged=damaged),
        warnings=tuple(warnings),
    )


def _is_header(line: str) -> bool:
    return line.startswith("#") or _ANNOUNCED.fullmatch(line) is not None


def _field(current: _Open, line: str) -> None:
    indented = line.lstrip()
    depth = len(line) - len(indented)
    key, colon, value = indented.partition(":")
    nested = line.startswith("\t\t") or (line[0] == " " and depth > _TAB)
    if nested and current.key:
        before = current.fields[current.key]
        current.fields[current.key] = f"{before}\n{indented}" if before else indented
    elif colon:
        current.key = key.strip()
        current.fields.setdefault(current.key, value.strip())
    elif not current.title:
        current.title = indented
    else:
        current.key = current.key or indented
        current.fields.setdefault(current.key, "")


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
