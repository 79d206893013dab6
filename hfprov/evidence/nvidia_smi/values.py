"""Reading nvidia-smi's single values: numbers with units, flags, errors, PCI addresses."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.text import number
from hfprov.regex import regex

_MISSING = frozenset(
    {
        "",
        "n/a",
        "na",
        "-",
        "not supported",
        "not available",
        "no data",
        "requested functionality has been deprecated",
    }
)
# What NVML's error strings look like where a value should be; in CSV they are in brackets.
_ERRORS = regex(
    r"err!|error|unknown error|.*\bis lost\b.*|.*requires (?:reset|restart)\b.*|insufficient .*"
    r"|corrupted.*|timeout|.*time-?out.*|driver not loaded|.*not found|in use by another client"
    r"|invalid .*|uninitialized|interrupt request issue|.*mismatch.*",
    re.IGNORECASE,
)
_YES = frozenset({"yes", "enabled", "on", "active", "true", "supported"})
_NO = frozenset({"no", "disabled", "off", "not active", "false"})
_PCI = regex(
    r"(?:([0-9A-Fa-f]{4,8}):)?([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})(?:\.([0-7]))?(?![0-9A-Fa-f])"
)
_PCI_IN_TEXT = regex(
    r"(?<![0-9A-Fa-f])(?<![0-9A-Fa-f]:)"
    r"(?:[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-7])?"
    r"|[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])"
    r"(?![0-9A-Fa-f])(?!:[0-9A-Fa-f])"
)


class Kind(Enum):
    """How a field is read. The value is the unit that may follow the number."""

    TEXT = "text"
    FLAG = "flag"
    PCI = "pci"
    HEX = "hex"
    COUNT = ""
    BANKS = "bank(s)"
    MIB = "MiB"
    WATT = "W"
    CELSIUS = "C"
    MHZ = "MHz"
    PERCENT = "%"
    LANES = "x"


_WHOLE = frozenset({Kind.COUNT, Kind.BANKS, Kind.MIB, Kind.LANES})


def bare(text: str) -> str:
    """The value without the brackets that the CSV form puts around what is not a value."""
    text = text.strip()
    return text[1:-1].strip() if text.startswith("[") and text.endswith("]") else text


def is_missing(text: str) -> bool:
    """Whether the tool says that there is no such value. The word ``None`` is a value."""
    return bare(text).lower() in _MISSING


def is_error(text: str, *, brackets: bool = False) -> bool:
    """Whether an error stands in place of the value.

    With ``brackets`` (the CSV form) whatever is in brackets and does not mean "none" is an error.
    """
    if is_missing(text):
        return False
    if brackets and bare(text) != text.strip():
        return True
    return _ERRORS.fullmatch(bare(text)) is not None


def version(text: str) -> str:
    """A version without the remark that may follow it (``610.57.04 [Deprecated; …]``).

    Empty for words in its place: ``N/A``, ``Not Found``, ``ERR!``.
    """
    words = text.split()
    return words[0] if words and words[0][0].isdigit() else ""


def convert(kind: Kind, text: str) -> object:
    """The value of a field that is neither missing nor an error.

    Raises NotUnderstoodError when the text is not of that kind.
    """
    text = text.strip()
    reader = _READERS.get(kind)
    if reader is not None:
        return reader(text)
    value = number(text, unit=kind.value)
    if kind not in _WHOLE:
        return value
    if value != int(value) or value < 0:
        raise NotUnderstoodError(f"'{text[:60]}' is not a count.")
    return int(value)


def _flag(text: str) -> bool:
    lowered = text.lower()
    if lowered in _YES:
        return True
    if lowered in _NO:
        return False
    raise NotUnderstoodError(f"'{text[:60]}' is neither yes nor no.")


def pci_address(text: str) -> str:
    """A PCI address in the form of sysfs, ``0000:8f:00.0``.

    Accepts the eight-digit domain of nvidia-smi, and addresses without domain or function.
    Raises NotUnderstoodError when the text is no address.
    """
    match = _PCI.fullmatch(text.strip())
    if match is None:
        raise NotUnderstoodError(f"'{text.strip()[:60]}' is not a PCI address.")
    domain, bus, device, function = match.groups()
    return f"{int(domain or '0', 16):04x}:{bus.lower()}:{device.lower()}.{function or '0'}"


def find_pci_address(text: str) -> str:
    """The first PCI address in a sentence, as sysfs writes it; empty when there is none.

    Only with a domain or a function: ``16:24`` may as well be a time of day.
    """
    match = _PCI_IN_TEXT.search(text)
    return pci_address(match.group()) if match else ""


def whole(text: str) -> int | None:
    """The whole number that a text starts with, whatever its unit; None when there is none."""
    match = re.match(r"\s*(\d{1,18})(?!\d)", text)
    return int(match.group(1)) if match else None


_READERS: Mapping[Kind, Callable[[str], object]] = {
    Kind.TEXT: str,
    Kind.PCI: pci_address,
    Kind.HEX: lambda text: text.lower().removeprefix("0x").upper(),
    Kind.FLAG: _flag,
}
