"""SSH signatures by ``ssh-keygen -Y`` (PROTOCOL.sshsig). Standard library only.

OpenSSH keeps the keys, in files, in an agent or in hardware, and decides whom to trust.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from hfprov.errors import HfprovError, UsageError

NAMESPACE = "hfprov-certificate"
"""What our signatures are for: one made for something else is none of ours."""
INDEX_NAMESPACE = "hfprov-index"
_DEADLINE = 60.0
_AT_ONCE = 500
"""Files in one command line."""
_BEGIN = "-----BEGIN SSH SIGNATURE-----"


class SignatureRefusedError(HfprovError):
    """A signature is missing, wrong, or of nobody who is trusted."""


def default_principal() -> str:
    return f"hfprov@{os.uname().nodename}"


def ensure_key(key: Path, signers: Path) -> None:
    """Make a key, and trust it, unless there is one. Raises UsageError when that cannot be done.

    The key has no passphrase, as a nightly run has nobody to ask: who can read it can sign.
    """
    if not key.exists():
        try:
            key.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise UsageError(f"'{key.parent}' cannot be made: {error.strerror}.") from error
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", default_principal()]
        _run([*argv, "-f", str(key)], what="make a key")
    if not signers.exists():
        try:
            public = key.with_name(f"{key.name}.pub").read_text("utf-8")
            signers.write_text(signer_line(default_principal(), public), "utf-8")
        except OSError as error:
            raise UsageError(f"'{error.filename}' is not usable: {error.strerror}.") from error


def signer_line(principal: str, public: str) -> str:
    """The line of a key in a file of allowed signers; ssh-keygen(1), ALLOWED SIGNERS."""
    kind, data, *_ = public.split()
    return f'{principal} namespaces="{NAMESPACE},{INDEX_NAMESPACE}" {kind} {data}\n'


def sign(texts: Sequence[str], key: Path, namespace: str = NAMESPACE) -> list[str]:
    """A signature of each text, by one process for hundreds. Raises UsageError.

    ``key`` is a private key, or a public one whose private half an agent holds.
    """
    signatures: list[str] = []
    with tempfile.TemporaryDirectory(prefix="hfprov-sign-") as folder:
        for start in range(0, len(texts), _AT_ONCE):
            files = []
            for number, text in enumerate(texts[start : start + _AT_ONCE]):
                path = Path(folder, f"{start + number}")
                path.write_text(text, "utf-8")
                files.append(path)
            argv = ["ssh-keygen", "-Y", "sign", "-q", "-f", str(key), "-n", namespace]
            _run([*argv, *map(str, files)], what="sign")
            signatures += [Path(f"{path}.sig").read_text("utf-8") for path in files]
    return signatures


def verify(
    text: str,
    signature: str,
    signers: Path,
    *,
    principal: str = "",
    namespace: str = NAMESPACE,
) -> str:
    """Who signed a text. Raises SignatureRefusedError with the reason, UsageError without tools.

    With ``principal`` it must be that one, which saves a process; else whoever the file allows.
    """
    if not signature.lstrip().startswith(_BEGIN):
        raise SignatureRefusedError("It is not signed.")
    if not signers.is_file():
        raise UsageError(
            f"There is no file of allowed signers at '{signers}'.",
            hint="Name one with '--allowed-signers'; without it nobody is trusted.",
        )
    with tempfile.NamedTemporaryFile("w", suffix=".sig", encoding="utf-8") as file:
        file.write(signature)
        file.flush()
        if not principal:
            principal = _signer(file.name, signers)
        argv = ["ssh-keygen", "-Y", "verify", "-f", str(signers), "-I", principal]
        done = _ssh_keygen([*argv, "-n", namespace, "-s", file.name], text)
    if done.returncode:
        raise SignatureRefusedError(_why(done.stderr + done.stdout))
    return principal


def _signer(signature: str, signers: Path) -> str:
    argv = ["ssh-keygen", "-Y", "find-principals", "-f", str(signers), "-s", signature]
    done = _ssh_keygen(argv, "")
    names = done.stdout.split("\n")[0].strip()
    if done.returncode or not names:
        raise SignatureRefusedError(
            f"It is signed by a key that '{signers}' does not allow.",
            hint="Was it signed by another controller, or with a key that is not trusted any more?",
        )
    return names.split(",")[0]


def _why(said: str) -> str:
    if "incorrect signature" in said:
        return "It was changed after it was signed."
    if "namespace" in said:
        return "It was signed for another purpose."
    return f"Its signature is not good: {' '.join(said.split())[:200]}"


def _run(argv: Sequence[str], *, what: str) -> None:
    done = _ssh_keygen(argv, "")
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())[:300]
        raise UsageError(
            f"ssh-keygen could not {what}: {said}.",
            hint="A key with a passphrase must be in an ssh-agent: then name its '.pub' file.",
        )


def _ssh_keygen(argv: Sequence[str], text: str) -> subprocess.CompletedProcess[str]:
    environment: Mapping[str, str] = {**os.environ, "SSH_ASKPASS_REQUIRE": "never", "LC_ALL": "C"}
    try:
        # In a session of its own it has no terminal to ask on, and fails instead of waiting.
        return subprocess.run(
            argv,
            input=text,
            capture_output=True,
            text=True,
            timeout=_DEADLINE,
            check=False,
            env=environment,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise UsageError("'ssh-keygen' is not installed.", hint="Install OpenSSH.") from error
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"ssh-keygen did not end within {_DEADLINE:g} seconds.") from error
