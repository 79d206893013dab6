"""The probe, run as a node runs it: a separate process that gets its plan as an argument."""

import fnmatch
import glob as python_glob
import json
import marshal
import os
import shutil
import subprocess
import sys
import time
import zlib
from importlib.util import MAGIC_NUMBER
from pathlib import Path

import pytest

from hfprov import probe, probe_commands, probe_patterns
from hfprov.errors import NoEvidenceError
from hfprov.observe import _argument, _unpack, message, parse_answer, probe_argv, probe_source
from hfprov.reading import command, file, glob, listing
from hfprov.remote import Output


def observe(*reads, deadline=20.0, python=sys.executable):
    argv, asked = probe_argv(python, "n0nce"), message(reads, deadline)
    done = subprocess.run(argv, input=asked, capture_output=True, timeout=60, check=True)
    raw, _ = _unpack("node", Output(done.stdout, "", 0), "n0nce")
    return parse_answer(raw)


def test_a_file_comes_back_with_content_mode_and_owner(tmp_path):
    path = tmp_path / "a"
    path.write_text("hello\n")
    path.chmod(0o640)
    read = file(str(path))
    result = observe(read).one(read)
    assert (result.text, result.mode, result.uid) == ("hello\n", 0o640, os.getuid())


def test_an_absent_file_is_absent_and_gives_no_text(tmp_path):
    read = file(str(tmp_path / "nope"))
    seen = observe(read)
    assert not seen.exists(read)
    with pytest.raises(NoEvidenceError, match="not there"):
        seen.text(read)


def test_a_glob_gives_every_match_and_no_match_is_evidence(tmp_path):
    (tmp_path / "a.conf").write_text("1")
    (tmp_path / "b.conf").write_text("2")
    some, none = glob(f"{tmp_path}/*.conf"), glob(f"{tmp_path}/*.txt")
    seen = observe(some, none)
    assert {Path(one.name).name: one.text for one in seen.each(some)} == {
        "a.conf": "1",
        "b.conf": "2",
    }
    assert seen.each(none) == ()


def test_a_listing_shows_link_targets_without_content(tmp_path):
    (tmp_path / "real").write_text("secret")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    read = listing(f"{tmp_path}/link")
    result = observe(read).one(read)
    assert (result.link, result.text) == (str(tmp_path / "real"), "")


def test_a_fifo_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    read = file(str(tmp_path / "pipe"))
    assert observe(read).one(read).type == "other"


def test_more_than_the_limit_is_cut_and_is_then_no_evidence(tmp_path):
    (tmp_path / "big").write_text("x" * 2000)
    read = file(str(tmp_path / "big"), limit=1000)
    seen = observe(read)
    assert len(seen.one(read).text) == 1000
    with pytest.raises(NoEvidenceError, match="cut off"):
        seen.text(read)


def test_bytes_that_are_no_utf8_are_shown_and_marked(tmp_path):
    (tmp_path / "raw").write_bytes(b"a\xff\x00b")
    read = file(str(tmp_path / "raw"))
    result = observe(read).one(read)
    assert (result.text, result.garbled) == ("a\\xff\x00b", True)


def test_a_command_comes_back_with_code_and_stderr():
    read = command("sh", "-c", "echo out; echo err >&2; exit 3")
    seen = observe(read)
    assert (seen.one(read).text, seen.one(read).stderr, seen.one(read).code) == (
        "out\n",
        "err\n",
        3,
    )
    with pytest.raises(NoEvidenceError, match="exit code 3: err"):
        seen.text(read)


def test_a_missing_command_is_absent():
    read = command("no-such-tool-here")
    found = observe(read).one(read)
    assert found.status == "absent"
    assert found.stderr == "[Errno 2] No such file or directory: 'no-such-tool-here'"


@pytest.mark.parametrize("name", ["no-such-tool-here", "/no/such/tool"])
def test_no_process_is_started_to_find_out_that_a_command_is_missing(monkeypatch, name):
    monkeypatch.setattr(probe_commands, "spawn", pytest.fail)
    read = {"id": "a", "kind": "command", "argv": [name]}
    (found,) = probe.observe({"reads": [read]})["results"]["a"]
    assert found["status"] == "absent"


def test_a_command_that_may_not_be_started_is_denied(tmp_path):
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\n")
    read = command(str(tool))
    assert observe(read).one(read).status == "denied"


