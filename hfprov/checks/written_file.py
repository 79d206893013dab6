"""Judge a file that a role writes: there, nothing missing, nothing added, root's, and no wider."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from hfprov.errors import NoEvidenceError
from hfprov.reading import Result
from hfprov.regex import regex
from hfprov.verdict import Finding, compared, failed, passed

MODE = 0o644
_SHOWN = 3
_UNSEEN = regex(r"[\ufeff\u2028\u2029\r\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""Characters that no role writes and that editors do not show; programs read them differently."""


def judge_written_file(
    path: str,
    result: Result | None,
    *,
    wanted: Iterable[str],
    statements: Callable[[str], Iterable[str]],
    mode: int = MODE,
) -> Finding:
    """One finding on a file. ``statements`` gives what a text says, without comments and spacing.

    ``result`` is None when nothing of that name was found. Raises NoEvidenceError when the file is
    there but could not be read whole.
    """
    expected = f"written by the role, mode {mode:04o}, owner root"
    if result is None or result.status == "absent":
        reason = "The file is not there: the setting does not outlive a restart."
        return failed(path, observed="absent", expected=expected, reason=reason)
    if not result.ok or result.truncated:
        raise NoEvidenceError(f"'{path}' could not be read: {result.stderr or 'it is too long'}.")
    problems = list(_ownership(result, mode))
    if result.type == "file":
        problems += _unseen(result)
        problems += _difference(list(wanted), list(statements(result.text)))
    if problems:
        return failed(path, observed=" ".join(problems), expected=expected, reason=_REASON)
    return passed(path, observed="as written", expected=expected)


_REASON = "The file is not as the role writes it."


def judge_rights(subject: str, result: Result) -> Finding:
    """Owner and mode alone, of a file that a role edits and others write too."""
    return compared(
        subject,
        observed=f"{result.mode or 0:04o} {result.uid}:{result.gid}",
        expected=f"{MODE:04o} 0:0",
        reason="Owner or mode are not as the role sets them.",
    )


def _ownership(result: Result, mode: int) -> Iterable[str]:
    if result.type != "file" or result.link:
        yield f"It is a link to '{result.link}'." if result.link else "It is not a regular file."
    if result.mode != mode:
        yield f"Its mode is {result.mode or 0:04o}."
    if (result.uid, result.gid) != (0, 0):
        yield f"It belongs to {result.uid}:{result.gid}."


def _unseen(result: Result) -> Iterable[str]:
    """Bytes that are cleaned away before statements are compared, and that are not the role's."""
    found = sorted(set(_UNSEEN.findall(result.text)))
    if found:
        shown = ", ".join(f"U+{ord(one):04X}" for one in found[:_SHOWN])
        yield f"It holds characters that are not seen: {shown}."
    if result.garbled:
        yield "It is not UTF-8."


def _difference(wanted: list[str], found: list[str]) -> list[str]:
    missing, added = Counter(wanted) - Counter(found), Counter(found) - Counter(wanted)
    problems = []
    for word, lines in (("Missing", missing), ("Unexpected", added)):
        if lines:
            shown = "', '".join(line[:100] for line in list(lines)[:_SHOWN])
            more = f" and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
            problems.append(f"{word}: '{shown}'{more}.")
    if not problems and wanted != found:
        problems.append("Its lines are in another order.")
    return problems
