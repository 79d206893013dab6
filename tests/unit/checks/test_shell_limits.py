"""Limits in the files of shells: each language, users' own files, and hostile ones."""

from __future__ import annotations

import pytest

from hfprov.baseline import Baseline
from hfprov.errors import NotUnderstoodError
from hfprov.evidence.shell_commands import commands
from hfprov.evidence.shell_limits import SHELLS, of_users
from hfprov.verdict import Outcome

WARN, FAIL, UNKNOWN = Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN
SHELLS_CHECK = "limits.shells"
(USERS,) = (
    read.id for read in SHELLS.reads(Baseline("node", ())) if read.request["kind"] == "command"
)
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
    ("words", "path", "line"),
    [
        ("glob /etc/zsh/z*", "/etc/zsh/zshrc", "ulimit -n 1024"),
        ("glob /etc/zshenv", "/etc/zshenv", "limit -h descriptors 1024"),
        ("glob /etc/csh.*", "/etc/csh.cshrc", "limit memorylocked 64"),
        ("glob /etc/csh/login.d/*", "/etc/csh/login.d/site", "limit -h maxproc 10"),
        ("glob /etc/profile.d/*.csh", "/etc/profile.d/site.csh", "limit descriptors 10"),
        ("glob /etc/fish/config.fish", "/etc/fish/config.fish", "ulimit -n 10"),
        ("glob /etc/fish/conf.d/*.fish", "/etc/fish/conf.d/a.fish", "ulimit -l 64"),
        ("glob /etc/profile.d/*.sh", "/etc/profile.d/a.sh", "prlimit -p $$ -n 10"),
    ],
)
def test_every_shell_s_files_are_looked_at(ifupdown, words, path, line):
    ifupdown.add(words, path, f"# site\n{line}\n")
    assert ifupdown.bad(SHELLS_CHECK) == {f"{path}:2": FAIL}


@pytest.mark.parametrize("line", ["limit memorylocked 8m", "prlimit -p $$ -l 8388608"])
def test_what_is_declared_may_be_said_in_other_units(ifupdown, line):
    ifupdown.add("glob /etc/csh.*", "/etc/csh.login", line)
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
def test_a_user_s_own_file_counts_where_it_gives_less(ifupdown, path, line, outcome):
    ifupdown.put(USERS, text=f"{path}\0003:{line}\n")
    assert ifupdown.bad(SHELLS_CHECK) == ({f"{path}:3": outcome} if outcome else {})


def test_nothing_but_lines_on_limits_leaves_a_home_directory():
    """Users keep passwords in these files, and evidence is kept."""
    homes = [
        read
        for read in SHELLS.reads(Baseline("node", ()))
        if "/home" in str(read.request) or "/root" in str(read.request)
    ]
    assert [read.id for read in homes] == [USERS]
    assert 'grep -HnasZE -m 32 -e "$0"' in homes[0].request["argv"][2]


@pytest.mark.parametrize(
    "text",
    ["grep: /home: Input/output error\n", "/home/a/.bashrc:1:ulimit -n 5\n", "x\0one:ulimit\n",
     "x\0" + "9" * 400 + ":ulimit -n 1\n"],
)  # fmt: skip
def test_what_grep_does_not_say_is_not_understood(ifupdown, text):
    with pytest.raises(NotUnderstoodError, match="not a line of grep"):
        list(of_users(text))
    ifupdown.put(USERS, text=text)
    assert ifupdown.bad(SHELLS_CHECK) == {"": UNKNOWN}


@pytest.mark.parametrize(
    "changes", [{"status": "timeout"}, {"code": 2}, {"truncated": True}, {"status": "absent"}]
)
def test_homes_that_could_not_be_looked_at_never_pass(ifupdown, changes):
    ifupdown.put(USERS, **changes)
    assert ifupdown.bad(SHELLS_CHECK) == {"": UNKNOWN}


def test_what_a_user_writes_is_cleaned(ifupdown):
    ifupdown.put(USERS, text="/home/\x1b[2Ja/.bashrc\x001:ulimit -n \x1b]0;x\x075\n")
    (found,) = (one for one in ifupdown.findings(SHELLS_CHECK) if one.outcome is WARN)
    assert "\x1b" not in found.subject + found.observed
