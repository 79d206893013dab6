"""What every parser of network tools needs: bounded lines, strict numbers, JSON with paths.

Nothing here knows a tool. Numbers are strict because a number that is cut short or garbled must not
turn into another number; JSON is read with the path of each value, so that a message can say where.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.text import Pairs, clean, excerpt, json_document
from hfprov.regex import regex

_INTEGER = regex(r"[-+]?[0-9]{1,20}")
_HEX = regex(r"0[xX][0-9a-fA-F]{1,16}")
_DECIMAL = regex(r"[-+]?(?:[0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})(?:[eE][-+]?[0-9]{1,2})?")


def lines_of(text: str) -> list[str]:
    """The lines of a tool's output, cleaned, without white space at their ends."""
    return [line.rstrip() for line in clean(text).split("\n")]


def numbered(text: str) -> Iterator[tuple[int, str]]:
    """Line numbers (from 1) and cleaned lines, blank ones left out."""
    for number, line in enumerate(lines_of(text), start=1):
        if line.strip():
            yield number, line


def not_understood(tool: str, number: int, line: str, expected: str) -> NotUnderstoodError:
    """The error for one line of a tool's output."""
    return NotUnderstoodError(f"{tool}: line {number} '{excerpt(line)}' is not {expected}.")


def empty(tool: str) -> NotUnderstoodError:
    """The error for output without anything in it."""
    return NotUnderstoodError(
        f"{tool}: the output is empty.", hint="Look at the exit code and the error output."
    )


def integer(text: str, what: str) -> int:
    """A whole decimal number of at most 20 digits. ``what`` names the value in the message."""
    text = text.strip()
    if _INTEGER.fullmatch(text) is None:
        raise NotUnderstoodError(f"{what} '{excerpt(text)}' is not a whole number.")
    return int(text)


def hexadecimal(text: str, what: str) -> int:
    """A number written as ``0x…`` (at most 64 bits), or a decimal one."""
    text = text.strip()
    if _HEX.fullmatch(text) is not None:
        return int(text, 16)
    return integer(text, what)


def decimal(text: str, what: str) -> float:
    """A finite decimal number, with or without a fraction."""
    text = text.strip()
    if _DECIMAL.fullmatch(text) is None:
        raise NotUnderstoodError(f"{what} '{excerpt(text)}' is not a number.")
    return float(text)


def on_off(text: str, what: str) -> bool:
    """``on``/``off``, ``yes``/``no``, ``enabled``/``disabled`` and ``true``/``false``."""
    word = text.strip().lower()
    if word in ("on", "yes", "enabled", "true"):
        return True
    if word in ("off", "no", "disabled", "false"):
        return False
    raise NotUnderstoodError(f"{what} '{excerpt(text)}' is neither on nor off.")


def value_or_none(text: str) -> str | None:
    """The text, or None where the tool says that it has no value."""
    text = text.strip()
    return None if text.lower() in ("", "n/a", "na", "none", "(null)", "not set") else text


def starts_like_json(text: str) -> bool:
    """Whether the first thing printed opens a JSON document."""
    return clean(text).lstrip()[:1] in ("[", "{")


def json_value(text: str, *, pairs: Callable[[Pairs], Any] = dict) -> Any:
    """The one JSON document in a text; see :func:`hfprov.evidence.text.json_document`.

    The last of repeated keys wins unless ``pairs`` says otherwise: iproute2 repeats some.
    """
    return json_document(text, pairs=pairs)


class Node:
    """One value of a JSON document with the path to it, so that a message can say where."""

    __slots__ = ("value", "where")

    def __init__(self, value: Any, where: str) -> None:
        self.value = value
        self.where = where

    def wrong(self, expected: str) -> NotUnderstoodError:
        return NotUnderstoodError(
            f"{self.where} is '{excerpt(str(self.value)[:400])}', which is not {expected}."
        )

    @property
    def members(self) -> dict[str, Any]:
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        return self.value

    def has(self, key: str) -> bool:
        return key in self.members

    def get(self, key: str) -> Node | None:
        """The member, or None when it is absent or null."""
        value = self.members.get(key)
        return None if value is None else Node(value, f"{self.where}.{key}")

    def need(self, key: str) -> Node:
        found = self.get(key)
        if found is None:
            raise NotUnderstoodError(f"{self.where} has no '{key}'.")
        return found

    def items(self) -> list[Node]:
        if not isinstance(self.value, list):
            raise self.wrong("a list")
        return [Node(item, f"{self.where}[{at}]") for at, item in enumerate(self.value)]

    def objects(self) -> list[Node]:
        """The elements of a list, each of which must be an object."""
        found = self.items()
        for node in found:
            _ = node.members
        return found

    def entries(self) -> list[tuple[str, Node]]:
        return [(key, Node(item, f"{self.where}.{key}")) for key, item in self.members.items()]

    def as_text(self) -> str:
        if isinstance(self.value, bool) or not isinstance(self.value, (str, int, float)):
            raise self.wrong("a text")
        return str(self.value)[:4096]

    def as_int(self) -> int:
        if isinstance(self.value, bool):
            raise self.wrong("a whole number")
        if isinstance(self.value, int) and abs(self.value) < 10**20:
            return self.value
        if isinstance(self.value, float) and math.isfinite(self.value) and self.value.is_integer():
            return int(self.value)
        if isinstance(self.value, str):
            return hexadecimal(self.value, self.where)
        raise self.wrong("a whole number")

    def as_float(self) -> float:
        if isinstance(self.value, str):
            return decimal(self.value, self.where)
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)):
            raise self.wrong("a number")
        if not abs(self.value) < 10**30:
            raise self.wrong("a number of a sensible size")
        return float(self.value)

    def as_bool(self) -> bool:
        if isinstance(self.value, bool):
            return self.value
        if isinstance(self.value, str):
            return on_off(self.value, self.where)
        raise self.wrong("true or false")

    def text(self, key: str) -> str | None:
        found = self.get(key)
        return None if found is None else value_or_none(found.as_text())

    def int(self, key: str) -> int | None:
        found = self.get(key)
        return None if found is None else found.as_int()

    def float(self, key: str) -> float | None:
        found = self.get(key)
        return None if found is None else found.as_float()

    def bool(self, key: str) -> bool | None:
        found = self.get(key)
        return None if found is None else found.as_bool()

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts, a single text as one; () when absent."""
        found = self.get(key)
        if found is None:
            return ()
        if isinstance(found.value, list):
            return tuple(item.as_text().strip() for item in found.items())
        return (found.as_text().strip(),)
