"""D-Bus as the probe speaks it, with a server that says what a test has it say."""

from __future__ import annotations

import os
import socket
import struct
import threading

import pytest

from hfprov import probe_bus
from hfprov.probe_bus import Bus, Values, strings

LOGIN = b"\0AUTH EXTERNAL %s\r\nBEGIN\r\n" % str(os.getuid()).encode().hex().encode()
CALL = ("org.a", "/a", "org.a.B", "Get")
HEADER = struct.Struct("<4BIII")


def field(code, signature, value):
    return bytes([code, len(signature)]) + signature.encode() + b"\0" + value


def padded(data, size=8):
    return data + b"\0" * (-len(data) % size)


def message(kind, serial, signature="", body=b"", order=b"l"):
    """A message from a service; the fields of the specification's table, by hand."""
    fields = padded(field(5, "u", struct.pack("<I", serial)))
    if kind == 3:
        fields = padded(fields + field(4, "s", struct.pack("<I", 5) + b"org.X\0"))
    if signature:
        text = signature.encode()
        fields += field(8, "g", bytes([len(text)]) + text + b"\0")
    head = HEADER.pack(order[0], kind, 0, 1, len(body), 7, len(fields))
    return padded(head + fields) + body


OK = b"OK 0123456789abcdef\r\n"


@pytest.fixture
def serve(tmp_path):
    """Makes a server that answers a login, and each message then, with what it was given."""
    threads, made = [], []

    def serve(*answers, login=OK):
        listening = socket.socket(socket.AF_UNIX)
        made.append(listening)
        path = str(tmp_path / f"bus{len(made)}")
        listening.bind(path)
        listening.listen(1)
        heard = []

        def answer():
            client, _ = listening.accept()
            with client:
                heard.append(client.recv(len(LOGIN), socket.MSG_WAITALL))
                client.sendall(login)
                for one in answers:
                    head = client.recv(16, socket.MSG_WAITALL)
                    if len(head) < 16:
                        return
                    *_, size, _, length = HEADER.unpack(head)
                    rest = client.recv(length + -length % 8 + size, socket.MSG_WAITALL)
                    heard.append(head + rest)
                    client.sendall(one)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        threads.append(thread)
        return path, heard

    yield serve
    for one in made:
        one.close()
    for thread in threads:
        thread.join(timeout=10)


def test_login_and_a_call_are_what_the_specification_says(serve):
    path, heard = serve(message(2, 1, "s", strings("said")))
    assert Bus(path).call(*CALL, "as", struct.pack("<I", 5) + b"\1\0\0\0x") == ["said"]
    fields = padded(field(1, "o", struct.pack("<I", 2) + b"/a\0"))
    fields = padded(fields + field(2, "s", struct.pack("<I", 7) + b"org.a.B\0"))
    fields = padded(fields + field(3, "s", struct.pack("<I", 3) + b"Get\0"))
    fields = padded(fields + field(6, "s", struct.pack("<I", 5) + b"org.a\0"))
    fields += field(8, "g", b"\2as\0")
    head = HEADER.pack(ord("l"), 1, 0, 1, 9, 1, len(fields))
    assert heard == [LOGIN, padded(head + fields) + b"\5\0\0\0\1\0\0\0x"]


def test_signals_and_answers_to_others_are_passed_over(serve):
    noise = message(4, 0, "s", strings("noise")) + message(2, 99)
    path, _ = serve(noise + message(2, 1), message(2, 2, "u", struct.pack("<I", 9)))
    bus = Bus(path)
    assert bus.call(*CALL) == []
    assert bus.call(*CALL) == [9]


def test_on_the_bus_of_all_it_says_hello_first(serve, monkeypatch):
    path, heard = serve(message(2, 1, "s", strings(":1.7")))
    monkeypatch.setattr(probe_bus, "BUS_SOCKET", path)
    Bus(path)
    assert b"Hello\0" in heard[1]


