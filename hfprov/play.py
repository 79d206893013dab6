"""Run a playbook and say, per host, what happened. The only importer of ansible_runner.

ansible-runner reports success when no host matched, and may mix up runs that share a directory. So
every run gets a private directory of its own, outcomes are built from Ansible's events, and the
hosts in the events are held against the hosts that were asked for. A run always has an idle and a
total time limit, since an unexpected prompt would wait for ever.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from hfprov import play_directory
from hfprov.errors import PlayError
from hfprov.words import plural

TEXT_LIMIT = 4000
"""Characters kept of what a task said; the rest is cut, and says so."""


class PlayStatus(StrEnum):
    """How the whole run of a playbook ended."""

    FINISHED = "finished"
    """Ansible ran to its end; hosts may still have failed."""
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    BROKEN = "broken"
    """Ansible ended without doing what was asked: syntax error, missing role, no host matched."""


class HostResult(StrEnum):
    """How a run of a playbook ended for one host."""

    OK = "ok"
    FAILED = "failed"
    UNREACHABLE = "unreachable"
    INTERRUPTED = "interrupted"
    """The run was stopped half-way: what the node was doing is not known."""
    NOT_RUN = "not_run"


@dataclass(frozen=True, slots=True)
class TaskResult:
    """One task on one host, as Ansible reported it."""

    host: str
    role: str
    task: str
    action: str
    changed: bool
    failed: bool
    unreachable: bool
    message: str
    diff: str = ""

    @property
    def named(self) -> str:
        """The task with its role: tasks of many roles have one name."""
        return _named(self.role, self.task)


@dataclass(frozen=True, slots=True)
class PlayRequest:
    """A playbook to run on named hosts."""

    playbook: Path
    inventory: tuple[Path, ...]
    hosts: tuple[str, ...]
    config: Path
    """The ``ansible.cfg`` to use."""
    roles_path: Path
    tags: tuple[str, ...] = ()
    extra_vars: Mapping[str, Any] = field(default_factory=dict)
    """Never anything secret: they are on ansible-playbook's command line."""
    check: bool = False
    vault_password_files: tuple[Path, ...] = ()
    become_password: str | None = field(default=None, repr=False)
    forks: int = 40
    idle_timeout: int = 1800
    """Seconds without any event; a DKMS build is silent for long."""
    job_timeout: int = 7200
    """Seconds for the whole run."""


@dataclass(slots=True)
class PlayOutcome:
    """What a run of a playbook came to."""

    status: PlayStatus
    hosts: dict[str, HostResult]
    failures: dict[str, str]
    """By host: the failing task with its role, and what it said."""
    message: str = ""
    """For a run that did not finish: why, and at which task of which host."""


