"""Hosts that are logged in to before it is known what they are asked."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError

import pytest

from hfprov import ahead
from hfprov.ahead import Ahead
from hfprov.declare.connection import Connection
from hfprov.errors import RemoteError
from hfprov.observe import Login
from hfprov.reading import file

READS = (file("/etc/os-release"),)


class Command:
    """A probe that waits."""

    def __init__(self):
        self.closed = threading.Event()

    def close(self):
        self.closed.set()


class Nodes:
    """Takes the place of SSH: who was logged in to, and who was asked for what."""

    def __init__(self):
        self.refusing = set()
        self.logged_in = {}
        self.all_in = threading.Semaphore(0)
        self.asked = {}

    def log_in(self, connection, _deadline):
        if connection.host in self.refusing:
            self.all_in.release()
            raise RemoteError(f"'{connection.host}' refused the login.")
        self.logged_in[connection.host] = Command()
        self.all_in.release()
        return Login("nonce", self.logged_in[connection.host])

    def observe(self, connection, reads, *, deadline, begun):
        try:
            login = begun()
        except RemoteError as error:
            return error.message
        assert login.command is self.logged_in[connection.host]
        self.asked[connection.host] = reads, deadline
        return f"answer of {connection.host}"


@pytest.fixture
def nodes(monkeypatch):
    found = Nodes()
    monkeypatch.setattr(ahead, "log_in", found.log_in)
    monkeypatch.setattr(ahead, "observe", found.observe)
    return found


def connection(name, **settings):
    return Connection(host=name, address=name, **{"user": "root", **settings})


def connections(*names):
    return {name: connection(name) for name in names}


def test_hosts_are_logged_in_to_at_once_and_asked_when_it_is_known_for_what(nodes):
    begun = Ahead(connections("a", "b"), deadline=5)
    for _ in range(2):
        assert nodes.all_in.acquire(timeout=10)
    assert nodes.asked == {}
    begun.ask({"a": READS, "b": ()})
    assert {host: answer() for host, answer in begun.take().items()} == {
        "a": "answer of a",
        "b": "answer of b",
    }
    assert nodes.asked == {"a": (READS, 5), "b": ((), 5)}


def test_an_answer_is_given_once_and_the_next_sweep_looks_anew(nodes):
    begun = Ahead(connections("a"))
    begun.ask({"a": READS})
    assert list(begun.take()) == ["a"]
    assert begun.take() == {}
    assert nodes.all_in.acquire(timeout=10)


def test_as_many_as_are_observed_at_once_are_begun_in_the_order_of_the_fleet(nodes):
    begun = Ahead(connections("c", "b", "a"), at_once=2)
    begun.ask(dict.fromkeys("abc", READS))
    assert list(begun.take()) == ["c", "b"]
    for _ in range(2):
        assert nodes.all_in.acquire(timeout=10)


def test_a_host_whose_sudo_asks_for_a_password_is_left_out(nodes):
    asking = connection("b", user="me", become=True, become_password="x")
    begun = Ahead({"b": asking, **connections("a")}, at_once=1)
    begun.ask(dict.fromkeys("ab", READS))
    assert list(begun.take()) == ["a"]
    assert nodes.all_in.acquire(timeout=10)


def test_without_any_host_there_is_nothing_to_take(nodes):
    assert Ahead({}).take() == {}
    assert nodes.logged_in == {}


def test_a_login_that_was_refused_is_told_as_in_any_sweep(nodes):
    nodes.refusing.add("a")
    begun = Ahead(connections("a"))
    begun.ask({"a": READS})
    assert begun.take()["a"]() == "'a' refused the login."


def test_where_nothing_will_be_asked_nodes_are_left(nodes):
    nodes.refusing.add("b")
    begun = Ahead(connections("a", "b"))
    for _ in range(2):
        assert nodes.all_in.acquire(timeout=10)
    begun.close()
    for answer in begun.take().values():
        with pytest.raises(CancelledError):
            answer()
    assert nodes.logged_in["a"].closed.wait(timeout=10)
    assert nodes.asked == {}
