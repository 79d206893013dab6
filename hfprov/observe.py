"""See what is true on nodes: one connection, one process, one answer per host; many at once."""

from __future__ import annotations

import base64
import binascii
import concurrent.futures
import functools
import hashlib
import json
import marshal
import secrets
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from hfprov import probe
from hfprov.declare.connection import Connection
from hfprov.errors import RemoteError
from hfprov.reading import Observation, Read
from hfprov.remote import Output, Running, has_stdin, start

T = TypeVar("T")

AT_ONCE = 64
"""Hosts observed at the same time, unless told otherwise."""
HOST_DEADLINE = 90.0
"""Seconds for one host, connecting included."""
ANSWER_LIMIT = 64 << 20
"""Bytes of an answer after decompression; a hostile node must not fill the controller's memory."""
_ARGUMENT_LIMIT = 120 * 1024
"""Linux takes at most 128 KiB in one argument (MAX_ARG_STRLEN, execve(2))."""

_LOADER = (
    "import sys,io,zlib,binascii,marshal,_frozen_importlib_external as f;"
    "a=sys.argv[2:];"
    "r=(io.BytesIO(binascii.a2b_base64(a[0]))if a else sys.stdin.buffer).read;"
    "m,c,s,p=[zlib.decompress(r(int(r(8),16)))for _ in'1234'];"
    "exec(marshal.loads(c)if m==f.MAGIC_NUMBER else compile(s,'hfprov-probe','exec'));"
    "main(p,sys.argv[1])"
)
"""Takes what :func:`message` makes. A Python of the controller's version need not compile it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One host's answer: an observation with its raw JSON, or the reason why there is none."""

    host: str
    observation: Observation | None
    raw: bytes = b""
    """The probe's JSON answer, kept as evidence."""
    packed: bytes = b""
    """The same as it travelled: compressed by zlib on the node."""
    error: str = ""
    hint: str = ""

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.raw).hexdigest()


@dataclass(frozen=True, slots=True)
class Login:
    """A node that was logged in to: a probe runs there, and waits for what it is to read."""

    nonce: str
    """Marks the probe's answer."""
    command: Running


def log_in(connection: Connection, deadline: float, *arguments: str) -> Login:
    """Start the probe on a node; ``deadline`` (seconds) is for its answer, too.

    Raises RemoteError.
    """
    nonce = secrets.token_hex(8)
    argv = [*probe_argv(connection.interpreter, nonce), *arguments]
    return Login(nonce, start(connection, argv, deadline=deadline))


def observe(
    connection: Connection,
    reads: Sequence[Read],
    *,
    deadline: float = HOST_DEADLINE,
    begun: Callable[[], Login] | None = None,
) -> Answer:
    """Observe one host. Whatever goes wrong is in the answer; a node never makes this raise.

    ``begun`` gives the login where there is one already, or raises RemoteError as it would.
    """
    try:
        asked = message(tuple(reads), deadline)
        anew = None
        if begun is not None:
            # It may have waited for us; that is no fault of the node's.
            login, anew = begun(), deadline
        elif has_stdin(connection):
            login = log_in(connection, deadline)
        else:
            login, asked = log_in(connection, deadline, _argument(asked)), b""
        output = login.command.finish(asked, limit=ANSWER_LIMIT, deadline=anew)
        raw, packed = _unpack(connection.host, output, login.nonce)
        return Answer(connection.host, parse_answer(raw), raw, packed)
    except RemoteError as error:
        return Answer(connection.host, None, error=error.message, hint=error.hint)


def observe_many(
    reads: Mapping[str, Sequence[Read]],
    connections: Mapping[str, Connection],
    *,
    at_once: int = AT_ONCE,
    deadline: float = HOST_DEADLINE,
) -> Iterator[Answer]:
    """Observe many hosts, a bounded number at once; answers come as they arrive.

    ``reads`` and ``connections`` are by host. Closing the iterator cancels what has not started.
    """
    for group in observe_groups(reads, connections, at_once=at_once, deadline=deadline):
        yield from group


def observe_groups(
    reads: Mapping[str, Sequence[Read]],
    connections: Mapping[str, Connection],
    *,
    at_once: int = AT_ONCE,
    deadline: float = HOST_DEADLINE,
    begun: Mapping[str, Callable[[], Answer]] = MappingProxyType({}),
) -> Iterator[list[Answer]]:
    """As :func:`observe_many`, with all that arrived while the caller was busy in one list.

    ``begun`` gives the answers of hosts that are being observed already.
    """
    jobs = [
        begun.get(host) or partial(observe, connections[host], reads[host], deadline=deadline)
        for host in reads
    ]
    yield from in_groups(jobs, at_once=at_once)


def in_parallel(jobs: Sequence[Callable[[], T]], *, at_once: int) -> Iterator[T]:
    """Run jobs in threads, ``at_once`` at most, and yield each result as it comes."""
    for group in in_groups(jobs, at_once=at_once):
        yield from group


def in_groups(jobs: Sequence[Callable[[], T]], *, at_once: int) -> Iterator[list[T]]:
    """The same, with the results that are there already in one list; none of them is empty.

    At most twice as many jobs are queued as run, so that memory does not grow with the fleet.
    """
    pool = concurrent.futures.ThreadPoolExecutor(max_workers=max(1, min(at_once, len(jobs))))
    waiting = iter(jobs)
    running: set[concurrent.futures.Future[T]] = set()
    try:
        while True:
            for job in waiting:
                running.add(pool.submit(job))
                if len(running) >= 2 * at_once:
                    break
            if not running:
                return
            done, running = concurrent.futures.wait(
                running, return_when=concurrent.futures.FIRST_COMPLETED
            )
            yield [future.result() for future in done]
    finally:
        # Every job has its own deadline: on Ctrl-C nobody waits for a node that hangs.
        pool.shutdown(wait=False, cancel_futures=True)


