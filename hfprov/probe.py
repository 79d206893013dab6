"""The probe: what runs on a node. It reads what it is told to read and judges nothing.

Sent as an argument of ``python3 -IS -c``, with a plan (JSON, zlib, base64) as the next argument; so
it uses the standard library only, works on Python 3.6 and later, and changes nothing on the node.

Plan: ``{"nonce": str, "deadline": seconds, "budget": bytes, "reads": [READ, ...]}``, READ one of
``{"id", "kind": "file", "path", "limit"}``,
``{"id", "kind": "glob", "pattern", "limit", "content": bool, "most": int}``,
``{"id", "kind": "command", "argv", "limit", "timeout", "each": glob or "", "needs": glob or
absent}``. In the argv of a command with ``each``, ``{name}`` and ``{path}`` stand for the match; a
command that ``needs`` a file is not run where none matches.

Answer on stdout, between two lines that carry the nonce: base64 of zlib of JSON
``{"probe": 1, "python": str, "uid": int, "now": epoch, "seconds": float, "results": {id: [RESULT,
...]}}``, RESULT ``{"name", "status", "text", "stderr", "code", "ms", "truncated", "garbled",
"mode", "uid", "gid", "link", "type"}``; keys at their defaults are left out.
"""

import base64
import errno
import fnmatch
import glob
import json
import os
import select
import signal
import stat
import subprocess
import sys
import threading
import time
import zlib

VERSION = 1
AT_ONCE = 4
GRACE = 0.5
STDERR_LIMIT = 4096
SAFE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/rocm/bin"


class Clock:
    """The host's deadline and the budget of bytes, shared by all reads."""

    def __init__(self, seconds, budget):
        self.end = time.monotonic() + seconds
        self.budget = budget
        self.lock = threading.Lock()

    def left(self):
        return self.end - time.monotonic()

    def spend(self, size):
        with self.lock:
            self.budget -= size
            return self.budget >= 0


def decode(data):
    """Text of bytes that may be anything; says whether they were valid UTF-8."""
    try:
        return data.decode("utf-8"), False
    except UnicodeDecodeError:
        return data.decode("utf-8", "backslashreplace"), True


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
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
            with os.fdopen(fd, "rb") as handle:
                data = handle.read(limit + 1)
            keep(result, "text", data, limit, clock)
    except OSError as error:
        fail(result, error)
    result["ms"] = int((time.monotonic() - started) * 1000)
    return result


def keep(result, key, data, limit, clock):
    if len(data) > limit:
        data = data[:limit]
        result["truncated"] = True
    if not clock.spend(len(data)):
        result.update(status="skipped", stderr="The host's output budget is spent.")
        return
    result[key], garbled = decode(data)
    if garbled:
        result["garbled"] = True


def fail(result, error):
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        result["status"] = "absent"
    elif isinstance(error, PermissionError):
        result["status"] = "denied"
    else:
        result["status"] = "error"
    result["stderr"] = str(error)


def matches(pattern, most):
    """Paths that match, sorted; ``[0-9]*`` style globs over /proc are listed without stat calls."""
    head, tail = os.path.split(pattern)
    if glob.has_magic(head):
        found = glob.glob(pattern)
    else:
        try:
            names = os.listdir(head)
        except OSError:
            names = []
        found = [os.path.join(head, name) for name in fnmatch.filter(names, tail)]
    return sorted(found)[:most]


def run_command(argv, name, timeout, limit, clock):
    """Run one command; never wait longer than its deadline, even for a child that cannot die."""
    started = time.monotonic()
    result = {"name": name, "status": "ok"}
    seconds = min(timeout, clock.left())
    if seconds <= 0:
        result.update(status="skipped", stderr="The host's deadline had passed.")
        return result
    env = {"PATH": SAFE_PATH, "LC_ALL": "C", "LANG": "C", "HOME": "/root", "TERM": "dumb"}
    try:
        require_program(argv[0])
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        fail(result, error)
        return result
    out, err, finished = drain(child, started + seconds, limit)
    if not finished:
        result["status"] = "timeout"
        kill_group(child)
    elif child.returncode is not None:
        result["code"] = child.returncode
    keep(result, "text", out, limit, clock)
    if err:
        result["stderr"] = decode(err[:STDERR_LIMIT])[0]
    result["ms"] = int((time.monotonic() - started) * 1000)
    return result


def require_program(name):
    """Raise FileNotFoundError for a program that is in no folder, without a process to find out.

    Most vendors' tools are on no given node. Whatever is there, starting it tells what it is worth.
    """
    places = [""] if "/" in name else [folder + "/" for folder in SAFE_PATH.split(":")]
    for place in places:
        try:
            os.lstat(place + name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            pass  # Starting it tells.
        return
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)


