"""Hooks: commands on the controller that take a node out of service and give it back.

A hook is the operator's own command, for example ``scontrol update nodename={host} state=drain``.
It is run without a shell; ``{host}`` in a word stands for the host's inventory name.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from typing import IO

from hfprov.errors import RebootError, UsageError
from hfprov.evidence.text import clean

HOOK_SECONDS = 600.0
_TAIL = 2000
"""Bytes of a hook's output that are shown."""


@dataclass(frozen=True, slots=True)
class Hook:
    """A command for one host at a time; made by :func:`parse_hook`."""

    kind: str
    """``drain`` or ``release``."""
    words: tuple[str, ...]
    seconds: float = HOOK_SECONDS

    def argv(self, host: str) -> list[str]:
        return [word.replace("{host}", host) for word in self.words]

    def run(self, host: str, run_id: str) -> None:
        """Run it for a host. Raises RebootError when it fails, cannot run or does not end."""
        argv = self.argv(host)
        env = {**os.environ, "HFPROV_HOST": host, "HFPROV_RUN": run_id, "HFPROV_HOOK": self.kind}
        with tempfile.TemporaryFile() as output:
            try:
                code = _run(argv, env, output, self.seconds)
            except subprocess.TimeoutExpired:
                raise RebootError(
                    f"The {self.kind} hook for '{host}' did not end within {self.seconds:g} s."
                ) from None
            except OSError as error:
                raise RebootError(
                    f"The {self.kind} hook cannot be run: '{argv[0]}': {error.strerror}."
                ) from error
            if code != 0:
                raise RebootError(
                    f"The {self.kind} hook for '{host}' ended with exit code {code}: "
                    f"{_tail(output) or 'it said nothing'}"
                )


def parse_hook(kind: str, text: str | None, seconds: float = HOOK_SECONDS) -> Hook | None:
    """A hook from a command line; None for none. Raises UsageError for what is no command."""
    if text is None:
        return None
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"The {kind} hook is no command: {error}.") from None
    if not words:
        raise UsageError(f"The {kind} hook is empty.", hint="Leave it out, or give a command.")
    if not any("{host}" in word for word in words[1:]):
        raise UsageError(
            f"The {kind} hook does not say for which host: it has no '{{host}}'.",
            hint=f"For example: --{kind} 'site-{kind} {{host}}'",
        )
    return Hook(kind, words, seconds)


def _run(argv: list[str], env: dict[str, str], output: IO[bytes], seconds: float) -> int:
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=env,
        start_new_session=True,
    )
    try:
        return process.wait(seconds)
    except BaseException:
        # The whole session: a hook may be a script with children.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise


def _tail(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - _TAIL))
    return " ".join(clean(output.read().decode("utf-8", "backslashreplace")).split())
