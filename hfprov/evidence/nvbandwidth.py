"""NVIDIA nvbandwidth: JSON (0.5 to 0.8, also as DCGM runs it) and plain text.

Bandwidths are in GB/s (1e9 bytes per second), latencies in ns; the unit stands in each test's
description. ``N/A`` in a matrix means that the pair cannot be measured and becomes None. A test
that did not end stays ``running``: nvbandwidth leaves it so when it aborts.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.failures import FailureKind, ToolFailure, failure_table, find_failure
from hfprov.evidence.fields import Fields, embedded_json, mapping, numbered_lines, sequence
from hfprov.evidence.text import clean, excerpt, number
from hfprov.regex import regex

TOOL = "nvbandwidth"


class Status(enum.StrEnum):
    PASSED = "passed"
    WAIVED = "waived"
    """Not possible on this node, for instance peer copies with one GPU."""
    RUNNING = "running"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Device(Struct, frozen=True):
    index: int
    name: str
    bdf: str
    """Empty in old releases (0.2), which print none."""
    host: str | None


class Test(Struct, frozen=True):
    name: str
    """Empty for a waived test of the plain text, which does not say which one it was."""
    status: Status
    description: str = ""
    unit: str = ""
    """``GB/s`` or ``ns``."""
    rows: tuple[tuple[float | None, ...], ...] = ()
    total: float | None = None


class NvBandwidth(Struct, frozen=True):
    version: str | None
    driver_version: str | None
    cuda_runtime_version: int | None
    devices: tuple[Device, ...]
    tests: tuple[Test, ...]
    error: str | None = None
    """The error with which the tool stopped."""
    messages: tuple[str, ...] = ()
    """Lines around the JSON. ``Invalid value when checking the pattern`` is data corruption."""
    complete: bool = True
    """False when it stopped with an error, a test did not end, or the text lacks its end."""

    @property
    def passed(self) -> int:
        return sum(test.status is Status.PASSED for test in self.tests)

    @property
    def waived(self) -> int:
        return sum(test.status is Status.WAIVED for test in self.tests)


_FAILURES = failure_table(
    {
        FailureKind.NOT_READY: ("SYSTEM_NOT_READY", "system not yet initialized"),
        FailureKind.NO_DEVICES: ("CUDA_ERROR_NO_DEVICE", "no CUDA-capable device"),
        FailureKind.VERSION_MISMATCH: (
            "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
            "driver version is insufficient",
            "driver/library version mismatch",
        ),
        FailureKind.DRIVER_NOT_LOADED: ("CUDA_ERROR_STUB_LIBRARY", "libcuda.so"),
        FailureKind.DEVICE_ERROR: ("CUDA_ERROR_", "NVML_ERROR", "ASSERT in expression"),
        FailureKind.OTHER: (r"^error\b",),
    }
)


def parse(text: str) -> NvBandwidth | ToolFailure:
    """Facts of one run. Raises NotUnderstoodError when it is cut off or in no known form."""
    text = clean(text)
    if not text.strip():
        raise NotUnderstoodError(f"The output of '{TOOL}' is empty.")
    if '"nvbandwidth"' in text or text.lstrip().startswith("{"):
        return _from_json(text)
    if _HEADER.search(text):
        return _from_text(text)
    failure = find_failure(text, _FAILURES)
    if failure is None:
        raise NotUnderstoodError(
            f"The output of '{TOOL}' is in no known form; it begins '{excerpt(text)}'."
        )
    return failure


def _from_json(text: str) -> NvBandwidth | ToolFailure:
    found = embedded_json(text)
    document = mapping(found.document, f"The JSON of '{TOOL}'")
    body = mapping(document.get("nvbandwidth"), f"'nvbandwidth' in the JSON of '{TOOL}'")
    error = body.get("error")
    entries = sequence(body.get("testcases") or [], f"'testcases' of '{TOOL}'")
    if not entries:
        if error is None:
            raise NotUnderstoodError(f"The JSON of '{TOOL}' has neither tests nor an error.")
        sentence = excerpt(str(error), 200)
        return find_failure(sentence, _FAILURES) or ToolFailure(FailureKind.OTHER, sentence)
    devices = sequence(body.get("GPU Device list") or [], f"'GPU Device list' of '{TOOL}'")
    tests = tuple(_test(entry) for entry in entries)
    read = Fields(body)
    return NvBandwidth(
        version=read.text("version"),
        driver_version=read.text("Driver Version"),
        cuda_runtime_version=read.count("CUDA Runtime Version"),
        devices=tuple(_device(str(each)) for each in devices),
        tests=tests,
        error=None if error is None else excerpt(str(error), 500),
        messages=(*found.before, *found.after),
        complete=error is None and all(test.status in _ENDED for test in tests),
    )


_ENDED = frozenset({Status.PASSED, Status.WAIVED})
_DEVICE = regex(
    r"(?:Device )?(?P<index>[0-9]{1,6}): (?P<name>[^()]{1,200}?)"
    r"(?: \((?P<bdf>[0-9a-fA-F:.]{1,20})\)(?:: \((?P<host>[^()]{0,255})\))?)?$"
)
_UNIT = regex(r"\((GB/s|ns|us|MB/s)\) *$")


def _device(text: str) -> Device:
    match = _DEVICE.match(text.strip())
    if match is None:
        raise NotUnderstoodError(f"'{excerpt(text)}' is no device of '{TOOL}'.")
    return Device(int(match["index"]), match["name"], match["bdf"] or "", match["host"])


def _status(text: str) -> Status:
    known = {"passed": Status.PASSED, "waived": Status.WAIVED, "running": Status.RUNNING}
    word = text.strip().lower()
    if word in known:
        return known[word]
    return Status.FAILED if word in ("failed", "error", "not found") else Status.UNKNOWN


def _test(entry: Any) -> Test:
    values = mapping(entry, f"A test of '{TOOL}'")
    name = str(values.get("name", ""))
    description = str(values.get("bandwidth_description", "")).strip()
    status = _status(str(values.get("status", "")))
    rows = _rows(values, name)
    if status is Status.PASSED and not any(rows):
        raise NotUnderstoodError(f"Test '{excerpt(name)}' of '{TOOL}' passed without a value.")
    unit = _UNIT.search(description)
    return Test(
        name=name,
        status=status,
        description=description,
        unit=unit[1] if unit else "",
        rows=rows,
        total=_value(values["sum"], name) if "sum" in values else None,
    )


def _rows(values: Mapping[str, Any], name: str) -> tuple[tuple[float | None, ...], ...]:
    what = f"The matrix of test '{excerpt(name)}' of '{TOOL}'"
    matrix = sequence(values.get("bandwidth_matrix") or [], what)
    rows = tuple(
        tuple(_value(cell, name) for cell in sequence(row, f"A row of {what}")) for row in matrix
    )
    if len({len(row) for row in rows}) > 1:
        raise NotUnderstoodError(f"{what} has rows of different lengths.")
    return rows


def _value(cell: Any, name: str) -> float | None:
    if isinstance(cell, str) and cell.strip() == "N/A":
        return None
    try:
        return number(str(cell))
    except NotUnderstoodError as error:
        raise NotUnderstoodError(
            f"A value of test '{excerpt(name)}' of '{TOOL}' is wrong: {error.message}"
        ) from None


_HEADER = regex(r"^nvbandwidth Version: (\S+)", re.MULTILINE)
_DRIVER = regex(r"^Driver Version: (\S+)", re.MULTILINE)
_RUNTIME = regex(r"^CUDA Runtime Version: ([0-9]{1,9})", re.MULTILINE)
_RUNNING = regex(r"Running (\S+?)\.?$")
_WAIVED = regex(r"Waived:? *(\S*)$|Waiving (\S+?)\.?$")  # the second in v0.2
_SUM = regex(r"SUM (\S+) (\S+)$")
_COLUMNS = regex(r"[0-9]+(?: +[0-9]+)*$")
_ERROR = regex(r"(?:\[?CUDA_ERROR|\[?NVML_ERROR|ERROR\b|Error\b|ASSERT in)")


class _Text(Struct):
    tests: list[Test] = field(default_factory=list)
    name: str = ""
    description: str = ""
    columns: int = 0
    rows: list[tuple[float | None, ...]] = field(default_factory=list)
    error: str | None = None

    def start(self, name: str) -> None:
        self.end(Status.RUNNING, None)
        self.name = name

    def end(self, status: Status, total: float | None) -> None:
        if self.name:
            unit = _UNIT.search(self.description)
            found = unit[1] if unit else ""
            self.tests.append(
                Test(self.name, status, self.description, found, tuple(self.rows), total)
            )
        self.name, self.description, self.columns, self.rows = "", "", 0, []

    def line(self, line: str) -> None:
        if running := _RUNNING.match(line):
            self.start(running[1])
        elif waived := _WAIVED.match(line):
            self.end(Status.RUNNING, None)
            self.tests.append(Test(waived[1] or waived[2] or "", Status.WAIVED))
        elif (total := _SUM.match(line)) and total[1] == self.name and self.rows:
            self.end(Status.PASSED, _value(total[2], self.name))
        elif _ERROR.match(line):
            self.error = self.error or excerpt(line, 500)
        elif self.name and _UNIT.search(line):
            self.description = line
        elif self.name and self.description and not self.columns and _COLUMNS.match(line):
            self.columns = len(line.split())
        elif self.columns and line[:1].isdigit():
            self.row(line)

    def row(self, line: str) -> None:
        cells = line.split()[1:]
        if len(cells) != self.columns:
            raise NotUnderstoodError(
                f"A row of test '{excerpt(self.name)}' of '{TOOL}' has {len(cells)} values "
                f"for {self.columns} columns."
            )
        self.rows.append(tuple(_value(cell, self.name) for cell in cells))


def _from_text(text: str) -> NvBandwidth | ToolFailure:
    state = _Text()
    devices = []
    for _, line in numbered_lines(text, TOOL):
        stripped = line.strip()
        if stripped.startswith("Device ") and (match := _DEVICE.match(stripped)):
            devices.append(
                Device(int(match["index"]), match["name"], match["bdf"] or "", match["host"])
            )
        elif stripped:
            state.line(stripped)
    state.end(Status.RUNNING, None)
    if not state.tests:
        failure = find_failure(text, _FAILURES)
        if failure is not None:
            return failure
        raise NotUnderstoodError(f"The output of '{TOOL}' has no test: it is cut off.")
    version, driver, runtime = _HEADER.search(text), _DRIVER.search(text), _RUNTIME.search(text)
    ended = all(test.status in _ENDED for test in state.tests) and "\nNOTE: " in text
    return NvBandwidth(
        version=version[1] if version else None,
        driver_version=driver[1] if driver else None,
        cuda_runtime_version=int(runtime[1]) if runtime else None,
        devices=tuple(devices),
        tests=tuple(state.tests),
        error=state.error,
        complete=ended and state.error is None,
    )