def kill_group(child):
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except OSError:
        pass
    child.poll()


def drain(child, end, limit):
    """Read both pipes until the child has ended, or its deadline.

    A grandchild that holds a pipe open gets a short grace only. Returns stdout, stderr, and whether
    the child ended in time.
    """
    buffers = {child.stdout.fileno(): bytearray(), child.stderr.fileno(): bytearray()}
    out, err = list(buffers.values())
    limits = {child.stdout.fileno(): limit + 1, child.stderr.fileno(): STDERR_LIMIT}
    waiting = select.poll()
    for fd in buffers:
        os.set_blocking(fd, False)
        waiting.register(fd, select.POLLIN | select.POLLHUP)
    open_pipes = len(buffers)
    ended_at = None
    while open_pipes:
        now = time.monotonic()
        if ended_at is None and child.poll() is not None:
            ended_at = now
        stop = end if ended_at is None else min(end, ended_at + GRACE)
        if now >= stop:
            break
        # Short waits: a child whose grandchild holds the pipe is noticed by polling only.
        for fd, _ in waiting.poll(min(stop - now, 0.05 if ended_at is None else 0.02) * 1000):
            try:
                data = os.read(fd, 65536)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            if not data:
                waiting.unregister(fd)
                open_pipes -= 1
                continue
            room = limits[fd] - len(buffers[fd])
            # What is over the limit is read and thrown away, so that the child can end.
            buffers[fd] += data[:room]
    while child.poll() is None and time.monotonic() < end and not open_pipes:
        time.sleep(0.005)
    return bytes(out), bytes(err), child.poll() is not None


def tasks_of(read, clock):
    """The calls that one read stands for, each returning a result."""
    limit = read.get("limit", 65536)
    kind = read["kind"]
    if kind == "file":
        return [lambda: read_file(read["path"], limit, True, clock)]
    if kind == "glob":
        content = read.get("content", True)
        return [
            (lambda path=path: read_file(path, limit, content, clock))
            for path in matches(read["pattern"], read.get("most", 1024))
        ]
    timeout = read.get("timeout", 10)
    needs = read.get("needs")
    if needs and not matches(needs, 1):
        said = "Not run: there is no '%s'." % needs
        return [lambda: {"name": "", "status": "absent", "stderr": said}]
    if not read.get("each"):
        return [lambda: run_command(read["argv"], "", timeout, limit, clock)]
    calls = []
    for path in matches(read["each"], read.get("most", 256)):
        name = os.path.basename(path)
        argv = [part.replace("{name}", name).replace("{path}", path) for part in read["argv"]]
        calls.append(lambda argv=argv, name=name: run_command(argv, name, timeout, limit, clock))
    return calls


def observe(plan):
    """Carry out a plan: files here, commands beside them, a few at once."""
    started = time.monotonic()
    clock = Clock(plan.get("deadline", 60), plan.get("budget", 16 << 20))
    results = {}
    queue = []
    for read in plan["reads"]:
        calls = tasks_of(read, clock)
        slots = [None] * len(calls)
        results[read["id"]] = slots
        for index, call in enumerate(calls):
            if read["kind"] == "command":
                queue.append((slots, index, call, read["id"]))
            else:
                slots[index] = call()
    queue.reverse()
    workers = [
        threading.Thread(target=work, args=(queue,), daemon=True)
        for _ in range(min(AT_ONCE, len(queue)))
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(max(0.0, clock.left() + 2 * GRACE))
    late = {"name": "", "status": "skipped", "stderr": "The host's deadline had passed."}
    return {
        "probe": VERSION,
        "python": "%d.%d.%d" % sys.version_info[:3],
        "uid": os.getuid(),
        "now": round(time.time(), 3),
        "seconds": round(time.monotonic() - started, 3),
        "results": {
            name: [late if slot is None else slot for slot in slots]
            for name, slots in results.items()
        },
    }


def work(queue):
    while True:
        try:
            slots, index, call, _ = queue.pop()
        except IndexError:
            return
        slots[index] = call()


def main(argument):
    plan = json.loads(zlib.decompress(base64.b64decode(argument)).decode("utf-8"))
    answer = json.dumps(observe(plan), separators=(",", ":")).encode("utf-8")
    packed = base64.b64encode(zlib.compress(answer, 1)).decode("ascii")
    nonce = plan["nonce"]
    sys.stdout.write("\nhfprov-begin %s\n%s\nhfprov-end %s\n" % (nonce, packed, nonce))
    sys.stdout.flush()
    # A thread may be stuck on a child in uninterruptible sleep; leave without waiting for it.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
