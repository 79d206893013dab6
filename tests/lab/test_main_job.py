"""The main job on real nodes: from the factory to certified; broken, found, repaired, proven."""

from __future__ import annotations

import json

import pytest

from hfprov.lab.faults import find_fault

NODES = ("node01", "node02", "node03")

pytestmark = [pytest.mark.lab, pytest.mark.slow]

# Three faults at a time, on three nodes: what one role repairs, and another does not notice.
ROUNDS = (
    {"node01": "mtu-runtime", "node02": "limits-value", "node03": "time-stopped"},
    {"node01": "time-server-changed", "node02": "mtu-file", "node03": "limits-file-removed"},
    {"node01": "systemd-limits-dropin-removed", "node02": "time-disabled", "node03": "mtu-runtime"},
)
ROLE_OF = {"mtu": "jumbo_mtu", "limits": "limits", "systemd": "limits", "time": "time_sync"}


def role_of(fault):
    return ROLE_OF[fault.partition("-")[0]]


def changed(run):
    """Pairs of host and role that did something in a recorded run."""
    return {(one["host"], one["role"]) for one in run["changes"]}


def test_a_rack_from_the_factory_is_not_at_its_baseline(story):
    assert story.before.code in (1, 3)
    document = story.before.document
    assert [one["host"] for one in document["hosts"]] == list(NODES)
    for name in NODES:
        assert {"time.daemon", "limits.pam.file", "mtu.live"} <= story.before.failing(name)


def test_provision_brings_it_there_wave_by_wave(story):
    assert story.provision.code == 0
    document = story.provision.document
    assert document["plan"]["waves"] == [["node01"], ["node02", "node03"]]
    for roles in document["plan"]["roles"].values():
        assert {"time_sync", "limits", "jumbo_mtu"} <= set(roles)
    assert (document["failed"], document["not_attempted"], document["stopped"]) == ({}, [], "")
    assert document["summary"] == {"pass": 3, "warn": 0, "fail": 0, "unknown": 0}


def test_drift_then_finds_nothing(story):
    assert story.after.code == 0
    assert [one["outcome"] for one in story.after.document["hosts"]] == ["pass"] * 3


def test_a_second_provision_runs_no_role(provisioned):
    done = provisioned.hfprov("provision", "--json")
    assert done.code == 0
    assert done.document["plan"] == {"roles": {}, "waves": [], "unreachable": [], "withheld": {}}
    run = provisioned.run()
    assert run["changes"] == []
    assert {one["state"] for one in run["hosts"]} == {"observed"}


def test_every_role_run_again_changes_nothing(provisioned):
    done = provisioned.hfprov("provision", "--full", "--waves", "100%", "--json")
    assert done.code == 0
    assert set(done.document["plan"]["roles"]) == set(NODES)
    run = provisioned.run()
    assert run["changes"] == []
    assert {one["state"] for one in run["hosts"]} == {"verified"}


@pytest.mark.parametrize("faults", ROUNDS, ids=lambda faults: "+".join(faults.values()))
def test_faults_are_found_named_repaired_and_proven(provisioned, faults):
    certified = provisioned.hfprov("certify", "--json")
    assert certified.code == 0
    assert set(certified.document["certificates"]) == set(NODES)

    for name, fault in faults.items():
        provisioned.rack.break_node(name, fault)
    found = provisioned.hfprov("drift", "--json")
    assert found.code in (1, 3)
    for name, fault in faults.items():
        trips = set(find_fault(fault).trips.split(", "))
        assert trips <= found.failing(name), (name, fault)
    revoked = {e["host"] for e in provisioned.run()["events"] if e["kind"] == "certificate_revoked"}
    assert revoked == set(NODES)

    repaired = provisioned.hfprov("drift", "--repair", "--json", "--waves", "100%")
    assert repaired.code == 0, repaired.out
    only = {name: [role_of(fault)] for name, fault in faults.items()}
    assert repaired.document["plan"]["roles"] == only
    ran = changed(provisioned.run())
    assert {name for name, _ in ran} == set(faults)
    assert {role for _, role in ran if role} <= {role_of(fault) for fault in faults.values()}
    assert all(role in ("", *only[name]) for name, role in ran)
    assert provisioned.hfprov("drift").code == 0
    assert set(provisioned.hfprov("certify", "--json").document["certificates"]) == set(NODES)


def test_what_is_on_one_host_only_is_said_of_that_host_only(provisioned):
    provisioned.rack.break_node("node02", "mtu-runtime")
    try:
        found = provisioned.hfprov("drift", "--json")
        assert found.code == 1
        assert {name: found.failing(name) for name in NODES} == {
            "node01": set(), "node02": {"mtu.live"}, "node03": set()
        }  # fmt: skip
        text = provisioned.hfprov("drift").out
        assert "mtu.live eth1: observed 1500, expected 9000" in text
    finally:
        provisioned.inside("node02", "ip link set dev eth1 mtu 9000")


