"""A report as CSV: one line per verdict, passes too, for spreadsheets and scripts (RFC 4180).

A spreadsheet runs a cell that begins like a formula. Such a cell gets a ``'`` in front, which
spreadsheets take for "this is text"; a plain number does not need it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from datetime import datetime
from typing import TextIO

from hfprov.judge import find_check
from hfprov.report.content import Content, HostEntry
from hfprov.report.inert import one_line
from hfprov.report.overview import Overview, survey
from hfprov.verdict import Verdict

COLUMNS = (
    "run",
    "run_status",
    "host",
    "host_outcome",
    "host_state",
    "note",
    "check",
    "subject",
    "outcome",
    "observed",
    "expected",
    "reason",
    "role",
    "impact",
    "waiver",
    "judged_at",
)
_LIMIT = 4096
_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?")
_FORMULA = ("=", "+", "-", "@", "|", "%", "＝", "＋", "－", "＠", "\t", "\r")  # noqa: RUF001 - they are meant


def write_csv(content: Content, out: TextIO) -> Overview:
    """Write a line per verdict, and one per host without any. Raises RecordError."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for entry in content.hosts():
        writer.writerows(_rows(content, entry))
    return survey(content)


def cell(value: object) -> str:
    """A value as a spreadsheet shows it and does not run it."""
    text = one_line(value, _LIMIT)
    if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text):
        return f"'{text}"
    return text


def _rows(content: Content, entry: HostEntry) -> Iterator[list[str]]:
    status = content.info.status.value if content.info else ""
    said = " ".join(dict.fromkeys(one for one in (entry.note, entry.reason) if one))
    host = [entry.run, status, entry.host, entry.outcome.value, entry.state.value, said]
    at = entry.judged.at.isoformat(timespec="seconds") if entry.judged else ""
    for verdict in entry.verdicts:
        yield [*map(cell, host), *map(cell, _verdict(verdict, content.made_at)), at]
    if not entry.verdicts:
        yield [*map(cell, host), *("" for _ in range(9)), at]


def _verdict(verdict: Verdict, now: datetime) -> list[str]:
    finding, known = verdict.finding, find_check(verdict.check)
    return [
        verdict.check,
        finding.subject,
        finding.outcome.value,
        finding.observed,
        finding.expected,
        finding.reason,
        (known.role or "") if known else "",
        known.impact.value if known else "",
        finding.waiver.words(now) if finding.waiver else "",
    ]
