"""ansible-runner, held to what it was asked: cases that its own status calls successful."""

import contextlib
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hfprov import paths
from hfprov.errors import PlayError
from hfprov.play import HostResult, PlayRequest, PlayStatus, run_play

HOSTS = ("a", "b")


@pytest.fixture
def rack(tmp_path):
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(
        "all:\n  vars:\n    ansible_connection: local\n"
        f"    ansible_python_interpreter: {sys.executable}\n"
        "  hosts: {a: {}, b: {}, c: {}}\n"
    )
    return tmp_path


def request_for(rack, tasks, hosts=HOSTS, pattern="all", **more):
    playbook = rack / f"play-{time.monotonic_ns()}.yml"
    playbook.write_text(f"- hosts: {pattern}\n  gather_facts: false\n{tasks}")
    defaults = {"idle_timeout": 60, "job_timeout": 120}
    return PlayRequest(
        playbook=playbook,
        inventory=(rack / "hosts.yml",),
        hosts=hosts,
        config=paths.ansible_config(),
        roles_path=paths.roles_dir(),
        **{**defaults, **more},
    )


def run(request, **more):
    seen = []
    return run_play(request, seen.append, **more), seen


def test_it_runs_on_exactly_the_hosts_that_were_asked_for(rack):
    outcome, seen = run(request_for(rack, "  tasks:\n    - ansible.builtin.ping:\n"))
    assert outcome.status is PlayStatus.FINISHED
    assert outcome.hosts == {"a": HostResult.OK, "b": HostResult.OK}
    assert {task.host for task in seen} == {"a", "b"}


def test_a_pattern_that_matches_nobody_is_not_a_success(rack):
    request = request_for(rack, "  tasks:\n    - ansible.builtin.ping:\n", pattern="gpu_nodez")
    outcome, _ = run(request)
    assert outcome.status is PlayStatus.BROKEN
    assert outcome.hosts == {"a": HostResult.NOT_RUN, "b": HostResult.NOT_RUN}


def test_one_host_that_the_play_leaves_out_is_not_a_success(rack):
    outcome, _ = run(request_for(rack, "  tasks:\n    - ansible.builtin.ping:\n", pattern="a"))
    assert outcome.status is PlayStatus.BROKEN
    assert outcome.hosts == {"a": HostResult.OK, "b": HostResult.NOT_RUN}
    assert "'b'" in outcome.message


def test_no_host_at_all_is_refused(rack):
    with pytest.raises(PlayError, match="no host"):
        run(request_for(rack, "  tasks: []\n", hosts=()))


def test_a_failing_task_fails_its_host_only_and_is_named(rack):
    tasks = (
        "  tasks:\n    - name: Check the disk\n      ansible.builtin.fail:\n        msg: no disk\n"
        "      when: inventory_hostname == 'b'\n"
    )
    outcome, _ = run(request_for(rack, tasks))
    assert outcome.hosts == {"a": HostResult.OK, "b": HostResult.FAILED}
    assert outcome.failures == {"b": "Check the disk: no disk"}


def test_a_failing_task_of_a_role_is_named_with_its_role(rack):
    role = rack / "roles" / "disks" / "tasks"
    role.mkdir(parents=True)
    (role / "main.yml").write_text(
        "- name: Check what it needs\n  ansible.builtin.fail:\n    msg: no disk\n"
    )
    request = replace(request_for(rack, "  roles: [disks]\n"), roles_path=rack / "roles")
    outcome, _ = run(request)
    assert outcome.failures["a"] == "disks: Check what it needs: no disk"


def test_a_broken_playbook_says_what_is_broken(rack):
    outcome, _ = run(request_for(rack, "  tasks:\n    - no_such_module_here:\n"))
    assert outcome.status is PlayStatus.BROKEN
    assert "no_such_module_here" in outcome.message


