"""What a node was like when it was measured, what may be compared, and what is not idle."""

from __future__ import annotations

import json

import pytest

from hfprov.baseline import Baseline
from hfprov.evidence.accelerators.model import Accelerator, Process, Temperatures, Vendor
from hfprov.measure.conditions import DECISIVE, PEER, condition_reads, conditions_of, unlike
from hfprov.measure.idle import cautions, refusal
from hfprov.measure.judges import Past, history
from hfprov.reading import Observation, Result
from hfprov.verdict import Outcome

BASE = Baseline("n1", ())
FILES = {
    "/proc/sys/kernel/osrelease": "6.1.0-40-amd64\n",
    "/proc/sys/kernel/random/boot_id": "0b1c5f7e-0000-4000-8000-000000000001\n",
    "/proc/cmdline": "root=/dev/sda1 iommu=pt\n",
    "/sys/devices/system/cpu/online": "0-3\n",
    "/proc/sys/kernel/numa_balancing": "0\n",
    "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
    "/proc/loadavg": "0.40 0.30 0.20 2/345 999\n",
    "/proc/meminfo": "MemTotal: 1000 kB\nMemFree: 900 kB\nMemAvailable: 950 kB\n"
    "SwapTotal: 8192 kB\nSwapFree: 4096 kB\n",
    "/proc/self/environ": "HOME=/root\0NCCL_DEBUG=INFO\0TOKEN=secret\0LD_PRELOAD=/opt/x.so\0",
    "/etc/nccl.conf": "# ours\nNCCL_IB_HCA==mlx5_0\nNCCL_DEBUG = WARN\n",
}
GLOBS = {
    "glob /proc/[0-9]*/cmdline": {"/proc/1/cmdline": "/sbin/init\0"},
    "glob /sys/class/net/*/mtu": {
        f"/sys/class/net/{name}/mtu": f"{mtu}\n"
        for name, mtu in (("eth1", 9000), ("lo", 65536), ("veth12ab34", 1500), ("docker0", 1500))
    },
    "glob /sys/class/infiniband/*/fw_ver": {"/sys/class/infiniband/mlx5_0/fw_ver": "28.43.1\n"},
    "run ethtool -i '{name}' (each /sys/class/net/*)": {
        "eth0": "driver: igb\nversion: 6.1\nfirmware-version: 3.11, 0x8\nbus-info: 0000:01:00.0\n",
        "veth": "driver: veth\nversion: 1.0\nfirmware-version: \nbus-info: \n",
    },
    "glob /sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor": {
        "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
        "/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "powersave\n",
    },
    "glob /sys/class/thermal/thermal_zone*/temp": {
        "/sys/class/thermal/thermal_zone0/temp": "45000\n"
    },
}


def seen(**files):
    """A bare-metal node; what is not in the tables it does not have."""
    texts = {**FILES, **files}
    results = {}
    for read in condition_reads(BASE):
        path = read.request.get("path", "")
        if read.id == "systemd itself":
            results[read.id] = (Result("", "ok", "Virtualization=\n", code=0),)
        elif read.id in GLOBS:
            found = GLOBS[read.id].items()
            results[read.id] = tuple(Result(name, "ok", text, code=0) for name, text in found)
        elif path in texts:
            results[read.id] = (Result(path, "ok", texts[path]),)
        elif read.request["kind"] == "glob" or read.request.get("each"):
            results[read.id] = ()
        else:
            results[read.id] = (Result(path, "absent"),)
    return Observation(results)


def test_firmware_modes_environment_and_state_are_conditions():
    found = conditions_of(seen(), BASE)
    assert found["firmware"] == {"mlx5_0": "28.43.1", "eth0": "3.11, 0x8"}
    assert found["environment"] == {
        "NCCL_DEBUG": "INFO",
        "LD_PRELOAD": "/opt/x.so",
        "/etc/nccl.conf NCCL_IB_HCA": "=mlx5_0",
        "/etc/nccl.conf NCCL_DEBUG": "WARN",
    }
    assert found["governor"] == ["performance", "powersave"]
    assert found["mtu"] == {"eth1": 9000}
    assert (found["load"], found["running"], found["memory_available"]) == ("0.40", "2", 0.95)
    assert found["swap_used_mib"] == 4
    assert "secret" not in json.dumps(found)


@pytest.mark.parametrize("text", ["\n" * 60_000, "NCCL_A=" + " " * 60_000 + "b", "=" * 60_000])
@pytest.mark.timeout(10)
def test_a_hostile_file_costs_no_time(text):
    found = conditions_of(seen(**{"/etc/nccl.conf": text}), BASE)
    assert all(len(value) <= 500 for value in found["environment"].values())


