"""A report as JUnit XML, for continuous integration: a suite per host, a case per verdict.

``fail`` is a failure, ``unknown`` an error, ``not_applicable`` skipped. JUnit has no warning: a
``warn`` is a case that succeeds and says so in its output. What is wrong with a run or a host
beside its verdicts is a case of its own, so that no suite is greener than the report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TextIO
from xml.sax.saxutils import escape, quoteattr

from hfprov.report.content import Content, HostEntry
from hfprov.report.inert import one_line
from hfprov.report.overview import Overview, survey
from hfprov.verdict import Outcome, Verdict

_LIMIT = 2000
_ELEMENTS = {Outcome.FAIL: "failure", Outcome.UNKNOWN: "error", Outcome.NOT_APPLICABLE: "skipped"}


@dataclass(frozen=True, slots=True)
class _Case:
    group: str
    name: str
    outcome: Outcome
    message: str = ""


def write_junit(content: Content, out: TextIO) -> Overview:
    """Write the suites of a run or of the fleet; says what they told. Raises RecordError."""
    found = survey(content)
    out.write('<?xml version="1.0" encoding="UTF-8"?>\n')
    out.write(f"<testsuites{_attribute('name', f'hfprov {content.label}')}>\n")
    out.writelines(_suite("run", list(_run_cases(found))))
    for entry in content.hosts():
        out.writelines(_suite(entry.host, list(_host_cases(entry, content.made_at))))
    out.write("</testsuites>\n")
    return found


def _run_cases(found: Overview) -> Iterator[_Case]:
    yield _Case("run", "the run came to its end", found.run.outcome, found.alarm or found.run.note)
    checked = Outcome.PASS if found.rows else Outcome.UNKNOWN
    yield _Case("run", "hosts were checked", checked, found.headline)


def _host_cases(entry: HostEntry, now: datetime) -> Iterator[_Case]:
    if entry.note or not entry.verdicts:
        message = f"{entry.note} {entry.reason}".strip() or "There is no verdict on this host."
        yield _Case(f"{entry.host}.host", "state", entry.outcome, message)
    for verdict in entry.verdicts:
        name = f"{verdict.check} {verdict.subject}".strip()
        group = f"{entry.host}.{verdict.check.partition('.')[0]}"
        yield _Case(group, name, verdict.outcome, _message(verdict, now))


def _message(verdict: Verdict, now: datetime) -> str:
    finding = verdict.finding
    parts = (
        f"observed {finding.observed}" if finding.observed else "",
        f"expected {finding.expected}" if finding.expected else "",
        finding.reason,
        finding.waiver.words(now) if finding.waiver else "",
    )
    return "; ".join(part for part in parts if part)


def _suite(name: str, cases: list[_Case]) -> Iterator[str]:
    counted = Counter(case.outcome for case in cases)
    numbers = {
        "tests": len(cases),
        "failures": counted[Outcome.FAIL],
        "errors": counted[Outcome.UNKNOWN],
        "skipped": counted[Outcome.NOT_APPLICABLE],
    }
    attributes = "".join(_attribute(key, number) for key, number in numbers.items())
    yield f"<testsuite{_attribute('name', name)}{attributes}>\n"
    yield from map(_case, cases)
    yield "</testsuite>\n"


def _case(case: _Case) -> str:
    head = f"<testcase{_attribute('classname', case.group)}{_attribute('name', case.name)}"
    message = one_line(case.message, _LIMIT)
    element = _ELEMENTS.get(case.outcome)
    if element:
        text = "" if element == "skipped" else escape(message)
        return f"{head}><{element}{_attribute('message', message)}>{text}</{element}></testcase>\n"
    if case.outcome is Outcome.WARN:
        return f"{head}><system-out>warning: {escape(message)}</system-out></testcase>\n"
    return f"{head}/>\n"


def _attribute(name: str, value: object) -> str:
    return f" {name}={quoteattr(one_line(value, _LIMIT))}"