def test_a_login_with_its_limits_does_not_hide_a_service_without(provisioned):
    files = "/etc/systemd/system/ssh.service.d/90-hfprov-limits.conf"
    provisioned.inside("node02", f"cp -a {files} /root/kept")
    provisioned.inside(
        "node02",
        f"sed -i 's/^LimitMEMLOCK=.*/LimitMEMLOCK=65536/' {files}\n"
        "systemctl daemon-reload\nsystemctl restart ssh.service",
    )
    try:
        found = provisioned.hfprov("drift", "--json")
        assert found.code == 1
        assert {"limits.systemd.files", "limits.units", "limits.running"} <= (
            found.failing("node02")
        )
        assert "limits.pam.file" not in found.failing("node02")
        assert provisioned.hfprov("drift", "--repair").code == 0
    finally:
        provisioned.inside(
            "node02", f"cp -a /root/kept {files}; systemctl daemon-reload; systemctl restart ssh"
        )


def alone(host):
    """The verdicts for which one observation is enough."""
    found = [one for one in host["verdicts"] if not one["check"].startswith("growth.")]
    assert len(found) < len(host["verdicts"])
    return found


def test_recorded_evidence_judged_again_gives_the_same_verdicts(provisioned, tmp_path):
    provisioned.rack.break_node("node03", "time-stopped")
    try:
        done = provisioned.hfprov("drift", "--json")
    finally:
        provisioned.inside("node03", "systemctl start chrony")
    live = done.document
    for host in live["hosts"]:
        name = host["host"]
        file = tmp_path / f"{name}.json"
        provisioned.hfprov("evidence", live["run"], name, "-o", file)
        again = provisioned.judge(file)
        # What has grown since the observation before cannot be told from one observation.
        assert alone(again.document["hosts"][0]) == alone(host)
        assert again.code == {"pass": 0, "warn": 0, "fail": 1, "unknown": 3}[host["outcome"]]
    assert [one["outcome"] for one in live["hosts"]][:2] == ["pass", "pass"]
    assert "time.daemon" in done.failing("node03")


UNREACHABLE = {
    "sshd-down": (
        "cannot be reached",
        "systemctl start ssh.socket 2>/dev/null || :; systemctl start ssh.service",
    ),
    "host-key-changed": (
        "The host key of '{}' is not the one on record",
        "rm /etc/ssh/ssh_host_*; cp -a /root/keys/* /etc/ssh/; systemctl restart ssh.service",
    ),
    "python-gone": (
        "There is no usable Python on '{}'",
        "mv /usr/bin/python3.gone /usr/bin/python3",
    ),
}


@pytest.mark.parametrize(
    "faults",
    [{"node01": "sshd-down", "node03": "host-key-changed"}, {"node02": "python-gone"}],
    ids=lambda faults: "+".join(faults.values()),
)
def test_an_unreachable_host_says_why_and_the_others_are_finished(provisioned, faults):
    for name, fault in faults.items():
        provisioned.inside(name, "mkdir -p /root/keys; cp -a /etc/ssh/ssh_host_* /root/keys")
        provisioned.rack.break_node(name, fault)
    try:
        done = provisioned.hfprov("drift", "--json")
        assert done.code == 3
        for host in done.document["hosts"]:
            fault = faults.get(host["host"])
            assert host["reachable"] is (fault is None)
            assert host["outcome"] == ("unknown" if fault else "pass")
            if fault:
                assert UNREACHABLE[fault][0].format(host["host"]) in host["reason"]
                assert {one["outcome"] for one in host["verdicts"]} == {"unknown"}
        provision = provisioned.hfprov("provision", "--json")
        assert provision.code == 3
        assert provision.document["plan"]["unreachable"] == sorted(faults)
        assert provisioned.hfprov("certify", "--json").document["certificates"].keys() == (
            set(NODES) - set(faults)
        )
    finally:
        for name, fault in faults.items():
            provisioned.inside(name, UNREACHABLE[fault][1])
    assert provisioned.hfprov("drift").code == 0


def test_the_history_of_a_host_tells_all_of_it(provisioned):
    history = provisioned.hfprov("history", "node02", "-n", "100", "--json").document
    assert history["runs"][-1]["command"] == "drift"
    assert [one["command"] for one in history["runs"]].count("certify") >= 1
    assert {one["status"] for one in history["runs"]} == {"complete"}
    runs = provisioned.hfprov("runs", "-n", "100", "--json").document["runs"]
    assert len(runs) == len(history["runs"])
    assert json.dumps(runs[0]["argv"]).count("--db") == 1
