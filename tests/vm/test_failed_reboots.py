"""What reboots can come to: another kernel, a node that stays away."""

from __future__ import annotations

from tests.vm.conftest import SERIES
from tests.vm.reboots import AWAY, events, states


def test_another_kernel_is_a_failure_that_names_the_entry_that_won(wrong, note):
    seen = wrong.result()
    document, entry = seen.document, seen.entry
    assert seen.new.startswith(f"{SERIES}.")
    assert document["exit_code"] == 1
    problem = document["failed"]["node02"]
    assert f"It runs kernel '{seen.old}' and not '{seen.new}'." in problem
    assert entry in problem or entry.split(">")[-1] in problem
    # Drained, not proven: the release hook, which would fail, was not run.
    assert document["drained"] == {"node02": problem}
    note(f"wrong kernel: {problem}")


def test_it_was_rebooted_once_and_not_again(declared, wrong):
    document = wrong.result().document
    boots = document["rebooted"]["node02"]["boot_id"]
    node = declared.nodes[1]
    assert boots[0] == wrong.result().boot_before
    # The boot that was seen first is still the one that runs.
    assert node.boot_id() == boots[1] != boots[0]
    assert node.kernel_release() == wrong.result().old
    run = declared.recorded(document["run"])
    assert events(run, "rebooted") == ["node02"]
    assert states(run) == {"node02": "failed"}


def test_a_node_that_stays_away_stops_the_rollout(declared, away, note):
    document = away.document
    assert document["plan"]["waves"] == [["node01"], ["node02"]]
    assert f"'node01' did not come back within {AWAY} s." in document["failed"]["node01"]
    assert "node01" in document["stopped"]
    assert document["not_attempted"] == ["node02"]
    assert document["rebooted"] == {}
    assert document["exit_code"] in (1, 3)
    run = declared.recorded(document["run"])
    assert states(run)["node01"] in ("failed", "unreachable")
    assert states(run)["node02"] == "not_attempted"
    assert declared.nodes[1].boot_id() == away.other_boot
    note(f"stayed away: {document['failed']['node01'].splitlines()[0]}")


def test_switched_on_again_it_runs_what_it_should(node, away):  # noqa: ARG001 - it was away
    assert node.kernel_release().startswith(f"{SERIES}.")
