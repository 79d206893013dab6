"""The role jumbo_mtu: a node that its new MTU cuts off helps itself; the others keep theirs."""

from __future__ import annotations

import time

from tests.vm.on_node import live_mtu
from tests.vm.provisioning import files_with_an_mtu, guard


def test_a_node_that_is_cut_off_takes_its_old_mtu_back_and_answers_again(second, note):
    seen, _ = second.result()
    cut, when, back, until = seen.log
    assert (cut, back) == ("cut", "back")
    assert "node02" in seen.document["failed"]
    assert seen.document["exit_code"] in (1, 3)
    assert seen.mtu == "1500"
    assert seen.guard == "inactive"
    # Nor does the next start bring it.
    assert seen.files == []
    found = {one["check"]: one["outcome"] for one in seen.verdicts}
    assert found["mtu.live"] == "fail"
    assert found["mtu.guard"] == "pass"
    at = time.strftime("%H:%M:%S", time.gmtime(int(when)))
    after = int(until) - int(when)
    note(f"node02 cut off by MTU 9000 at {at} UTC, answered again after {after} s, at 1500")


def test_a_change_that_was_confirmed_stays(declared, provisioned):  # noqa: ARG001 - by it
    for node in declared.nodes:
        assert live_mtu(node) == "9000"
        assert guard(node) == "inactive"
        assert files_with_an_mtu(node)


def test_packets_of_9000_bytes_pass_both_ways(declared, provisioned):  # noqa: ARG001 - by it
    document = declared.patient("path-mtu")
    assert document["untested"] == {}
    passed = {
        (one["source"], one["target"]): one["passed"]
        for rail in document["rails"]
        for one in rail["trials"]
        if one["bytes"] == 9000
    }
    assert passed == {("node01", "node02"): True, ("node02", "node01"): True}
