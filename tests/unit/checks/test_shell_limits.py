"""Limits in the files of shells: each language, users' own files, and hostile ones."""

from __future__ import annotations

import subprocess

import pytest

from hfprov.baseline import Baseline
from hfprov.evidence.shell_commands import commands
from hfprov.evidence.shell_limits import SHELLS
from hfprov.reading import once
from hfprov.verdict import Outcome

WARN, FAIL, UNKNOWN = Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN
SHELLS_CHECK = "limits.shells"
"""The recorded node declares memlock 8192, nofile 16384, nproc 65536 and stack 8192."""


def said(line: str) -> list[tuple[str, str, bool]]:
    return [(one.resource.name, one.value, one.hard) for one in commands(line)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ulimit -Sn 1024", [("nofile", "1024", False)]),
        ("ulimit -n1024", [("nofile", "1024", True)]),
        ("ulimit -l 64 -n 1024", [("memlock", "64", True), ("nofile", "1024", True)]),
        ("ulimit -n 5 2>/dev/null", [("nofile", "5", True)]),
        ("ulimit -n hard 2>/dev/null", []),
        ("command ulimit -n 7", [("nofile", "7", True)]),
        ("if ! ulimit -s 10; then", [("stack", "10", True)]),
        ("ulimit -n $(cat /x)", [("nofile", "$(cat", True)]),
        # fish
        ("ulimit --file-descriptor-count 1024", [("nofile", "1024", True)]),
        ("ulimit -S --lock-size=64", [("memlock", "64", False)]),
        ("test -t 0; and ulimit -u 12", [("nproc", "12", True)]),
        # csh and zsh
        ("limit descriptors 1024", [("nofile", "1024", False)]),
        ("limit -h memorylocked 64k", [("memlock", "64", True)]),
        ("limit memorylocked 2 megabytes", [("memlock", "2048", False)]),
        ("limit openfiles 10 # few", [("nofile", "10", False)]),
        ("limit stack unlimited", [("stack", "unlimited", False)]),
        ("unlimit -h memorylocked", [("memlock", "unlimited", True)]),
        ("limit maxproc $n", [("nproc", "$n", False)]),
        ("limit coredumpsize 0", []),
        ("limit", []),
        ("unlimit", []),
        # prlimit counts in bytes
        ("prlimit --pid $$ --nofile=1024:2048", [("nofile", "1024", True)]),
        ("prlimit -p $$ --memlock=65536", [("memlock", "64", True)]),
        ("prlimit -p $$ -l 65536", [("memlock", "64", True)]),
        ("sudo prlimit -p $$ -n1024:", [("nofile", "1024", False)]),
        ("prlimit --pid $$ --stack=:unlimited", [("stack", "unlimited", True)]),
        ("prlimit --nofile=10 python3 job.py", []),
        ("prlimit --pid $$ -n", []),
        # none of them
        ("myulimit -n 5", []),
        ("echo ulimit -n 5", []),
        ("  # ulimit -n 5", []),
        ("ulimit", []),
        ("rate-limit descriptors 5", []),
        ("ulimit -" + "S" * 100_000 + " 5", []),
        ("ulimit " * 20_000, []),
    ],
)
def test_commands_that_set_limits(line, expected):
    assert said(line) == expected


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("/etc/zsh/zshrc", "ulimit -n 1024"),
        ("/etc/zshenv", "limit -h descriptors 1024"),
        ("/etc/csh.cshrc", "limit memorylocked 64"),
        ("/etc/csh/login.d/site", "limit -h maxproc 10"),
        ("/etc/profile.d/site.csh", "limit descriptors 10"),
        ("/etc/fish/config.fish", "ulimit -n 10"),
        ("/etc/fish/conf.d/a.fish", "ulimit -l 64"),
        ("/etc/profile.d/a.sh", "prlimit -p $$ -n 10"),
    ],
)
def test_every_shells_files_are_looked_at(ifupdown, path, line):
    ifupdown.say(path, f"# site\n{line}\n")
    assert ifupdown.bad(SHELLS_CHECK) == {f"{path}:2": FAIL}


