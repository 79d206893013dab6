"""How to reach a host: Ansible's connection settings as data, or a refusal. Never half of them.

A setting that observation cannot honour would let it look at another machine, as another user or
with less care than the roles do; so it is refused by name. ``~/.ssh/config`` is not read here:
Fabric honours it when it connects, as OpenSSH does for Ansible, for what the inventory leaves open
(user, port, keys, proxies).
"""

from __future__ import annotations

import getpass
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hfprov.declare.ssh_options import Refusal, SshOptions, jump_parts
from hfprov.regex import regex

USER_KNOWN_HOSTS = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
GLOBAL_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
"""Where OpenSSH looks by default (ssh_config(5), UserKnownHostsFile and GlobalKnownHostsFile)."""


@dataclass(frozen=True, slots=True)
class JumpHost:
    """One machine on the way. As with OpenSSH's ProxyJump, the target's keys are not its keys."""

    address: str
    port: int | None = None
    user: str | None = None
    key_files: tuple[str, ...] = ()
    identities_only: bool = False
    password: str | None = field(default=None, repr=False)
    known_hosts: tuple[str, ...] = ()
    jump: tuple[JumpHost, ...] = ()
    proxy_command: str | None = None
    connect_timeout: float = 10.0


@dataclass(frozen=True, slots=True)
class Connection:
    """Everything needed to run a command on a host. Passwords never show in its ``repr``."""

    host: str
    """The name in the inventory."""
    address: str
    port: int | None = None
    """None: what ~/.ssh/config says, else 22."""
    user: str | None = None
    """None: what ~/.ssh/config says, else the name of the local user."""
    key_files: tuple[str, ...] = ()
    identities_only: bool = False
    """Offer ``key_files`` and nothing else that an agent may hold."""
    password: str | None = field(default=None, repr=False)
    known_hosts: tuple[str, ...] = ()
    """Files of known host keys; one need not exist. A host in none of them is refused."""
    jump: tuple[JumpHost, ...] = ()
    """Machines on the way, the nearest first."""
    proxy_command: str | None = None
    """A command to connect through, with OpenSSH's tokens ``%h %p %r`` left in."""
    become: bool = False
    become_user: str = "root"
    become_password: str | None = field(default=None, repr=False)
    interpreter: str = "python3"
    connect_timeout: float = 10.0
    """Seconds."""


@dataclass(frozen=True, slots=True)
class Host:
    """One host that was asked for."""

    name: str
    groups: tuple[str, ...]
    """All its groups but 'all', sorted."""
    connection: Connection


@dataclass(frozen=True, slots=True)
class Setting:
    """One of Ansible's connection settings: its value, and what set it (``default`` if nothing)."""

    value: Any
    source: str

    @property
    def given(self) -> bool:
        return self.source != "default" and self.value not in (None, "")


# Options of the ssh and sudo plugins (ansible-doc -t connection ssh, -t become sudo) without a
# meaning for one command over one connection.
_NO_EFFECT = (
    "sshpass_prompt password_mechanism sftp_executable scp_executable scp_extra_args "
    "sftp_extra_args reconnection_retries pipelining control_path control_path_dir "
    "sftp_batch_mode ssh_transfer_method use_tty verbosity"
)
_HONOURED = (
    "host port remote_user password private_key_file timeout ssh_args ssh_common_args "
    "ssh_extra_args host_key_checking become_user become_pass become_exe become_flags "
    "connection become become_method shell_type shell_executable interpreter"
)
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "zsh"})
_DEFAULT_SUDO_FLAGS = frozenset({"-H", "-S", "-n"})
_PLAIN_NAME = regex(r"[\w.:%\[\]][\w.:%\[\]-]*")
# '%h' and '%r' would differ per host; observation reads each file once for all hosts.
_TOKENS: Mapping[str, Callable[[], str]] = {
    "%d": lambda: str(Path.home()),
    "%u": getpass.getuser,
    "%%": lambda: "%",
}


def _jumps(value: str, timeout: float) -> tuple[JumpHost, ...]:
    if not value or value.lower() == "none":
        return ()
    hops = []
    for part in value.split(","):
        found = jump_parts(part)
        if found:
            port = int(found["port"]) if found["port"] else None
            hops.append(
                JumpHost(
                    address=found["six"] or found["host"],
                    port=port,
                    user=found["user"],
                    known_hosts=USER_KNOWN_HOSTS + GLOBAL_KNOWN_HOSTS,
                    connect_timeout=timeout,
                )
            )
    return tuple(hops)


def _files(value: str | None, default: tuple[str, ...]) -> tuple[str, ...]:
    if value is None:
        return default
    names = [name for name in value.split() if name.lower() != "none"]
    return tuple(re.sub(r"%[du%]", lambda token: _TOKENS[token[0]](), name) for name in names)


def at_address(
    pattern: Connection, host: str, address: Setting
) -> tuple[Connection, list[Refusal]]:
    """A connection of :func:`read_connection` with the name and address of one host."""
    refusals = [
        Refusal(f"{label}: {text!r}", "A name consists of letters, digits, dots and dashes.")
        for label, text in (("the host name", host), (address.source, str(address.value)))
        if not _PLAIN_NAME.fullmatch(text)
    ]
    return replace(pattern, host=host, address=str(address.value)), refusals