def test_runs_at_the_same_time_do_not_mix_up_their_hosts(rack):
    tasks = "  tasks:\n    - ansible.builtin.debug:\n        msg: '{{ inventory_hostname }}'\n"
    outcomes = {}

    def one(name, number):
        outcomes[number] = (name, run(request_for(rack, tasks, hosts=(name,)))[0])

    threads = [threading.Thread(target=one, args=("abc"[n % 3], n)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 6
    for name, outcome in outcomes.values():
        assert outcome.hosts == {name: HostResult.OK}


def test_an_unexpected_prompt_ends_at_the_idle_time_limit(rack):
    tasks = (
        "  vars_prompt:\n    - name: answer\n      prompt: Really\n"
        "  tasks:\n    - ansible.builtin.ping:\n"
    )
    outcome, _ = run(request_for(rack, tasks, idle_timeout=4))
    assert outcome.status is PlayStatus.TIMED_OUT
    assert "prompt" in outcome.message
    assert outcome.hosts == dict.fromkeys(HOSTS, HostResult.NOT_RUN)


def test_a_task_that_hangs_is_named_with_its_host(rack):
    tasks = "  tasks:\n    - name: Wait for ever\n      ansible.builtin.command: sleep 60\n"
    outcome, _ = run(request_for(rack, tasks, hosts=("a",), idle_timeout=10))
    assert outcome.status is PlayStatus.TIMED_OUT
    assert "'Wait for ever' on 'a'" in outcome.message
    assert outcome.hosts == {"a": HostResult.INTERRUPTED}


def stop_when_at_work(stop, command_line):
    """Set the event once as many processes as there are hosts run a command."""
    for _ in range(1200):
        found = 0
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                found += path.read_bytes().startswith(command_line.encode())
        if found >= len(HOSTS):
            break
        time.sleep(0.1)
    stop.set()


def test_a_cancelled_run_leaves_its_hosts_in_an_unknown_state(rack):
    tasks = "  tasks:\n    - name: Long work\n      ansible.builtin.command: sleep 60.25\n"
    stop = threading.Event()
    threading.Thread(target=stop_when_at_work, args=(stop, "sleep\x0060.25"), daemon=True).start()
    outcome, _ = run(request_for(rack, tasks), cancelled=stop)
    assert outcome.status is PlayStatus.CANCELLED
    assert outcome.hosts == dict.fromkeys(HOSTS, HostResult.INTERRUPTED)


def test_no_secret_is_left_on_disk_while_it_runs_or_afterwards(rack, monkeypatch, tmp_path):
    canary = "c4n4ry-0f-pr0v1s10n"
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    tasks = (
        "  tasks:\n    - ansible.builtin.command: 'true'\n      no_log: true\n"
        "      environment: {TOKEN: '{{ token }}'}\n"
    )
    during = []

    def look(_):
        during.extend(
            path
            for path in scratch.rglob("*")
            if path.is_file() and canary.encode() in path.read_bytes()
        )

    with (rack / "hosts.yml").open("a") as inventory:
        inventory.write(
            "  children:\n    g:  # as a vault would give it\n"
            f"      vars: {{token: {canary}}}\n      hosts: {{a: {{}}, b: {{}}}}\n"
        )
    outcome = run_play(request_for(rack, tasks, become_password=canary), look)
    assert outcome.status is PlayStatus.FINISHED
    assert during == []
    assert list(scratch.iterdir()) == []


def test_a_long_message_is_cut(rack):
    tasks = "  tasks:\n    - ansible.builtin.fail:\n        msg: \"{{ 'x' * 100000 }}\"\n"
    outcome, _ = run(request_for(rack, tasks, hosts=("a",)))
    assert len(outcome.failures["a"]) < 5000


def test_the_check_mode_of_a_play_changes_nothing(rack):
    target = rack / "made"
    tasks = f"  tasks:\n    - ansible.builtin.copy:\n        content: x\n        dest: {target}\n"
    outcome, seen = run(request_for(rack, tasks, hosts=("a",), check=True))
    assert outcome.hosts == {"a": HostResult.OK}
    assert [task.changed for task in seen] == [True]
    assert not Path(target).exists()