class _Collector:
    """Builds the outcome from Ansible's events."""

    def __init__(self, request: PlayRequest, on_task: Callable[[TaskResult], None]) -> None:
        self.on_task = on_task
        self.results = dict.fromkeys(request.hosts, HostResult.NOT_RUN)
        self.strangers: set[str] = set()
        self.failures: dict[str, str] = {}
        self.last_task = ""
        self.running: dict[str, str] = {}
        self.finished = False
        self.output: list[str] = []
        self.error: BaseException | None = None

    def event(self, event: Mapping[str, Any]) -> bool:
        """Take one event. Returns False so that ansible-runner keeps no copy (secrets, size)."""
        try:
            self._event(event)
        except Exception as error:  # noqa: BLE001 - runner would swallow it; run_play raises it again
            self.error = self.error or error
        return False

    def _event(self, event: Mapping[str, Any]) -> None:
        kind = str(event.get("event", ""))
        data: Mapping[str, Any] = event.get("event_data") or {}
        if kind == "playbook_on_stats":
            self.finished = True
            self._stats(data)
        elif kind == "playbook_on_task_start":
            self.last_task = _task_in(data)
        elif kind == "runner_on_start":
            self.running[str(data.get("host", ""))] = _task_in(data)
        elif kind in (
            "runner_on_ok",
            "runner_on_failed",
            "runner_on_unreachable",
            "runner_on_skipped",
        ):
            self.running.pop(str(data.get("host", "")), None)
            self._task(kind, data)
        elif kind in ("verbose", "error") and event.get("stdout"):
            self.output = [*self.output[-20:], str(event["stdout"])]

    def _task(self, kind: str, data: Mapping[str, Any]) -> None:
        host = str(data.get("host", ""))
        if host not in self.results:
            # Ansible adds hosts of delegation here as well; an unasked host is never ours.
            self.strangers.add(host)
            return
        failed = kind == "runner_on_failed" and not data.get("ignore_errors")
        unreachable = kind == "runner_on_unreachable"
        result: Mapping[str, Any] = data.get("res") or {}
        task = TaskResult(
            host=host,
            role=str(data.get("role") or ""),
            task=str(data.get("task") or ""),
            action=str(data.get("resolved_action") or data.get("task_action") or ""),
            changed=bool(result.get("changed")) and kind == "runner_on_ok",
            failed=failed,
            unreachable=unreachable,
            message=_message(result),
            diff=_diff(result),
        )
        if failed or unreachable:
            self.results[host] = HostResult.UNREACHABLE if unreachable else HostResult.FAILED
            self.failures[host] = f"{task.named}: {task.message}"
        elif self.results[host] is HostResult.NOT_RUN:
            self.results[host] = HostResult.INTERRUPTED  # until the final statistics say otherwise
        self.on_task(task)

    def _stats(self, data: Mapping[str, Any]) -> None:
        processed = data.get("processed") or {}
        rescued = data.get("rescued") or {}
        for host in self.results:
            if host not in processed:
                self.results[host] = HostResult.NOT_RUN
            elif host in (data.get("dark") or {}):
                self.results[host] = HostResult.UNREACHABLE
            elif host in (data.get("failures") or {}):
                self.results[host] = HostResult.FAILED
            else:
                self.results[host] = HostResult.OK
                if host in rescued:
                    continue
                self.failures.pop(host, None)

    def outcome(self, status: str, rc: int) -> PlayOutcome:
        where = self._where()
        if status == "canceled":
            return self._made(PlayStatus.CANCELLED, f"Stopped by request{where}.")
        if status == "timeout":
            return self._made(
                PlayStatus.TIMED_OUT,
                f"Ansible gave no sign of life within its time limit{where}; "
                "it may have been waiting for an answer to a prompt.",
            )
        not_run = sorted(
            host for host, result in self.results.items() if result is HostResult.NOT_RUN
        )
        if not self.finished or not_run:
            said = " ".join(" ".join(self.output[-4:]).split())[:TEXT_LIMIT]
            names = ", ".join(f"'{host}'" for host in not_run[:5])
            about = f" It did nothing on {names}." if not_run else ""
            said = said or "nothing"
            return self._made(
                PlayStatus.BROKEN,
                f"Ansible ended with exit code {rc}.{about} It said: {said}",
            )
        return self._made(PlayStatus.FINISHED, "")

    def _where(self) -> str:
        if self.running:
            host, task = next(iter(self.running.items()))
            others = len(self.running) - 1
            more = f" and {plural(others, 'more host')}" if others else ""
            return f" during task '{task}' on '{host}'{more}"
        return f" after task '{self.last_task}'" if self.last_task else " before the first task"

    def _made(self, status: PlayStatus, message: str) -> PlayOutcome:
        if not self.finished:
            # A host that had begun and has no final word: nobody knows where it stopped.
            for host in self.running:
                if self.results.get(host) in (HostResult.NOT_RUN, HostResult.OK):
                    self.results[host] = HostResult.INTERRUPTED
        return PlayOutcome(status, self.results, self.failures, message)


def _task_in(data: Mapping[str, Any]) -> str:
    return _named(str(data.get("role") or ""), str(data.get("task") or ""))


def _named(role: str, task: str) -> str:
    return f"{role}: {task}" if role else task


def run_play(
    request: PlayRequest,
    on_task: Callable[[TaskResult], None],
    *,
    cancelled: threading.Event | None = None,
) -> PlayOutcome:
    """Run a playbook on exactly ``request.hosts``. ``on_task`` sees each result as it comes.

    Setting ``cancelled`` stops the run, and every process of it on this machine, within seconds;
    what a node was doing goes on there. Raises PlayError when Ansible touched a host that was not
    asked for, or when its events cannot be trusted.
    """
    import ansible_runner  # noqa: PLC0415 - slow to import, and most commands run no play

    if not request.hosts:
        raise PlayError("A playbook was to run on no host at all.")
    try:
        directory = play_directory.create()
    except OSError as error:
        raise _no_room(error) from error
    stop = cancelled or threading.Event()
    collector = _Collector(request, on_task)
    try:
        limit = directory / "hosts"
        limit.write_text("\n".join(request.hosts) + "\n")
        _write_settings(request, directory)
        runner = ansible_runner.run(**_arguments(request, directory, limit, collector, stop))
        if collector.error is not None:
            raise collector.error
        if collector.strangers:
            names = ", ".join(f"'{host}'" for host in sorted(collector.strangers)[:5])
            raise PlayError(f"Ansible reported on {names}, which nobody asked for.")
        return collector.outcome(str(runner.status), int(runner.rc or 0))
    except ansible_runner.exceptions.AnsibleRunnerException as error:
        raise PlayError(f"ansible-runner failed: {error}") from error
    except OSError as error:
        raise _no_room(error) from error
    finally:
        if not collector.finished:
            # ansible-runner ends ansible-playbook, but not the workers that it started.
            play_directory.stop_processes(directory)
        play_directory.remove(directory)


