"""What the parsers of accelerator, container and bandwidth tools share: fields and JSON.

Tools print the same fact as ``{"value": 11, "unit": "W"}``, ``SOCKET_POWER: 11 W`` or a CSV column.
:class:`Fields` reads such values by name with the unit checked. A value that is neither a number
nor "not available" does not stop the parse: it is kept as a :class:`FieldError` of that device, so
that the other devices are still known.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.text import Pairs, clean, excerpt, is_missing, json_decoder, number
from hfprov.regex import regex


class FieldError(Struct, frozen=True):
    """A value of one device that is an error marker or not understood."""

    field: str
    text: str


def said(line: str) -> str:
    """A line, quoted for a message."""
    return f"'{excerpt(line, 60)}'"


def not_understood(tool: str, line_number: int, line: str, expected: str) -> NotUnderstoodError:
    """The error for one line: which one it is, and what was expected there."""
    return NotUnderstoodError(
        f"Line {line_number} of the output of '{tool}' is {said(line)}; expected {expected}.",
        hint="Keep the output as evidence; this form of the tool's output is not known yet.",
    )


_LONGEST_LINE = 2000


def numbered_lines(text: str, tool: str) -> list[tuple[int, str]]:
    """The lines of a cleaned text with their numbers, from 1.

    Raises NotUnderstoodError for a line of more than 2000 characters: no table that we read has
    such, and patterns on endless lines are how a parser is made to hang.
    """
    lines = text.split("\n")
    for at, line in enumerate(lines, start=1):
        if len(line) > _LONGEST_LINE:
            raise not_understood(tool, at, line, f"at most {_LONGEST_LINE} characters")
    return list(enumerate(lines, start=1))


_INDENT = regex(r"\n\s+")
_JSON_START = regex(r"^[ \t]*(?:\{[ \t]*(?:$|\"|\})|\[[ \t]*(?:$|\{|\[|\]))", re.MULTILINE)


def looks_like_json(text: str) -> bool:
    """Whether a (cleaned) text has a line that starts a JSON document."""
    return _JSON_START.search(text) is not None


class EmbeddedJson(Struct, frozen=True):
    """A JSON document among other lines, which are what the tool printed around it."""

    document: Any
    before: tuple[str, ...]
    after: tuple[str, ...]


def embedded_json(text: str, *, pairs: Callable[[Pairs], Any] | None = None) -> EmbeddedJson:
    """The one whole JSON document that begins at the start of a line, and the lines around it.

    Only the first line that looks like the start of a document counts: the last element of a list
    that was cut off is whole too, and is not the document. ``pairs`` is as for
    :func:`~hfprov.evidence.text.json_decoder`. Raises NotUnderstoodError when there is none, when
    it is cut off or not valid, or when another one follows it.
    """
    # Indentation and empty lines go first: they carry nothing, and searching stays linear.
    compact = _INDENT.sub("\n", clean(text).strip())
    start = _JSON_START.search(compact)
    if start is None:
        raise NotUnderstoodError("There is no JSON document in the output.")
    try:
        document, end = json_decoder(pairs).raw_decode(compact, start.start())
    except (ValueError, RecursionError, MemoryError) as error:
        # Numbers too long for Python are a plain ValueError, endless nesting a RecursionError.
        raise NotUnderstoodError(
            f"The JSON document in the output is not whole or not valid: {error}."
        ) from error
    if _JSON_START.search(compact, end):
        raise NotUnderstoodError("There are several JSON documents in the output.")
    return EmbeddedJson(document, _lines(compact[: start.start()]), _lines(compact[end:]))


def json_value(text: str) -> Any:
    """The JSON document in a text, with lines before it passed over and none after it."""
    found = embedded_json(text)
    if found.after:
        raise NotUnderstoodError(f"Text follows the JSON document: {said(found.after[0])}.")
    return found.document


_MOST_LINES = 200


def _lines(text: str) -> tuple[str, ...]:
    """Lines as messages: quoted safely, and not without end."""
    lines = (line for line in text.split("\n") if line.strip())
    return tuple(excerpt(line, 300) for line in itertools.islice(lines, _MOST_LINES))


def mapping(value: Any, what: str) -> Mapping[str, Any]:
    """``value`` as a JSON object, or NotUnderstoodError that names ``what``."""
    if not isinstance(value, dict):
        raise NotUnderstoodError(f"{what} is {_kind(value)}; expected an object.")
    return value


def sequence(value: Any, what: str) -> list[Any]:
    """``value`` as a JSON list, or NotUnderstoodError that names ``what``."""
    if not isinstance(value, list):
        raise NotUnderstoodError(f"{what} is {_kind(value)}; expected a list.")
    return value


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a truth value"}
    if value is None:
        return "absent"
    return names.get(type(value), "a number")


_INTEGER = regex(r"[-+]?[0-9]{1,18}")


def integer(text: str) -> int:
    """A decimal integer of at most 18 digits. Raises NotUnderstoodError otherwise."""
    stripped = text.strip()
    if _INTEGER.fullmatch(stripped) is None:
        raise NotUnderstoodError(f"{said(text)} is not an integer.")
    return int(stripped)


_DEEPEST = 24


def flatten(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Leaves of nested objects by dotted lower-case path; ``{"value", "unit"}`` becomes text.

    Lists of objects get numbered paths (``links.0.bdf``); other lists stay as they are.
    Raises NotUnderstoodError when objects are nested deeper than any tool nests them.
    """
    leaves: dict[str, Any] = {}
    stack: list[tuple[str, Any, int]] = [("", tree, 0)]
    while stack:
        path, value, depth = stack.pop()
        if depth > _DEEPEST:
            raise NotUnderstoodError(f"Objects are nested more than {_DEEPEST} deep at '{path}'.")
        prefix = f"{path}." if path else ""
        if isinstance(value, dict):
            if "value" in value and set(value) <= {"value", "unit"}:
                leaves[path] = plain_value(value)
                continue
            items = [(f"{prefix}{str(key).lower()}", each) for key, each in value.items()]
            stack.extend((name, each, depth + 1) for name, each in reversed(items))
        elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
            numbered = [(f"{prefix}{index}", each) for index, each in enumerate(value)]
            stack.extend((name, each, depth + 1) for name, each in reversed(numbered))
        else:
            leaves[path] = value
    return leaves


