"""What runs in the container: multiply on every device, or meet the other nodes and add up.

Sent as an argument of ``python3 -c``, with a question (JSON) as the next one, so that any image
with Python 3.6 or later will do. The variant ``cpu`` needs nothing else; ``cuda`` and ``rocm``
need the image's torch. It judges nothing: numbers go back as digests, and the controller knows
the answers.

Answer: one line on stdout, ``hfprov-smoke TOKEN JSON``.
"""

# ruff: noqa: ANN001, ANN201, ANN204, UP031, B905, SIM105, BLE001, PLR2004 - any Python since 3.6
# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False

import hashlib
import importlib.util
import json
import os
import platform
import socket
import sys
import threading
import time
from datetime import timedelta

LINE_LIMIT = 64 * 1024
TERMS = 256
"""Integers that every node brings to the sum."""


# -- one node: a product with a known answer on each device ---------------------------------------


def matrices(size, salt):
    """Small integers, as floats: every product and sum of them is exact in any float format."""
    left = [[float((i * 7 + j * 3 + salt) % 11 - 5) for j in range(size)] for i in range(size)]
    right = [[float((i * 5 + j * 9 + salt) % 13 - 6) for j in range(size)] for i in range(size)]
    return left, right


def number_text(value):
    exact = abs(value) < 1e15 and value == int(value)  # false of infinity, and of what is no number
    return "%d" % value if exact else repr(value)


def digest(values):
    return hashlib.sha256(",".join(map(number_text, values)).encode()).hexdigest()


class Cpus:
    """Each CPU that the container may use, one after the other."""

    def __init__(self, _):
        self.all = sorted(os.sched_getaffinity(0))
        self.versions = {"python": platform.python_version()}
        self.numpy = None
        if importlib.util.find_spec("numpy"):
            self.numpy = importlib.import_module("numpy")
            self.versions["numpy"] = str(self.numpy.__version__)

    def count(self):
        return len(self.all)

    def describe(self, index):
        return {"name": "cpu %d" % self.all[index], "uuid": ""}

    def multiply(self, index, left, right):
        os.sched_setaffinity(0, {self.all[index]})
        try:
            if self.numpy is not None:
                return (self.numpy.array(left) @ self.numpy.array(right)).ravel().tolist()
            columns = list(zip(*right))
            return [sum(a * b for a, b in zip(row, col)) for row in left for col in columns]
        finally:
            os.sched_setaffinity(0, set(self.all))

    def add_up(self, _asked, _members, totals):
        """The sum that came with the roll call: sockets are this variant's library."""
        return totals, "sockets"


class Gpus:
    """Each GPU that torch sees; AMD's answer to the same names as NVIDIA's."""

    def __init__(self, variant):
        self.torch = torch = importlib.import_module("torch")
        built_for = {"cuda": torch.version.cuda, "rocm": getattr(torch.version, "hip", None)}
        if not built_for[variant]:
            raise RuntimeError("torch %s is not built for %s" % (torch.__version__, variant))
        self.versions = {
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            variant: str(built_for[variant]),
        }
        torch.backends.cuda.matmul.allow_tf32 = False

    def count(self):
        return self.torch.cuda.device_count()

    def describe(self, index):
        found = self.torch.cuda.get_device_properties(index)
        return {"name": str(found.name), "uuid": str(getattr(found, "uuid", ""))}

    def multiply(self, index, left, right):
        where = {"dtype": self.torch.float32, "device": "cuda:%d" % index}
        product = self.torch.tensor(left, **where) @ self.torch.tensor(right, **where)
        return product.flatten().cpu().tolist()

    def add_up(self, asked, members, _totals):
        """The same sum by the communication library (NCCL, RCCL): one rank on each node."""
        dist = importlib.import_module("torch.distributed")
        os.environ["NCCL_SOCKET_IFNAME"] = "=" + asked["interface"]
        host = asked["root_address"]
        host = "[%s]" % host if ":" in host else host
        dist.init_process_group(
            "nccl",
            init_method="tcp://%s:%d" % (host, asked["port"] + 1),
            world_size=len(members),
            rank=members.index(asked["name"]),
            timeout=timedelta(seconds=asked["wait"]),
        )
        mine = self.torch.tensor(terms(asked), dtype=self.torch.int64, device="cuda:0")
        dist.all_reduce(mine)
        found = mine.cpu().tolist()
        dist.destroy_process_group()
        return found, "nccl %s" % (self.torch.cuda.nccl.version(),)


def backend_of(asked):
    return Cpus(asked) if asked["variant"] == "cpu" else Gpus(asked["variant"])


def try_devices(asked):
    backend = backend_of(asked)
    return {"versions": backend.versions, "devices": [
        try_device(backend, index, asked) for index in range(backend.count())
    ]}  # fmt: skip


