"""A part of the probe: commands, each bounded in time and output, a few at once.

One loop waits for all of them. A program gets no input, an environment of its own, and a session of
its own, so that whatever it started can be ended with it.
"""

import errno
import os
import select
import time

from hfprov.probe_patterns import is_there

AT_ONCE = 4
GRACE = 0.5
STDERR_LIMIT = 4096
SAFE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/rocm/bin"
ENVIRONMENT = {"PATH": SAFE_PATH, "LC_ALL": "C", "LANG": "C", "HOME": "/root", "TERM": "dumb"}
# Numbers of Linux: the module signal is slow to import.
SIGKILL, SIGPIPE, SIGXFSZ = 9, 13, 25


def decode(data):
    """Text of bytes that may be anything; says whether they were valid UTF-8."""
    try:
        return data.decode("utf-8"), False
    except UnicodeDecodeError:
        return data.decode("utf-8", "backslashreplace"), True


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


class Child:
    """One command at work: its pipes, and what it said so far."""

    def __init__(self, argv, name, end, limit):
        self.name = name
        self.started = time.monotonic()
        self.end = end
        self.limit = limit
        self.code = None
        self.ended_at = None
        out, out_end = os.pipe()
        err, err_end = os.pipe()
        try:
            self.pid = start(argv, out_end, err_end)
        except OSError:
            os.close(out)
            os.close(err)
            raise
        finally:
            os.close(out_end)
            os.close(err_end)
        self.said = {out: bytearray(), err: bytearray()}
        self.out, self.err = self.said.values()
        self.room = {out: limit + 1, err: STDERR_LIMIT}
        for fd in self.said:
            os.set_blocking(fd, False)

    def read(self, fd):
        """Take what a pipe holds. False: it is closed."""
        try:
            data = os.read(fd, 1 << 16)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        # What is over the limit is read and thrown away, so that the child can end.
        self.said[fd] += data[: max(0, self.room[fd] - len(self.said[fd]))]
        return bool(data)

    def has_ended(self):
        if self.ended_at is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.ended_at = time.monotonic()
                self.code = -os.WTERMSIG(status)
                if os.WIFEXITED(status):
                    self.code = os.WEXITSTATUS(status)
        return self.ended_at is not None

    def result(self, clock):
        result = {"name": self.name, "status": "ok"}
        if self.ended_at is None:
            result["status"] = "timeout"
            try:
                os.killpg(self.pid, SIGKILL)
            except OSError:
                pass
        else:
            result["code"] = self.code
        keep(result, "text", bytes(self.out), self.limit, clock)
        if self.err:
            result["stderr"] = decode(bytes(self.err))[0]
        result["ms"] = int((time.monotonic() - self.started) * 1000)
        return result


def start(argv, out, err):
    """Start a program in a session of its own; the id of its process. Raises OSError.

    Most vendors' tools are on no given node: no process is needed to find that out.
    """
    places = [""] if "/" in argv[0] else [folder + "/" for folder in SAFE_PATH.split(":")]
    found = [place + argv[0] for place in places if is_there(place + argv[0])]
    # OSError makes of itself what its number stands for.
    problem = OSError(errno.ENOENT, os.strerror(errno.ENOENT), argv[0])
    for path in found:
        try:
            return spawn(path, argv, out, err)
        except OSError as error:
            problem = error
    raise problem


def spawn(path, argv, out, err):
    if not hasattr(os, "posix_spawn"):  # before Python 3.8
        return fork(path, argv, out, err)
    files = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, out, 1),
        (os.POSIX_SPAWN_DUP2, err, 2),
    ]
    signals = SIGPIPE, SIGXFSZ
    try:
        return os.posix_spawn(
            path, argv, ENVIRONMENT, file_actions=files, setsigdef=signals, setsid=True
        )
    except NotImplementedError:
        # No POSIX_SPAWN_SETSID (glibc before 2.26): a group of its own is enough to end it whole.
        return os.posix_spawn(
            path, argv, ENVIRONMENT, file_actions=files, setsigdef=signals, setpgroup=0
        )


def fork(path, argv, out, err):
    import signal  # noqa: PLC0415 - slow to import, and seldom needed

    if not os.access(path, os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        for number in (SIGPIPE, SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        for fd, place in ((os.open(os.devnull, os.O_RDONLY), 0), (out, 1), (err, 2)):
            os.dup2(fd, place)
        os.execve(path, argv, ENVIRONMENT)  # noqa: S606 - an argv as it was given, no shell
    finally:
        os._exit(127)


def put(place, result):
    results, index = place
    results[index] = result


class Commands:
    """The commands of a plan, a few at once."""

    def __init__(self, clock):
        self.clock = clock
        self.queue = []
        self.running = []
        self.owners = {}
        self.poll = select.poll()

    def add(self, argv, name, limits, place):
        """Ask for a command, within seconds and bytes; its result is put at a place of a list."""
        self.queue.append((argv, name, limits, place))

    def turn(self, wait):
        """Start what may start, take what was said within a time, end what has ended."""
        while self.queue and len(self.running) < AT_ONCE:
            self.begin(*self.queue.pop(0))
        for fd, _ in self.poll.poll(wait * 1000):
            if not self.owners[fd].read(fd):
                self.close(fd)
        for one in list(self.running):
            child, place = one
            if self.is_done(child):
                self.running.remove(one)
                for fd in self.open_pipes(child):
                    self.close(fd)
                put(place, child.result(self.clock))

    def begin(self, argv, name, limits, place):
        timeout, limit = limits
        result = {"name": name, "status": "ok"}
        seconds = min(timeout, self.clock.left())
        if seconds <= 0:
            result.update(status="skipped", stderr="The host's deadline had passed.")
            put(place, result)
            return
        try:
            child = Child(argv, name, time.monotonic() + seconds, limit)
        except OSError as error:
            fail(result, error)
            put(place, result)
            return
        self.running.append((child, place))
        for fd in child.said:
            self.owners[fd] = child
            self.poll.register(fd, select.POLLIN | select.POLLHUP)

    def open_pipes(self, child):
        return [fd for fd in child.said if self.owners.get(fd) is child]

    def close(self, fd):
        self.poll.unregister(fd)
        del self.owners[fd]
        os.close(fd)

    def is_done(self, child):
        """Ended and heard out, or late. A grandchild that holds a pipe open gets a grace only."""
        now = time.monotonic()
        if child.has_ended():
            return not self.open_pipes(child) or now >= min(child.end, child.ended_at + GRACE)
        return now >= child.end

    def finish(self):
        while self.queue or self.running:
            # A child that closed its pipes ends at once; nothing tells when, so it is asked.
            silent = any(not self.open_pipes(child) for child, _ in self.running)
            self.turn(0.002 if silent else 0.05)
