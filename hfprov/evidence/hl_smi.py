"""Intel Gaudi accelerators (AIPs) as ``hl-smi`` reports them.

Read forms: the table (1.4 to 1.23), ``-q``, ``-Q ... -f csv`` with its header, and the port states
of ``-n link``. CSV without a header is refused: nothing tells which column is which.
"""

from __future__ import annotations

import re

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.failures import FailureKind, ToolFailure, failure_table, find_failure
from hfprov.evidence.fields import (
    Fields,
    integer,
    not_available,
    not_understood,
    numbered_lines,
)
from hfprov.evidence.hl_smi_query import (
    CSV_HEADER,
    MIB,
    QUERY_DEVICE,
    Aip,
    HlSmi,
    Port,
    Process,
    from_csv,
    from_query,
    whole_mib,
)
from hfprov.evidence.text import clean, excerpt
from hfprov.regex import regex

TOOL = "hl-smi"


_FAILURES = failure_table(
    {
        FailureKind.DRIVER_NOT_LOADED: (
            "driver is not loaded",
            "habanalabs.*not (?:loaded|found)",
            "no aips? available",
        ),
        FailureKind.NO_DEVICES: (
            "no (?:devices?|aips?) (?:were |was )?(?:found|available|detected)",
        ),
        FailureKind.DEVICE_ERROR: ("device (?:is )?(?:in reset|lost|disabled|not operational)",),
        FailureKind.OTHER: (r"^error\b", "fail(?:ed|ure)", "invalid"),
    }
)
_TOOL_VERSION = regex(r"\| *HL-SMI Version: +(\S+) *\|")
_DRIVER = regex(r"\| *Driver Version: +(\S+) *\|")
_NIC_DRIVER = regex(r"\| *Nic Driver Version: +(\S+) *\|", re.IGNORECASE)
_UPPER = regex(
    r"\| +(?P<index>\d{1,4}) +(?P<name>[^\s|]+) +(?P<persistence>[^\s|]+) *\| +(?P<bdf>[^\s|]+)"
    r" +(?P<display>[^\s|]+) *\| +(?P<ecc>[^\s|]+) *\|$"
)
_LOWER = regex(
    r"\| *(?P<fan>[^\s|]+) +(?P<temp>[^\s|]+) +(?P<perf>[^\s|]+) +(?P<power>N/A|[^\s|/]+) */"
    r" *(?P<cap>[^\s|]+) *\| +(?P<used>N/A|[^\s|/]+) */ *(?P<total>[^\s|]+) *\|"
    r" +(?P<util>[^\s|]+) +(?P<mode>[^\s|]+) *\|$"
)
_PROCESS = regex(
    r"\| +(?P<index>\d{1,4}) +(?P<pid>[^\s|]+) +(?P<type>[^\s|]+) +(?P<name>[^|]*[^|\s])"
    r" +[^|\s]+ *\|$"
)
_CLOSED = regex(r"\+=+\+$")


def parse(text: str) -> HlSmi | ToolFailure:
    """Facts of one hl-smi output. Raises NotUnderstoodError when it is in no known form."""
    text = clean(text)
    if not text.strip():
        raise NotUnderstoodError(f"The output of '{TOOL}' is empty.")
    if _TOOL_VERSION.search(text):
        return _from_table(text)
    if QUERY_DEVICE.search(text) or "HL-SMI LOG" in text:
        return from_query(text)
    if ports := _ports(text):
        return HlSmi(ports=ports)
    if CSV_HEADER.match(text.lstrip("\n")):
        return from_csv(text)
    failure = find_failure(text, _FAILURES)
    if failure is None:
        raise NotUnderstoodError(
            f"The output of '{TOOL}' is in no known form; it begins '{excerpt(text)}'."
        )
    return failure


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return None if match is None else match[1]


def _from_table(text: str) -> HlSmi:
    aips: list[Aip] = []
    processes: list[Process] | None = None
    upper: re.Match[str] | None = None
    last = ""
    for number, line in numbered_lines(text, TOOL):
        row = line.strip()
        last = row or last
        if upper is not None:
            lower = _LOWER.match(row)
            if lower is None:
                raise not_understood(TOOL, number, line, "the second row of an AIP")
            aips.append(_aip(upper, lower))
            upper = None
        elif row.startswith("| Compute Processes"):
            processes = []
        elif processes is not None:
            _add_process(processes, number, row)
        elif (upper := _UPPER.match(row)) is None and re.match(r"\| +\d", row):
            raise not_understood(TOOL, number, line, "the first row of an AIP")
    if upper is not None:
        raise NotUnderstoodError(f"The table of '{TOOL}' ends inside an AIP.")
    # Only the process table at the very end is closed by "+====+".
    whole = bool(aips) and _CLOSED.match(last) is not None
    return HlSmi(
        version=_first(_TOOL_VERSION, text),
        driver_version=_first(_DRIVER, text),
        nic_driver_version=_first(_NIC_DRIVER, text),
        aips=tuple(aips),
        processes=None if processes is None else tuple(processes),
        complete=whole,
    )


def _aip(upper: re.Match[str], lower: re.Match[str]) -> Aip:
    read = Fields({**upper.groupdict(), **lower.groupdict()})
    return Aip(
        index=int(upper["index"]),
        name=read.text("name"),
        bdf=read.text("bdf"),
        temperature_c=read.number("temp", units=("C",)),
        power_w=read.number("power", units=("W",)),
        power_cap_w=read.number("cap", units=("W",)),
        memory_used_mib=whole_mib(read.scaled("used", units=MIB)),
        memory_total_mib=whole_mib(read.scaled("total", units=MIB)),
        utilisation_percent=read.number("util", units=("%",)),
        uncorrectable_ecc=read.count("ecc"),
        errors=tuple(read.errors),
    )


def _add_process(processes: list[Process], number: int, row: str) -> None:
    match = _PROCESS.match(row)
    if match is None:
        if re.match(r"\| +\d", row):
            raise not_understood(TOOL, number, row, "a process row")
        return
    if not not_available(match["pid"]):
        processes.append(Process(int(match["index"]), integer(match["pid"]), match["name"]))


_PORT = regex(
    r"\s*(?:external |internal )?port[ \t]*#?(\d{1,4})[ \t]*:?[ \t]+(up|down)\b", re.IGNORECASE
)


def _ports(text: str) -> tuple[Port, ...]:
    rows = (_PORT.match(line) for _, line in numbered_lines(text, TOOL))
    return tuple(Port(int(row[1]), row[2].lower() == "up") for row in rows if row)
