"""Getting from what a tool printed to text and values that can be relied on.

Tools are run by other people's machines: output arrives with escape sequences, carriage returns,
NUL bytes, a banner before the JSON, ``N/A`` where a number should be. These helpers make that
harmless; they never guess. A parser that cannot say raises NotUnderstoodError with the reason.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable
from typing import Any

from hfprov.errors import NotUnderstoodError
from hfprov.regex import regex

_ESCAPES = regex(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movement
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC: titles, hyperlinks
    r"|\x1b[@-Z\\-_]"  # other two-byte escapes
)
_CONTROLS = regex(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\u2028\u2029]")
"""Also what ends a line for Python and for nothing that reads a node's files."""
MAX_TEXT = 32 * 1024 * 1024
"""No tool that we read says more than this (characters); more is refused, not parsed."""


def clean(text: str) -> str:
    """Text with plain newlines and tabs, and without escape sequences or control characters."""
    if len(text) > MAX_TEXT:
        raise NotUnderstoodError(
            f"The output is {len(text)} characters long; at most {MAX_TEXT} are read."
        )
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    return _CONTROLS.sub("", text)


Pairs = list[tuple[str, Any]]

_JSON_START = regex(r"^[ \t]*[\[{]", re.MULTILINE)
_BRACKET = regex(r"[\[\]{}]")
_MOST_STARTS = 20
_DEEPEST = 100


def json_document(text: str, *, pairs: Callable[[Pairs], Any] | None = None) -> Any:
    """The JSON document in a text, with lines before it (warnings, banners) passed over.

    ``pairs`` is as for :func:`json_decoder`. Raises NotUnderstoodError when there is no document,
    when it is cut off, when something other than white space follows it (half a document is no
    document), when it nests deeper than any tool's, and for what the decoder refuses.
    """
    text = clean(text)
    if _too_deep(text):
        raise NotUnderstoodError(f"The JSON document nests deeper than {_DEEPEST} levels.")
    decoder = json_decoder(pairs)
    problem = ""
    for match in itertools.islice(_JSON_START.finditer(text), _MOST_STARTS):
        start = match.end() - 1
        document, end, failure = _decoded(decoder, text, start)
        if not failure and not text[end:].strip():
            return document
        problem = problem or failure or f"text follows it: '{excerpt(text[end:].strip(), 60)}'"
        # Only a banner goes wrong in its first line ("[1] 2345"). What goes wrong further down is a
        # damaged document or a second one, and the last element of a cut one may well be whole.
        if "\n" in text[start:end] or (not failure and text[end:].lstrip(" \t")[:1] == "\n"):
            break
    if not problem:
        raise NotUnderstoodError("There is no JSON document in the output.")
    raise NotUnderstoodError(
        f"The JSON document in the output is not whole or not valid: {problem}."
    )


def _decoded(decoder: json.JSONDecoder, text: str, start: int) -> tuple[Any, int, str]:
    """The document at a position and where it ends; or what is wrong with it, and where."""
    try:
        return *decoder.raw_decode(text, start), ""
    except json.JSONDecodeError as error:
        return None, error.pos, excerpt(str(error), 120)
    except (ValueError, RecursionError, MemoryError) as error:
        return None, len(text), excerpt(str(error), 120)


def json_decoder(pairs: Callable[[Pairs], Any] | None = None) -> json.JSONDecoder:
    """A decoder that refuses (ValueError) what is not JSON: ``NaN``, ``Infinity``.

    ``pairs`` makes an object of its members, repeated keys included; without it, a key that comes
    twice with different values is refused, because the last one would win and could hide a fault.
    A number of thousands of digits is a ValueError too, but no JSONDecodeError.
    """
    return json.JSONDecoder(
        parse_constant=_refuse_constant, object_pairs_hook=pairs or without_contradiction
    )


def without_contradiction(pairs: Pairs) -> dict[str, Any]:
    """An object of its members. Raises ValueError for a key with two different values."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found and found[key] != value:
            raise ValueError(f"the key '{excerpt(key, 40)}' comes twice with different values")
        found[key] = value
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"'{name}' is not a JSON number")


def _too_deep(text: str) -> bool:
    """Whether brackets nest deeper than any tool's output. Brackets in texts count too."""
    depth = 0
    for match in _BRACKET.finditer(text):
        depth += 1 if match.group() in "[{" else -1
        if depth > _DEEPEST:
            return True
    return False


_NUMBER = regex(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_MISSING = frozenset(
    {"", "n/a", "[n/a]", "na", "none", "-", "--", "not supported", "[not supported]", "unknown"}
)


def is_missing(text: str) -> bool:
    """Whether a tool says that it has no value here. An error (``ERR!``) is not a missing value."""
    return text.strip().lower() in _MISSING


def number(text: str, *, unit: str = "") -> float:
    """The number in ``text``, which may be followed by ``unit`` and nothing else.

    Raises NotUnderstoodError for anything that is not a finite number, ``N/A`` included: the caller
    decides with :func:`is_missing` whether a value may be missing.
    """
    match = _NUMBER.match(text.strip())
    if match is None:
        raise NotUnderstoodError(f"'{text.strip()[:60]}' is not a number.")
    rest = text.strip()[match.end() :].strip()
    if rest != unit and rest:
        wanted = f" in '{unit}'" if unit else ""
        raise NotUnderstoodError(f"'{text.strip()[:60]}' is not a number{wanted}.")
    value = float(match.group())
    if not math.isfinite(value):
        raise NotUnderstoodError(f"'{text.strip()[:60]}' is not a finite number.")
    return value


def excerpt(text: str, length: int = 80) -> str:
    """The first line of a text, made safe to quote in a message."""
    line = clean(text[: 4 * length]).strip().split("\n", 1)[0]
    return line if len(line) <= length else line[: length - 1] + "…"
