"""scripts/test.sh: virtual machines are tested when asked for, and never left out in silence."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "test.sh"


@pytest.fixture
def run(tmp_path):
    """A copy of the script in a project of stubs; a function that runs it."""
    tools = tmp_path / ".venv/bin"
    stubs = {
        tmp_path / "scripts/setup.sh": 'echo "setup for level $SETUP_LAB"',
        tools / "id": "echo 0",
        tools / "pytest": 'echo "pytest $*"',
        # The lab's check, or the reader of a JUnit file.
        tools / "python": (
            'case "$*" in *hfprov.lab*) echo "no QEMU here" >&2; exit "$CHECK" ;;'
            " *) echo 2 0 1 ;; esac"
        ),
    }
    for path, text in stubs.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    shutil.copy(SCRIPT, tmp_path / "scripts/test.sh")

    def call(*arguments, check="0", **variables):
        env = {"PATH": f"{tools}:/usr/bin:/bin", "CHECK": check, **variables}
        return subprocess.run(
            ["sh", tmp_path / "scripts/test.sh", *arguments],
            capture_output=True, text=True, timeout=60, check=False, env=env,
        )  # fmt: skip

    return call


def test_asked_for_they_are_set_up_and_run_one_by_one(run):
    done = run("vm")
    assert done.returncode == 0, done.stdout
    assert "setup for level 2" in done.stdout
    assert "-n 0 -m vm --durations=15 tests/vm" in done.stdout
    assert "2 passed, 0 failed, 1 skipped" in done.stdout.splitlines()[-1]


def test_on_a_machine_without_they_are_left_out_with_the_reason_and_that_is_no_success(run):
    done = run("vm", check="2")
    assert "LEFT OUT: no QEMU here" in done.stdout
    assert done.stdout.splitlines()[-1] == "0 passed, 0 failed, 1 skipped"
    assert done.returncode != 0


@pytest.mark.parametrize(("wanted", "level"), [({}, "1"), ({"HFPROV_TEST_VM": "1"}, "2")])
def test_in_a_run_of_everything_they_take_part_when_asked_for(run, wanted, level):
    done = run(**wanted)
    assert f"setup for level {level}" in done.stdout
    assert ("tests/vm" in done.stdout) is bool(wanted)
    assert ("LEFT OUT: takes minutes" in done.stdout) is not bool(wanted)


@pytest.mark.parametrize("tier", ["check", "unit"])
def test_tiers_without_nodes_install_nothing_for_nodes(run, tier):
    assert "setup for level 0" in run(tier, HFPROV_TEST_VM="1").stdout
