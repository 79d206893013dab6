"""One grep for all who look for lines: merged, told apart again, and never silent on a failure."""

from __future__ import annotations

import subprocess

import pytest

from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.grep import grep, heading, lines, parse
from hfprov.probe_commands import STDERR_LIMIT
from hfprov.reading import Observation, once

DENIED = "grep: /home/eve/.bashrc: Permission denied"


def answered(read, text="", asked=None, **answer):
    text = heading(asked or read) + text
    told = {"name": "", "status": "ok", "code": 0, "text": text} | answer
    return list(lines(Observation.from_json({"results": {read.id: [told]}}), read))


def run(read):
    argv = read.request["argv"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout.startswith(heading(read))
    text = done.stdout.removeprefix(heading(read))
    return {"text": text, "code": done.returncode, "stderr": done.stderr, "asked": read}


def test_all_who_ask_share_one_grep_and_get_their_own_places(tmp_path):
    for name in ("a d", "b", "b/deep"):
        (tmp_path / name).mkdir()
    (tmp_path / "a d/one").write_text("x\nsysctl a\nNCCL_B=1\n")
    (tmp_path / "b/deep/two").write_bytes(b"NCCL_A=1\n\0\1\n")
    scripts = grep(r"\bsysctl\b", f"{tmp_path}/a*", "/nowhere")
    settings = grep("(NCCL|UCX)_[A-Z]+", f"{tmp_path}/b", f"{tmp_path}/b/deep")
    (sent,) = once([scripts, settings])
    found = run(sent)
    assert [(one.path, one.number, one.text) for one in answered(settings, **found)] == [
        (f"{tmp_path}/b/deep/two", 1, "NCCL_A=1")
    ]
    # A line of the other's pattern says nothing to a source that understands its own.
    assert [(one.number, one.text) for one in answered(scripts, **found)] == [
        (2, "sysctl a"),
        (3, "NCCL_B=1"),
    ]


def test_nothing_found_and_nowhere_to_look_are_no_lines(tmp_path):
    (tmp_path / "a").write_text("nothing\n")
    assert answered(grep("x_y", f"{tmp_path}/a"), **run(grep("x_y", f"{tmp_path}/a"))) == []
    assert answered(grep("x_y", "/nowhere/*"), **run(grep("x_y", "/nowhere/*"))) == []


@pytest.mark.parametrize("now", [grep("x|y", "/etc"), grep("y", "/etc"), grep("x", "/etc", "/b")])
def test_what_was_observed_before_it_was_asked_is_no_evidence(now):
    """Nothing found is good; so it must not be said by a node that was not asked."""
    before = grep("x", "/etc")
    assert answered(before) == []
    with pytest.raises(NoEvidenceError, match="nobody looked"):
        answered(now, asked=before)


@pytest.mark.parametrize(
    ("path", "place", "inside"),
    [
        ("/etc/a", "/etc/a", True),
        ("/etc/a/b/c", "/etc/a", True),
        ("/etc/ab", "/etc/a", False),
        ("/etc", "/etc/a", False),
        ("/home/eve/.bashrc", "/home/*/.bashrc", True),
        ("/home/eve/x/.bashrc", "/home/*/.bashrc", False),
    ],
)
def test_a_line_is_told_to_those_who_named_its_place(path, place, inside):
    assert bool(answered(grep("x", place), f"{path}\x001:x\n")) is inside


def test_a_file_that_cannot_be_read_takes_away_from_those_only_who_named_it():
    unread = {"code": 2, "stderr": f"{DENIED}\ngrep: /etc/b: No such file or directory\n"}
    (line,) = answered(grep("x", "/etc"), "/etc/a\x001:x\n", **unread)
    assert line.where == "/etc/a:1"
    with pytest.raises(NoEvidenceError, match=r"/home/eve/\.bashrc. could not be read: Perm"):
        answered(grep("x", "/home/*/.bashrc"), **unread)


@pytest.mark.parametrize(
    "answer",
    [
        {"code": 2},
        {"code": 2, "stderr": "grep: Unmatched [\n"},
        {"code": 2, "stderr": f"{DENIED}\n" * (STDERR_LIMIT // len(DENIED) + 1)},
        {"code": 127, "stderr": "sh: grep: not found"},
        {"truncated": True},
        {"status": "timeout"},
    ],
)
def test_what_was_not_searched_is_not_called_searched(answer):
    with pytest.raises(NoEvidenceError):
        answered(grep("x", "/etc"), **answer)


def test_a_path_with_a_line_end_is_one_path():
    (line,) = answered(grep("x", "/home/*"), "/home/eve/a\n/etc/b\0007:x\n")
    assert (line.path, line.number) == ("/home/eve/a\n/etc/b", 7)
    assert "\n" not in line.where


@pytest.mark.parametrize("text", ["no nul:1:x\n", "/p\0x:mtu 1\n", "/p\0" + "9" * 99 + ":x\n"])
def test_answers_that_are_not_understood(text):
    with pytest.raises(NotUnderstoodError, match="is not a line of grep"):
        list(parse(text))
