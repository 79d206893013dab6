"""Refusals and small values that the parsers of host tools share.

What a tool prints is either understood or refused with the line that was not: these helpers make
the refusal precise. Whole numbers are bounded, because a number of thousands of digits is garbage
and costs Python quadratic time to read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.text import clean, excerpt, json_document
from hfprov.regex import regex

_MAX_BITS = 128
_WHOLE = regex(r"[-+]?[0-9]{1,39}")
_HEX = regex(r"(?:0[xX])?([0-9a-fA-F]{1,32})")
_DECIMAL = regex(r"[-+]?[0-9]{1,39}(?:\.[0-9]{0,39})?")
_FAILURES = regex(
    r"permission denied|operation not permitted|no such (?:file|device)|not found|cannot |can't "
    r"|could ?n[o']t |failed|failure|unable to|error|segmentation fault|denied|must be root"
    r"|are you root|not supported|timed? ?out|no smbios|not permitted|input/output",
    re.IGNORECASE,
)

PLACEHOLDERS = frozenset(
    {
        "",
        "-",
        "0123456789",
        "123456789",
        "1234567890",
        "9876543210",
        "chassis serial number",
        "default string",
        "empty",
        "fill by oem",
        "invalid",
        "n/a",
        "na",
        "no dimm",
        "none",
        "not applicable",
        "not available",
        "not provided",
        "not specified",
        "not present",
        "null",
        "o.e.m.",
        "oem",
        "system manufacturer",
        "system product name",
        "system serial number",
        "system version",
        "tbd",
        "to be filled by o.e.m.",
        "to be filled by oem",
        "undefined",
        "unknown",
        "unspecified",
    }
)
"""What vendors leave in a field that nobody filled in, in lower case. Never an identity."""


def is_placeholder(text: str) -> bool:
    """Whether a name or serial number says nothing (``To Be Filled By O.E.M.``, ``xxxx``, 0000)."""
    plain = text.strip().lower()
    return plain in PLACEHOLDERS or (len(set(plain)) == 1 and plain[0] in "0fx.")


def real(text: str | None) -> str | None:
    """The text, or None where it is absent or a placeholder."""
    return None if text is None or is_placeholder(text) else text.strip()


def whole(text: str, what: str) -> int:
    """The whole number that ``text`` is. ``what`` names it in the refusal."""
    plain = text.strip()
    if _WHOLE.fullmatch(plain) is None:
        raise NotUnderstoodError(f"{what} should be a whole number, but is '{excerpt(plain, 40)}'.")
    return int(plain)


def natural(text: str, what: str) -> int:
    """A whole number that is not negative."""
    value = whole(text, what)
    if value < 0:
        raise NotUnderstoodError(f"{what} should not be negative, but is {value}.")
    return value


def hexadecimal(text: str, what: str) -> int:
    """The number that hexadecimal digits are, with or without ``0x``; at most 128 bits."""
    match = _HEX.fullmatch(text.strip())
    if match is None:
        raise NotUnderstoodError(f"{what} should be hexadecimal, but is '{excerpt(text, 40)}'.")
    return int(match.group(1), 16)


def decimal(text: str, what: str) -> float:
    """A number with or without a decimal point."""
    plain = text.strip()
    if _DECIMAL.fullmatch(plain) is None:
        raise NotUnderstoodError(f"{what} should be a number, but is '{excerpt(plain, 40)}'.")
    return float(plain)


def numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a cleaned text with their numbers from 1, without trailing white space."""
    for index, line in enumerate(text.split("\n"), start=1):
        yield index, line.rstrip()


def failure_line(text: str) -> str | None:
    """The first line in which a tool says that it failed, or None."""
    for line in text[:65536].splitlines():
        if _FAILURES.search(line):
            return excerpt(line, 160)
    return None


def unknown_form(tool: str, text: str, expected: str) -> NotUnderstoodError:
    """The refusal of a text that is none of the forms of ``tool``; quotes what the tool said."""
    if not text.strip():
        return NotUnderstoodError(
            f"The output of {tool} is empty.", hint=f"Expected: {expected}. Is it installed?"
        )
    failed = failure_line(text)
    if failed is not None:
        return NotUnderstoodError(f"{tool} did not answer: '{failed}'.", hint="Run it as root?")
    return NotUnderstoodError(
        f"This is not output of {tool}: expected {expected}, found '{excerpt(text)}'."
    )


def bad_line(tool: str, line_number: int, line: str, expected: str) -> NotUnderstoodError:
    """The refusal of one line."""
    return NotUnderstoodError(
        f"Line {line_number} of the {tool} output is not understood: expected {expected}, "
        f"found '{excerpt(line)}'."
    )


def json_value(text: str, tool: str) -> Any:
    """The JSON document that a text is; see :func:`hfprov.evidence.text.json_document`.

    A refusal names the tool; a text without any document is quoted as what the tool said.
    """
    try:
        return json_document(text)
    except NotUnderstoodError as error:
        plain = clean(text).lstrip()
        if not re.search(r"^[ \t]*[\[{]", plain, re.MULTILINE):
            raise unknown_form(tool, plain, "a JSON document") from None
        raise NotUnderstoodError(f"{tool}: {error.message}") from None


def mapping(value: Any, what: str) -> dict[str, Any]:
    """``value`` if it is a JSON object."""
    if not isinstance(value, dict):
        raise NotUnderstoodError(f"{what} should be an object, but is {kind(value)}.")
    return value


def sequence(value: Any, what: str) -> list[Any]:
    """``value`` if it is a JSON array."""
    if not isinstance(value, list):
        raise NotUnderstoodError(f"{what} should be a list, but is {kind(value)}.")
    return value


def kind(value: Any) -> str:
    """What a JSON value is, in words."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    if value is None:
        return "null"
    return names.get(type(value), "a number")


def optional_text(value: Any, what: str) -> str | None:
    """A JSON text without surrounding white space; None for null."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise NotUnderstoodError(f"{what} should be a text, but is {kind(value)}.")
    return value.strip()


def optional_number(value: Any, what: str) -> float | None:
    """A JSON number; None for null."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise NotUnderstoodError(f"{what} should be a number, but is {kind(value)}.")
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise NotUnderstoodError(f"{what} is a number of absurd size.")
    if not math.isfinite(value):
        raise NotUnderstoodError(f"{what} is not a finite number.")
    return float(value)


def optional_bool(value: Any, what: str) -> bool | None:
    """A JSON true or false; None for null."""
    if value is None or isinstance(value, bool):
        return value
    raise NotUnderstoodError(f"{what} should be true or false, but is {kind(value)}.")


def json_count(value: Any, what: str) -> int:
    """A whole number that JSON may carry as a number, a float without fraction, or a text."""
    if isinstance(value, str):
        return natural(value.replace(",", ""), what)
    number = optional_number(value, what)
    if number is None or number < 0 or not number.is_integer():
        raise NotUnderstoodError(f"{what} should be a whole number, but is '{value}'.")
    return value if isinstance(value, int) else int(number)
