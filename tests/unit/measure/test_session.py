"""A client that comes before its server is tried again; any other failure is told at once."""

from __future__ import annotations

import threading

import pytest

from hfprov.declare.connection import Connection
from hfprov.errors import NotUnderstoodError
from hfprov.measure import session
from hfprov.measure.tools import TOOLS, End, Settings
from hfprov.remote import Output
from hfprov.sweep import Fleet

# perftest 4.5 on soft-RoCE, without a server: with -R, and without.
NO_SERVER = {
    "rdma_cm": "Unexpected CM event bl blka 8\n Unable to perform rdma_client function\n"
    " Unable to init the socket connection\n",
    "sockets": "Couldn't connect to 10.154.109.12:15201\nUnable to open file descriptor for socket "
    "connection Unable to init the socket connection\n",
}
ENDS = (End("n1", "eth1", "192.0.2.1", "rxe0"), End("n2", "eth1", "192.0.2.2", "rxe0"))


@pytest.fixture
def tried(monkeypatch):
    """Answers to the client, one after the other; the last one stays. The server waits for it."""
    answers, calls, over = [], [], threading.Event()

    def run(connection, argv, **_):
        if connection.host == "n2":
            over.wait(20)
            return Output(b"", "", 0)
        calls.append(argv)
        text, code = answers.pop(0) if len(answers) > 1 else answers[0]
        return Output(text.encode(), "", code)

    monkeypatch.setattr(session, "run", run)
    monkeypatch.setattr(session, "_TRY_AGAIN", 0)
    monkeypatch.setattr(session, "_SERVER_ENDS", 0)
    yield answers, calls
    over.set()


def serve():
    fleet = Fleet({}, {host: Connection(host, "192.0.2.9") for host in ("n1", "n2")})
    [tool] = [one for one in TOOLS if one.name == "ib_write_bw"]
    return session._served(fleet, tool, *ENDS, Settings())


@pytest.mark.parametrize("said", NO_SERVER.values(), ids=NO_SERVER)
def test_a_client_that_came_too_early_comes_again(tried, said):
    answers, calls = tried
    answers += [(said, 1), (said, 1), ("figures", 0)]
    assert serve().stdout == b"figures"
    assert len(calls) == 3


def test_a_client_that_never_gets_through_is_no_result(tried):
    answers, _ = tried
    answers.append((NO_SERVER["rdma_cm"], 1))
    with pytest.raises(NotUnderstoodError, match="could not reach the server of 'ib_write_bw'"):
        serve()


def test_another_failure_is_told_at_once(tried):
    answers, calls = tried
    answers.append(("Couldn't allocate MR\n", 1))
    assert serve().code == 1
    assert len(calls) == 1
