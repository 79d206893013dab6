"""What runs on the node: start one container, hear it out within limits, leave nothing behind.

Sent as an argument of ``python3 -IS -c``, with a question (JSON) as the next one: standard library,
Python 3.6 and later. No image is fetched. The container ends in three ways that do not depend on
each other: it is removed here at the end, also when the controller is gone or this is told to
end; its program has a deadline of its own; and what a killed launcher left is found by our label.

Answer: one line on stdout, ``hfprov-launch TOKEN JSON``.
"""

# ruff: noqa: ANN001, ANN002, ANN201, ANN204, UP031, PLW1510 - any Python since 3.6
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time

LABEL = "hfprov.smoke"
NAMESPACE = "k8s.io"
"""Of containerd's images and containers: the kubelet's."""
OUT_LIMIT = 1 << 20
ERR_LIMIT = 8192
STEP = 30
PROGRAMS = {"docker": "docker", "podman": "podman", "containerd": "ctr"}
ABSENT = re.compile(r"no such (image|object)|image not known|not found", re.IGNORECASE)


class Engine:
    """Docker and Podman, which take the same words."""

    def __init__(self, asked):
        self.asked = asked
        self.base = [PROGRAMS[asked["engine"]]]
        self.name = "hfprov-smoke-%s" % asked["token"][:16]

    def call(self, *words):
        """Exit code and what was said; -1 when it did not end in time."""
        try:
            done = subprocess.run(
                [*self.base, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, timeout=STEP,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return -1, "no answer within %d s" % STEP
        return done.returncode, done.stdout[:OUT_LIMIT].decode("utf-8", "backslashreplace").strip()

    def own(self):
        code, text = self.call("ps", "--all", "--quiet", "--filter", "label=%s" % LABEL)
        return text.split() if code == 0 else []

    def remove(self, name):
        self.call("rm", "--force", name)

    def image(self):
        """``(id, digests)`` of the image. Raises LookupError when there is none, OSError else."""
        code, text = self.call(
            "image", "inspect", "--format", "{{.Id}} {{json .RepoDigests}}", self.asked["image"]
        )
        if code != 0:
            raise (LookupError if ABSENT.search(text) else OSError)(text[-500:])
        found, _, digests = text.partition(" ")
        return found, [str(one) for one in json.loads(digests or "[]") or []]

    def argv(self):
        asked = self.asked
        return [
            *self.base, "run", "--rm", "--pull=never", "--name", self.name,
            "--label", "%s=%s" % (LABEL, asked["token"]), "--network=host", *asked["options"],
            "--entrypoint", asked["python"], asked["image"], "-c", asked["program"],
            json.dumps(asked["question"]),
        ]  # fmt: skip


class Containerd(Engine):
    """By ctr, in the kubelet's namespace."""

    def __init__(self, asked):
        super().__init__(asked)
        self.base = ["ctr", "--namespace", NAMESPACE]

    def own(self):
        code, text = self.call("containers", "list", "--quiet", 'labels."%s"' % LABEL)
        return text.split() if code == 0 else []

    def remove(self, name):
        self.call("tasks", "delete", "--force", name)
        self.call("containers", "delete", name)

    def image(self):
        code, text = self.call("images", "list", "name==%s" % self.asked["image"])
        if code != 0:
            raise OSError(text[-500:])
        found = re.search(r"\bsha256:[0-9a-f]{64}\b", text)
        if found is None:
            raise LookupError("containerd has no such image in '%s'" % NAMESPACE)
        return found.group(), ["%s@%s" % (self.asked["image"].partition("@")[0], found.group())]

    def argv(self):
        asked = self.asked
        return [
            *self.base, "run", "--rm", "--label", "%s=%s" % (LABEL, asked["token"]), "--net-host",
            *asked["options"], asked["image"], self.name, asked["python"], "-c", asked["program"],
            json.dumps(asked["question"]),
        ]  # fmt: skip


class Heard:
    """What a process said, within limits, and how it came to its end."""

    def __init__(self):
        self.out, self.err, self.status = b"", b"", "ran"

    def take(self, is_out, data):
        if is_out:
            self.out += data
            if len(self.out) > OUT_LIMIT:
                self.status = "too_much"
        else:
            self.err = (self.err + data)[-ERR_LIMIT:]


def hear(process, end):
    """Read until it ends, is late, says too much, or nobody listens to us any more."""
    heard = Heard()
    streams = {process.stdout.fileno(): True, process.stderr.fileno(): False}
    poll = select.poll()
    for number in streams:
        poll.register(number, select.POLLIN)
    poll.register(1, 0)  # tells only of a reader that is gone
    while streams and heard.status == "ran":
        if time.monotonic() > end:
            heard.status = "late"
        for number, event in poll.poll(200):
            if number == 1 and event & (select.POLLERR | select.POLLHUP):
                heard.status = "alone"
            elif number in streams:
                data = os.read(number, 65536)
                heard.take(streams[number], data)
                if not data:
                    poll.unregister(number)
                    del streams[number]
    if not streams:
        try:
            process.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            heard.status = "late"
    return heard


def launch(engine, seconds):
    process = subprocess.Popen(
        engine.argv(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    try:
        heard = hear(process, time.monotonic() + seconds)
    finally:
        if process.poll() is None:
            process.kill()
        engine.remove(engine.name)
        process.wait()
    return {
        "status": heard.status,
        "code": process.returncode,
        "stdout": heard.out[:OUT_LIMIT].decode("utf-8", "backslashreplace"),
        "stderr": heard.err.decode("utf-8", "backslashreplace"),
    }


def answer(asked):
    told = {"status": "", "said": "", "cpus": len(os.sched_getaffinity(0))}
    if shutil.which(PROGRAMS[asked["engine"]]) is None:
        told.update(status="no_engine")
        return told
    engine = (Containerd if asked["engine"] == "containerd" else Engine)(asked)
    try:
        for name in engine.own():
            engine.remove(name)
        told["image_id"], told["image_digests"] = engine.image()
        told.update(launch(engine, asked["seconds"]))
        told["left"] = engine.own()
    except LookupError as error:
        told.update(status="no_image", said=str(error))
    except (OSError, ValueError) as error:
        told.update(status="engine_error", said=str(error)[-500:])
    return told


def leave(_number, _frame):
    raise SystemExit(143)


def main(asked):
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, leave)
    sys.stdout.write("\nhfprov-launch %s %s\n" % (asked["token"], json.dumps(answer(asked))))
    sys.stdout.flush()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
