"""Measurements between real practice nodes: a slowed node is named, nobody else; a trial undoes."""

from __future__ import annotations

import contextlib
import os
import signal

import pytest

from hfprov.record.store import Record

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(1800)]

TOOLS = "iperf3 fio stress-ng"


@pytest.fixture(scope="module")
def measurable(provisioned):
    """Practice nodes with the tools that measure them, and a timer that disturbs."""
    for name in provisioned.nodes:
        provisioned.inside(
            name,
            "export DEBIAN_FRONTEND=noninteractive\n"
            f"apt-get -qq install -y --no-install-recommends {TOOLS} >/dev/null\n"
            "systemctl disable --now iperf3 2>/dev/null || true\n"
            "printf '[Timer]\\nOnCalendar=hourly\\n' > /run/systemd/system/man-db.timer\n"
            "printf '[Service]\\nExecStart=/bin/true\\n' > /run/systemd/system/man-db.service\n"
            "systemctl daemon-reload; systemctl start man-db.timer",
            timeout=400,
        )
    return provisioned


@contextlib.contextmanager
def slowed(site, *names, shape="rate 300mbit burst 256kb latency 50ms"):
    """What a bad cable does: what the node sends is held back."""
    for name in names:
        site.inside(name, f"tc qdisc add dev eth1 root tbf {shape}")
    try:
        yield
    finally:
        for name in names:
            site.inside(name, "tc qdisc del dev eth1 root")


def measure(site, *what, **kwargs):
    return site.hfprov("measure", *what, "--json", "--seconds", "1", timeout=600, **kwargs)


def blamed(document):
    return {tuple(tuple(group) for group in one["hosts"]) for one in document["causes"]}


def timer(site, name):
    return site.inside(name, "systemctl is-active man-db.timer", check=False).strip()


def test_every_pair_is_measured_both_ways_recorded_and_nodes_are_given_back(site, measurable):
    document = measure(site, "network").document
    pairs = {(one["host"], one["peer"]) for one in document["results"]}
    assert pairs == {(a, b) for a in measurable.nodes for b in measurable.nodes if a != b}
    assert all(one["median"] > 0 and len(one["samples"]) >= 5 for one in document["results"])
    assert document["exit_code"] != 0  # nobody has said what these nodes must reach
    with Record.open(site.db) as record:
        stored = list(record.measurements("node01", "iperf3 tcp"))
    assert {one.peer for one in stored} == {"node02", "node03"}
    assert all(one.conditions["mtu"]["eth1"] == 9000 and one.raw for one in stored)
    assert {timer(site, name) for name in measurable.nodes} == {"active"}


def test_a_slowed_node_is_named_by_the_pairs_and_nobody_else_is(site, measurable):
    with slowed(site, "node02"):
        done = measure(site, "network")
    assert measurable.nodes
    assert blamed(done.document) == {(("node02",),)}
    [cause] = done.document["causes"]
    assert cause["alone"] < 1  # Gbit/s
    assert "it is slow by itself" in cause["says"]


MIDDLE, TAIL = "ping round trip", "ping round trip p99"


def test_latency_is_measured_with_percentiles_and_a_curve(site, measurable):
    done = measure(site, "latency")
    pairs = {(a, b) for a in measurable.nodes for b in measurable.nodes if a != b}
    for test in (MIDDLE, TAIL):
        found = [one for one in done.document["results"] if one["test"] == test]
        assert {(one["host"], one["peer"]) for one in found} == pairs, done.out
        assert all(not one["higher_is_better"] and one["unit"] == "us" for one in found)
        assert all(len(one["samples"]) == 5 and len(one["curve"]) == 4 for one in found)
    details = [one["details"] for one in done.document["results"] if one["test"] == MIDDLE]
    assert all(0 < one["min"] <= one["mean"] <= one["max"] for one in details)
    with Record.open(site.db) as record:
        stored = list(record.measurements("node01", MIDDLE))
    assert {one.peer for one in stored} == {"node02", "node03"}
    assert all(one.parameters["higher_is_better"] is False for one in stored)
    assert all(one.conditions["peer"]["mtu"]["eth1"] == 9000 for one in stored)


