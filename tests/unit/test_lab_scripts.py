"""The shell scripts and their small helpers."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "scripts"
SHELL = sorted([*SCRIPTS.glob("*.sh"), *(ROOT / "hfprov/lab").glob("*.sh"), ROOT / ".ci/run"])

JUNIT = '<testsuites><testsuite tests="{}" failures="{}" errors="{}" skipped="{}"/></testsuites>'


def load(name):
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("script", SHELL, ids=lambda path: path.name)
def test_a_script_is_posix_shell_that_parses(script):
    assert script.read_text(encoding="utf-8").startswith("#!/bin/sh\n")
    subprocess.run(["sh", "-n", str(script)], check=True, timeout=10)


@pytest.mark.parametrize(
    ("junit", "exit_code", "expected"),
    [
        ((10, 0, 0, 2), 0, (8, 0, 2)),
        ((10, 1, 2, 0), 1, (7, 3, 0)),
        ((0, 0, 0, 0), 5, (0, 1, 0)),  # nothing collected is no success
        ((4, 0, 0, 0), 3, (4, 1, 0)),  # neither is a crash after the last test
    ],
)
def test_counts_of_a_run(tmp_path, junit, exit_code, expected):
    report = tmp_path / "report.xml"
    report.write_text(JUNIT.format(*junit), encoding="utf-8")
    assert load("junit_counts").counts(report, exit_code) == expected


def test_a_run_without_a_result_is_an_error(tmp_path):
    argv = [sys.executable, str(SCRIPTS / "junit_counts.py"), str(tmp_path / "none.xml"), "0"]
    assert subprocess.run(argv, capture_output=True, timeout=30, check=False).returncode != 0


def test_only_the_generated_part_of_a_document_is_written():
    text = "a\n<!-- generated: x -->\nold\n<!-- end: x -->\nb\n"
    docs = load("docs")
    assert docs.renewed(text, "x", r"new \1") == text.replace("old", r"new \1")
    with pytest.raises(ValueError, match="'y'"):
        docs.renewed(text, "y", "new")


def test_generated_documents_are_up_to_date():
    argv = [sys.executable, str(SCRIPTS / "docs.py"), "--check"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout


@pytest.fixture
def demo(tmp_path):
    """A checkout whose hfprov ends each command with the exit code we say."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / "scripts/demo.sh").write_text((SCRIPTS / "demo.sh").read_text(encoding="utf-8"))
    (tmp_path / "scripts/setup.sh").write_text("exit 0\n")
    sudo = tmp_path / "bin/sudo"
    sudo.parent.mkdir()
    sudo.write_text('#!/bin/sh\nshift\nexec "$@"\n')
    sudo.chmod(0o755)

    def run(drift):
        hfprov = tmp_path / ".venv/bin/hfprov"
        hfprov.write_text(
            f'#!/bin/sh\ncase "$*" in *--repair*) exit 0 ;; drift*) exit {drift} ;; esac\n'
        )
        hfprov.chmod(0o755)
        argv = ["sh", str(tmp_path / "scripts/demo.sh")]
        path = f"{sudo.parent}:/usr/bin:/bin"
        return subprocess.run(
            argv, capture_output=True, text=True, timeout=30, check=False, env={"PATH": path}
        )

    return run


def test_the_demo_goes_through_when_drift_is_found_and_repaired(demo):
    done = demo(1)
    assert done.returncode == 0, done.stderr
    assert "demo-output/report.html" in done.stdout
    assert "hfprov lab down" in done.stdout


@pytest.mark.parametrize("code", [0, 2, 3, 4])
def test_the_demo_fails_when_drift_does_not_find_what_was_broken(demo, code):
    done = demo(code)
    assert done.returncode == 1
    assert f"ended with exit code {code}, not 1" in done.stderr
    assert "--repair" not in done.stdout
