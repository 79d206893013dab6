"""The probe: what runs on a node. It reads what it is told to read and judges nothing.

Sent to ``python3 -IS -c`` on its stdin, with a plan (JSON), so that neither fills a node's logs of
commands (where sudo reads a password there: as an argument); it uses the standard library only,
works on Python 3.6 and later, and changes nothing on the node. Its first argument is a nonce.

Plan: ``{"deadline": seconds, "budget": bytes, "reads": [READ, ...]}``, READ one of
``{"id", "kind": "file", "path", "limit"}``,
``{"id", "kind": "glob", "pattern", "limit", "content": bool, "most": int}``,
``{"id", "kind": "command", "argv", "limit", "timeout", "each": glob or "", "needs": glob or absent,
"bus": {"service", "path", "interface", "properties": [...], "failed": bool} or absent}``,
``{"id", "kind": "units", "argv", "units": [...], "light": [...], "files": [...], "limit",
"timeout"}``. In the argv of a command with ``each``, ``{name}`` and ``{path}`` stand for the match;
a command that ``needs`` a file is not run where none matches, and one with ``bus`` where that is
answered. The argv of ``units`` shows those whose names are added to it.

Answer on stdout, between two lines that carry the nonce: base64 of zlib of JSON
``{"probe": 1, "python": str, "uid": int, "now": epoch, "seconds": float, "results": {id: [RESULT,
...]}}``, RESULT ``{"name", "status", "text", "stderr", "code", "ms", "truncated", "garbled",
"mode", "uid", "gid", "link", "type"}``; keys at their defaults are left out.

It is sent with its parts, as one text; see :data:`PARTS`. They import little: ``re``, ``json``,
``glob``, ``socket``, ``subprocess`` and ``threading``, with what they need in turn, take a node
longer than to read all its files.
"""

import os
import stat
import sys
import time
import zlib
from binascii import b2a_base64

from hfprov.probe_commands import Commands, fail, keep
from hfprov.probe_patterns import Folders
from hfprov.probe_systemd import links, of_main_processes, properties_told, units_told

VERSION = 1
PARTS = (
    "probe_patterns.py", "probe_commands.py", "probe_bus.py", "probe_systemd.py", "probe.py",
)  # fmt: skip
"""The files of the probe, in the order in which their texts make one program."""


class Clock:
    """The host's deadline and the budget of bytes, shared by all reads."""

    def __init__(self, seconds, budget):
        self.end = time.monotonic() + seconds
        self.budget = budget

    def left(self):
        return self.end - time.monotonic()

    def spend(self, size):
        self.budget -= size
        return self.budget >= 0


def describe(path, result):
    """Ownership, mode and link target: a wrong permission is a drift like any other."""
    info = os.lstat(path)
    if stat.S_ISLNK(info.st_mode):
        result["link"] = os.path.realpath(path)
        info = os.stat(path)
    result["mode"] = stat.S_IMODE(info.st_mode)
    result["uid"] = info.st_uid
    result["gid"] = info.st_gid
    return info


def read_file(path, limit, content, clock):
    started = time.monotonic()
    result = {"name": path, "status": "ok"}
    try:
        info = describe(path, result)
        if stat.S_ISDIR(info.st_mode):
            result["type"] = "dir"
        elif not stat.S_ISREG(info.st_mode):
            # Opening a FIFO or a device could block for ever or have effects.
            result["type"] = "other"
        elif content:
            keep(result, "text", content_of(path, limit + 1), limit, clock)
    except OSError as error:
        fail(result, error)
    result["ms"] = int((time.monotonic() - started) * 1000)
    return result


def content_of(path, most):
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        parts = []
        while most > 0:
            data = os.read(fd, min(most, 1 << 16))
            if not data:
                break
            parts.append(data)
            most -= len(data)
        return b"".join(parts)
    finally:
        os.close(fd)


