"""Hooks run without a shell, are bounded in time, and say what went wrong."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from hfprov.errors import RebootError, UsageError
from hfprov.reboot.hooks import Hook, parse_hook


def test_the_host_takes_its_place_in_every_word():
    hook = parse_hook("drain", "scontrol update 'nodename={host}' state=drain reason='for {host}'")
    assert hook.argv("n1") == ["scontrol", "update", "nodename=n1", "state=drain", "reason=for n1"]


def test_no_shell_sees_a_host_name(tmp_path):
    made = tmp_path / "made"
    Hook("drain", ("echo", "{host}")).run(f"n1; touch {made}", "r1")
    assert not made.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("a 'b", "is no command"),
        ("site-drain", "for which host"),
        ("{host}", "for"),
    ],
)
def test_what_cannot_be_a_hook_is_refused(text, said):
    with pytest.raises(UsageError, match=said):
        parse_hook("drain", text)


def test_no_hook_is_none():
    assert parse_hook("drain", None) is None


def test_a_hook_is_told_which_host_and_run(tmp_path):
    out = tmp_path / "out"
    words = ("sh", "-c", f'echo "$HFPROV_HOST $HFPROV_RUN" > {out}', "{host}")
    Hook("release", words).run("n1", "r7")
    assert out.read_text() == "n1 r7\n"


def test_a_hook_that_fails_says_what_it_said():
    with pytest.raises(RebootError, match="exit code 3: Node n1 is unknown"):
        Hook("drain", ("sh", "-c", "echo Node $0 is unknown; exit 3", "{host}")).run("n1", "r1")


def test_a_hook_that_is_not_there_is_named():
    with pytest.raises(RebootError, match="'/no/such/hook'"):
        Hook("drain", ("/no/such/hook", "{host}")).run("n1", "r1")


def test_a_hook_that_does_not_end_is_killed_with_its_children(tmp_path):
    pid = tmp_path / "pid"
    hook = Hook("drain", ("sh", "-c", f"sleep 60 & echo $! > {pid}; wait"), seconds=0.5)
    with pytest.raises(RebootError, match=r"within 0\.5 s"):
        hook.run("n1", "r1")
    child = int(pid.read_text())
    for _ in range(50):
        if not _alive(child):
            return
        time.sleep(0.1)
    pytest.fail("The child of the hook still runs.")


def _alive(pid):
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except OSError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] != "Z"


def test_output_is_cut_and_cleaned():
    script = "head -c 100000 /dev/zero | tr '\\0' x; printf '\\033[31mred'; exit 1"
    with pytest.raises(RebootError) as caught:
        Hook("drain", ("sh", "-c", script, "{host}")).run("n1", "r1")
    assert len(caught.value.message) < 2500
    assert "\033" not in caught.value.message
    assert os.environ.get("HFPROV_HOST") is None
