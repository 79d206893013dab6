"""``/etc/os-release``: which distribution this is. Source: os-release(5)."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.host_values import bad_line, numbered_lines, unknown_form
from hfprov.evidence.text import clean
from hfprov.regex import regex

_KEY = regex(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)")


class OsReleaseFacts(Struct, frozen=True):
    """The distribution. None: the file has no such line (rolling releases have no version)."""

    id: str
    """Lower case: ``ubuntu``, ``rhel``, ``openEuler`` keeps its capital."""
    id_like: tuple[str, ...]
    name: str | None
    version_id: str | None
    version: str | None
    pretty_name: str | None
    codename: str | None
    variant_id: str | None
    values: Mapping[str, str]

    @property
    def version_numbers(self) -> tuple[int, ...]:
        """``(22, 4)`` for 22.04; empty where the version is no number."""
        parts = (self.version_id or "").split(".")
        if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
            return ()
        return tuple(int(part) for part in parts)


def parse(text: str) -> OsReleaseFacts:
    """Facts from os-release. Raises NotUnderstoodError without an ID."""
    text = clean(text)
    values: dict[str, str] = {}
    for number, line in numbered_lines(text):
        plain = line.strip()
        if not plain or plain.startswith("#"):
            continue
        match = _KEY.fullmatch(plain)
        if match is None:
            if not values:
                raise unknown_form("/etc/os-release", text, "lines KEY=value")
            raise bad_line("/etc/os-release", number, line, "KEY=value")
        try:
            words = shlex.split(match.group(2))
        except ValueError:
            raise bad_line("/etc/os-release", number, line, "a closing quote") from None
        if len(words) > 1:
            raise bad_line("/etc/os-release", number, line, "quotes around words with blanks")
        values[match.group(1)] = words[0] if words else ""
    if not values.get("ID"):
        if not values:
            raise unknown_form("/etc/os-release", text, "lines KEY=value")
        raise NotUnderstoodError("os-release has no ID: it is cut off, or not an os-release file.")
    return OsReleaseFacts(
        id=values["ID"],
        id_like=tuple(values.get("ID_LIKE", "").split()),
        name=values.get("NAME"),
        version_id=values.get("VERSION_ID"),
        version=values.get("VERSION"),
        pretty_name=values.get("PRETTY_NAME"),
        codename=values.get("VERSION_CODENAME"),
        variant_id=values.get("VARIANT_ID"),
        values=values,
    )
