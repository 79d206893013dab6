"""What a play leaves behind is found by its directory; what belongs to others is left alone."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hfprov import play_directory
from hfprov.play_directory import MARK, Stopped

OWNER = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from hfprov import play_directory
print(play_directory.create(), flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def scratch(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def worker(directory, code="import time; time.sleep(60)"):
    """A process of a play, in a session of its own as Ansible's workers are."""
    return subprocess.Popen(
        [sys.executable, "-c", f"{code}"], env={**os.environ, MARK: str(directory)},
        start_new_session=True, stdout=subprocess.PIPE,
    )  # fmt: skip


def test_processes_of_a_play_are_ended_and_no_others():
    directory, other = play_directory.create(), play_directory.create()
    mine, theirs = worker(directory), worker(other)
    assert play_directory.stop_processes(directory) == Stopped(1, 0)
    assert mine.wait(5) == -signal.SIGTERM
    assert theirs.poll() is None
    theirs.kill()
    theirs.wait()


def test_what_ignores_the_polite_way_is_killed(monkeypatch):
    monkeypatch.setattr(play_directory, "_GRACE_SECONDS", 0.3)
    directory = play_directory.create()
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print(); time.sleep(60)"
    stubborn = worker(directory, deaf)
    stubborn.stdout.readline()  # it is deaf now
    assert play_directory.stop_processes(directory) == Stopped(1, 0)
    assert stubborn.wait(5) == -signal.SIGKILL


def test_the_directory_is_private():
    directory = play_directory.create()
    assert directory.stat().st_mode & 0o077 == 0
    play_directory.remove(directory)
    assert not directory.exists()


def owner(scratch):
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(scratch)], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    return process, process.stdout.readline().strip()


def test_plays_of_dead_orchestrators_are_cleared_and_those_of_living_ones_are_not(scratch):
    dead, abandoned = owner(scratch)
    alive, used = owner(scratch)
    left, busy = worker(abandoned), worker(used)
    dead.kill()
    dead.communicate()
    [found] = play_directory.clear_abandoned()
    assert (found.pid, found.stopped) == (dead.pid, Stopped(1, 0))
    assert left.wait(5) == -signal.SIGTERM
    assert [str(one) for one in scratch.iterdir()] == [used]
    assert busy.poll() is None
    for process in (busy, alive):
        process.kill()
        process.communicate()


@pytest.mark.parametrize("owner_file", [None, "", "[]", "{}", '{"pid": 1}', "\x00"])
def test_what_nobody_is_known_to_own_is_left_alone(scratch, owner_file):
    directory = scratch / "hfprov-play-other"
    directory.mkdir()
    if owner_file is not None:
        (directory / "owner").write_text(owner_file)
    assert play_directory.clear_abandoned() == []
    assert directory.exists()


def test_a_link_is_not_followed(scratch, tmp_path_factory):
    dead, abandoned = owner(scratch)
    dead.kill()
    dead.communicate()
    place = tmp_path_factory.mktemp("elsewhere") / "kept"
    Path(abandoned).rename(place)
    (scratch / "hfprov-play-link").symlink_to(place)
    assert play_directory.clear_abandoned() == []
    assert place.exists()