def try_device(backend, index, asked):
    begun = time.monotonic()
    told = {"index": index, "name": "", "uuid": "", "digest": "", "error": ""}
    try:
        told.update(backend.describe(index))
        # Another salt for each: one device's answer is no other's.
        product = backend.multiply(index, *matrices(asked["size"], asked["salt"] + index))
        told["digest"] = digest(product)
    except Exception as error:  # one device that fails must not hide the others
        told["error"] = ("%s: %s" % (type(error).__name__, error))[:300]
    told["ms"] = int((time.monotonic() - begun) * 1000)
    return told


# -- between nodes: a roll call by name, then a known sum ----------------------------------------


def terms(asked):
    place = asked["names"].index(asked["name"])
    return [(asked["salt"] + 31 * place + 7 * k) % 1009 for k in range(TERMS)]


def send_line(connection, document):
    connection.sendall(json.dumps(document).encode() + b"\n")


def read_line(connection, end):
    """One JSON line. Raises OSError or ValueError when there is none in time, or too much."""
    data = b""
    while not data.endswith(b"\n"):
        connection.settimeout(max(0.01, end - time.monotonic()))
        more = connection.recv(LINE_LIMIT)
        data += more
        if not more or len(data) > LINE_LIMIT:
            raise ValueError("no whole line came")
    return json.loads(data.decode())


def call_roll(asked, end):
    """The root's part: wait for all that are awaited, then tell them who came, and the sum."""
    family = socket.AF_INET6 if ":" in asked["address"] else socket.AF_INET
    came = {asked["name"]: (None, terms(asked))}
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((asked["address"], asked["port"]))
        listener.listen(128)
        while not set(asked["awaited"]) <= set(came) and time.monotonic() < end:
            listener.settimeout(max(0.01, end - time.monotonic()))
            try:
                welcome(listener.accept()[0], asked, came)
            except OSError:
                continue
    members = [name for name in asked["names"] if name in came]
    totals = [sum(column) for column in zip(*(came[name][1] for name in members))]
    for connection, _ in came.values():
        if connection is not None:
            try:
                send_line(connection, {"members": members, "totals": totals})
            except OSError:
                pass  # it will say so itself
            connection.close()
    return members, totals


def welcome(connection, asked, came):
    """Take in who has the secret and a name that is waited for; nobody twice."""
    try:
        hello = read_line(connection, time.monotonic() + 3)
        known = hello["secret"] == asked["secret"] and hello["name"] in asked["names"]
        if known and hello["name"] not in came and len(hello["terms"]) == TERMS:
            came[hello["name"]] = (connection, [int(one) for one in hello["terms"]])
            return
    except (OSError, ValueError, KeyError, TypeError):
        pass
    connection.close()


def answer_roll(asked, end):
    """Everybody else's part: find the root, and hear who came."""
    said = "nothing was tried"
    while time.monotonic() < end:
        try:
            with socket.create_connection(
                (asked["root_address"], asked["port"]),
                timeout=max(0.1, min(2.0, end - time.monotonic())),
                source_address=(asked["address"], 0),
            ) as connection:
                hello = {"secret": asked["secret"], "name": asked["name"]}
                hello["terms"] = terms(asked)
                send_line(connection, hello)
                told = read_line(connection, end + 10)
                return told["members"], told["totals"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            said = str(error) or type(error).__name__
        time.sleep(0.2)
    raise RuntimeError(
        "'%s' at %s port %d was not found: %s"
        % (asked["root"], asked["root_address"], asked["port"], said)
    )


def meet(asked):
    end = time.monotonic() + asked["wait"]
    is_root = asked["name"] == asked["root"]
    # Torch loads for a while, and others wait at the root only so long: after the roll call.
    members, totals = (call_roll if is_root else answer_roll)(asked, end)
    told = {"members": members, "digest": "", "library": "", "versions": {}, "error": ""}
    try:
        backend = backend_of(asked)
        found, told["library"] = backend.add_up(asked, members, totals)
        told.update(versions=backend.versions, digest=digest(found))
    except Exception as error:  # who came is known all the same
        told["error"] = ("%s: %s" % (type(error).__name__, error))[:300]
    return told


def main(asked):
    # As process 1 of a container it gets no signal that it does not handle; this ends it in any
    # case, also when nobody is left who could.
    watchdog = threading.Timer(asked["seconds"], os._exit, [124])
    watchdog.daemon = True
    watchdog.start()
    begun = time.monotonic()
    told = {"mode": asked["mode"], "variant": asked["variant"], "error": ""}
    try:
        told.update((try_devices if asked["mode"] == "devices" else meet)(asked))
    except Exception as error:  # said in the answer, which is all that anybody reads
        told["error"] = ("%s: %s" % (type(error).__name__, error))[:300]
    told["seconds"] = round(time.monotonic() - begun, 3)
    sys.stdout.write("\nhfprov-smoke %s %s\n" % (asked["token"], json.dumps(told)))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