def ask(read, commands, folders):
    """Queue the commands that one read stands for; where their results will be put, in order."""
    needs, each = read.get("needs"), read.get("each")
    if needs and not folders.matches(needs, 1):
        said = "Not run: there is no '%s'." % needs
        return [{"name": "", "status": "absent", "stderr": said}]
    if "bus" in read:
        told = properties_told(read["bus"])
        if told is not None:
            return [{"name": "", "status": "ok", "text": told, "code": 0}]
    paths = folders.matches(each, read.get("most", 256)) if each else [""]
    slots = [None] * len(paths)
    for index, path in enumerate(paths):
        name, argv = os.path.basename(path), read["argv"]
        if each:
            argv = [part.replace("{name}", name).replace("{path}", path) for part in argv]
        limits = read.get("timeout", 10), read.get("limit", 65536)
        commands.add(argv, name, limits, (slots, index))
    return slots


def ask_units(read, commands):
    """Begin to show units; what has to be added when that is done, and where."""
    told, left = units_told(read["units"], set(read["light"]))
    slots = [{"name": "", "status": "ok", "text": "", "code": 0}]
    if left:
        limits = read.get("timeout", 10), read.get("limit", 65536)
        commands.add(read["argv"] + left, "", limits, (slots, 0))
    return slots, told


def add_to_units(read, result, told, folders, clock):
    """Put together what was listed and what was shown of units, their processes and links."""
    if result.get("code") == 0 and not result.get("truncated"):
        shown = result["text"]
        added = told + shown + "\n" + of_main_processes(shown, read["files"]) + links(folders)
        # Names of links may be any bytes.
        data = added.encode("utf-8", "surrogateescape")
        keep(result, "text", data, read.get("limit", 65536), clock)


def look(read, folders, clock):
    """The files that one read stands for."""
    paths = [read["path"]] if read["kind"] == "file" else []
    if read["kind"] == "glob":
        paths = folders.matches(read["pattern"], read.get("most", 1024))
    limit, content = read.get("limit", 65536), read.get("content", True)
    return [read_file(path, limit, content, clock) for path in paths]


def observe(plan):
    """Carry out a plan: files first, so that no process of ours is among them; then commands."""
    started = time.monotonic()
    clock = Clock(plan.get("deadline", 60), plan.get("budget", 16 << 20))
    folders, commands = Folders(), Commands(clock)
    results, begun = {}, []
    for read in plan["reads"]:
        if read["kind"] == "units":
            results[read["id"]], told = ask_units(read, commands)
            begun.append((read, told))
        elif read["kind"] == "command":
            results[read["id"]] = ask(read, commands, folders)
        else:
            results[read["id"]] = look(read, folders, clock)
    commands.finish()
    for read, told in begun:
        add_to_units(read, results[read["id"]][0], told, folders, clock)
    return {
        "probe": VERSION,
        "python": "%d.%d.%d" % sys.version_info[:3],
        "uid": os.getuid(),
        "now": round(time.time(), 3),
        "seconds": round(time.monotonic() - started, 3),
        "results": results,
    }


class Context:
    """What the scanner of JSON asks for; see json.decoder."""

    def __init__(self):
        self.strict = True
        self.object_hook = self.object_pairs_hook = None
        self.parse_float, self.parse_int, self.parse_constant = float, int, float
        self.memo = {}


def from_json(text):
    """Data of JSON. The package json imports re; the half of it that is written in C does not."""
    try:
        return __import__("_json").make_scanner(Context())(text, 0)[0]
    except (ImportError, AttributeError, TypeError):
        import json  # noqa: PLC0415 - slow to import, and seldom needed

        return json.loads(text)


def to_json(data):
    """The data as JSON; see :func:`from_json`."""
    try:
        half = __import__("_json")
        quoted = half.encode_basestring_ascii
        encoder = half.make_encoder(None, None, quoted, None, ":", ",", False, False, True)
        return "".join(encoder(data, 0))
    except (ImportError, AttributeError, TypeError):
        import json  # noqa: PLC0415 - slow to import, and seldom needed

        return json.dumps(data, separators=(",", ":"))


def main(plan, nonce):
    os.chdir("/")
    answer = to_json(observe(from_json(plan.decode("utf-8")))).encode("ascii")
    packed = b2a_base64(zlib.compress(answer, 1), newline=False).decode("ascii")
    sys.stdout.write("\nhfprov-begin %s\n%s\nhfprov-end %s\n" % (nonce, packed, nonce))
    sys.stdout.flush()
    os._exit(0)