def test_properties_are_asked_one_by_one(serve):
    answers = [
        message(2, 1, "v", b"\1b\0\0" + struct.pack("<I", 1)),
        message(2, 2, "v", b"\1t\0" + bytes(5) + struct.pack("<Q", 2**64 - 1)),
        message(2, 3, "v", b"\1s\0\0" + strings("b")),
    ]
    path, heard = serve(*answers)
    assert Bus(path).properties("org.a", "/a", "org.a.B", ["A", "Bb", "C"]) == [
        True,
        2**64 - 1,
        "b",
    ]
    assert heard[2].endswith(strings("org.a.B", "Bb"))


def test_a_refusal_is_an_error_with_its_name(serve):
    path, _ = serve(message(3, 1, "s", strings("No such unit")))
    with pytest.raises(OSError, match=r"org\.X: .*No such unit"):
        Bus(path).call(*CALL)


@pytest.mark.parametrize("login", [b"REJECTED EXTERNAL\r\n", b"", b"ERROR\r\nOK x\r\n", b"OK"])
def test_a_login_that_is_refused_or_cut_off(serve, login):
    path, _ = serve(login=login)
    with pytest.raises(OSError):  # noqa: PT011 - by whom it is said differs
        Bus(path)


WHOLE = message(2, 1, "s", strings("said"))


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        WHOLE[:10],
        WHOLE[:-1],
        message(2, 1, order=b"B"),
        HEADER.pack(ord("l"), 2, 0, 1, 1 << 30, 1, 0),
        HEADER.pack(ord("l"), 2, 0, 1, 0, 1, 1 << 30),
        message(2, 1, "s", b"\xff\xff\0\0said\0"),
        message(2, 1, "as", struct.pack("<I", 1 << 20)),
        message(2, 1, "au", struct.pack("<I", 8)),
        message(2, 1, "(", bytes(8)),
        message(2, 1, "a", bytes(8)),
        message(2, 1, "?", bytes(8)),
        message(2, 1, "v", b"\1v\0" * 3),
        message(2, 1, "v", b"\1v\0" * 5000),
        message(2, 1, "v", b"\0\0\0\0"),
        b"\xff" * 64,
    ],
)
def test_nonsense_is_an_error_of_the_bus_and_no_other(serve, answer):
    path, _ = serve(answer)
    with pytest.raises(OSError):  # noqa: PT011 - what is wrong with it is said in many ways
        Bus(path).call(*CALL)


def test_where_nobody_listens_that_is_an_error(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        Bus(str(tmp_path / "none"))


def test_one_that_does_not_answer_is_waited_for_no_longer(serve, monkeypatch):
    monkeypatch.setattr(probe_bus, "BUS_SECONDS", 0.05)
    path, _ = serve(b"", login=b"OK")
    with pytest.raises(OSError):  # noqa: PT011 - a timeout is one
        Bus(path)


@pytest.mark.parametrize(
    ("signature", "data", "values"),
    [
        ("yq", b"\1\0\2\1", [1, 258]),
        ("bnix", b"\0\0\0\0\xff\xff\0\0\xfe\xff\xff\xff\0\0\0\0" + b"\xff" * 8,
         [False, -1, -2, -1]),
        ("td", struct.pack("<Qd", 5, 0.5), [5, 0.5]),
        ("sog", strings("ab") + b"\0" + struct.pack("<I", 1) + b"/\0" + b"\1s\0", ["ab", "/", "s"]),
        ("as", struct.pack("<I", 14) + strings("ab", "c"), [["ab", "c"]]),
        ("asu", struct.pack("<II", 0, 3), [[], 3]),
        ("a(su)u", struct.pack("<II", 12, 0) + strings("abc") + struct.pack("<II", 7, 3),
         [[["abc", 7]], 3]),
        ("at", struct.pack("<IIQ", 8, 0, 6), [[6]]),
        ("a{sv}", struct.pack("<II", 16, 0) + strings("k") + b"\1u\0" + b"\0\0\0"
         + struct.pack("<I", 4), [[["k", 4]]]),
        ("aas", struct.pack("<II", 10, 6) + strings("a"), [[["a"]]]),
        ("s", struct.pack("<I", 2) + b"\xff\xfe\0", ["\ufffd\ufffd"]),
    ],
)  # fmt: skip
def test_values_are_taken_out_as_they_are_aligned(signature, data, values):
    assert Values(data, 0).all(signature) == values
