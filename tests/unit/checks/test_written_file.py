"""A file that a role writes: what is in it counts, seen or not."""

from __future__ import annotations

import pytest

from hfprov.checks.written_file import judge_written_file
from hfprov.reading import Result
from hfprov.verdict import Outcome

PATH = "/etc/role.conf"


def judged(text, **change):
    result = Result(
        name=PATH, status="ok", text=text, **{"mode": 0o644, "uid": 0, "gid": 0, **change}
    )
    # As the real ones: they are cleaned before they are split.
    return judge_written_file(
        PATH,
        result,
        wanted=["a 1"],
        statements=lambda said: [
            line for line in said.strip("\ufeff\u2028\0\r\n").splitlines() if line
        ],
    )


def test_plain_text_passes():
    assert judged("a 1\n").outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a 1\r\n", "U+000D"),
        ("\ufeffa 1\n", "U+FEFF"),
        ("a 1\n\0\0\0", "U+0000"),
        ("a 1\n\u2028", "U+2028"),
    ],
    ids=["lines as on Windows", "byte order mark", "NUL", "line separator"],
)
def test_what_an_editor_does_not_show_is_told(text, shown):
    """Programs differ in what they make of it: systemd-sysctl, say, drops the line."""
    found = judged(text)
    assert found.outcome is Outcome.FAIL
    assert found.observed == f"It holds characters that are not seen: {shown}."


def test_bytes_that_are_not_utf8_are_told():
    assert judged("a 1\n", garbled=True).observed == "It is not UTF-8."
