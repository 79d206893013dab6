"""A transport to a node that is logged in to: host key checked, errors told, in a deadline.

Fabric makes the connection (the user's ``~/.ssh/config``, agents, jump hosts). With
:mod:`hfprov.remote` the only importer of fabric and paramiko.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import logging
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import fabric
import paramiko
from paramiko.config import SSH_PORT
from paramiko.pkey import UnknownKeyType

from hfprov.declare.connection import (
    GLOBAL_KNOWN_HOSTS,
    USER_KNOWN_HOSTS,
    Connection,
    JumpHost,
)
from hfprov.errors import RemoteError
from hfprov.known_hosts import HostKey, KnownHosts

# What goes wrong is raised to us as well; else paramiko's threads print tracebacks of it.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

_ONCE = threading.Lock()
"""What is read once for all hosts is not read by all threads that want it first."""


class Deadline:
    """A moment in time that several steps share."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self, what: str) -> float:
        """Seconds left. Raises RemoteError naming what was being done when none are."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise RemoteError(
                f"No answer within {self.seconds:g} s ({what}).",
                hint="Look at the node's console; raise '--deadline' if the node is only slow.",
            )
        return left


@contextlib.contextmanager
def opened(connection: Connection, clock: Deadline) -> Iterator[paramiko.Transport]:
    """An authenticated transport to the node, closed at the end. Translates every SSH error."""
    name = connection.host
    hops: list[fabric.Connection] = []
    try:
        node = _connection(connection, clock, hops)
        node.open()
        yield node.transport
    except paramiko.BadHostKeyException as error:
        raise RemoteError(
            f"The host key of '{name}' is not the one on record ({error.key.get_name()}): "
            "this may be another machine, or somebody in between.",
            hint="If the node was reinstalled, replace its key in the known_hosts file.",
        ) from error
    except paramiko.AuthenticationException as error:
        raise RemoteError(
            f"'{name}' refused the login{_as_user(connection)}: {str(error).rstrip('.')}.",
            hint="Check 'ansible_user' and 'ansible_ssh_private_key_file'.",
        ) from error
    except paramiko.SSHException as error:
        raise _ssh_error(connection, error) from error
    except TimeoutError as error:
        raise RemoteError(
            f"'{name}' ({_place(connection)}) did not answer within "
            f"{connection.connect_timeout:g} s."
        ) from error
    except (OSError, EOFError) as error:
        raise RemoteError(
            f"'{name}' ({_place(connection)}) cannot be reached: {_plain_reason(error)}."
        ) from error
    finally:
        for hop in reversed(hops):
            with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
                hop.close()


def _place(connection: Connection) -> str:
    port = "" if connection.port is None else f" port {connection.port}"
    return f"{connection.address}{port}"


def _as_user(connection: Connection) -> str:
    return "" if connection.user is None else f" of user '{connection.user}'"


def _plain_reason(error: Exception) -> str:
    if isinstance(error, paramiko.ssh_exception.NoValidConnectionsError):
        error = next(iter(error.errors.values()))
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def _ssh_error(connection: Connection, error: paramiko.SSHException) -> RemoteError:
    text = str(error) or type(error).__name__
    if "not found in known_hosts" in text:
        files = ", ".join(f"'{path}'" for path in connection.known_hosts)
        return RemoteError(
            f"The host key of '{connection.host}' is not known ({files}).",
            hint="Add the key that you verified to that file; hfprov never accepts unknown keys.",
        )
    return RemoteError(f"SSH to '{connection.host}' failed: {text}.")


@functools.cache
def _fabric_config() -> fabric.Config:
    """Fabric's configuration with the user's ssh_config, read once for all hosts."""
    config = fabric.Config(lazy=True)
    config.load_ssh_config()
    return config


@functools.cache
def _private_key(path: str) -> paramiko.PKey:
    """A private key, read once for all hosts. One with a passphrase belongs in an agent."""
    try:
        return paramiko.PKey.from_path(str(Path(path).expanduser()))
    except paramiko.PasswordRequiredException as error:
        raise RemoteError(
            f"The private key '{path}' has a passphrase.", hint="Load it into an SSH agent."
        ) from error
    except (OSError, ValueError, paramiko.SSHException) as error:
        raise RemoteError(f"The private key '{path}' cannot be used: {error}.") from error


@functools.cache
def _known_hosts(path: str) -> KnownHosts:
    """One file of host keys, read once for all hosts."""
    try:
        return KnownHosts.load(path)
    except OSError as error:
        raise RemoteError(
            f"The known_hosts file '{path}' cannot be read: {_plain_reason(error)}."
        ) from error


def _check_keys(node: fabric.Connection, files: Sequence[str]) -> None:
    """Have a machine's host key checked: Fabric accepts unknown ones by default; we never do.

    Of several keys of one kind the first counts. Raises RemoteError if all of them are revoked.
    """
    node.client.set_missing_host_key_policy(paramiko.RejectPolicy())
    name = str(node.host if node.port == SSH_PORT else f"[{node.host}]:{node.port}")
    with _ONCE:
        known = [_known_hosts(path) for path in files]
    keys = [key for file in known for key in file.keys_of(name)]
    good = [key for key in keys if not any(key.blob in file.revoked for file in known)]
    if keys and not good:
        raise RemoteError(
            f"The host key of '{name}' is revoked ({', '.join(files)}).",
            hint="Give the machine a new host key, and put that into the known_hosts file.",
        )
    first: dict[str, HostKey] = {}
    for key in good:
        first.setdefault(key.kind, key)
    for key in first.values():
        # A line that cannot be read holds no key.
        with contextlib.suppress(ValueError, OverflowError, paramiko.SSHException, UnknownKeyType):
            usable = paramiko.PKey.from_type_string(key.kind, base64.b64decode(key.blob))
            node.client.get_host_keys().add(name, usable.get_name(), usable)


class _Node(fabric.Connection):  # type: ignore[misc]  # Fabric has no types
    """Fabric's connection, with the attribute declared that it does not declare itself.

    To set an undeclared one changes the configuration, which all hosts share: Fabric merges it anew
    for every host, and the threads of other hosts find half of it.
    """

    inline_ssh_env: bool | None = None


def _connection(
    target: Connection | JumpHost,
    clock: Deadline,
    hops: list[fabric.Connection],
    through: fabric.Connection | None = None,
) -> fabric.Connection:
    """A Fabric connection with our host key policy; ``hops`` collects what must be closed."""
    gateway = through if target.proxy_command is None else target.proxy_command
    for jump in target.jump:
        gateway = _connection(jump, clock, hops, gateway)
    timeout = min(target.connect_timeout, clock.left("connecting"))
    kwargs: dict[str, Any] = {
        "banner_timeout": timeout,
        "auth_timeout": timeout,
        "channel_timeout": timeout,
        "look_for_keys": not target.key_files,
        "allow_agent": not target.identities_only,
    }
    if target.password is not None:
        kwargs["password"] = target.password
    if len(target.key_files) == 1:
        kwargs["pkey"] = _private_key(target.key_files[0])
    elif target.key_files:
        kwargs["key_filename"] = [str(Path(path).expanduser()) for path in target.key_files]
    with _ONCE:
        config = _fabric_config()
    made = _Node(
        target.address,
        user=target.user,
        port=target.port,
        config=config,
        gateway=gateway,
        connect_timeout=timeout,
        connect_kwargs=kwargs,
    )
    _check_keys(made, target.known_hosts)
    hops += [*_on_the_way(made, hops, kwargs), made]
    return made


def _on_the_way(
    node: fabric.Connection, hops: Collection[fabric.Connection], kwargs: Mapping[str, Any]
) -> list[fabric.Connection]:
    """Jump hosts of ssh_config, farthest first; Fabric made them, without checks and deadlines."""
    found: list[fabric.Connection] = []
    way = node.gateway
    while isinstance(way, fabric.Connection) and not any(way is hop for hop in hops):
        _check_keys(way, USER_KNOWN_HOSTS + GLOBAL_KNOWN_HOSTS)
        waits = {name: value for name, value in kwargs.items() if name.endswith("_timeout")}
        way.connect_kwargs = {**waits, **way.connect_kwargs}
        way.connect_timeout = way.connect_timeout or node.connect_timeout
        found.insert(0, way)
        way = way.gateway
    return found
