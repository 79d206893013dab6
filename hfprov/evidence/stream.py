"""STREAM memory bandwidth (versions 5.9 and 5.10, C and OpenMP).

All four kernels and the validation line must be there: STREAM prints the bandwidth of a run with
wrong results too. Its MB/s are 1e6 bytes per second.
"""

from __future__ import annotations

import re

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.failures import ToolFailure, failure_table, find_failure
from hfprov.evidence.fields import not_understood, numbered_lines
from hfprov.evidence.text import clean, excerpt, number
from hfprov.regex import regex

TOOL = "stream"


class Kernel(Struct, frozen=True):
    bandwidth_gbs: float
    """Best rate, 1e9 bytes per second."""
    average_s: float
    min_s: float
    max_s: float


class Stream(Struct, frozen=True):
    version: str | None
    array_elements: int
    bytes_per_element: int | None
    threads_requested: int | None
    threads_counted: int | None
    """Fewer than requested means that the run did not have the CPUs it asked for."""
    copy: Kernel
    scale: Kernel
    add: Kernel
    triad: Kernel
    validated: bool
    validation: str

    @property
    def array_bytes(self) -> int:
        """Bytes of one array; 8 bytes per element unless the output says otherwise."""
        return self.array_elements * (self.bytes_per_element or 8)


_KERNEL = regex(r"(Copy|Scale|Add|Triad): +(\S+) +(\S+) +(\S+) +(\S+)$")
_ARRAY = regex(r"Array size = ([0-9]{1,18})\b")
_BYTES = regex(r"This system uses ([0-9]{1,3}) bytes per (?:array element|DOUBLE PRECISION)")
_REQUESTED = regex(r"Number of Threads requested = ([0-9]{1,9})")
_COUNTED = regex(r"Number of Threads counted = ([0-9]{1,9})")
_VERSION = regex(r"STREAM version \$Revision: (\S+) \$")
_VALID = regex(r"Solution Validates")
_INVALID = regex(r"Failed Validation|VALIDATION FAILED|WEIRD: ")
_HEADER = regex(r"Function +(?:Best )?Rate \(?MB/s\)?")
_NAMES = ("Copy", "Scale", "Add", "Triad")


def parse(text: str) -> Stream | ToolFailure:
    """Facts of one run. Raises NotUnderstoodError when a kernel or the validation is missing."""
    text = clean(text)
    lines = numbered_lines(text, TOOL)
    kernels: dict[str, Kernel] = {}
    for at, line in lines:
        match = _KERNEL.match(line.strip())
        if match is None:
            continue
        if match[1] in kernels:
            raise not_understood(TOOL, at, line, f"one run, but '{match[1]}' is there twice")
        try:
            rate, average, least, most = (number(cell) for cell in match.groups()[1:])
        except NotUnderstoodError:
            raise not_understood(TOOL, at, line, "a rate and three times") from None
        kernels[match[1]] = Kernel(round(rate / 1000, 7), average, least, most)
    if not kernels:
        return _nothing(text)
    missing = [name for name in _NAMES if name not in kernels]
    if missing or _HEADER.search(text) is None:
        what = missing[0] if missing else "Function ... Rate MB/s"
        raise NotUnderstoodError(f"The output of '{TOOL}' has no '{what}': it is cut off.")
    invalid = [line for _, line in lines if _INVALID.search(line)]
    valid = [line for _, line in lines if _VALID.search(line)]
    if not invalid and not valid:
        raise NotUnderstoodError(
            f"The output of '{TOOL}' does not say whether its results are right: it is cut off."
        )
    return Stream(
        version=_first(_VERSION, text),
        array_elements=_required(_ARRAY, text),
        bytes_per_element=_count(_BYTES, text),
        threads_requested=_count(_REQUESTED, text),
        threads_counted=_count(_COUNTED, text),
        copy=kernels["Copy"],
        scale=kernels["Scale"],
        add=kernels["Add"],
        triad=kernels["Triad"],
        validated=not invalid,
        validation=excerpt((invalid or valid)[0], 200),
    )


def _nothing(text: str) -> ToolFailure:
    failure = find_failure(text, failure_table({}))
    if failure is not None:
        return failure
    raise NotUnderstoodError(f"The output of '{TOOL}' has no result; it begins '{excerpt(text)}'.")


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return None if match is None else match[1]


def _count(pattern: re.Pattern[str], text: str) -> int | None:
    found = _first(pattern, text)
    return None if found is None else int(found)


def _required(pattern: re.Pattern[str], text: str) -> int:
    count = _count(pattern, text)
    if count is None:
        raise NotUnderstoodError(f"The output of '{TOOL}' does not tell its array size.")
    return count
