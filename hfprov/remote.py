"""Run one command on a node over SSH: bounded in time and size. Knows paramiko's channels.

The command's channel is read here, because Fabric's runner keeps everything a node chooses to
print, and starts three threads per host to do so.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import paramiko

from hfprov.declare.connection import Connection
from hfprov.errors import RemoteError
from hfprov.transport import Deadline, opened

OUTPUT_LIMIT = 32 << 20
STDERR_LIMIT = 16 * 1024
_CHUNK = 64 * 1024


@dataclass(frozen=True, slots=True)
class Output:
    """What a command on a node printed, and its exit code."""

    stdout: bytes
    stderr: str
    code: int


class Running:
    """A command that was started on a node, and waits for its input. Made by :func:`start`."""

    def __init__(
        self,
        connection: Connection,
        channel: paramiko.Channel,
        clock: Deadline,
        password: bytes,
        until: contextlib.ExitStack,
    ) -> None:
        self._connection = connection
        self._channel = channel
        self._clock = clock
        self._password = password
        self._until = until

    def finish(
        self, stdin: bytes = b"", *, limit: int = OUTPUT_LIMIT, deadline: float | None = None
    ) -> Output:
        """Give the command its input, hear it out and close the connection.

        ``deadline`` (seconds from now) takes the place of what is left of the one that it was
        started with. Raises as :func:`run` does.
        """
        clock = self._clock if deadline is None else Deadline(deadline)
        with self._until, _unbroken(self._connection):
            self._channel.settimeout(clock.left("telling the command what to do"))
            _send(self._channel, self._password + stdin)
            return _collect(self._connection, self._channel, clock, limit)

    def close(self) -> None:
        """Close the connection; the command gets no input any more."""
        with contextlib.suppress(RemoteError):
            self._until.close()


def start(connection: Connection, argv: Sequence[str], *, deadline: float) -> Running:
    """Log in and start a command; ``deadline`` (seconds) is for all of it. Raises RemoteError."""
    clock = Deadline(deadline)
    command, password = _command_line(connection, argv)
    with contextlib.ExitStack() as stack:
        transport = stack.enter_context(opened(connection, clock))
        with _unbroken(connection):
            channel = transport.open_session(timeout=clock.left("opening a session"))
            channel.settimeout(clock.left("starting the command"))
            channel.exec_command(command)
        return Running(connection, channel, clock, password, stack.pop_all())


def run(
    connection: Connection,
    argv: Sequence[str],
    *,
    deadline: float,
    limit: int = OUTPUT_LIMIT,
    stdin: bytes = b"",
) -> Output:
    """Run one command on one node, as the user that the inventory says (sudo where it says so).

    ``deadline`` (seconds) covers everything: connecting, the command, reading its output. Output
    over ``limit`` bytes is an error, not a truncation. ``stdin`` is only for connections that
    :func:`has_stdin`. Raises RemoteError for whatever goes wrong
    on the way; the command's own exit code is data.
    """
    return start(connection, argv, deadline=deadline).finish(stdin, limit=limit)


@contextlib.contextmanager
def _unbroken(connection: Connection) -> Iterator[None]:
    """Says of a connection that breaks that it did so under its command."""
    try:
        yield
    except (paramiko.SSHException, OSError, EOFError) as error:
        raise RemoteError(
            f"The connection to '{connection.host}' broke while its command ran: "
            f"{str(error) or type(error).__name__}."
        ) from error


def has_stdin(connection: Connection) -> bool:
    """Whether a command gets an input of its own.

    Not where sudo asks for a password there: after a wrong one it would take what follows for two
    more, and three may lock the user out (pam_faillock(8)).
    """
    return not _becomes(connection) or connection.become_password is None


def _becomes(connection: Connection) -> bool:
    return connection.become and connection.user != connection.become_user


def _send(channel: paramiko.Channel, data: bytes) -> None:
    """Give a command its input. One that has ended already says why; that is to be read yet."""
    try:
        channel.sendall(data)
        channel.shutdown_write()
    except TimeoutError:
        raise
    except OSError:
        if not channel.exit_status_ready():
            raise


def _command_line(connection: Connection, argv: Sequence[str]) -> tuple[str, bytes]:
    """The command as one shell-quoted line, with sudo in front where the inventory asks for it."""
    if not _becomes(connection):
        return shlex.join(argv), b""
    sudo = ["sudo", "-H", "-u", connection.become_user]
    if connection.become_password is None:
        return shlex.join([*sudo, "-n", "--", *argv]), b""
    # -k: ask even when a ticket is still valid; else the password would become the command's stdin.
    line = shlex.join([*sudo, "-k", "-S", "-p", "", "--", *argv])
    return line, connection.become_password.encode() + b"\n"


def _collect(
    connection: Connection, channel: paramiko.Channel, clock: Deadline, limit: int
) -> Output:
    stdout = bytearray()
    try:
        while True:
            channel.settimeout(clock.left("reading the answer"))
            data = channel.recv(_CHUNK)
            if not data:
                break
            stdout += data
            if len(stdout) > limit:
                raise RemoteError(f"'{connection.host}' sent more than {limit} bytes.")
        if not channel.status_event.wait(clock.left("waiting for the exit code")):
            clock.left("waiting for the exit code")
    except TimeoutError:
        clock.left("reading the answer")
        raise
    stderr = b""
    while channel.recv_stderr_ready() and len(stderr) < STDERR_LIMIT:
        stderr += channel.recv_stderr(STDERR_LIMIT)
    return Output(bytes(stdout), stderr.decode("utf-8", "backslashreplace"), channel.exit_status)
