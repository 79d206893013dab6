"""What the RAS service of RCCL or NCCL says about the communicators of a running job.

Read forms: the text of ``ncclras``/``rcclras`` (2.28) and its JSON (``-f json``, 2.28.9 on).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.failures import FailureKind, ToolFailure, failure_table, find_failure
from hfprov.evidence.fields import (
    integer,
    json_value,
    looks_like_json,
    mapping,
    not_understood,
    sequence,
)
from hfprov.evidence.text import clean, excerpt
from hfprov.regex import regex

TOOL = "rccl-ras"


class Rank(Struct, frozen=True):
    rank: int
    host: str
    pid: int | None
    device: int | None
    async_error: int | None
    aborted: bool | None


class Communicator(Struct, frozen=True):
    """One communicator (JSON form). ``size`` ranks belong to it; ``ranks`` answered."""

    hash: str
    size: int
    missing_ranks: int
    ranks: tuple[Rank, ...]


class Group(Struct, frozen=True):
    """Communicators of the same shape (text form)."""

    number: int
    communicators: int
    nodes_per_communicator: str
    ranks_per_node: str
    """A number, or a range such as ``7-8``."""
    ranks_per_communicator: str
    ranks_in_group: int
    status: str
    errors: str
    """``OK``, ``INCOMPLETE``, ``ERROR``, ``TIMEOUT``, ``MISMATCH`` as printed."""


class RasReport(Struct, frozen=True):
    version: str
    runtime_version: int | None
    driver_version: int | None
    nodes: int | None = None
    processes: int | None = None
    gpus: int | None = None
    groups: tuple[Group, ...] = ()
    communicators: tuple[Communicator, ...] = ()
    problems: tuple[str, ...] = ()
    """Everything that is not as it should be; empty means that the service found nothing."""
    warnings: tuple[str, ...] = ()


_FAILURES = failure_table(
    {
        FailureKind.DAEMON_DOWN: (
            "connection (?:reset|refused|timed out)",
            "failed to connect",
            "no route to host",
            "could not connect",
            "^read socket",
        ),
        FailureKind.OTHER: (r"^error\b", "timeout"),
    }
)
_VERSION = regex(r"^(?:R|N)CCL version (\S+) compiled with", re.MULTILINE)
_RUNTIME = regex(
    r"^(?:HIP|CUDA) runtime version (\d{1,12}), (?:amdgpu|CUDA) driver version (\d{1,12})",
    re.MULTILINE,
)
_TOTALS = regex(r"^ *(\d{1,9}) +([\d-]{1,20}) +([\d-]{1,20}) +(\d{1,9}) +(\d{1,9}) *$")
_GROUP = regex(
    r"^ *(\d{1,9}) +(\d{1,9}) +([\d-]{1,20}) +([\d-]{1,20}) +([\d-]{1,20}) +(\d{1,9})"
    r" +([A-Z_,]+) +([A-Z_,]+) *$"
)
_HEADINGS = ("Job summary", "Communicators", "Errors", "Warnings")


def parse(text: str) -> RasReport | ToolFailure:
    """Facts of one report, or why there is none (no service, connection lost).

    Raises NotUnderstoodError when the report is cut off before its list of errors ends.
    """
    text = clean(text)
    if looks_like_json(text):
        return _from_json(text)
    version = _VERSION.search(text)
    if version is None:
        failure = find_failure(text, _FAILURES)
        if failure is not None:
            return failure
        raise NotUnderstoodError(
            f"The output of '{TOOL}' does not begin with a version; it begins '{excerpt(text)}'."
        )
    runtime = _RUNTIME.search(text)
    sections = _sections(text)
    totals = _totals(sections["Job summary"])
    groups = _groups(sections["Communicators"])
    errors = [line.strip() for _, line in sections["Errors"]]
    problems = [f"Group {g.number} is {g.errors}." for g in groups if g.errors != "OK"]
    return RasReport(
        version=version[1],
        runtime_version=integer(runtime[1]) if runtime else None,
        driver_version=integer(runtime[2]) if runtime else None,
        nodes=totals[0],
        processes=totals[3],
        gpus=totals[4],
        groups=groups,
        problems=(*problems, *errors),
        warnings=tuple(line.strip() for _, line in sections["Warnings"]),
    )


_Lines = list[tuple[int, str]]


def _sections(text: str) -> dict[str, _Lines]:
    """Numbered lines under each underlined heading. All four headings must be there."""
    found: dict[str, _Lines] = {}
    lines = text.split("\n")
    current: _Lines | None = None
    for number, line in enumerate(lines, start=1):
        below = lines[number].strip() if number < len(lines) else ""
        heading = next((name for name in _HEADINGS if line.startswith(name)), None)
        if heading is not None and below and not below.strip("="):
            current = found.setdefault(heading, [])
        elif current is not None and line.strip("= \t"):
            current.append((number, line))
    missing = [name for name in _HEADINGS if name not in found]
    if missing:
        raise NotUnderstoodError(
            f"The report of '{TOOL}' has no section '{missing[0]}': it is cut off."
        )
    return found


def _totals(lines: _Lines) -> tuple[int, str, str, int, int]:
    for _, line in lines:
        if match := _TOTALS.match(line):
            return int(match[1]), match[2], match[3], int(match[4]), int(match[5])
    raise NotUnderstoodError(f"The job summary of '{TOOL}' has no row of numbers.")


def _groups(lines: _Lines) -> tuple[Group, ...]:
    groups = []
    for number, line in lines:
        match = _GROUP.match(line)
        if match is not None:
            groups.append(
                Group(
                    int(match[1]), int(match[2]), match[3], match[4], match[5], int(match[6]),
                    match[7], match[8],
                )
            )  # fmt: skip
        elif line.lstrip()[:1].isdigit():
            raise not_understood(TOOL, number, line, "a row of the communicator table")
    if not groups:
        raise NotUnderstoodError(f"The report of '{TOOL}' lists no communicator.")
    return tuple(groups)


def _from_json(text: str) -> RasReport:
    document = mapping(json_value(text), f"The JSON of '{TOOL}'")
    version = document.get("nccl_version", document.get("rccl_version"))
    if version is None or "communicators" not in document:
        raise NotUnderstoodError(f"The JSON of '{TOOL}' has no version and communicators.")
    entries = sequence(document["communicators"], f"'communicators' of '{TOOL}'")
    communicators = tuple(_communicator(entry) for entry in entries)
    problems = [problem for each in communicators for problem in _problems(each)]
    announced = _number(document, "communicators_count")
    if announced is not None and announced != len(communicators):
        problems.append(f"{announced} communicators announced, {len(communicators)} listed.")
    if not communicators:
        problems.append("No communicator is listed.")
    return RasReport(
        version=str(version),
        runtime_version=_number(document, "cuda_runtime_version"),
        driver_version=_number(document, "cuda_driver_version"),
        nodes=len({rank.host for each in communicators for rank in each.ranks}),
        communicators=communicators,
        problems=tuple(problems),
    )


def _number(values: Mapping[str, Any], name: str) -> int | None:
    value = values.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise NotUnderstoodError(f"'{name}' in the JSON of '{TOOL}' is not an integer.")
    return value


def _required(values: Mapping[str, Any], name: str) -> int:
    value = _number(values, name)
    if value is None:
        raise NotUnderstoodError(f"There is no '{name}' in the JSON of '{TOOL}'.")
    return value


def _communicator(entry: Any) -> Communicator:
    values = mapping(entry, f"A communicator of '{TOOL}'")
    ranks = [_rank(each) for each in sequence(values.get("ranks"), f"'ranks' of '{TOOL}'")]
    return Communicator(
        hash=str(values.get("hash", "")),
        size=_required(values, "size"),
        missing_ranks=_required(values, "missing_ranks_count"),
        ranks=tuple(ranks),
    )


def _rank(entry: Any) -> Rank:
    values = mapping(entry, f"A rank of '{TOOL}'")
    status = mapping(values.get("status", {}), f"'status' of a rank of '{TOOL}'")
    aborted = status.get("abort_flag")
    return Rank(
        rank=_required(values, "rank"),
        host=str(values.get("host", "")),
        pid=_number(values, "pid"),
        device=_number(values, "cuda_dev"),
        async_error=_number(status, "async_error"),
        aborted=aborted if isinstance(aborted, bool) else None,
    )


def _problems(communicator: Communicator) -> Iterator[str]:
    name = f"Communicator {excerpt(communicator.hash, 40)}"
    if communicator.missing_ranks:
        yield f"{name} misses {communicator.missing_ranks} of {communicator.size} ranks."
    present = {rank.rank for rank in communicator.ranks}
    if len(present) + communicator.missing_ranks != communicator.size:
        yield f"{name} lists {len(present)} of {communicator.size} ranks."
    for rank in communicator.ranks:
        if rank.async_error:
            yield f"{name}: rank {rank.rank} has asynchronous error {rank.async_error}."
        if rank.aborted:
            yield f"{name}: rank {rank.rank} is aborted."