ALIKE = {
    "machine": "bare_metal",
    "kernel": "6.1",
    "cmdline": "iommu=pt",
    "cpus": 64,
    "governor": ["performance"],
    "boost": ["1"],
    "no_turbo": ["0"],
    "idle_latency": ["0"],
    "clock_source": ["tsc"],
    "transparent_hugepages": ["madvise"],
    "numa_balancing": ["0"],
    "mtu": {"eth0": 1500, "eth1": 9000},
    "drivers": {"mlx5_core": "24.10"},
    "firmware": {"mlx5_0": "28.43.1"},
    "accelerators": {"0000:1b:00.0": {"power_limit_w": 700.0}},
    "environment": {"NCCL_DEBUG": "WARN"},
    "tool_sha256": "0a" * 32,
    "numa_binding": 1,
    "argv": ["iperf3", "--client", "10.0.0.2"],
    "hosts": ["n1", "n2"],
}


def test_every_decisive_condition_is_in_the_tests_below():
    assert set(ALIKE) == set(DECISIVE)


@pytest.mark.parametrize("name", DECISIVE)
def test_a_comparison_of_unlike_conditions_is_refused_and_the_difference_is_named(name):
    past = [Past(10.0, ALIKE, f"r{number}") for number in range(8)]
    same = history(10.0, past, ALIKE, higher_is_better=True)
    assert same.outcome is Outcome.PASS
    for changed in ({**ALIKE, name: "another"}, {k: v for k, v in ALIKE.items() if k != name}):
        found = history(10.0, past, changed, higher_is_better=True)
        assert found.outcome is Outcome.UNKNOWN
        assert f"not comparable: {name}: " in found.reason


@pytest.mark.parametrize("name", ["load", "accelerator_state", "temperatures_millidegrees"])
def test_what_changes_by_itself_forbids_no_comparison(name):
    assert not list(unlike({**ALIKE, name: 1}, {**ALIKE, name: 2}))


def test_the_other_end_counts_as_well_and_is_named():
    mine = {**ALIKE, PEER: ALIKE}
    changed = {**ALIKE, PEER: {**ALIKE, "mtu": {"eth0": 1500, "eth1": 1500}}}
    assert list(unlike(changed, mine)) == [
        "the other end's mtu: {'eth1': 9000} before, {'eth1': 1500} now"
    ]
    assert list(unlike(mine, mine)) == []
    assert "the other end: not known before" in next(iter(unlike(mine, ALIKE)))


def gpu(**changes):
    return (Accelerator(Vendor.NVIDIA, "0000:1b:00.0", **{"processes": (), **changes}),)


IDLE = {"machine": "bare_metal", "cpus": 64, "load": "0.50", "running": "2",
        "memory_available": 0.97, "swap_used_mib": 0, "governor": ["performance"],
        "numa_balancing": ["0"], "temperatures_millidegrees": ["45000"]}  # fmt: skip


def test_an_idle_node_is_measured_without_a_word():
    assert refusal(IDLE, gpu()) == ""
    assert list(cautions(IDLE, gpu(throttle=frozenset({"gpu_idle"})))) == []


@pytest.mark.parametrize(
    ("change", "devices", "reason"),
    [
        ({}, gpu(processes=(Process(77, "python3"),)), "in use (77 python3)"),
        ({"load": "12.0", "running": "14"}, (), "It is busy: 14 threads"),
        ({"memory_available": 0.2}, (), "Only 20% of its memory"),
    ],
)
def test_a_node_that_is_not_idle_is_not_measured(change, devices, reason):
    assert reason in refusal({**IDLE, **change}, devices)


@pytest.mark.parametrize(
    "change",
    [
        {"load": "60.0", "running": "1"},  # of a measurement that has just ended
        {"load": "0.1", "running": "40"},  # ourselves, at this moment
        {"load": "12.0", "running": "14", "machine": "container"},  # its host's
        {"memory_available": 0.2, "machine": "container"},
        {"load": "not a number"},
    ],
)
def test_what_says_nothing_of_the_node_does_not_refuse_it(change):
    assert refusal({**IDLE, **change}, ()) == ""


@pytest.mark.parametrize(
    ("change", "devices", "word"),
    [
        ({"governor": ["performance", "powersave"]}, (), "governor 'powersave'"),
        ({"numa_balancing": ["1"]}, gpu(), "balances NUMA"),
        ({"temperatures_millidegrees": ["45000", "91000"]}, (), "91 C"),
        ({"memory_available": 0.8}, (), "80%"),
        ({"swap_used_mib": 300}, (), "300 MiB in swap"),
        ({}, gpu(throttle=frozenset({"hw_thermal_slowdown"})), "hw_thermal_slowdown"),
        ({}, gpu(utilization=40.0), "40 % busy"),
        ({}, gpu(temperatures=Temperatures(core=84, slowdown_at=90)), "84 C"),
        ({}, gpu(partitioned=True), "partitioned"),
        ({}, gpu(recovery_action="reset"), "'reset'"),
    ],
)
def test_what_may_distort_a_figure_is_said_with_it(change, devices, word):
    [found] = cautions({**IDLE, **change}, devices)
    assert word in found