def test_a_command_is_not_run_without_what_it_needs(tmp_path):
    read = command("echo", "run", needs=f"{tmp_path}/ipmi*")
    found = observe(read).one(read)
    assert (found.status, found.text) == ("absent", "")
    (tmp_path / "ipmi0").touch()
    assert observe(read).text(read) == "run\n"


def test_a_command_runs_once_per_match(tmp_path):
    for name in ("eth0", "eth1"):
        (tmp_path / name).mkdir()
    read = command("echo", "{name}", each=f"{tmp_path}/*")
    assert [one.text for one in observe(read).each(read)] == ["eth0\n", "eth1\n"]


def test_a_command_that_ignores_sigterm_is_given_up_at_its_deadline():
    read = command("sh", "-c", "trap '' TERM; sleep 30", timeout=1)
    started = time.monotonic()
    assert observe(read).one(read).status == "timeout"
    assert time.monotonic() - started < 15


def test_a_grandchild_that_holds_the_pipe_does_not_hold_the_probe():
    read = command("sh", "-c", "echo done; sleep 20 & exit 0", timeout=15)
    started = time.monotonic()
    result = observe(read).one(read)
    assert (result.status, result.text) == ("ok", "done\n")
    assert time.monotonic() - started < 12


def test_what_the_host_deadline_cuts_off_is_not_evidence():
    slow = [command("sleep", f"0.{number}", "30", timeout=20) for number in range(1, 9)]
    seen = observe(*slow, deadline=3.0)
    with pytest.raises(NoEvidenceError, match="deadline"):
        seen.each(slow[-1])


def test_an_endless_writer_is_cut_at_the_limit():
    read = command("sh", "-c", "yes | head -c 3000000", limit=1000)
    result = observe(read).one(read)
    assert (len(result.text), result.truncated, result.code) == (1000, True, 0)


def test_the_budget_of_one_answer_is_bounded(tmp_path):
    (tmp_path / "a").write_text("x" * 100)
    plan = {
        "nonce": "n",
        "budget": 50,
        "reads": [{"id": "a", "kind": "file", "path": str(tmp_path / "a")}],
    }
    assert probe.observe(plan)["results"]["a"][0]["status"] == "skipped"


def _interpreter(version):
    """A Python of this version that really runs; version managers leave stubs that do not."""
    found = shutil.which(f"python{version}")
    candidates = [found] if found else []
    candidates += sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python3"))
    for one in candidates:
        if subprocess.run([one, "-c", ""], capture_output=True, check=False).returncode == 0:
            return str(one)
    return pytest.skip(f"Python {version} is not installed here")


@pytest.mark.parametrize("version", ["3.6", "3.7", "3.8", "3.13"])
def test_old_and_new_pythons_run_it(version):
    read, done = file("/proc/sys/kernel/osrelease"), command("sh", "-c", "echo a; exit 3")
    missing, denied = command("no-such-tool"), command("/etc/passwd")
    seen = observe(read, done, missing, denied, python=_interpreter(version))
    assert seen.text(read).strip()
    assert (seen.one(done).text, seen.one(done).code) == ("a\n", 3)
    assert (seen.one(missing).status, seen.one(denied).status) == ("absent", "denied")


def test_the_plan_travels_compressed():
    *_, plan = parts_of(message((file("/a"),), 10.0))
    (asked,) = json.loads(plan)["reads"]
    assert asked == {"id": "file /a", "kind": "file", "path": "/a", "limit": 65536}


def parts_of(sent):
    while sent:
        size = int(sent[:8], 16)
        yield zlib.decompress(sent[8 : 8 + size])
        sent = sent[8 + size :]


@pytest.mark.parametrize(("magic", "runs"), [(MAGIC_NUMBER, "code"), (b"1234", "source")])
def test_code_is_for_a_python_of_the_same_version_and_others_compile_the_source(magic, runs):
    programs = [f"def main(*_):\n    sys.stdout.write({name!r})\n" for name in ("code", "source")]
    code = marshal.dumps(compile(programs[0], "probe", "exec"))
    parts = [zlib.compress(one) for one in (magic, code, programs[1].encode(), b"{}")]
    sent = b"".join(b"%08x%b" % (len(one), one) for one in parts)
    argv = probe_argv(sys.executable, "n")
    done = subprocess.run(argv, input=sent, capture_output=True, timeout=60, check=True)
    assert done.stdout.decode() == runs


