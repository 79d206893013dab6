"""The CSV forms: ``--query-gpu``, ``-compute-apps``, ``-accounted-apps``, ``-retired-pages``.

The header names the columns, with the unit in brackets; values carry the unit too unless
``nounits`` was asked for. Nothing marks the end: a caller that must know asks for ``count`` too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.nvidia_smi.field_names import FIELDS
from hfprov.evidence.nvidia_smi.gpu_facts import gpu
from hfprov.evidence.nvidia_smi.model import FieldError, GpuProcess, GpuReport, GpuSeries
from hfprov.evidence.nvidia_smi.values import bare, find_pci_address, is_error, is_missing, whole
from hfprov.regex import regex

_APPS = frozenset({"process_name", "used_gpu_memory", "used_memory"})
_ACCOUNTED = frozenset({"gpu_utilization", "mem_utilization", "max_memory_usage", "time"})
_COLUMN = regex(r"[A-Za-z][A-Za-z0-9_.]*(?: \[[^\]]*\])?")
_UUID = regex(r"(?:GPU|MIG)-[0-9A-Fa-f-]{8,}(?:/\d+/\d+)?")
_MOST_ROWS = 100_000


class ProcessList(Struct, frozen=True):
    """``--query-compute-apps``. No rows mean that no process computes."""

    processes: tuple[GpuProcess, ...]
    errors: tuple[FieldError, ...] = ()
    incomplete: str = ""
    """What nvidia-smi says of GPUs that it could not ask."""


class AccountedProcess(Struct, frozen=True):
    pid: int | None
    gpu_pci_address: str = ""
    gpu_uuid: str = ""
    gpu_utilization_percent: int | None = None
    memory_utilization_percent: int | None = None
    max_memory_usage_mib: int | None = None
    time_ms: int | None = None


class AccountedProcesses(Struct, frozen=True):
    """``--query-accounted-apps``."""

    processes: tuple[AccountedProcess, ...]
    incomplete: str = ""
    """What nvidia-smi says of GPUs that it could not ask."""


class RetiredPage(Struct, frozen=True):
    cause: str
    """``Single Bit ECC`` or ``Double Bit ECC``."""
    address: str | None = None
    """None in the row that newer drivers print for a cause without retired pages."""
    timestamp: str | None = None
    gpu_pci_address: str = ""
    gpu_uuid: str = ""


class RetiredPageList(Struct, frozen=True):
    """``--query-retired-pages``. ``pages`` has only rows with an address."""

    pages: tuple[RetiredPage, ...]
    causes: tuple[str, ...] = ()
    """Causes for which the tool printed a row, pages or not."""
    errors: tuple[FieldError, ...] = ()
    incomplete: str = ""
    """What nvidia-smi says of GPUs that it could not ask."""


class UnnamedRows(Struct, frozen=True):
    """CSV printed with ``noheader``: the cells, and what can be told from a cell alone."""

    rows: tuple[tuple[str, ...], ...]
    pci_addresses: tuple[str, ...] = ()
    uuids: tuple[str, ...] = ()
    errors: tuple[FieldError, ...] = ()
    """Error markers, by row and column: ``row 2, column 5``."""
    incomplete: str = ""
    """What nvidia-smi says of GPUs that it could not ask."""


CsvFacts = GpuReport | GpuSeries | ProcessList | AccountedProcesses | RetiredPageList | UnnamedRows


def is_header(line: str) -> bool:
    """Whether a line names columns of a query."""
    cells = [cell.strip() for cell in line.split(",")]
    if not all(_COLUMN.fullmatch(cell) for cell in cells):
        return False
    names = {_name(cell) for cell in cells}
    known = {*FIELDS, *_APPS, *_ACCOUNTED, "timestamp", "count", "pid", "retired_pages.address"}
    return bool(names & known) and not any(cell[:1].isdigit() for cell in cells)


def parse_csv(text: str) -> CsvFacts:
    """Facts from a CSV query with its header, whichever query it was.

    Raises NotUnderstoodError when the header is not a query's or a row does not fit it.
    """
    lines = [line for line in text.split("\n") if line.strip()]
    start = next((i for i, line in enumerate(lines[:20]) if is_header(line)), None)
    if start is None:
        return _unnamed(lines)
    header = [_name(cell) for cell in lines[start].split(",")]
    if len(lines) > _MOST_ROWS:
        raise NotUnderstoodError(f"There are {len(lines)} lines; at most {_MOST_ROWS} are read.")
    notices = tuple(line.strip() for line in lines[:start])
    rows = []
    for number, line in enumerate(lines[start + 1 :], start + 2):
        if is_header(line) and [_name(cell) for cell in line.split(",")] == header:
            continue
        rows.append(_row(header, line, number))
    columns = frozenset(header)
    if "retired_pages.address" in columns or "retired_pages.cause" in columns:
        return _retired(rows)
    if columns & _ACCOUNTED and "pid" in columns:
        return _accounted(rows)
    if columns & _APPS or "pid" in columns:
        return _apps(rows)
    return _gpus(rows, notices)


def _name(cell: str) -> str:
    return cell.strip().split(" [", 1)[0].lower()


def _row(header: Sequence[str], line: str, number: int) -> dict[str, str]:
    cells = [cell.strip() for cell in line.split(",")]
    surplus = len(cells) - len(header)
    if surplus > 0 and "process_name" in header:
        # A process name may have commas; nvidia-smi does not quote it.
        at = header.index("process_name")
        cells[at : at + surplus + 1] = [", ".join(cells[at : at + surplus + 1])]
    if len(cells) != len(header):
        raise NotUnderstoodError(
            f"Line {number} has {len(cells)} values for {len(header)} columns: "
            f"'{line.strip()[:80]}'."
        )
    return dict(zip(header, cells, strict=True))


def _gpus(rows: Sequence[Mapping[str, str]], notices: tuple[str, ...]) -> GpuReport | GpuSeries:
    found = tuple(
        gpu({name: value for name, value in row.items() if name not in _META}, brackets=True)
        for row in rows
    )
    timestamps = tuple(row.get("timestamp", "") for row in rows)
    keys = [one.pci_address or one.uuid or one.index for one in found]
    named = [key for key in keys if key is not None]
    if len(set(named)) < len(named) and not _masked(found):
        return GpuSeries(found, timestamps, notices=notices)
    count = whole(rows[0].get("count", "")) if rows else None
    incomplete = "" if rows else "There is no line for any GPU."
    if count is not None and count != len(rows):
        incomplete = f"{count} GPUs are attached but {len(rows)} are reported."
    indexes = [one.index for one in found if one.index is not None]
    missing = sorted(set(range(max(indexes, default=-1) + 1)) - set(indexes))
    if not incomplete and missing:
        incomplete = f"The GPU with index {missing[0]} is missing."
    return GpuReport(
        form="csv",
        gpus=found,
        timestamp=timestamps[0] if timestamps else "",
        driver_version=next((one.driver_version for one in found if one.driver_version), ""),
        attached_gpus=count,
        notices=notices,
        incomplete=incomplete,
    )


_META = frozenset({"timestamp", "count", "hostname"})


def _masked(found: Sequence[object]) -> bool:
    """Whether all rows have distinct indexes although their identifiers repeat (anonymised)."""
    indexes = [getattr(one, "index", None) for one in found]
    return None not in indexes and len(set(indexes)) == len(indexes)


def _apps(rows: Sequence[Mapping[str, str]]) -> ProcessList:
    errors = []
    processes = []
    for row in rows:
        memory = row.get("used_gpu_memory", row.get("used_memory", ""))
        pid = row.get("pid", "")
        for name, value in (("used_memory_mib", memory), ("pid", pid)):
            if value and whole(value) is None and not is_missing(value):
                errors.append(FieldError(name, value))
        processes.append(
            GpuProcess(
                pid=whole(pid),
                name=row.get("process_name", row.get("name", "")),
                used_memory_mib=whole(memory),
                gpu_uuid=row.get("gpu_uuid", ""),
                gpu_pci_address=find_pci_address(row.get("gpu_bus_id", "")),
            )
        )
    return ProcessList(tuple(processes), tuple(errors))


def _accounted(rows: Sequence[Mapping[str, str]]) -> AccountedProcesses:
    return AccountedProcesses(
        tuple(
            AccountedProcess(
                pid=whole(row.get("pid", "")),
                gpu_pci_address=find_pci_address(row.get("gpu_bus_id", "")),
                gpu_uuid=row.get("gpu_uuid", ""),
                gpu_utilization_percent=whole(row.get("gpu_utilization", "")),
                memory_utilization_percent=whole(row.get("mem_utilization", "")),
                max_memory_usage_mib=whole(row.get("max_memory_usage", "")),
                time_ms=whole(row.get("time", "")),
            )
            for row in rows
        )
    )


def _retired(rows: Sequence[Mapping[str, str]]) -> RetiredPageList:
    pages = []
    errors = []
    for row in rows:
        address = row.get("retired_pages.address", "")
        if is_missing(address):
            continue
        if is_error(address, brackets=True):
            errors.append(FieldError("retired_pages.address", address))
            continue
        stamp = row.get("retired_pages.timestamp", "")
        pages.append(
            RetiredPage(
                cause=row.get("retired_pages.cause", ""),
                address=address,
                timestamp=None if is_missing(stamp) else stamp,
                gpu_pci_address=find_pci_address(row.get("gpu_bus_id", "")),
                gpu_uuid=row.get("gpu_uuid", ""),
            )
        )
    causes = dict.fromkeys(row.get("retired_pages.cause", "") for row in rows)
    return RetiredPageList(tuple(pages), tuple(cause for cause in causes if cause), tuple(errors))


def _unnamed(lines: Sequence[str]) -> UnnamedRows:
    rows = tuple(tuple(cell.strip() for cell in line.split(",")) for line in lines)
    widths = {len(row) for row in rows}
    cells = [cell for row in rows for cell in row]
    pci = tuple(address for cell in cells if (address := _only_pci(cell)))
    uuids = tuple(cell for cell in cells if _UUID.fullmatch(cell))
    if len(widths) != 1 or not (pci or uuids):
        raise NotUnderstoodError(
            "This is no form of nvidia-smi that is known, nor CSV with a header: "
            f"'{lines[0].strip()[:80] if lines else ''}'.",
            hint="Query with '--format=csv', without 'noheader'.",
        )
    errors = tuple(
        FieldError(f"row {at}, column {column}", cell)
        for at, row in enumerate(rows, 1)
        for column, cell in enumerate(row, 1)
        if is_error(cell, brackets=True)
    )
    return UnnamedRows(rows, pci, uuids, errors)


def _only_pci(cell: str) -> str:
    address = find_pci_address(cell) if 7 <= len(bare(cell)) <= 16 else ""
    return address if len(bare(cell).split()) == 1 else ""
