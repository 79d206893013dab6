"""What is stopped is started again: by us, by the next run, or by the node itself."""

from __future__ import annotations

import os
import subprocess

import pytest

from hfprov.declare.connection import Connection
from hfprov.errors import RemoteError
from hfprov.measure import quiesce as module
from hfprov.measure.quiesce import TIMERS, UNIT, Quiet, quiesce, quiet_nodes, restore
from hfprov.remote import Output
from hfprov.sweep import Fleet

NODE = Connection("n1", "192.0.2.1")
PROMISE = f"{UNIT}.timer"
# A systemctl and a systemd-run that keep what is active as files, and log what they do. The promise
# that systemd-run makes is a file with its command, which starting its service carries out.
FAKE = """\
#!/bin/sh
state="$STATE" log="$STATE/log"
case "$(basename "$0")" in
  systemd-run)
    echo "systemd-run $*" >>"$log"
    [ -e "$state/no-promise" ] && exit 1
    while [ "$1" != systemctl ]; do shift; done
    echo "$*" >"$state/promise"; : >"$state/$UNIT.timer"; exit 0 ;;
esac
case $1 in
  is-active) [ -e "$state/$3" ] ;;
  show) [ -e "$state/$4" ] && echo active || echo inactive ;;
  stop)
    shift; echo "stop $*" >>"$log"
    for unit in "$@"; do [ "$unit" = "${BROKEN:-}" ] && exit 1; rm -f "$state/$unit"; done ;;
  start)
    shift; echo "start $*" >>"$log"
    for unit in "$@"; do
      [ "$unit" = "${BROKEN:-}" ] && { echo "$unit is masked" >&2; exit 1; }
      if [ "$unit" = "$UNIT.service" ]; then $(cat "$state/promise") || exit 1
      else : >"$state/$unit"; fi
    done ;;
esac
"""


class Node:
    """One node, as far as units are concerned."""

    def __init__(self, folder):
        self.folder, self.environment = folder, {"UNIT": UNIT}
        self.reachable = True

    def run(self, connection, argv, **_):
        if not self.reachable:
            raise RemoteError(f"'{connection.host}' does not answer.")
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        environment = {"PATH": path, "STATE": str(self.folder), **self.environment}
        done = subprocess.run(argv, env=environment, capture_output=True, check=False, timeout=20)
        return Output(done.stdout, done.stderr.decode(), done.returncode)

    def active(self):
        return {one.name for one in self.folder.iterdir() if one.suffix in (".timer", ".service")}

    def log(self):
        path = self.folder / "log"
        return path.read_text("utf-8").splitlines() if path.exists() else []

    def start(self, *names):
        for name in names:
            (self.folder / name).touch()


@pytest.fixture
def node(tmp_path, monkeypatch):
    made = Node(tmp_path)
    (tmp_path / "bin").mkdir()
    for name in ("systemctl", "systemd-run"):
        (tmp_path / "bin" / name).write_text(FAKE, "utf-8")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setattr(module, "run", made.run)
    return made


DISTURBING = {"apt-daily.timer", "man-db.timer"}


def test_only_what_is_active_is_stopped_and_the_promise_comes_first(node):
    node.start(*DISTURBING, "site.timer")
    quiet = quiesce(NODE, 600)
    assert set(quiet.timers) == DISTURBING
    assert node.active() == {"site.timer", PROMISE}
    verbs = [line.split()[0] for line in node.log()]
    assert verbs == ["systemd-run", "stop"]
    assert "--on-active=600s" in node.log()[0]
    assert restore(NODE, quiet) == ""
    assert node.active() == {*DISTURBING, "site.timer"}


def test_a_node_on_which_nothing_disturbs_is_left_alone(node):
    assert quiesce(NODE, 600).timers == ()
    assert restore(NODE, Quiet("n1", ())) == ""
    assert node.log() == []


def test_without_a_promise_nothing_is_stopped(node):
    node.start(*DISTURBING, "no-promise")
    with pytest.raises(RemoteError, match="cannot be kept quiet"):
        quiesce(NODE, 600)
    assert node.active() == DISTURBING


def test_what_a_dead_controller_stopped_the_node_starts_again_by_itself(node):
    node.start(*DISTURBING)
    quiesce(NODE, 600)  # and then nobody comes back
    node.run(NODE, ["systemctl", "start", f"{UNIT}.service"])  # as its timer does
    assert node.active() >= DISTURBING


def test_the_next_run_keeps_the_promise_of_one_that_died_and_makes_its_own(node):
    node.start(*DISTURBING)
    quiesce(NODE, 600)
    again = quiesce(NODE, 600)
    assert set(again.timers) == DISTURBING
    assert restore(NODE, again) == ""
    assert node.active() == DISTURBING


@pytest.mark.parametrize("timer", sorted(DISTURBING))
def test_a_job_that_has_begun_is_not_measured_beside(node, timer):
    job = timer.replace(".timer", ".service")
    node.start(*DISTURBING, job)
    with pytest.raises(RemoteError, match=f"'{job}' is at work"):
        quiesce(NODE, 600)
    assert node.active() == {*DISTURBING, job}


def test_a_service_of_no_active_timer_is_no_job(node):
    node.start("man-db.timer", "unattended-upgrades.service")
    assert quiesce(NODE, 600).timers == ("man-db.timer",)


def test_a_timer_that_does_not_start_again_is_said_and_the_promise_stays(node):
    node.start(*DISTURBING)
    quiet = quiesce(NODE, 600)
    node.environment["BROKEN"] = "man-db.timer"
    assert "masked" in restore(NODE, quiet)
    assert PROMISE in node.active()


def fleet():
    return Fleet({}, {"n1": NODE})


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, SystemExit])
def test_nodes_are_given_back_whatever_happens(node, error):
    def measure():
        with quiet_nodes(fleet(), ["n1"], 600, print) as noisy:
            assert noisy == {}
            assert node.active() == {PROMISE}
            raise error

    node.start(*DISTURBING)
    with pytest.raises(error):
        measure()
    assert node.active() == DISTURBING


def test_a_node_of_which_the_answer_was_lost_is_given_back_by_its_promise(node, monkeypatch):
    """Ctrl-C while the node was being asked: it has stopped timers, and we do not know which."""

    def interrupted(connection, seconds):
        quiesce(connection, seconds)
        raise KeyboardInterrupt

    node.start(*DISTURBING)
    monkeypatch.setattr(module, "quiesce", interrupted)
    with pytest.raises(KeyboardInterrupt), quiet_nodes(fleet(), ["n1"], 600, print):
        pytest.fail("Nothing may be measured.")
    assert node.active() == DISTURBING


def test_a_node_that_cannot_be_reached_any_more_is_told_of(node):
    node.start(*DISTURBING)
    said = []
    with quiet_nodes(fleet(), ["n1"], 600, said.append):
        node.reachable = False
    [text] = said
    assert "by the node itself" in text
    assert PROMISE in node.active()


def test_every_name_is_a_timer():
    assert all(name.endswith(".timer") for name in TIMERS)
    assert len(set(TIMERS)) == len(TIMERS)
