"""The launcher with an engine that is a script: what it makes of it, and that it cleans up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from hfprov.container_smoke import launcher
from hfprov.container_smoke.answers import read_launched
from hfprov.errors import NotUnderstoodError

TOKEN = "cd" * 16
ENGINE = """#!/bin/sh
echo "$1 $2 $3" >> {log}
case $1 in
ps) cat {log}.left 2>/dev/null; exit 0 ;;
rm) exit 0 ;;
image) {image} ;;
run) {run} ;;
esac
"""
GOOD_IMAGE = """echo 'sha256:aa ["site/smoke@sha256:bb"]'"""


@pytest.fixture
def engine(tmp_path):
    """Start the launcher with an engine of which ``run`` and ``image`` are lines of shell."""
    log = tmp_path / "calls"

    def begin(run="echo well", image=GOOD_IMAGE, seconds=20, name="docker", left=""):
        path = tmp_path / "bin"
        path.mkdir(exist_ok=True)
        (tmp_path / "calls.left").write_text(left)
        (path / "docker").write_text(ENGINE.format(log=log, run=run, image=image))
        (path / "docker").chmod(0o755)
        asked = {
            "token": TOKEN, "engine": name, "image": "site/smoke", "python": "python3",
            "options": ["--device", "nvidia.com/gpu=all"], "program": "p", "question": {},
            "seconds": seconds,
        }  # fmt: skip
        return subprocess.Popen(
            [sys.executable, launcher.__file__, json.dumps(asked)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PATH": f"{path}:/usr/bin:/bin" if name == "docker" else str(path)},
        )  # fmt: skip

    begin.log = log
    return begin


def told(process):
    out, err = process.communicate(timeout=60)
    assert err == ""
    return read_launched(out, TOKEN)


def calls(engine):
    return engine.log.read_text().splitlines()


def removed(engine):
    return f"rm --force hfprov-smoke-{TOKEN[:16]}" in calls(engine)


def test_what_ran_is_told_with_the_image_and_its_container_is_removed(engine):
    found = told(engine())
    assert (found.status, found.code, found.stdout) == ("ran", 0, "well\n")
    assert (found.image_id, found.image_digests) == ("sha256:aa", ("site/smoke@sha256:bb",))
    assert removed(engine)
    assert found.left == ()


def test_what_an_earlier_launcher_left_is_removed_first_and_what_stays_is_told(engine):
    found = told(engine(left="old1\nold2\n"))
    assert calls(engine)[1:3] == ["rm --force old1", "rm --force old2"]
    assert found.left == ("old1", "old2")


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"name": "podman"}, "no_engine"),
        ({"image": "echo 'Error: No such image: site/smoke' >&2; exit 1"}, "no_image"),
        ({"image": "echo 'Cannot connect to the Docker daemon' >&2; exit 1"}, "engine_error"),
        ({"image": "echo 'sha256:aa {broken'"}, "engine_error"),
        ({"run": "exec head -c 3000000 /dev/zero"}, "too_much"),
        ({"run": "exec sleep 60", "seconds": 1}, "late"),
        ({"run": "exec >&- 2>&-; sleep 60", "seconds": 1}, "late"),
    ],
)
def test_each_way_to_fail_is_told_apart(engine, options, status):
    found = told(engine(**options))
    assert found.status == status
    if "run" in options:
        assert removed(engine)
        assert len(found.stdout) <= launcher.OUT_LIMIT * 6


def test_a_container_that_does_not_start_keeps_what_the_engine_said(engine):
    found = told(engine(run="echo 'unresolvable CDI device' >&2; exit 125"))
    assert (found.status, found.code, found.last_words) == ("ran", 125, "unresolvable CDI device")


def test_bytes_that_are_no_text_do_no_harm(engine):
    found = told(engine(run=r"printf '\377\000\033[2J\n'; printf '\377 bad \033[2J\n' >&2; exit 1"))
    assert found.last_words == r"\xff bad"


@pytest.mark.parametrize("how", ["signal", "nobody listens"])
def test_a_launcher_that_is_ended_or_left_alone_removes_its_container(engine, how):
    process = engine(run="echo started >&2; exec sleep 300", seconds=300)
    deadline = time.monotonic() + 30
    while not (engine.log.exists() and any(one.startswith("run ") for one in calls(engine))):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    if how == "signal":
        process.send_signal(signal.SIGTERM)
    else:
        process.stdout.close()
    process.wait(30)
    assert removed(engine)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "well\n",
        f"hfprov-launch {'0' * 32} {{}}\n",
        f"hfprov-launch {TOKEN} {{\n",
        f"hfprov-launch {TOKEN} []\n",
        f"hfprov-launch {TOKEN} {'[' * 2000}\n",
        f'hfprov-launch {TOKEN} {{"status": "ran", "cpus": 0}}\n',
        f'hfprov-launch {TOKEN} {{"status": "splendid", "cpus": 1}}\n',
        f'hfprov-launch {TOKEN} {{"status": "ran", "cpus": 1, "code": "0"}}\n',
        f'hfprov-launch {TOKEN} {{"status": "ran", "cpus": 1}}\n' * 2,
    ],
)
def test_what_is_no_answer_of_this_run_is_none(text):
    with pytest.raises(NotUnderstoodError):
        read_launched(text, TOKEN)
