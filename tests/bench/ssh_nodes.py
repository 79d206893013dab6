"""Thousands of simulated nodes that answer over real SSH, on loopback.

One OpenSSH server listens on every address of 127.0.0.0/8 (of the loopback device only), and each
node is one of these addresses. Whatever command it is asked for, the server hands the probe's nonce
and the address to one process, which answers as the probe of that node would. So a node costs the
machine a login, and no Python of its own. ``true`` is done and over.
"""

from __future__ import annotations

import base64
import contextlib
import getpass
import ipaddress
import multiprocessing
import shutil
import signal
import socket
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hfprov.declare.connection import Connection

FIRST = ipaddress.IPv4Address("127.16.0.0")
STARTS_WITHIN = 10.0
"""Seconds."""

# Bash itself opens the connection to the answering process; 'cat' is the only other program. The
# command is sent on whole: to cut its last word off, 100 KiB from its begin, takes bash 90 ms.
_COMMAND = (
    'exec bash -c \'[ "${{SSH_ORIGINAL_COMMAND}}" != true ] || exit 0; '
    "exec 3<>/dev/tcp/127.0.0.1/{port}; "
    'printf "%s %s\\n" "${{SSH_CONNECTION}}" "${{SSH_ORIGINAL_COMMAND}}" >&3; exec cat <&3\''
)
# SHLVL: else a bash that sshd starts takes itself for a login's first and reads ~/.bashrc, which
# may cost more than all the rest.
_SSHD = """\
ListenAddress 0.0.0.0:{port} rdomain lo
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile none
StrictModes no
UsePAM no
UseDNS no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
DisableForwarding yes
MaxStartups 1000
LoginGraceTime 300
LogLevel ERROR
SetEnv SHLVL=1
ForceCommand {command}
"""


@dataclass(frozen=True, slots=True)
class SshNodes:
    """How to reach the nodes; those of one fleet have a known_hosts file of their own."""

    folder: Path
    port: int

    def connections(self, names: Sequence[str]) -> dict[str, Connection]:
        """Connections to the first so many nodes, whose host keys are known and checked."""
        key = (self.folder / "host_key.pub").read_text(encoding="ascii").split()
        known = self.folder / f"known_hosts-{len(names)}"
        addresses = {name: str(FIRST + number) for number, name in enumerate(names)}
        known.write_text(
            "".join(f"[{one}]:{self.port} {key[0]} {key[1]}\n" for one in addresses.values()),
            encoding="ascii",
        )
        return {
            name: Connection(
                host=name,
                address=address,
                port=self.port,
                user=getpass.getuser(),
                key_files=(str(self.folder / "user_key"),),
                identities_only=True,
                known_hosts=(str(known),),
                # The server shares the controller's cores: it may be slow to greet.
                connect_timeout=60.0,
            )
            for name, address in addresses.items()
        }

    def bare(self, connection: Connection) -> list[str]:
        """OpenSSH's client for one node: the least that a login costs.

        With the key exchange of our own client. OpenSSH's first choice is safe from quantum
        computers as well, and takes 50 ms more on either side.
        """
        (key,), (known,) = connection.key_files, connection.known_hosts
        options = f"IdentityFile={key}", f"UserKnownHostsFile={known}", "IdentitiesOnly=yes"
        options += "KexAlgorithms=curve25519-sha256", "BatchMode=yes"
        words = [word for option in options for word in ("-o", option)]
        return ["ssh", "-F", "none", *words, "-p", str(self.port), connection.address, "true"]


@contextlib.contextmanager
def ssh_nodes(folder: Path, answer: Callable[[int], bytes]) -> Iterator[SshNodes]:
    """Nodes that answer with ``answer(number of the node)``, called in a process of its own.

    The answer is JSON as the probe prints it. Server and answering process end with the block.
    Needs ``sshd`` (Debian: openssh-server) and bash.
    """
    sshd = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin:/usr/bin")
    if sshd is None:
        sys.exit("There is no 'sshd': install openssh-server.")
    for name in ("host_key", "user_key"):
        _quiet(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)])
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listening:
        # Forked: what the answers are made of need not be sent, and none of it is ours to pay for.
        answering = multiprocessing.get_context("fork").Process(
            target=_serve, args=(listening, answer), daemon=True
        )
        answering.start()
        port = listening.getsockname()[1]
    try:
        with _server(sshd, folder, _COMMAND.format(port=port)) as nodes:
            yield nodes
    finally:
        answering.terminate()
        answering.join()


@contextlib.contextmanager
def _server(sshd: str, folder: Path, command: str) -> Iterator[SshNodes]:
    port = _free_port()
    config = folder / "sshd_config"
    config.write_text(_SSHD.format(port=port, folder=folder, command=command), encoding="utf-8")
    privileges = Path("/run/sshd")  # sshd of root wants it; else its unit makes it
    with contextlib.suppress(PermissionError):
        privileges.mkdir(mode=0o755, exist_ok=True)
    with (folder / "sshd.log").open("wb") as log:
        server = subprocess.Popen(
            [sshd, "-D", "-e", "-f", str(config)],
            stdin=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,  # Ctrl-C is for us; we stop it
        )
    try:
        _wait_for(server, port, folder / "sshd.log")
        yield SshNodes(folder, port)
    finally:
        server.terminate()
        server.wait()


def _serve(listening: socket.socket, answer: Callable[[int], bytes]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # our parent ends us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while True:
        node, _ = listening.accept()
        with node, node.makefile("rwb") as stream:
            _, _, address, _, *_, nonce = stream.readline().split()
            number = int(ipaddress.IPv4Address(address.decode("ascii"))) - int(FIRST)
            packed = base64.b64encode(zlib.compress(answer(number), 1))
            with contextlib.suppress(OSError):  # whoever asked has given up
                stream.write(b"\nhfprov-begin %b\n%b\nhfprov-end %b\n" % (nonce, packed, nonce))
                stream.flush()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


def _wait_for(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + STARTS_WITHIN
    while server.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    said = log.read_text(encoding="utf-8", errors="replace")
    raise SystemExit(f"sshd did not start: {said or 'it said nothing'}")


def _quiet(argv: Sequence[str]) -> None:
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, timeout=60)