def quiet(site, name):
    return timer(site, name) == "inactive"


def test_ctrl_c_gives_nodes_back_at_once(site, measurable):
    run = site.start("measure", "network", "--seconds", "30")
    site.until(lambda: all(quiet(site, name) for name in measurable.nodes))
    os.kill(run.pid, signal.SIGINT)
    assert run.wait(timeout=120) == 130
    assert {timer(site, name) for name in measurable.nodes} == {"active"}


def test_after_a_killed_controller_each_node_keeps_its_promise(site, measurable):
    run = site.start("measure", "network", "--seconds", "30")
    site.until(lambda: all(quiet(site, name) for name in measurable.nodes))
    os.kill(run.pid, signal.SIGKILL)
    run.wait(timeout=60)
    promises = {
        site.inside(name, "systemctl is-active hfprov-unquiesce.timer").strip()
        for name in measurable.nodes
    }
    assert promises == {"active"}
    site.inside("node01", "systemctl start hfprov-unquiesce.service")  # as its timer will
    assert timer(site, "node01") == "active"
    # The others are given back by the next run, which finds what the dead one has promised.
    measure(site, "memory")
    assert {timer(site, name) for name in measurable.nodes} == {"active"}


def test_a_rack_that_is_uniformly_slow_fails_on_what_it_must_reach(site, measurable):
    variables = site.inventory / "group_vars" / "all.yml"
    variables.write_text('node_expected_measurements: {"iperf3 tcp": 0.8}\n', encoding="utf-8")
    try:
        with slowed(site, *measurable.nodes):
            done = measure(site, "network")
    finally:
        variables.unlink()
    assert done.code in (1, 3)
    assert blamed(done.document) == set()
    nominal = {
        spoken["outcome"]
        for one in done.document["results"]
        for spoken in one["opinions"]
        if spoken["judge"] == "nominal"
    }
    assert nominal == {"fail"}


def test_memory_and_storage_are_measured_and_leave_nothing_behind(site, measurable):
    document = measure(site, "memory", "storage", "--file-mib", "32").document
    seen = {(one["host"], one["test"]) for one in document["results"] if one["median"]}
    tests = ("stress-ng stream", "fio write", "fio read", "fio random read")
    assert seen == {(name, test) for name in measurable.nodes for test in tests}, document
    for name in measurable.nodes:
        assert site.inside(name, "ls /var/tmp | grep -c hfprov-measure || true").strip() == "0"


def test_a_node_at_work_is_not_measured(site, measurable):
    site.inside("node03", "cp /bin/sleep /tmp/conmon; systemd-run --unit=job /tmp/conmon 600")
    try:
        done = measure(site, "network", "--plan")
    finally:
        site.inside("node03", "systemctl stop job")
    assert measurable.nodes
    assert done.code == 3
    assert "at work" in done.document["not_measured"]["node03"]


def test_a_trial_tells_what_large_frames_do_and_puts_them_back(site, measurable):
    done = site.hfprov(
        *("trial", "jumbo_mtu", "--before", "jumbo_mtu_bytes=1500", "--measure", "network"),
        *("--json", "--seconds", "1"),
        timeout=900,
    )
    [effect] = done.document["effects"]
    assert effect["test"] == "iperf3 tcp"
    assert effect["low"] <= effect["size"] <= effect["high"]
    assert done.document["kept"] is False
    for name in measurable.nodes:
        assert site.inside(name, "cat /sys/class/net/eth1/mtu").strip() == "1500"
    repaired = site.hfprov("drift", "--repair", "--json", timeout=600)
    assert repaired.code == 0, repaired.out


def test_traffic_says_that_an_idle_interface_has_none(site):
    done = site.hfprov("traffic", "node01", "--seconds", "1", "--json")
    [host] = done.document["hosts"]
    assert {one["interface"] for one in host["interfaces"]} >= {"eth0", "eth1"}
