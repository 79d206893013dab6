"""A node is back when it has a new boot that is up; nothing else counts."""

from __future__ import annotations

import threading

import pytest

from hfprov.baseline import Baseline
from hfprov.declare.connection import Connection
from hfprov.errors import NoEvidenceError, RebootError, RemoteError
from hfprov.reboot.node import Node, Patience
from hfprov.remote import Output
from tests.unit.reboot.conftest import GONE, NEW, OLD, STARTING

QUICK = Patience(boot=0.5, drain=0.3, poll=0.01)


@pytest.fixture
def node(script):  # noqa: ARG001 - replaces what the node is read with
    return Node(Connection("n1", "192.0.2.1"), Baseline("n1", ()), QUICK, threading.Event())


def test_a_slow_shutdown_that_still_answers_is_not_a_reboot(node, script):
    node.order()
    script.after_order["n1"] = [OLD, OLD, GONE, GONE, STARTING, NoEvidenceError("half"), NEW]
    assert node.wait_for_new_boot(OLD) == NEW
    assert script.after_order["n1"] == [NEW]


@pytest.mark.parametrize(
    ("looks", "said"),
    [
        ([OLD], "still answers in its old boot"),
        ([GONE], "No route to host"),
        ([STARTING], "systemd is 'starting'"),
    ],
)
def test_a_node_that_does_not_come_back_is_given_up_with_the_reason(node, script, looks, said):
    node.order()
    script.after_order["n1"] = looks
    with pytest.raises(RebootError, match=r"did not come back within 0\.5 s") as caught:
        node.wait_for_new_boot(OLD)
    assert said in caught.value.message


def test_a_connection_that_breaks_is_what_a_reboot_looks_like(node, script):
    script.order = RemoteError("The connection broke.")
    node.order()


def test_a_node_that_refuses_is_not_waited_for(node, script):
    script.order = Output(b"", "Operation inhibited by backup.\n", 1)
    with pytest.raises(RebootError, match="inhibited by backup"):
        node.order()


def test_work_may_end_while_it_is_waited_for(node, script):
    script.workloads[:] = [("1: conmon",), ("1: conmon",), ()]
    node.wait_until_idle()


def test_a_node_that_stays_at_work_is_not_rebooted(node, script):
    script.workloads[:] = [("1: conmon -n job", "2: conmon")]
    with pytest.raises(RebootError, match=r"After .* 2 containers or jobs are at work on"):
        node.wait_until_idle()


def test_a_stop_ends_the_wait():
    stop = threading.Event()
    stop.set()
    node = Node(Connection("n1", "192.0.2.1"), Baseline("n1", ()), QUICK, stop)
    with pytest.raises(RebootError, match="Stopped"):
        node.wait_for_new_boot(OLD)
