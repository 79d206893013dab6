"""Talking to a virtual machine: QEMU's monitor (QMP) and the agent inside the guest.

Both speak JSON lines over a Unix socket. What the agent says comes from inside the node and is
bounded like anything else that a node says.
"""

from __future__ import annotations

import base64
import itertools
import json
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hfprov.errors import LabError

_LARGEST_ANSWER = 32 * 1024 * 1024
_AGENT_SYNC = b"\xff"
"""Neither side's JSON has this byte: what was left over from an earlier talk ends here."""
_numbers = itertools.count(int(time.time()))


class _Line:
    """One connection: JSON objects out, JSON objects in, all before one deadline."""

    def __init__(self, connection: socket.socket, deadline: float, name: str) -> None:
        self._connection = connection
        self._deadline = deadline
        self._name = name
        self._rest = b""

    def send(self, message: dict[str, object], *, prefix: bytes = b"") -> None:
        self._limit()
        try:
            self._connection.sendall(prefix + json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise LabError(f"{self._name} hung up: {error}.") from error

    def skip_until(self, mark: bytes) -> None:
        while mark not in self._rest:
            self._receive()
        self._rest = self._rest.split(mark, 1)[1]

    def answer(self) -> dict[str, Any]:
        while b"\n" not in self._rest:
            self._receive()
        line, self._rest = self._rest.split(b"\n", 1)
        try:
            document = json.loads(line)
        except ValueError as error:
            raise LabError(f"{self._name} answered with something that is no JSON.") from error
        if not isinstance(document, dict):
            raise LabError(f"{self._name} answered with something else than an object.")
        return document

    def _receive(self) -> None:
        self._limit()
        try:
            data = self._connection.recv(65536)
        except TimeoutError as error:
            raise LabError(f"{self._name} did not answer in time.") from error
        except OSError as error:
            raise LabError(f"{self._name} hung up: {error}.") from error
        if not data:
            raise LabError(f"{self._name} hung up.")
        self._rest += data
        if len(self._rest) > _LARGEST_ANSWER:
            raise LabError(f"{self._name} answered with more than {_LARGEST_ANSWER} bytes.")

    def _limit(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise LabError(f"{self._name} did not answer in time.")
        self._connection.settimeout(left)


@contextmanager
def _connected(path: Path, timeout: float, name: str) -> Iterator[_Line]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout)
        try:
            connection.connect(str(path))
        except OSError as error:
            raise LabError(f"{name} cannot be reached at '{path}': {error.strerror}.") from error
        yield _Line(connection, time.monotonic() + timeout, name)


def monitor(path: Path, command: str, *, timeout: float = 20.0, **arguments: object) -> Any:
    """Run a QMP command and return what it returned.

    ``path`` is the monitor's socket, ``timeout`` in seconds. Raises :class:`LabError` when QEMU is
    not there, refuses or does not answer in time.
    """
    with _connected(path, timeout, "The virtual machine's monitor") as line:
        line.answer()  # the greeting
        for name, values in (("qmp_capabilities", {}), (command, arguments)):
            line.send({"execute": name, "arguments": values})
            while "event" in (answer := line.answer()):
                pass
            if "error" in answer:
                raise LabError(f"QEMU refused '{name}': {answer['error'].get('desc', '')}")
    return answer.get("return")


def monitor_line(path: Path, command: str, *, timeout: float = 20.0) -> str:
    """Run a command of QEMU's human monitor, for what QMP does not have; return its output."""
    said = monitor(
        path, "human-monitor-command", timeout=timeout, **{"command-line": command}
    ).strip()
    if said.startswith("Error"):
        raise LabError(f"QEMU refused '{command}': {said}")
    return str(said)


def agent_answers(path: Path, *, timeout: float) -> bool:
    """Whether the agent in the guest answers within ``timeout`` seconds."""
    with suppress(LabError):
        _agent(path, "guest-ping", {}, timeout)
        return True
    return False


def run_in_guest(
    path: Path, argv: list[str], *, timeout: float, stdin: bytes = b""
) -> subprocess.CompletedProcess[str]:
    """Run a command in the guest as root through its agent, without network and SSH.

    Raises :class:`LabError` when the agent does not answer or the command does not end in time; a
    command that is late goes on in the guest.
    """
    deadline = time.monotonic() + timeout
    started = _agent(
        path,
        "guest-exec",
        {
            "path": argv[0],
            "arg": argv[1:],
            "env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                    "LANG=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", "HOME=/root"],
            "input-data": base64.b64encode(stdin).decode(),
            "capture-output": True,
        },
        timeout,
    )  # fmt: skip
    pause = 0.05
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise LabError(f"'{argv[0]}' did not end within {timeout:g} s in the guest.")
        status = _agent(path, "guest-exec-status", {"pid": started["pid"]}, left)
        if status["exited"]:
            break
        time.sleep(pause)
        pause = min(1.0, pause * 1.5)
    code = status.get("exitcode", 128 + status.get("signal", 0))
    return subprocess.CompletedProcess(
        argv, code, _text(status.get("out-data", "")), _text(status.get("err-data", ""))
    )


def _agent(path: Path, command: str, arguments: dict[str, object], timeout: float) -> Any:
    with _connected(path, timeout, "The agent in the guest") as line:
        number = next(_numbers)
        line.send(
            {"execute": "guest-sync-delimited", "arguments": {"id": number}}, prefix=_AGENT_SYNC
        )
        line.skip_until(_AGENT_SYNC)
        if line.answer().get("return") != number:
            raise LabError("The agent in the guest answered somebody else.")
        line.send({"execute": command, "arguments": arguments})
        answer = line.answer()
    if "error" in answer:
        raise LabError(f"The guest refused '{command}': {answer['error'].get('desc', '')}")
    return answer.get("return")


def _text(data: str) -> str:
    return base64.b64decode(data).decode("utf-8", errors="replace")
