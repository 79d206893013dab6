"""One container on one node, from the controller: started, heard out, understood."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hfprov.container_smoke import launcher, program
from hfprov.container_smoke.answers import Launched, read_launched
from hfprov.container_smoke.declared import Wanted
from hfprov.declare.connection import Connection
from hfprov.diagnose import GRACE, on_node
from hfprov.errors import HfprovError
from hfprov.remote import run

_AROUND = 6 * launcher.STEP
"""Seconds that the launcher's own calls of the engine may take, beside the container."""
_OUTPUT_LIMIT = 8 << 20


@dataclass(frozen=True, slots=True)
class Heard:
    """What came of one container: the launcher's answer, or why there is none."""

    token: str
    launched: Launched | None
    problem: str = ""
    raw: bytes = b""


@cache
def _source(name: str) -> str:
    return Path(name).read_text("utf-8")


def launch(
    connection: Connection, wanted: Wanted, question: Mapping[str, Any], seconds: float
) -> Heard:
    """Start the program with a question, and wait for its answer. Never raises for a node."""
    token = secrets.token_hex(16)
    asked = {
        "token": token,
        "engine": wanted.engine,
        "image": wanted.image,
        "python": wanted.python,
        "options": list(wanted.options),
        "program": _source(program.__file__),
        # The program ends itself a little before the launcher ends it.
        "question": {**question, "token": token, "variant": wanted.variant, "seconds": seconds - 5},
        "seconds": seconds,
    }
    argv = [connection.interpreter, "-IS", "-c", _source(launcher.__file__), json.dumps(asked)]
    whole = seconds + _AROUND
    try:
        output = run(connection, on_node(argv, whole), deadline=whole + GRACE, limit=_OUTPUT_LIMIT)
    except HfprovError as error:
        return Heard(token, None, error.message)
    text = output.stdout.decode("utf-8", "backslashreplace")
    try:
        return Heard(token, read_launched(text, token), raw=output.stdout)
    except HfprovError as error:
        said = f"{error.message} Exit code {output.code}; it said: {output.stderr[-300:].strip()}"
        return Heard(token, None, said, output.stdout)