def read_connection(
    settings: Mapping[str, Setting],
) -> tuple[Connection, tuple[Refusal, ...]]:
    """The connection without host and address, and every setting that cannot be honoured.

    ``settings`` are the options of Ansible's ssh and sudo plugins by name, resolved and without
    templates, and ``connection``, ``become``, ``become_method``, ``shell_type``,
    ``shell_executable`` and ``interpreter``. The connection is of use only without refusals.
    """
    refusals = _refused_settings(settings)
    options = _ssh_options(settings)
    value = options.values
    timeout = value.get("connecttimeout", "none")
    seconds = float(timeout) if timeout.isdecimal() else 10.0
    user = value.get("user")
    jump, command = value.get("proxyjump", ""), value.get("proxycommand")
    # OpenSSH: of ProxyJump and ProxyCommand the one given first counts (ssh_config(5)).
    if (
        jump
        and command is not None
        and list(value).index("proxycommand") < list(value).index("proxyjump")
    ):
        jump = ""
    become = settings["become"]
    become_password = settings["become_pass"].value
    password = settings["password"].value
    port = value.get("port", "")
    connection = Connection(
        host="",
        address="",
        port=int(port) if port.isdecimal() else None,
        user=user,
        key_files=tuple(options.key_files),
        identities_only=value.get("identitiesonly", "no").lower() in ("yes", "true"),
        password=None if password in (None, "") else str(password),
        known_hosts=_files(value.get("userknownhostsfile"), USER_KNOWN_HOSTS)
        + _files(value.get("globalknownhostsfile"), GLOBAL_KNOWN_HOSTS),
        jump=_jumps(jump, seconds),
        proxy_command=None if jump or not command or command.lower() == "none" else command,
        # The playbook says 'become: true'; to become root, root needs nobody's help.
        become=bool(become.value) if become.given else user != "root",
        become_user=str(settings["become_user"].value or "root"),
        become_password=None if become_password in (None, "") else str(become_password),
        interpreter=_interpreter(settings["interpreter"]),
        connect_timeout=seconds,
    )
    return connection, (*refusals, *options.refusals)


def _interpreter(setting: Setting) -> str:
    """Discovery (``auto``, ``auto_silent``, …) costs Ansible a task; ``python3`` is its result."""
    value = str(setting.value or "auto")
    return "python3" if value.startswith("auto") else value


def _ssh_options(settings: Mapping[str, Setting]) -> SshOptions:
    """All options in the order in which Ansible's ssh plugin puts them on the command line."""
    options = SshOptions()

    def line(name: str) -> None:
        if settings[name].value:
            options.add_line(str(settings[name].value), settings[name].source)

    def one(name: str, keyword: str) -> None:
        setting = settings[name]
        if setting.value not in (None, ""):
            options.add(keyword, str(setting.value), setting.source)

    line("ssh_args")
    if settings["host_key_checking"].value is False:
        options.add("StrictHostKeyChecking", "no", settings["host_key_checking"].source)
    one("port", "Port")
    one("private_key_file", "IdentityFile")
    one("remote_user", "User")
    one("timeout", "ConnectTimeout")
    line("ssh_common_args")
    line("ssh_extra_args")
    return options


def _refused_settings(settings: Mapping[str, Setting]) -> list[Refusal]:
    refusals = []

    def refuse(name: str, reason: str) -> None:
        # The value of an option that is not known here may be a secret: a key, a passphrase.
        value = f": {settings[name].value}" if name in _HONOURED.split() else ""
        refusals.append(Refusal(f"{settings[name].source} ({name}{value})", reason))

    for name, setting in settings.items():
        if setting.given and name not in (*_HONOURED.split(), *_NO_EFFECT.split()):
            refuse(name, "Observation cannot honour this setting.")
    if _plugin(settings, "connection") not in ("ssh", "smart", "paramiko", "paramiko_ssh"):
        refuse("connection", "Nodes are reached over SSH only.")
    if _plugin(settings, "become_method") != "sudo":
        refuse("become_method", "Only sudo is supported.")
    if settings["become_exe"].given and settings["become_exe"].value != "sudo":
        refuse("become_exe", "Only a 'sudo' on the node's search path is supported.")
    flags = set(str(settings["become_flags"].value or "").split())
    if settings["become_flags"].given and not flags <= _DEFAULT_SUDO_FLAGS:
        refuse("become_flags", "Only -H, -S and -n are supported.")
    for name in ("shell_type", "shell_executable"):
        if settings[name].given and Path(str(settings[name].value)).name not in _SHELLS:
            refuse(name, "Only shells that understand POSIX sh are supported.")
    return refusals


def _plugin(settings: Mapping[str, Setting], name: str) -> str:
    return (
        str(settings[name].value).removeprefix("ansible.builtin.").removeprefix("ansible.legacy.")
    )
