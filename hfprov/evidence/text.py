"""Getting from what a tool printed to text and values that can be relied on.

Tools are run by other people's machines: output arrives with escape sequences, carriage returns,
NUL bytes, a banner before the JSON, ``N/A`` where a number should be. These helpers make that
harmless; they never guess. A parser that cannot say raises NotUnderstoodError with the reason.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from hfprov.errors import NotUnderstoodError

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movement
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC: titles, hyperlinks
    r"|\x1b[@-Z\\-_]"  # other two-byte escapes
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")
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


def json_document(text: str) -> Any:
    """The JSON document in a text, with lines before it (warnings, banners) passed over.

    Raises NotUnderstoodError when there is none, when it is cut off, or when something other than
    white space follows it: half a document is no document.
    """
    text = clean(text)
    starts = [match.start() for match in re.finditer(r"^\s*[\[{]", text, re.MULTILINE)]
    if not starts:
        raise NotUnderstoodError("There is no JSON document in the output.")
    decoder = json.JSONDecoder()
    first_error = ""
    for start in starts[:20]:
        begin = start + len(text[start:]) - len(text[start:].lstrip())
        try:
            document, end = decoder.raw_decode(text, begin)
        except (json.JSONDecodeError, RecursionError) as error:
            first_error = first_error or str(error)
            continue
        rest = text[end:].strip()
        if rest:
            continue_at = rest.splitlines()[0][:60]
            first_error = first_error or f"text follows it: '{continue_at}'"
            continue
        return document
    raise NotUnderstoodError(
        f"The JSON document in the output is not whole or not valid: {first_error}."
    )


_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
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