def test_a_message_is_taken_as_an_argument_too():
    read = file("/proc/sys/kernel/osrelease")
    argv = [*probe_argv(sys.executable, "n"), _argument(message((read,), 10.0))]
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=True
    )
    raw, _ = _unpack("node", Output(done.stdout, "", 0), "n")
    assert parse_answer(raw).text(read) == Path("/proc/sys/kernel/osrelease").read_text()


def test_both_are_sent():
    magic, code, source, _ = parts_of(message((), 10.0))
    assert (magic, source.decode()) == (MAGIC_NUMBER, probe_source())
    assert "observe" in marshal.loads(code).co_names


PATTERNS = (
    *("*", "?", "a*", "*a", "a*b*c", "*.conf", "[0-9]*", "cpu[0-9]*", "[cu]e_*count", "[!a]*"),
    *("sd*", "[0-9a-f]*:*", "lib*.so.[0-9]*", ".*", "x", "a[b", "[]a]*", "[!]a]*", "*[*]*", "a**b"),
)
NAMES = (
    *(
        "a",
        "b",
        "ab",
        "abc",
        "aXbYc",
        "acb",
        "x.conf",
        ".conf",
        "0",
        "12",
        "cpu0",
        "cpufreq",
        "cpu",
    ),
    *("ce_count", "ue_noinfo_count", "ce_x", "sda", "0000:00", "g:0", "libx.so.1", "libx.so", ".h"),
    *("x", "a[b", "]a", "a]", "a*b", "aab", "abab"),
)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_shell_patterns_match_what_python_s_own_do(tmp_path, pattern):
    for name in NAMES:
        (tmp_path / name).touch()
    found = probe_patterns.Folders().matches(f"{tmp_path}/{pattern}", 100)
    assert [Path(one).name for one in found] == sorted(fnmatch.filter(NAMES, pattern))


def test_folders_with_stars_are_walked_without_hidden_names(tmp_path):
    for path in ("a/device/x", "b/device/x", ".c/device/x", "d", "e/other"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    for pattern in ("*/device/x", "*/device/*", "[a-e]/*", "*/device/../device/?", "*/nope"):
        expected = sorted(python_glob.glob(f"{tmp_path}/{pattern}"))  # noqa: PTH207 - the measure
        assert probe_patterns.Folders().matches(f"{tmp_path}/{pattern}", 100) == expected


@pytest.mark.parametrize("pattern", ["/etc", "/et?", "/*/passwd", "/nope", "/etc/passwd"])
def test_patterns_below_the_root(pattern):
    expected = sorted(python_glob.glob(pattern))  # noqa: PTH207 - the measure
    assert probe_patterns.Folders().matches(pattern, 100) == expected


def test_no_more_matches_are_given_than_asked_for(tmp_path):
    for name in "dcba":
        (tmp_path / name).touch()
    found = probe_patterns.Folders().matches(f"{tmp_path}/*", 2)
    assert found == [f"{tmp_path}/a", f"{tmp_path}/b"]


def test_the_probe_imports_nothing_slow():
    """Each of these takes a node longer than to read all its files."""
    asked = message((file("/etc/hostname"), command("true")), 10.0)
    python, *rest = probe_argv(sys.executable, "n")
    argv = [python, "-X", "importtime", *rest]
    done = subprocess.run(argv, input=asked, capture_output=True, timeout=60, check=True)
    assert b"hfprov-begin" in done.stdout
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines()}
    assert "zlib" in imported
    assert not imported & {"re", "json", "subprocess", "threading", "glob", "signal", "enum"}


def test_a_pipe_that_breaks_ends_what_writes_to_it():
    """Python ignores SIGPIPE, and what it starts must not."""
    piped = command("sh", "-c", "(yes; echo $? >&2) | head -c 1")
    assert observe(piped).one(piped).stderr == "141\n"


def test_what_a_program_gets_is_no_input_and_a_session_of_its_own(monkeypatch):
    monkeypatch.setenv("LC_ALL", "xx_XX")
    read = command("sh", "-c", "cat; ps -o sid= -p $$ | tr -d ' '; echo $$ $LC_ALL; pwd")
    sid, own, folder = observe(read).text(read).splitlines()
    assert own == f"{sid} C"
    assert folder == "/"


def test_no_process_of_the_probe_is_among_those_that_it_sees():
    slow, processes = command("sleep", "0.987"), glob("/proc/[0-9]*/cmdline")
    seen = observe(slow, processes)
    assert any(one.text.startswith(sys.executable) for one in seen.each(processes))
    assert not any("0.987" in one.text.split("\0") for one in seen.each(processes))