@pytest.mark.parametrize("path", ["/etc/profile.d/a.sh.orig", "/etc/default/x", "/srv/x.sh"])
def test_lines_that_others_look_for_elsewhere_are_left_out(ifupdown, path):
    ifupdown.say(path, "ulimit -n 10\n")
    assert ifupdown.bad(SHELLS_CHECK) == {}


@pytest.mark.parametrize("line", ["limit memorylocked 8m", "prlimit -p $$ -l 8388608"])
def test_what_is_declared_may_be_said_in_other_units(ifupdown, line):
    ifupdown.say("/etc/csh.login", line)
    assert ifupdown.bad(SHELLS_CHECK) == {}


@pytest.mark.parametrize(
    ("path", "line", "outcome"),
    [
        ("/root/.bashrc", "ulimit -n 1024", FAIL),
        ("/root/.bashrc", "ulimit -n $N", WARN),
        ("/home/ann/.zshrc", "ulimit -l 64", WARN),
        ("/home/ann/.cshrc", "limit descriptors 100", WARN),
        ("/home/ann/.profile", "ulimit -n $(ulimit -Hn)", WARN),
        ("/home/ann/.bashrc", "ulimit -s unlimited", None),
        ("/home/ann/.bashrc", "ulimit -n 16384", None),
        ("/home/ann/.bashrc", "# ulimit -n 1", None),
    ],
)
def test_a_users_own_file_counts_where_it_gives_less(ifupdown, path, line, outcome):
    ifupdown.say(path, line)
    assert ifupdown.bad(SHELLS_CHECK) == ({f"{path}:1": outcome} if outcome else {})


def test_homes_are_those_where_settings_of_libraries_are_looked_for(ifupdown):
    ifupdown.values["comm_library_home_directories"] = ["/data/homes/*"]
    ifupdown.say("/home/ann/.bashrc", "ulimit -n 10")
    assert ifupdown.bad(SHELLS_CHECK) == {}
    ifupdown.say("/data/homes/ann/.bashrc", "ulimit -n 10")
    assert ifupdown.bad(SHELLS_CHECK) == {"/data/homes/ann/.bashrc:1": WARN}


GREP = next(read for read in SHELLS.reads(Baseline("node", ())))


@pytest.mark.parametrize(
    ("line", "leaves"),
    [
        ("ulimit -n 1024", True),
        ("  test -t 0 && ulimit -n 10", True),
        ("prlimit --pid $$ --nofile=10", True),
        ("/usr/bin/prlimit -p 1 -n 10", True),
        ("limit -h memorylocked 64", True),
        ("unlimit descriptors", True),
        ("export TOKEN=hf_secret", False),
        ("export rate_limit=5", False),
        ("LimitNOFILE=1024", False),
        ("# there is no limit to what you may do", False),
    ],
)
def test_nothing_but_lines_on_limits_leaves_a_file(line, leaves):
    """Users keep passwords in theirs, and evidence is kept; all that a command reads is asked."""
    (pattern,) = GREP.patterns
    done = subprocess.run(
        ["grep", "-E", "-e", pattern], input=line, capture_output=True, text=True, check=False
    )
    assert done.returncode == (0 if leaves else 1)
    assert not said(line) or leaves


def test_it_is_asked_with_all_other_greps():
    assert {read.id for read in SHELLS.reads(Baseline("node", ()))} == {"lines of files"}
    assert len(once(SHELLS.reads(Baseline("node", ())))) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "timeout"},
        {"code": 3},
        {"truncated": True},
        {"status": "absent"},
        {"text": "/home/a/.bashrc:1:ulimit -n 5\n"},
        {"code": 2, "stderr": "grep: /etc/profile: Input/output error"},
        {"code": 2, "stderr": "grep: /home/a/.bashrc: Permission denied"},
    ],
)
def test_files_that_could_not_be_looked_at_never_pass(ifupdown, changes):
    ifupdown.put(GREP.id, **changes)
    assert ifupdown.bad(SHELLS_CHECK) == {"": UNKNOWN}


def test_what_a_user_writes_is_cleaned(ifupdown):
    ifupdown.say("/home/\x1b[2Ja/.bashrc", "ulimit -n \x1b]0;x\x075")
    (found,) = (one for one in ifupdown.findings(SHELLS_CHECK) if one.outcome is WARN)
    assert "\x1b" not in found.subject + found.observed
