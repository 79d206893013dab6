"""A systemd timer that looks for drift, every night or whenever it is told to.

The service ends with the exit code of ``hfprov drift``: it *fails* when something has drifted, so
that ``systemctl --failed``, ``OnFailure=`` and the node exporter's systemd collector see it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hfprov.errors import UsageError
from hfprov.report.textfile import replacing

NAME = "hfprov-drift"
TIMER, SERVICE = f"{NAME}.timer", f"{NAME}.service"
_MARK = "# Written by 'hfprov schedule install'; 'hfprov schedule remove' removes it."
_SYSTEM = Path("/etc/systemd/system")
_DEADLINE = 30.0
_MODE = 0o644
_SHOWN = ("ActiveState", "UnitFileState", "NextElapseUSecRealtime")
# Not the timer's LastTriggerUSec: of a timer with Persistent= that is the time of its installation.
_RESULT = ("Result", "ExecMainStatus", "ExecMainStartTimestamp", "ActiveState")


@dataclass(frozen=True, slots=True)
class Job:
    """What is run, and when."""

    argv: tuple[str, ...]
    at: str
    """A calendar expression; systemd.time(7)."""
    jitter: int = 300
    """Seconds by which the start is put off at random, so that controllers do not start at once."""
    limit: str = "6h"
    """How long it may take before systemd ends it; systemd.time(7)."""
    on_failure: str = ""
    """A unit that is started when something has drifted, or could not be judged."""


@dataclass(frozen=True, slots=True)
class Status:
    """What is installed, and how it went last."""

    timer: Mapping[str, str]
    service: Mapping[str, str]
    files: Mapping[str, str]
    """Text of the units by path; empty: nothing is installed."""


class Systemd:
    """The units of the whole machine, or of one user. Raises UsageError for what is refused."""

    def __init__(self, *, user: bool, folder: Path | None = None) -> None:
        config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
        self.folder = folder or (config / "systemd" / "user" if user else _SYSTEM)
        self._systemctl = ("systemctl", "--user") if user else ("systemctl",)
        self._user = user

    def install(self, job: Job) -> tuple[Path, ...]:
        """Write both units and start the timer; the paths. What is installed is replaced."""
        check_calendar(job.at)
        paths, new = [], []
        for name, text in units(job, user=self._user).items():
            path = self.folder / name
            _require_ours(path)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UsageError(f"'{path.parent}' cannot be made: {error.strerror}.") from error
            new += [] if path.exists() else [path]
            with replacing(path, mode=_MODE) as out:
                out.write(text)
            paths.append(path)
        try:
            self._run("daemon-reload")
            self._run("enable", "--now", TIMER)
            # A timer that was active keeps its old time until it is started anew.
            self._run("restart", TIMER)
        except UsageError:
            _unlink(new)
            raise
        return tuple(paths)

    def remove(self) -> bool:
        """Stop the timer and remove both units; False when there were none."""
        paths = [self.folder / name for name in (TIMER, SERVICE)]
        present = [path for path in paths if path.exists()]
        for path in present:
            _require_ours(path)
        if not present:
            return False
        silent = ""
        try:
            if self.folder / TIMER in present:
                self._run("disable", "--now", TIMER)
        except UsageError as error:
            silent = error.message
        _unlink([*present, self.folder / "timers.target.wants" / TIMER])
        if silent:
            raise UsageError(
                f"The units are gone, but systemd could not be told: {silent}",
                hint="A timer that is active stays so until systemd reads its units again.",
            )
        self._run("daemon-reload")
        return True

    def status(self) -> Status:
        """How timer and service stand now."""
        paths = [self.folder / name for name in (TIMER, SERVICE)]
        files = {str(path): path.read_text("utf-8") for path in paths if path.exists()}
        if not files:
            return Status({}, {}, {})
        return Status(self._properties(TIMER, _SHOWN), self._properties(SERVICE, _RESULT), files)

    def _properties(self, unit: str, names: Sequence[str]) -> dict[str, str]:
        text = self._run("show", f"--property={','.join(names)}", "--", unit)
        pairs = (line.partition("=") for line in text.splitlines())
        return {name: value for name, _, value in pairs}

    def _run(self, *words: str) -> str:
        return _output(*self._systemctl, *words)


def units(job: Job, *, user: bool = False) -> dict[str, str]:
    """Text of the timer and the service by name."""
    for word in (*job.argv, job.at, job.limit, job.on_failure):
        if "\n" in word or "\0" in word:
            raise UsageError(f"{word!r} cannot be written into a unit.")
    failure = f"OnFailure={job.on_failure}\n" if job.on_failure else ""
    wanted = "" if user else "Wants=network-online.target\nAfter=network-online.target\n"
    return {
        SERVICE: (
            f"{_MARK}\n[Unit]\nDescription=hfprov: look for drift\n{wanted}{failure}\n"
            "[Service]\nType=oneshot\n"
            f"ExecStart={' '.join(quoted(word) for word in job.argv)}\n"
            f"TimeoutStartSec={job.limit}\nNice=5\nKillMode=mixed\n"
        ),
        TIMER: (
            f"{_MARK}\n[Unit]\nDescription=hfprov: look for drift regularly\n\n"
            f"[Timer]\nOnCalendar={job.at}\nRandomizedDelaySec={job.jitter}\nPersistent=true\n\n"
            "[Install]\nWantedBy=timers.target\n"
        ),
    }


def quoted(word: str) -> str:
    """One argument of ``ExecStart=``, so that systemd expands nothing in it; systemd.service(5)."""
    plain = word.replace("%", "%%").replace("$", "$$")
    if re.fullmatch(r"[A-Za-z0-9_@%+=:,./-]+", plain):
        return plain
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _unlink(paths: Sequence[Path]) -> None:
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise UsageError(f"'{path}' cannot be removed: {error.strerror}.") from error


def check_calendar(text: str) -> None:
    """Raises UsageError for what is no time, and where there is no systemd to tell."""
    if shutil.which("systemd-analyze") is None:
        raise UsageError(
            "This machine has no systemd, so there are no timers.",
            hint="Run 'hfprov drift' from cron; its exit code says how it went.",
        )
    try:
        _output("systemd-analyze", "calendar", "--", text)
    except UsageError as error:
        raise UsageError(
            f"'{text}' is no time that systemd understands.",
            hint="For example '02:30', 'Mon..Fri 02:30' or 'hourly'; see systemd.time(7).",
        ) from error


def _require_ours(path: Path) -> None:
    if path.exists() and not path.read_text("utf-8", errors="replace").startswith(_MARK):
        raise UsageError(
            f"'{path}' was not written by 'hfprov schedule install'.",
            hint="Move it away, if it is not needed.",
        )


def _output(*argv: str) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_DEADLINE, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"'{' '.join(argv)}' cannot be run: {error}.") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise UsageError(f"'{' '.join(argv)}' failed: {said[-1] if said else done.returncode}.")
    return done.stdout
