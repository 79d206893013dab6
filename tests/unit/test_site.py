"""Observing begins while the rest is loaded, where a command observes; it is given up with it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from hfprov import ahead
from hfprov.baseline import Baseline
from hfprov.cli.declared import Declared
from hfprov.cli.site import _Loading
from hfprov.judge import wanted_reads

DECLARED = Declared({"a": Baseline("a", ("limits",))}, {}, Path("site.yml"), (), ())


class Ahead:
    """Takes the place of logins."""

    def __init__(self, connections, *, at_once, deadline):
        self.begun = connections, at_once, deadline
        self.reads = None
        self.is_closed = False
        made.append(self)
        is_made.set()

    def ask(self, reads):
        self.reads = reads

    def close(self):
        self.is_closed = True


made: list[Ahead] = []
is_made = threading.Event()


@pytest.fixture(autouse=True)
def without_nodes(monkeypatch):
    made.clear()
    is_made.clear()
    monkeypatch.setattr(ahead, "Ahead", Ahead)


@pytest.fixture
def declare():
    """Has the thread that reads the inventory tell of it; waits for it at the end."""
    threads = []

    def declare(loading):
        threads.append(threading.Thread(target=loading.once_declared, args=(DECLARED,)))
        threads[-1].start()
        return threads[-1]

    yield declare
    for thread in threads:
        thread.join(timeout=20)
        assert not thread.is_alive()


def test_hosts_are_begun_when_they_are_known_and_asked_when_the_checks_are(declare):
    loading = _Loading(observing=True, at_once=4, deadline=5.0)
    thread = declare(loading)
    assert is_made.wait(timeout=20)
    [begun] = made
    assert (begun.begun, begun.reads) == ((DECLARED.connections, 4, 5.0), None)
    loading._has_checks.set()
    thread.join(timeout=20)
    assert begun.reads == wanted_reads(DECLARED.baselines)
    assert loading.ahead is begun
    assert not begun.is_closed


def test_a_command_that_does_not_observe_contacts_nobody(declare):
    loading = _Loading(observing=False, at_once=4, deadline=5.0)
    declare(loading).join(timeout=20)
    assert (made, loading.ahead) == ([], None)


def test_what_was_begun_is_given_up_with_the_command(declare):
    loading = _Loading(observing=True, at_once=4, deadline=5.0)
    thread = declare(loading)
    assert is_made.wait(timeout=20)
    loading.give_up()
    thread.join(timeout=20)
    [begun] = made
    assert (begun.is_closed, begun.reads) == (True, None)
