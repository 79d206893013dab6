"""perftest's text: one process or two, apart or interleaved, whole or cut off, and its failures."""

from __future__ import annotations

import re

from msgspec import Struct, field

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.net_lines import empty, lines_of
from hfprov.evidence.perftest_facts import PerftestResult, Point, Run
from hfprov.evidence.perftest_table import Heading, heading_of, looks_like_row, point_of
from hfprov.evidence.text import excerpt
from hfprov.regex import regex

_TITLE = regex(r"(?P<test>(?:RDMA_|Send|Atomic|Raw|Write|Read)\S*.*? Test)")
_PAIRS = regex(r"(?P<key>[A-Za-z][A-Za-z0-9_*. -]*?)\s*: (?P<value>\S+(?: \S+)*?)(?=\s{2,}|\t|$)")
_RULE = regex(r"-{20,}")
_WARNING = regex(
    r"(?:Conflicting CPU frequency values.*|.*WARNING.*|Warning.*|.*CPU Frequency is not max.*"
    r"|Test integrity may be harmed.*|CPU freq.*)",
    re.IGNORECASE,
)
_FAILURE = regex(
    r"(?:[\w./-]+: )?(?:Couldn't|Could not|Can't|Cannot|Failed|Unable|Error|ERRNO"
    r"|Completion with error|No space|A completion with Error|IB device .* not found"
    r"|No IB devices|Port number .* state is"
    r"|Unexpected|Invalid|Function .* failed|Poll .* failed|.*: got completion with error"
    r"|Found Incompatib|Wrong|Did not|Perftest (?:still )?does|Requested|Unsupported|Device not"
    r"|Something is wrong|Segmentation fault|Received \d+ times ADDR_ERROR|rdma_\w+ failed"
    r"|parser \w+ exited|.*command not found|.*No such (?:file|device)|Completion wasn't).*",
    re.IGNORECASE,
)
_NO_CLOCK = regex(r"Correlation coefficient r\^2: \S+ < \S+")
"""``sample_get_cpu_mhz`` in perftest's ``get_clock.c``: counter and time of day do not agree."""
_NOISE = ("local address:", "remote address:", "GID:", "*", "Waiting for client", "$")


class _Draft(Struct):
    """One process while its lines are read, or several whose lines are mixed."""

    tests: list[str] = field(default_factory=list)
    conditions: dict[str, set[str]] = field(default_factory=dict)
    headings: list[Heading] = field(default_factory=list)
    rows: list[Point] = field(default_factory=list)
    rules: int = 0
    """Closing lines after the last row."""


def parse_text(text: str) -> PerftestResult:
    """Runs, failures and warnings. Raises NotUnderstoodError when there is nothing of them."""
    lines = [line.strip() for line in lines_of(text) if line.strip()]
    if not lines:
        raise empty("perftest")
    if told := tuple(line for line in lines if _NO_CLOCK.fullmatch(line)):
        # With -F it prints its figures nevertheless, as 0, inf or nan.
        return PerftestResult((), told, no_clock=True)
    drafts = [_Draft()]
    failures: list[str] = []
    warnings: list[str] = []
    for line in lines:
        if _WARNING.fullmatch(line):
            warnings.append(line)
        elif _FAILURE.fullmatch(line):
            failures.append(line)
        elif not _line(drafts, line):
            warnings.append(line)
    _share_closing_lines(drafts)
    runs = tuple(run for draft in drafts for run in _runs(draft))
    if not runs and not failures:
        raise NotUnderstoodError(
            "perftest: there is neither a table with figures nor a failure in the output; it may "
            "be cut off."
        )
    mixed = any(len(draft.headings) > 1 for draft in drafts)
    return PerftestResult(runs, tuple(failures), tuple(warnings), interleaved=mixed)


def _line(drafts: list[_Draft], line: str) -> bool:
    """Takes one line in; False when it says something that has no place among figures."""
    heading = heading_of(line)
    title = _TITLE.fullmatch(line)
    if (heading is not None or title is not None) and drafts[-1].rows:
        drafts.append(_Draft())
    draft = drafts[-1]
    if heading is not None:
        draft.headings.append(heading)
    elif title is not None:
        draft.tests.append(title["test"])
    elif draft.headings:
        return _line_of_table(draft, line)
    elif not line.startswith(_NOISE):
        for match in _PAIRS.finditer(line[:400]):
            draft.conditions.setdefault(match["key"].strip(), set()).add(match["value"].strip())
    return True


def _line_of_table(draft: _Draft, line: str) -> bool:
    """A line below a heading: a row, a closing line, or False."""
    if _RULE.fullmatch(line):
        draft.rules += 1 if draft.rows else 0
    elif looks_like_row(line):
        draft.rows.append(point_of(draft.headings[-1], line))
    elif line[:1].isdigit():
        raise NotUnderstoodError(f"perftest: '{excerpt(line)}' is no whole row of the table.")
    else:
        return line.startswith(_NOISE)
    return True


def _share_closing_lines(drafts: list[_Draft]) -> None:
    """Gives closing lines at the very end to earlier runs that lack theirs.

    The client's last line comes after the server's when both are collected into one text.
    """
    spare = max(0, drafts[-1].rules - len(drafts[-1].headings))
    for draft in drafts[:-1]:
        if spare and draft.rows and not draft.rules:
            draft.rules += 1
            spare -= 1


def _runs(draft: _Draft) -> list[Run]:
    """One run per heading. Rows of mixed processes are dealt out: each size once to each."""
    if not draft.rows or not draft.headings:
        return []
    if any(heading != draft.headings[0] for heading in draft.headings):
        raise NotUnderstoodError(
            "perftest: two processes with different tables are mixed; which row belongs to which "
            "cannot be told.",
            hint="Write the output of server and client into two files.",
        )
    shares: list[list[Point]] = [[] for _ in draft.headings]
    seen: dict[int, int] = {}
    for point in draft.rows:
        turn = seen.get(point.message_bytes, 0)
        seen[point.message_bytes] = turn + 1
        if turn >= len(shares) and len(shares) > 1:
            raise NotUnderstoodError(
                f"perftest: {point.message_bytes} bytes come more often than there are processes."
            )
        shares[min(turn, len(shares) - 1)].append(point)
    complete = draft.rules >= len(draft.headings)
    return [_run(draft, tuple(points), complete=complete) for points in shares if points]


def _run(draft: _Draft, points: tuple[Point, ...], *, complete: bool) -> Run:
    conditions = {
        key: next(iter(values)) for key, values in draft.conditions.items() if len(values) == 1
    }
    test = draft.tests[0] if len(set(draft.tests)) == 1 else None
    return make_run(test, draft.headings[0].kind, points, conditions, complete=complete)


def make_run(
    test: str | None,
    kind: str,
    points: tuple[Point, ...],
    conditions: dict[str, str],
    *,
    complete: bool,
) -> Run:
    """A run with its main settings taken out of ``conditions``, which are kept as well."""

    def number(key: str) -> int | None:
        value = conditions.get(key, "").removesuffix("[B]")
        return int(value) if value.isascii() and value.isdecimal() and len(value) < 20 else None

    return Run(
        test,
        kind,
        points,
        complete,
        bidirectional=None if test is None else "bidirectional" in test.lower(),
        device=conditions.get("Device"),
        mtu_bytes=number("Mtu"),
        link_type=conditions.get("Link type"),
        gid_index=number("GID index"),
        queue_pairs=number("Number of qps"),
        conditions=conditions,
    )