def probe_argv(python: str, nonce: str) -> list[str]:
    """The command that marks its answer by the nonce.

    It takes a message on stdin, or as one more argument, in base64.
    """
    return [python, "-IS", "-c", _LOADER, nonce]


@functools.lru_cache(maxsize=8)
def message(reads: tuple[Read, ...], deadline: float) -> bytes:
    """The probe and its plan, as they are sent to each host that is asked for the same."""
    # The probe stops a little earlier than we do, so that a slow node still answers with the rest.
    plan = {
        "deadline": max(1.0, deadline * 0.8),
        "budget": 16 << 20,
        "reads": [{"id": read.id, **read.request} for read in reads],
    }
    return _probe() + _part_of_message(json.dumps(plan, separators=(",", ":")).encode())


@functools.cache
def _probe() -> bytes:
    source = probe_source()
    code = marshal.dumps(compile(source, "hfprov-probe", "exec"))
    return b"".join(map(_part_of_message, (MAGIC_NUMBER, code, source.encode())))


def _argument(sent: bytes) -> str:
    coded = base64.b64encode(sent).decode("ascii")
    if len(coded) > _ARGUMENT_LIMIT:
        raise RemoteError(
            f"What is to be read is too long to send where sudo asks for a password "
            f"({len(coded)} bytes).",
            hint="Let sudo run without one, or log in as root.",
        )
    return coded


def _part_of_message(data: bytes) -> bytes:
    packed = zlib.compress(data, 9)
    return b"%08x%b" % (len(packed), packed)


def probe_source() -> str:
    """The probe as one program: its parts without their imports of each other."""
    folder = Path(probe.__file__).parent
    texts = ((folder / part).read_text(encoding="utf-8") for part in probe.PARTS)
    lines = (line for text in texts for line in text.splitlines())
    return "\n".join(line for line in lines if not line.startswith("from hfprov.")) + "\n"


def _unpack(host: str, output: Output, nonce: str) -> tuple[bytes, bytes]:
    """The probe's JSON, and as it was packed, from what came over SSH.

    Banners and the login shell's noise are passed over.
    """
    begin, end = f"hfprov-begin {nonce}\n".encode(), f"\nhfprov-end {nonce}".encode()
    _, found, rest = output.stdout.partition(begin)
    coded, complete, _ = rest.partition(end)
    if not found or not complete:
        raise _no_answer(host, output)
    unpacker = zlib.decompressobj()
    try:
        packed = base64.b64decode(coded, validate=True)
        raw = unpacker.decompress(packed, ANSWER_LIMIT)
    except (binascii.Error, zlib.error) as error:
        raise RemoteError(f"The answer of '{host}' is damaged: {error}.") from error
    if not unpacker.eof or unpacker.unused_data:
        raise RemoteError(f"The answer of '{host}' is damaged or larger than {ANSWER_LIMIT} bytes.")
    return raw, packed


def parse_answer(raw: bytes, wanted: Collection[str] | None = None) -> Observation:
    """An observation from the probe's JSON; only the wanted reads of it, if any are named.

    Raises RemoteError if it is not of the agreed form.
    """
    try:
        data: Any = _decoded(raw) if wanted is None else _part(raw.decode(), wanted)
        if data["probe"] != probe.VERSION:
            raise RemoteError(f"The evidence is of probe version {data['probe']!r}, not 1.")
        return Observation.from_json(data, wanted)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RemoteError(f"The answer is not what the probe prints: {error!r}.") from error


def _decoded(raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:
        # Slower, and takes what is no text: a name of a file on the node may be any bytes.
        return json.loads(raw)


def _part(text: str, wanted: Collection[str]) -> Any:
    """The probe's JSON with the wanted reads only; to decode all of it takes most of the time.

    No key can be mistaken for a text that a node printed: within one, quotes are escaped.
    """
    head, found, _ = text.partition('"results":')
    decoder = json.JSONDecoder()
    if not found:
        return json.loads(text)
    results = {}
    for name in wanted:
        key = f"{json.dumps(name)}:["
        at = text.find(key, len(head))
        if at >= 0:
            results[name], _ = decoder.raw_decode(text, at + len(key) - 1)
    return {**json.loads(f'{head}"results":{{}}}}'), "results": results}


def _no_answer(host: str, output: Output) -> RemoteError:
    """Why a node that could be reached did not run the probe."""
    lines = [line for line in output.stderr.splitlines() if line.strip()]
    said = lines[-1].strip()[:300] if lines else "nothing"
    lowered = output.stderr.lower()
    if "sudo" in lowered and ("password" in lowered or "askpass" in lowered):
        return RemoteError(
            f"sudo on '{host}' needs a password that was not given, or refused it: {said}",
            hint="Give it with '--ask-become-pass', or set 'ansible_become_password' in a vault.",
        )
    if output.code in (126, 127) or "not found" in lowered:
        return RemoteError(
            f"There is no usable Python on '{host}': {said}",
            hint="Install python3 on the node, or set 'ansible_python_interpreter'.",
        )
    return RemoteError(
        f"The probe on '{host}' gave no answer (exit code {output.code}); it said: {said}"
    )