def _no_room(error: OSError) -> PlayError:
    return PlayError(
        f"Ansible's files cannot be written in '{tempfile.gettempdir()}': "
        f"{error.strerror or error}.",
        hint="Make room there, or set TMPDIR.",
    )


def _write_settings(request: PlayRequest, directory: Path) -> None:
    """Time limits, as a file: ansible-runner drops its ``settings`` argument without one."""
    settings = {
        "idle_timeout": request.idle_timeout,
        "job_timeout": request.job_timeout,
        "pexpect_timeout": 1,
    }
    (directory / "env").mkdir()
    (directory / "env" / "settings").write_text(json.dumps(settings))


def _arguments(
    request: PlayRequest,
    directory: Path,
    limit: Path,
    collector: _Collector,
    stop: threading.Event,
) -> dict[str, Any]:
    """Arguments of ``ansible_runner.run``, which takes ``**kwargs`` and has no types."""
    options = ["--limit", f"@{limit}", "--forks", str(request.forks)]
    for path in request.vault_password_files:
        options += ["--vault-password-file", str(path.resolve())]
    if request.check:
        options += ["--check", "--diff"]
    passwords = {}
    if request.become_password is not None:
        options.append("--ask-become-pass")
        passwords[r"^BECOME password.*:\s*?$"] = request.become_password
    return {
        "private_data_dir": str(directory),
        "playbook": str(request.playbook.resolve()),
        "inventory": [str(path.resolve()) for path in request.inventory],
        "tags": ",".join(request.tags) or None,
        "extravars": dict(request.extra_vars) or None,
        "envvars": {
            "ANSIBLE_CONFIG": str(request.config.resolve()),
            "ANSIBLE_ROLES_PATH": str(request.roles_path.resolve()),
            "ANSIBLE_LOCAL_TEMP": str(directory / "tmp"),
            "ANSIBLE_NOCOLOR": "1",
            play_directory.MARK: str(directory),
            # The ansible-playbook beside our own Python, also when no environment is activated.
            "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
        },
        "cmdline": shlex.join(options),
        "passwords": passwords or None,
        # Variables and passwords stay in memory: nothing secret is written below the directory.
        "suppress_env_files": True,
        "quiet": True,
        "event_handler": collector.event,
        "cancel_callback": stop.is_set,
    }


_SAYS_NOTHING = ("One or more items failed", "(traceback unavailable)")
"""What Ansible says in place of a reason."""


def _message(result: Mapping[str, Any]) -> str:
    """What a task said, bounded. ``no_log`` results carry no text by Ansible's own doing."""
    for key in ("msg", "stderr", "reason", "exception"):
        text = str(result.get(key) or "").strip()
        if text and text not in _SAYS_NOTHING:
            return _bounded(text)
    for item in result.get("results") or ():
        if isinstance(item, Mapping) and item.get("failed") and (text := _message(item)):
            return text
    return ""


def _diff(result: Mapping[str, Any]) -> str:
    """Before and after of a changed file, as unified as Ansible gives it, bounded."""
    diff = result.get("diff")
    parts = diff if isinstance(diff, list) else [diff]
    lines: list[str] = []
    for part in parts:
        if isinstance(part, Mapping):
            keys = ("before_header", "before", "after_header", "after", "prepared")
            lines += [f"{key}: {part[key]}" for key in keys if part.get(key)]
    return _bounded("\n".join(lines))


def _bounded(text: str) -> str:
    return text if len(text) <= TEXT_LIMIT else text[:TEXT_LIMIT] + f"… ({len(text)} characters)"
