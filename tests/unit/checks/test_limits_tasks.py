"""Bounds of the number of processes: as usual, lowered in each place, and hostile."""

from __future__ import annotations

import math

import pytest

from hfprov.baseline import Baseline
from hfprov.errors import NotUnderstoodError
from hfprov.evidence.memory_node import MEMINFO
from hfprov.evidence.system import CPUS_ONLINE, CPUS_PRESENT
from hfprov.evidence.task_limits import BOUNDS_OF_KERNEL, TASK_LIMITS, tasks
from hfprov.verdict import Outcome

PASS, WARN, FAIL, UNKNOWN = Outcome.PASS, Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN
TASKS, KERNEL = "limits.tasks", "limits.kernel"
PID_MAX, THREADS_MAX = (read.id for read in BOUNDS_OF_KERNEL.reads(Baseline("node", ())))
SYSTEM_D = "glob /etc/systemd/system.conf.d/*.conf"
SITE = "/etc/systemd/system.conf.d/99-site.conf"
SLICES = "glob /etc/systemd/system/*.slice.d/*.conf"
USUAL = 629_145
"""15 % of the kernel's 4,194,304."""
NPROC = 65_536
"""What the recorded node declares."""


def one(text, name="x", **changes):
    return {"name": name, "status": "ok", "text": text} | changes


@pytest.fixture
def node(ifupdown):
    """A machine of 64 CPUs and 512 GiB, with what systemd gives by itself."""
    results = ifupdown.results
    for read in TASK_LIMITS.reads(ifupdown.baseline()):
        results.setdefault(read.id, [])
    results[PID_MAX], results[THREADS_MAX] = [one("4194304\n")], [one("4123456\n")]
    results[CPUS_ONLINE.id] = results[CPUS_PRESENT.id] = [one("0-63\n")]
    results[MEMINFO.id] = [one(f"MemTotal: {512 << 20} kB\nMemFree: 1 kB\n")]
    ifupdown.put("systemd itself", text=f"DefaultTasksMax={USUAL}\nVirtualization=\n" + (
        results["systemd itself"][0]["text"]
    ))  # fmt: skip
    ifupdown.replace(
        "units of systemd", "NeedDaemonReload=", f"TasksMax={USUAL}\nNeedDaemonReload="
    )
    return ifupdown


@pytest.mark.parametrize("nproc", ["65536", "unlimited", "4000000"])
def test_what_systemd_does_by_itself_passes(node, nproc):
    node.values["limits_nproc"] = nproc
    assert node.bad(TASKS) == {}
    assert node.bad(KERNEL) == {}


def test_all_evidence_is_asked_of_processes_that_run_anyway(node):
    """A sweep costs a node no further process for it."""
    assert {
        read.id
        for read in TASK_LIMITS.reads(node.baseline())
        if read.request["kind"] in ("command", "units")
    } == {"systemd itself", "units of systemd"}


@pytest.mark.parametrize(
    ("nproc", "bound", "outcome"),
    [("65536", 65_535, FAIL), ("65536", 65_536, PASS), ("unlimited", 600_000, FAIL),
     ("unlimited", USUAL, PASS), ("unlimited", "infinity", PASS), ("65536", 512, FAIL)],
)  # fmt: skip
def test_a_bound_of_systemd_in_effect_is_held_against_what_is_declared(node, nproc, bound, outcome):
    node.values["limits_nproc"] = nproc
    node.replace("systemd itself", f"DefaultTasksMax={USUAL}", f"DefaultTasksMax={bound}")
    assert node.bad(TASKS) == ({"DefaultTasksMax": FAIL} if outcome is FAIL else {})


def test_a_bound_of_one_service_is_told_by_its_name(node):
    blocks = node.results["units of systemd"][0]["text"].split("\n\n")
    lowered = [
        block.replace(f"TasksMax={USUAL}", "TasksMax=64") if "Id=ssh.service" in block else block
        for block in blocks
    ]
    assert lowered != blocks
    node.put("units of systemd", text="\n\n".join(lowered))
    assert node.bad(TASKS) == {"ssh.service TasksMax": FAIL}
    (found,) = [x for x in node.findings(TASKS) if x.outcome is FAIL]
    assert (found.observed, found.expected) == ("64", "at least 65536")


@pytest.mark.parametrize(
    ("value", "outcome"),
    [("1%", FAIL), ("1.5%", FAIL), ("2%", PASS), ("100%", PASS), ("infinity", PASS),
     ("512", FAIL), ("65536", PASS), ("", PASS)],
)  # fmt: skip
def test_a_file_of_systemd_is_judged_before_anybody_reloads(node, value, outcome):
    node.add(SYSTEM_D, SITE, f"[Manager]\nDefaultTasksMax={value}\n")
    assert node.bad(TASKS) == ({f"{SITE}:2": FAIL} if outcome is FAIL else {})


@pytest.mark.parametrize(
    ("folder", "outcome"),
    [("user-.slice.d", FAIL), ("user-1000.slice.d", FAIL), ("user.slice.d", FAIL),
     ("system.slice.d", FAIL), ("-.slice.d", FAIL), ("jobs.slice.d", PASS),
     ("user-1000-jobs.slice.d", PASS)],
)  # fmt: skip
def test_drop_ins_of_slices_that_bound_logins_and_services(node, folder, outcome):
    path = f"/etc/systemd/system/{folder}/site.conf"
    node.add(SLICES, path, "[Slice]\nTasksMax=100\n")
    assert node.bad(TASKS) == ({f"{path}:2": FAIL} if outcome is FAIL else {})


