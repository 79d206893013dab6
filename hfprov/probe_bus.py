"""A part of the probe: questions to systemd and logind over D-Bus, without a process for each.

``busctl`` and ``systemctl`` load a large library, and ask for all that there is of an object. Form
of the messages: D-Bus Specification, "Message Protocol" and "Authentication Protocol".
"""

import os
import struct

SYSTEMD_SOCKET = "/run/systemd/private"
"""Where systemctl asks when it is run by root: without a daemon in between."""
BUS_SOCKET = "/run/dbus/system_bus_socket"
SYSTEMD = "org.freedesktop.systemd1"
BUS_SECONDS = 5.0
MOST_OF_MESSAGE = 4 << 20
METHOD_RETURN, ERROR = 2, 3
PATH, INTERFACE, MEMBER, ERROR_NAME, REPLY_SERIAL, DESTINATION, SIGNATURE = 1, 2, 3, 4, 5, 6, 8
NUMBERS = {
    "y": "<B", "b": "<I", "n": "<h", "q": "<H", "i": "<i", "u": "<I", "x": "<q", "t": "<Q",
    "d": "<d", "h": "<I",
}  # fmt: skip


class Bus:
    """A connection to who answers D-Bus calls. Raises OSError for all that goes wrong."""

    def __init__(self, path):
        self.serial = 0
        self.heard = b""
        self.socket = connected(path)
        user = str(os.getuid()).encode("ascii")
        hexadecimal = "".join("%02x" % byte for byte in user).encode("ascii")
        # All at once: systemd overlooks a first call that comes together with the last line.
        self.socket.sendall(b"\0AUTH EXTERNAL " + hexadecimal + b"\r\nBEGIN\r\n")
        while b"\r\n" not in self.heard:
            self.hear()
        line, _, self.heard = self.heard.partition(b"\r\n")
        if not line.startswith(b"OK "):
            raise OSError("D-Bus refused the login: %r" % line[:80])
        if path == BUS_SOCKET:
            name = "org.freedesktop.DBus"
            self.call(name, "/org/freedesktop/DBus", name, "Hello")

    def hear(self):
        data = self.socket.recv(1 << 16)
        if not data or len(self.heard) > MOST_OF_MESSAGE:
            raise OSError("D-Bus ended the connection, or says too much.")
        self.heard += data

    def take(self, size):
        if size > MOST_OF_MESSAGE:
            raise OSError("D-Bus says too much.")
        while len(self.heard) < size:
            self.hear()
        data, self.heard = self.heard[:size], self.heard[size:]
        return data

    def call(self, service, path, interface, member, signature="", body=b""):
        """The values that a method returns."""
        self.serial += 1
        fields = [
            (PATH, "o", path), (INTERFACE, "s", interface), (MEMBER, "s", member),
            (DESTINATION, "s", service),
        ]  # fmt: skip
        if signature:
            fields.append((SIGNATURE, "g", signature))
        self.socket.sendall(message_of(self.serial, fields, body))
        try:
            while True:
                kind, told, values = self.reply()
                if told.get(REPLY_SERIAL) == self.serial:
                    break
        except (struct.error, ValueError, LookupError, RecursionError) as error:
            raise OSError("D-Bus says what it must not: %r" % error)  # noqa: B904 - Python 3.6
        if kind != METHOD_RETURN:
            raise OSError("%s: %s" % (told.get(ERROR_NAME), values[:1]))
        return values

    def reply(self):
        """The next message: its kind, its fields by their codes, its values."""
        head = self.take(16)
        if head[:1] != b"l":
            raise OSError("D-Bus answers in another order of bytes.")
        size, _, length = struct.unpack("<III", head[4:])
        rest = self.take(length + -length % 8 + size)
        (fields,) = Values(head + rest[:length], 12).all("a(yv)")
        told = dict(fields)
        body = Values(rest[length + -length % 8 :], 0)
        return head[1], told, body.all(told.get(SIGNATURE, ""))

    def properties(self, service, path, interface, names):
        """The values of some properties of an object."""
        found = []
        for name in names:
            body = strings(interface, name)
            asked = "org.freedesktop.DBus.Properties", "Get", "ss", body
            found += self.call(service, path, *asked)
        return found


def connected(path):
    """A socket to a path. The package socket is slow to import; its half in C is not."""
    try:
        sockets = __import__("_socket")
    except ImportError:
        sockets = __import__("socket")
    made = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
    made.settimeout(BUS_SECONDS)
    made.connect(path)
    return made


def string(text):
    data = text.encode("utf-8")
    return struct.pack("<I", len(data)) + data + b"\0"


def strings(*texts):
    """Strings one after the other, each where its length may stand."""
    data = b""
    for text in texts:
        data += b"\0" * (-len(data) % 4) + string(text)
    return data


def message_of(serial, fields, body):
    array = b""
    for code, kind, text in fields:
        array += b"\0" * (-len(array) % 8) + struct.pack("<BB", code, 1) + kind.encode() + b"\0"
        array += (
            struct.pack("<B", len(text)) + text.encode() + b"\0" if kind == "g" else string(text)
        )
    head = struct.pack("<BBBBIII", ord("l"), 1, 0, 1, len(body), serial, len(array))
    return head + array + b"\0" * (-len(array) % 8) + body


class Values:
    """Takes values out of the bytes of a message."""

    def __init__(self, data, at):
        self.data = data
        self.at = at

    def all(self, signature):
        values, place = [], 0
        while place < len(signature):
            value, place = self.one(signature, place)
            values.append(value)
        return values

    def one(self, signature, place):
        """The value of the type that stands at a place, and the place after it."""
        kind = signature[place]
        if kind in NUMBERS:
            value = self.number(NUMBERS[kind])
            return (bool(value) if kind == "b" else value), place + 1
        if kind in "sog":
            return self.text(self.number("<B" if kind == "g" else "<I")), place + 1
        if kind == "v":
            return self.one(self.one("g", 0)[0], 0)[0], place + 1
        end = end_of(signature, place)
        if kind == "a":
            return self.array(signature, place + 1), end
        if kind not in "({":
            raise ValueError("'%s' is no type." % kind)
        self.align(8)
        return self.all(signature[place + 1 : end - 1]), end

    def array(self, signature, place):
        end = self.number("<I")
        self.align(8 if signature[place] in "({xtd" else 1)
        end += self.at
        if end > len(self.data):
            raise ValueError("An array ends after its message.")
        values = []
        while self.at < end:
            values.append(self.one(signature, place)[0])
        return values

    def text(self, size):
        begin, self.at = self.at, self.at + size + 1
        if self.at > len(self.data):
            raise ValueError("A text ends after its message.")
        return self.data[begin : self.at - 1].decode("utf-8", "replace")

    def number(self, form):
        size = struct.calcsize(form)
        self.align(size)
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += size
        return value

    def align(self, size):
        self.at += -self.at % size


def end_of(signature, place):
    """Where the type that begins at a place ends."""
    while signature[place] == "a":
        place += 1
    depth = 0
    while True:
        depth += (signature[place] in "({") - (signature[place] in ")}")
        place += 1
        if not depth:
            return place
