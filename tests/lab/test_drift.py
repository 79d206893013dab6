"""Drift on real nodes: nothing drifts by itself; what does is told by its cause, and repaired."""

from __future__ import annotations

import json

import pytest

SWEEPS = 10

pytestmark = [pytest.mark.lab, pytest.mark.slow]


def test_nodes_that_nobody_touches_never_drift(provisioned):
    for number in range(SWEEPS):
        done = provisioned.hfprov("drift", "--json")
        assert done.code == 0, f"sweep {number + 1}: {done.out[-2000:]}"
        assert [one["outcome"] for one in done.document["hosts"]] == ["pass"] * 3
        assert done.document["causes"] == []
        if number:
            assert done.document["cured"] == []


def test_one_cause_on_two_nodes_from_new_to_planned_to_repaired(provisioned, tmp_path):
    assert provisioned.hfprov("drift", "--json").code == 0
    for name in ("node01", "node02"):
        provisioned.rack.break_node(name, "mtu-runtime")
    done = provisioned.hfprov("drift", "--json", "--textfile", tmp_path)
    (cause,) = done.document["causes"]
    assert (cause["check"], cause["observed"]) == ("mtu.live", {"1500": 2})
    assert cause["new_on"] == cause["hosts"] == ["node01", "node02"]
    assert (cause["role"], cause["repaired_with"]) == ("jumbo_mtu", "safe")
    assert cause["last_good"] is not None
    assert 'hfprov_hosts{outcome="fail"} 2' in (tmp_path / "hfprov.prom").read_text()
    plan = provisioned.hfprov("drift", "--repair", "--plan", "--only", "safe", "--json")
    assert plan.code == 1
    hosts = {one["host"]: one["roles"] for one in plan.document["hosts"]}
    assert set(hosts) == {"node01", "node02"}
    assert [role["role"] for role in hosts["node01"]] == ["jumbo_mtu"]
    repaired = provisioned.hfprov("drift", "--repair", "--only", "safe", "--json")
    assert repaired.code == 0
    assert repaired.document["not_repaired"] == []
    runs = json.loads(provisioned.hfprov("runs", "--json", "--limit", "node01").out)["runs"]
    assert len(runs) >= 4
