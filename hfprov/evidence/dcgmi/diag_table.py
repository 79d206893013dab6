"""The table of ``dcgmi diag``, DCGM 2 to 4, and the words people make of it.

Long texts are cut at 45 characters, mid-word, and go on in the next line's right cell. The headline
"Successfully ran diagnostic" says nothing about the results.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct, field

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.dcgmi.model import DiagMessage, DiagReport, DiagResult, DiagStatus, status_of
from hfprov.regex import regex

_RULE = regex(r"[+|][-=+|]+[+|]")
_SECTION = regex(r"[+|]-----\s+(.*?)\s+-*\+-*[+|]")
_STATUS = regex(
    r"(Pass|Fail|Warn|Skip|Not Run)(?:\s*-\s*(?:All|(GPU|CPU|Switch)e?s?:\s*([\d,\s]+)))?",
    re.IGNORECASE,
)
_ENTITY = regex(
    r"(GPU|CPU|Switch|NvSwitch)\s?(\d+):\s*(Pass|Fail|Warn|Skip|Not Run)", re.IGNORECASE
)
_MESSAGE = regex(r"(Error|Warning|Info)(?::\s*(GPU|CPU|Switch)\s?(\d+))?", re.IGNORECASE)
_WORDS = regex(r"(\w+)[ \t]{2,}(Pass|Fail|Warn|Skip|Not Run)\b[ \t]*(.*)", re.IGNORECASE)
_CHUNK = 45
_RIGHT = 48
_MOST_MESSAGES = 100
_HEADLINES = ("Successfully ran diagnostic",)
LOOKS_LIKE = regex(
    r"^[ \t]*[+|]-----  (?:Deployment|Metadata|Integration|Hardware|Stress)"
    r"|^[ \t]*\| Diagnostic +\| Result"
    r"|^[ \t]*\|.{27}\| (?:Pass|Fail|Skip|Warn)\b",
    re.MULTILINE,
)
SUMMARY = regex(r"^\w+[ \t]{2,}(?:Pass|Fail|Warn|Skip)\b", re.MULTILINE)


class _Test(Struct):
    """A test while its lines are read."""

    name: str
    category: str
    statuses: list[tuple[str, str, int | None]] = field(default_factory=list)
    """(word, entity group, entity id)."""
    texts: list[tuple[str, str, int | None, list[str]]] = field(default_factory=list)
    """(Error, Warning or Info; entity group; entity id; chunks)."""


def parse_diag_table(text: str) -> DiagReport:
    """A report from the table.

    Raises NotUnderstoodError when there is no line of a table, or one that fits nowhere.
    """
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    meta: dict[str, str] = {}
    tests: list[_Test] = []
    notices: list[str] = []
    category = ""
    for line in lines:
        section = _SECTION.fullmatch(line)
        if section:
            category = section.group(1)
        elif _RULE.fullmatch(line):
            continue
        elif not line.startswith("|"):
            notices.append(line)
        else:
            _row(line, category, meta, tests)
    if not tests:
        raise NotUnderstoodError("The table of the diagnostic has no result.")
    return DiagReport(
        form="table",
        results=tuple(result for test in tests for result in _results(test)),
        dcgm_version=meta.get("dcgm version", ""),
        driver_version=meta.get("driver version detected", ""),
        device_ids=tuple(
            word.strip()
            for word in meta.get("gpu device ids detected", "").split(",")
            if word.strip()
        ),
        notices=tuple(line for line in notices if not line.startswith(_HEADLINES)),
        incomplete=_why_incomplete(lines),
    )


def _row(line: str, category: str, meta: dict[str, str], tests: list[_Test]) -> None:
    left, bar, right = line.strip("|").partition("|")
    name, chunk = left.strip(), right.removeprefix(" ")
    if not bar:
        raise NotUnderstoodError(f"'{line[:80]}' does not have the two cells of a diagnostic.")
    if category.lower() == "metadata":
        meta[name.lower()] = chunk.strip()
        return
    if name == "Diagnostic" and chunk.strip() == "Result":
        return
    message = _MESSAGE.fullmatch(name)
    if message:
        if not tests or tests[-1].category != category:
            tests.append(_Test(category or "diagnostic", category))
        kind, group, number = message.groups()
        tests[-1].texts.append((kind.lower(), group or "", _number(number), [_chunk(right)]))
    elif name:
        tests.append(_Test(name, category))
        tests[-1].statuses.extend(_statuses(chunk))
    elif not tests:
        raise NotUnderstoodError(f"'{line[:80]}' continues nothing.")
    elif (found := _statuses(chunk, strict=True)) and (
        not tests[-1].texts or _ENTITY.fullmatch(chunk.strip())
    ):
        # DCGM 4 names the devices after the warnings of the test as a whole.
        tests[-1].statuses.extend(found)
    elif tests[-1].texts:
        tests[-1].texts[-1][3].append(_chunk(right))
    else:
        tests[-1].texts.append(("info", "", None, [_chunk(right)]))


def _chunk(right: str) -> str:
    """The part of a long text in one cell, with the space that may end it."""
    return right[1 : _CHUNK + 1] if len(right) >= _RIGHT else right.removeprefix(" ").rstrip()


def _statuses(cell: str, *, strict: bool = False) -> list[tuple[str, str, int | None]]:
    text = cell.strip()
    entity = _ENTITY.fullmatch(text)
    if entity:
        return [(entity.group(3), entity.group(1), _number(entity.group(2)))]
    match = _STATUS.fullmatch(text)
    if match is None:
        return [] if strict else [(text, "", None)]
    word, group, numbers = match.groups()
    if not numbers:
        return [(word, "", None)]
    return [(word, group, _number(number)) for number in re.findall(r"\d+", numbers)]


def _number(text: str | None) -> int | None:
    return int(text[:9]) if text else None


def _results(test: _Test) -> list[DiagResult]:
    texts = [
        (kind, group, number, "".join(chunks).strip()) for kind, group, number, chunks in test.texts
    ]
    statuses = test.statuses
    if not statuses:
        # A line of error without a test is a failure of the section that it stands in.
        failed = any(kind == "error" for kind, *_ in texts)
        statuses = [("Fail" if failed else "no result", "", None)]
    several = any(number is not None for _, _, number in statuses)
    summed = several and any(number is None for _, _, number in statuses)
    return [
        DiagResult(
            test=test.name,
            status=status_of(word),
            category=test.category,
            entity_group=group,
            entity_id=number,
            status_text=word,
            messages=tuple(
                DiagMessage(text)
                for kind, whom, which, text in texts
                if kind != "info" and _about(whom, which, text, number, summed=summed)
            ),
            info=tuple(text for kind, *_, text in texts if kind == "info"),
            summary=several and number is None,
        )
        for word, group, number in statuses
    ]


def _about(whom: str, which: int | None, text: str, number: int | None, *, summed: bool) -> bool:
    """Whether a message is about the device of a result.

    One that names no device is about the test as a whole: it goes with the result that sums up,
    or with each when there is none.
    """
    if number is None:
        return True
    if not whom:
        named = re.match(r"GPU (\d+)\b", text)
        which = _number(named.group(1)) if named else None
    return not summed if which is None else which == number


def _why_incomplete(lines: Sequence[str]) -> str:
    if not any(re.fullmatch(r"\| Diagnostic +\| Result +\|", line) for line in lines):
        return "The head of the table is missing."
    last = lines[-1]
    if _SECTION.fullmatch(last) or not _RULE.fullmatch(last) or "=" in last:
        return "The table has no closing line."
    return ""


def parse_summary(text: str) -> DiagReport:
    """Words that someone wrote from a table: test, result, text. Never a whole report.

    Raises NotUnderstoodError when no line names a test and a result.
    """
    results: list[DiagResult] = []
    for line in text.split("\n"):
        match = _WORDS.fullmatch(line.rstrip())
        if match:
            name, word, rest = match.groups()
            messages = (DiagMessage(rest.strip()),) if rest.strip() else ()
            results.append(DiagResult(name, status_of(word), status_text=word, messages=messages))
        elif line[:1].isspace() and line.strip() and results:
            last = results[-1]
            if len(last.messages) >= _MOST_MESSAGES:
                continue
            more = (*last.messages, DiagMessage(line.strip()))
            results[-1] = DiagResult(
                last.test, last.status, status_text=last.status_text, messages=more
            )
    if not results:
        raise NotUnderstoodError("No line names a test and its result.")
    failed = any(result.status is DiagStatus.FAIL for result in results)
    return DiagReport(
        form="summary",
        results=tuple(results),
        incomplete="" if failed else "This is a summary, not the tool's own output.",
    )