def plain_value(value: Any) -> Any:
    """``{"value": 11, "unit": "W"}`` as ``"11 W"``; anything else unchanged."""
    if isinstance(value, dict) and "value" in value:
        return f"{value['value']} {value.get('unit') or ''}".strip()
    return value


_NOT_AVAILABLE = regex(r"n/a *\([^)]*\)$", re.IGNORECASE)


def not_available(text: str) -> bool:
    """Whether a tool says that it has no value, with a reason or not (``N/A (Secondary die)``)."""
    return is_missing(text) or _NOT_AVAILABLE.match(text) is not None


class Fields:
    """Values of one device by name. Names given together are spellings of different releases."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values
        self.errors: list[FieldError] = []
        self._prefixes: set[str] = set()
        for name in values:
            parts = name.split(".")
            self._prefixes.update(".".join(parts[:end]) for end in range(1, len(parts) + 1))

    def raw(self, *names: str) -> Any:
        """The first of the named values that is there; None when none is."""
        for name in names:
            if self.values.get(name) is not None:
                return self.values[name]
        return None

    def has(self, prefix: str) -> bool:
        """Whether there is a value of this name or below it."""
        return prefix in self._prefixes

    def text(self, *names: str) -> str | None:
        """Text; None when absent or "not available"."""
        value = self.raw(*names)
        if value is None or isinstance(value, (dict, list)):
            return None
        text = clean(str(value)).strip()
        return None if not_available(text) else text

    def number(self, *names: str, units: Iterable[str] = ()) -> float | None:
        """A number that may carry one of ``units``; None when absent or "not available"."""
        scales = dict.fromkeys(units, 1.0)
        return self.scaled(*names, units=scales)

    def scaled(self, *names: str, units: Mapping[str, float]) -> float | None:
        """A number times what its unit stands for; a number without unit is taken as it is."""
        value = self.raw(*names)
        if value is None or isinstance(value, bool):
            return None
        text = clean(str(value)).strip()
        amount, _, unit = text.rpartition(" ")
        if amount and unit in units and not_available(amount):
            return None  # "N/A Mb/s"
        if not_available(text):
            return None
        for unit, scale in (*units.items(), ("", 1.0)):
            if unit and not text.endswith(unit):
                continue
            try:
                return number(text, unit=unit) * scale
            except NotUnderstoodError:
                continue
        self.error(names[0], text)
        return None

    def count(self, *names: str) -> int | None:
        """A whole number; None when absent or "not available"."""
        value = self.number(*names)
        if value is None:
            return None
        if value != int(value):
            self.error(names[0], str(value))
            return None
        return int(value)

    def error(self, name: str, text: str) -> None:
        """Keep a value that is not understood as an error of this device."""
        self.errors.append(FieldError(name, excerpt(text, 100)))


_TOKENS = regex(r'"(?:[^"\\\n]|\\.)*"|,(?=\s*[\]}])|^[ \t]*\.\.\.[ \t]*,?[ \t]*$', re.MULTILINE)


def documentation_json(text: str) -> tuple[Any, bool]:
    """A JSON document, and whether it is whole.

    Documentation shows JSON with commas before closing brackets and with ``...`` lines where
    something was left out; the first is harmless, the second means that it is not whole.
    """
    try:
        return json_value(text), True
    except NotUnderstoodError as error:
        failed = error
    text = clean(text)
    shortened = False

    def without(match: re.Match[str]) -> str:
        nonlocal shortened
        token = match.group()
        if token.startswith('"'):
            return token
        shortened = shortened or "..." in token
        return ""

    for _ in range(2):  # removing "..." can leave one more comma before a bracket
        text = _TOKENS.sub(without, text)
    try:
        return json_value(text), not shortened
    except NotUnderstoodError:
        raise failed from None