@pytest.mark.parametrize("place", ["etc", "run"])
def test_what_set_property_keeps_is_read(node, place):
    path = f"/{place}/systemd/system.control/user-1000.slice.d/50-TasksMax.conf"
    node.add(f"glob /{place}/systemd/system.control", path, "[Slice]\nTasksMax=100\n")
    assert node.bad(TASKS) == {f"{path}:2": FAIL}


def test_a_slice_hidden_by_a_link_and_other_settings_bound_nothing(node):
    path = "/etc/systemd/system/user-.slice.d/10-defaults.conf"
    node.add(SLICES, path, "", link="/dev/null", type="other")
    node.add(SLICES, path.replace("10", "20"), "[Slice]\nMemoryMax=1G\n[Unit]\nTasksMax=1\n")
    assert node.bad(TASKS) == {}


@pytest.mark.parametrize("group", ["system.slice", "user.slice", "user.slice/user-1000.slice"])
def test_a_control_group_that_is_bounded_now(node, group):
    words = f"glob /sys/fs/cgroup/{group.replace('1000', '*')}/pids.max"
    node.results[words] = [one("max\n", f"/sys/fs/cgroup/{group}/pids.max")]
    assert node.bad(TASKS) == {}
    node.results[words][0]["text"] = "100\n"
    assert node.bad(TASKS) == {f"{group} pids.max": FAIL}


def test_in_a_container_percentages_are_of_its_own_bound(node):
    node.values["limits_nproc"] = "unlimited"
    node.results["glob /sys/fs/cgroup/pids.max"] = [one("10000\n")]
    node.replace("systemd itself", f"DefaultTasksMax={USUAL}", "DefaultTasksMax=1500")
    assert node.bad(TASKS) == {}
    node.replace("systemd itself", "DefaultTasksMax=1500", "DefaultTasksMax=1000")
    assert node.bad(TASKS) == {"DefaultTasksMax": FAIL}


def test_a_setting_that_logind_no_longer_knows_is_only_told(node):
    path = "/etc/systemd/logind.conf.d/99-site.conf"
    node.add("glob /etc/systemd/logind.conf.d", path, "[Login]\nUserTasksMax=12288\n")
    assert node.bad(TASKS) == {f"{path}:2": WARN}


@pytest.mark.parametrize(
    ("read", "changes"),
    [
        (PID_MAX, {"text": ""}),
        (PID_MAX, {"text": "-1\n"}),
        (PID_MAX, {"text": "9" * 5000}),
        (PID_MAX, {"text": "\x1b[31mmany\n"}),
        (THREADS_MAX, {"status": "denied"}),
        (THREADS_MAX, {"truncated": True}),
        ("systemd itself", {"text": "DefaultTasksMax=many\n"}),
        ("systemd itself", {"text": "SystemState=running\n"}),
        ("systemd itself", {"status": "timeout"}),
        ("units of systemd", {"text": "Id=ssh.service\nNames=ssh.service\nLoadState=loaded\n"}),
    ],
)
def test_what_is_not_understood_never_passes(node, read, changes):
    node.put(read, **changes)
    assert node.bad(TASKS) == {"": UNKNOWN}


@pytest.mark.parametrize("value", ["lots", "1e9", "-5", "5%%", "9" * 40, "<b>1</b>"])
def test_a_line_that_systemd_may_or_may_not_take_is_unknown(node, value):
    node.add(SYSTEM_D, SITE, f"[Manager]\nDefaultTasksMax={value}\n")
    assert UNKNOWN in node.bad(TASKS).values()


def test_evidence_of_earlier_versions_is_unknown(ifupdown):
    assert ifupdown.bad(TASKS) == {"": UNKNOWN}
    assert ifupdown.bad("limits.units") == {}


def test_amounts():
    assert tasks("infinity", 10.0) == math.inf
    assert tasks("33%", 1000.0) == pytest.approx(330.0)
    with pytest.raises(NotUnderstoodError):
        tasks("a third", 1000.0)


# The kernel


@pytest.mark.parametrize(
    ("nproc", "pid_max", "threads_max", "bad"),
    [
        ("65536", 65_536, 65_536, {}),
        ("65536", 65_535, 65_536, {"kernel.pid_max": FAIL}),
        ("65536", 4_194_304, 1000, {"kernel.threads-max": FAIL}),
        ("unlimited", 65_536, 65_536, {}),
        ("unlimited", 32_768, 32_768, {"kernel.pid_max": FAIL, "kernel.threads-max": FAIL}),
    ],
)
def test_bounds_of_the_kernel(node, nproc, pid_max, threads_max, bad):
    node.values["limits_nproc"] = nproc
    node.put(PID_MAX, text=f"{pid_max}\n")
    node.put(THREADS_MAX, text=f"{threads_max}\n")
    assert node.bad(KERNEL) == bad


def test_a_small_machine_need_not_have_more_threads_than_fit_its_memory(node):
    node.values["limits_nproc"] = "unlimited"
    node.put(MEMINFO.id, text=f"MemTotal: {1 << 20} kB\nMemFree: 1 kB\n")
    node.put(CPUS_PRESENT.id, text="0-1\n")
    node.put(PID_MAX, text="32768\n")
    node.put(THREADS_MAX, text="7600\n")
    assert node.bad(KERNEL) == {}
    node.put(THREADS_MAX, text="2000\n")
    assert node.bad(KERNEL) == {"kernel.threads-max": FAIL}


def test_in_a_container_the_kernels_bounds_are_its_hosts(node):
    node.replace("systemd itself", "Virtualization=\n", "Virtualization=docker\n")
    node.put(PID_MAX, text="100\n")
    assert node.bad(KERNEL) == {"": Outcome.NOT_APPLICABLE}


def test_a_kernel_that_does_not_tell_never_passes(node):
    node.put(PID_MAX, text="?")
    assert node.bad(KERNEL) == {"": UNKNOWN}
