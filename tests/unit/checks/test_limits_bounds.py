"""CPUs and memory that work may use: all of them, bounded in each place, kept free, and hostile."""

from __future__ import annotations

import math

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.bound_values import Whole, numbers, of_setting, time_per_second
from hfprov.evidence.memory_node import MEMINFO
from hfprov.evidence.slices import SLICE_FILES
from hfprov.evidence.system import CMDLINE, CPUS_ONLINE
from hfprov.evidence.work_bounds import WORK_BOUNDS
from hfprov.verdict import Outcome

FAIL, UNKNOWN = Outcome.FAIL, Outcome.UNKNOWN
LIVE, FILES = "limits.bounds.live", "limits.bounds.files"
SESSION, FIRST = "file /proc/self/status", "file /proc/1/status"
ISOLATED = "file /sys/devices/system/cpu/isolated"
NOHZ_FULL = "file /sys/devices/system/cpu/nohz_full"
NODES = "glob /sys/devices/system/node/has_memory"
SYSTEM_D = "glob /etc/systemd/system.conf.d/*.conf"
SITE = "/etc/systemd/system.conf.d/99-site.conf"
DROP_INS = "glob /etc/systemd/system/*.slice.d/*.conf"
CONTROL = "glob /etc/systemd/system.control/*.slice.d/*.conf"
GIB = 1 << 30
UNBOUNDED = """CPUAffinity=
AllowedCPUs=
AllowedMemoryNodes=
NUMAPolicy=n/a
CPUQuotaPerSecUSec=infinity
MemoryMax=infinity
MemoryHigh=18446744073709551615
NeedDaemonReload="""
WHOLE = Whole(frozenset(range(64)), frozenset({0, 1}), 512.0 * GIB)


def one(text, name="x", **changes):
    return {"name": name, "status": "ok", "text": text} | changes


def status(cpus="0-127", nodes="0-1"):
    """A process of a machine with 64 CPUs is usually allowed those that are not there, too."""
    return f"Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t{nodes}\n"


@pytest.fixture
def node(ifupdown):
    """A machine of 64 CPUs, two NUMA nodes and 512 GiB, that nothing bounds."""
    results = ifupdown.results
    for read in (*WORK_BOUNDS.reads(ifupdown.baseline()), *SLICE_FILES):
        results.setdefault(read.id, [])
    results[SESSION], results[FIRST] = [one(status())], [one(status())]
    results[CPUS_ONLINE.id], results[NODES] = [one("0-63\n")], [one("0-1\n")]
    results[ISOLATED] = [one("\n")]
    results[NOHZ_FULL] = [one("", status="absent")]
    results[CMDLINE.id] = [one("BOOT_IMAGE=/vmlinuz root=/dev/sda1 quiet\n")]
    results[MEMINFO.id] = [one(f"MemTotal: {512 << 20} kB\nMemFree: 1 kB\n")]
    ifupdown.put("systemd itself", text="Virtualization=\n" + results["systemd itself"][0]["text"])
    ifupdown.replace("units of systemd", "NeedDaemonReload=", UNBOUNDED)
    return ifupdown


def told(node, check_id):
    return [one for one in node.findings(check_id) if one.outcome is FAIL]


def group(node, name, text):
    pattern = name.replace("1000", "*")
    node.results[f"glob /sys/fs/cgroup/{pattern}"] = [one(text, f"/sys/fs/cgroup/{name}")]


def of_ssh(node, old, new):
    blocks = node.results["units of systemd"][0]["text"].split("\n\n")
    changed = [one.replace(old, new) if "Id=ssh.service" in one else one for one in blocks]
    assert changed != blocks
    node.put("units of systemd", text="\n\n".join(changed))


def test_a_node_that_nothing_bounds_passes(node):
    assert node.bad(LIVE) == {}
    assert node.bad(FILES) == {}


def test_all_evidence_is_asked_of_processes_that_run_anyway(node):
    reads = [*WORK_BOUNDS.reads(node.baseline()), *SLICE_FILES]
    commands = {read.id for read in reads if read.request["kind"] in ("command", "units")}
    assert commands == {"systemd itself", "units of systemd"}


# What a process may use


@pytest.mark.parametrize(("read", "subject"), [(SESSION, "this login"), (FIRST, "PID 1")])
def test_a_process_on_some_of_the_cpus_fails(node, read, subject):
    node.put(read, text=status(cpus="0-62"))
    assert node.bad(LIVE) == {f"{subject} CPUs": FAIL}
    (found,) = told(node, LIVE)
    assert (found.observed, found.expected) == ("0-62", "all 64 CPUs")
    assert "No file of systemd sets it" in found.reason


def test_a_process_with_the_memory_of_one_numa_node_fails(node):
    node.put(SESSION, text=status(nodes="0"))
    assert node.bad(LIVE) == {"this login NUMA nodes": FAIL}


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (ISOLATED, "8-63\n"),
        (NOHZ_FULL, "8-63\n"),
        (CMDLINE.id, "quiet systemd.cpu_affinity=0-7\n"),
    ],
)
def test_cpus_that_the_command_line_keeps_free_are_not_missed(node, read, text):
    node.put(SESSION, text=status(cpus="0-7"))
    assert node.bad(LIVE) == {"this login CPUs": FAIL}
    node.put(read, text=text, status="ok")
    assert node.bad(LIVE) == {}
    node.put(SESSION, text=status(cpus="0-6"))
    assert node.bad(LIVE) == {"this login CPUs": FAIL}


def test_a_kernel_that_keeps_nothing_free_says_so_in_its_own_way(node):
    node.put(NOHZ_FULL, text="(null)\n", status="ok")
    assert node.bad(LIVE) == {}


def test_a_kernel_without_numa_has_no_nodes_to_miss(node):
    node.results[NODES] = []
    node.put(SESSION, text=status(nodes="0"))
    assert node.bad(LIVE) == {}


def test_who_binds_sessions_is_told_with_file_and_line(node):
    node.put(SESSION, text=status(cpus="0"))
    node.add(SYSTEM_D, SITE, "[Manager]\nCPUAffinity=0\n")
    (found,) = told(node, LIVE)
    assert f"'{SITE}:2'" in found.reason


# In a container


@pytest.fixture
def container(node):
    """It may use four CPUs, one NUMA node and 8 GiB of its host."""
    node.replace("systemd itself", "Virtualization=\n", "Virtualization=docker\n")
    for read in (SESSION, FIRST):
        node.put(read, text=status("4-7", "1"))
    node.results["glob /sys/fs/cgroup/memory.max"] = [one(f"{8 * GIB}\n")]
    return node


def test_in_a_container_its_hosts_bounds_are_not_the_nodes(container):
    assert container.bad(LIVE) == {}
    group(container, "user.slice/memory.max", f"{7 * GIB}\n")
    group(container, "user.slice/cpu.max", "400000 100000\n")
    assert container.bad(LIVE) == {}
    group(container, "user.slice/memory.max", f"{4 * GIB}\n")
    assert container.bad(LIVE) == {"user.slice memory.max": FAIL}


def test_in_a_container_sessions_may_use_what_pid_1_may(container):
    container.put(SESSION, text=status("4", "1"))
    assert container.bad(LIVE) == {"this login CPUs": FAIL}


def test_in_a_container_pid_1_may_use_what_sessions_may(container):
    container.put(FIRST, text=status("4", "1"))
    assert container.bad(LIVE) == {"PID 1 CPUs": FAIL}


def test_in_a_container_its_topmost_group_tells_of_pid_1_too(container):
    container.results["glob /sys/fs/cgroup/cpuset.cpus.effective"] = [one("4-9\n")]
    assert container.bad(LIVE) == {"this login CPUs": FAIL, "PID 1 CPUs": FAIL}


# Control groups now


@pytest.mark.parametrize("name", ["system.slice", "user.slice", "user.slice/user-1000.slice"])
@pytest.mark.parametrize(
    ("file", "good", "bad"),
    [
        ("cpuset.cpus", "0-63", "0"),
        ("cpuset.cpus", "", "0-31,33-63"),
        ("cpuset.mems", "0-1", "0"),
        ("cpu.max", "max 100000", "10000 100000"),
        ("cpu.max", "6400000 100000", "6200000 100000"),
        ("memory.max", "max", "1073741824"),
        ("memory.max", str(400 * GIB), str(300 * GIB)),
        ("memory.high", "max", "0"),
    ],
)
def test_a_slice_that_is_bounded_now_fails(node, name, file, good, bad):
    group(node, f"{name}/{file}", f"{good}\n")
    assert node.bad(LIVE) == {}
    group(node, f"{name}/{file}", f"{bad}\n")
    assert node.bad(LIVE) == {f"{name} {file}": FAIL}


def test_who_bounds_a_slice_is_told_and_nobody_else(node):
    path = "/etc/systemd/system.control/user.slice.d/50-CPUQuota.conf"
    node.add(CONTROL, path, "[Slice]\nCPUQuota=10%\n")
    other = path.replace("user", "system")
    node.add(CONTROL, other, "[Slice]\nCPUQuota=20%\n")
    group(node, "user.slice/cpu.max", "10000 100000\n")
    (found,) = told(node, LIVE)
    assert f"'{path}:2'" in found.reason
    assert other not in found.reason


def test_a_drop_in_for_all_users_is_told_of_each(node):
    path = "/etc/systemd/system/user-.slice.d/site.conf"
    node.add(DROP_INS, path, "[Slice]\nMemoryMax=1G\n")
    group(node, "user.slice/user-1000.slice/memory.max", f"{GIB}\n")
    (found,) = told(node, LIVE)
    assert f"'{path}:2'" in found.reason


def test_a_users_group_that_is_gone_bounds_nobody(node):
    group(node, "user.slice/user-1000.slice/memory.max", "")
    node.results["glob /sys/fs/cgroup/user.slice/user-*.slice/memory.max"][0]["status"] = "absent"
    assert node.bad(LIVE) == {}


# Services


@pytest.mark.parametrize(
    ("old", "new", "subject"),
    [
        ("CPUAffinity=", "CPUAffinity=0-3 8", "CPUAffinity"),
        ("AllowedCPUs=", "AllowedCPUs=0-62", "AllowedCPUs"),
        ("AllowedMemoryNodes=", "AllowedMemoryNodes=1", "AllowedMemoryNodes"),
        ("NUMAPolicy=n/a", "NUMAPolicy=bind", "NUMAPolicy"),
        ("CPUQuotaPerSecUSec=infinity", "CPUQuotaPerSecUSec=1min 3s", "CPUQuota"),
        ("MemoryMax=infinity", "MemoryMax=209715200", "MemoryMax"),
        ("MemoryHigh=18446744073709551615", "MemoryHigh=1", "MemoryHigh"),
    ],
)
def test_a_service_that_is_bounded_is_told_by_its_name(node, old, new, subject):
    of_ssh(node, old, new)
    assert node.bad(LIVE) == {f"ssh.service {subject}": FAIL}
    (found,) = told(node, LIVE)
    assert "systemctl cat ssh.service" in found.reason


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("CPUAffinity=", "CPUAffinity=0-63"),
        ("CPUQuotaPerSecUSec=infinity", "CPUQuotaPerSecUSec=1min 4s"),
        ("NUMAPolicy=n/a", "NUMAPolicy=default"),
        ("AllowedCPUs=\n", ""),
        ("NUMAPolicy=n/a\n", ""),
    ],
)
def test_a_service_that_may_use_all_passes(node, old, new):
    """Older versions of systemd do not know every property."""
    of_ssh(node, old, new)
    assert node.bad(LIVE) == {}


# Files


@pytest.mark.parametrize(
    ("lines", "bad"),
    [
        ("CPUAffinity=0", [2]),
        ("CPUAffinity=0-31\nCPUAffinity=32-63", []),
        ("CPUAffinity=0-15\nCPUAffinity=32-63", [2, 3]),
        ("CPUAffinity=0\nCPUAffinity=", []),
        ("CPUAffinity=numa", [2]),
        ("NUMAPolicy=bind\nNUMAMask=0", [2]),
        ("NUMAPolicy=bind\nNUMAPolicy=default", []),
        ("NUMAPolicy=local", []),
    ],
)
def test_files_of_systemd_itself(node, lines, bad):
    node.add(SYSTEM_D, SITE, f"[Manager]\n{lines}\n")
    assert node.bad(FILES) == {f"{SITE}:{line}": FAIL for line in bad}


def test_defaults_of_user_managers_are_judged_too(node):
    path = "/etc/systemd/user.conf.d/99-site.conf"
    node.add("glob /etc/systemd/user.conf.d", path, "[Manager]\nCPUAffinity=0\n")
    assert node.bad(FILES) == {f"{path}:2": FAIL}


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("AllowedCPUs=0", FAIL),
        ("AllowedCPUs=0-63", None),
        ("AllowedMemoryNodes=0", FAIL),
        ("CPUQuota=10%", FAIL),
        ("CPUQuota=6400%", None),
        ("CPUQuota=", None),
        ("MemoryMax=1G", FAIL),
        ("MemoryMax=50%", FAIL),
        ("MemoryMax=90%", None),
        ("MemoryMax=0.5T", None),
        ("MemoryMax=infinity", None),
        ("MemoryHigh=1000000", FAIL),
        ("MemoryLimit=1G", FAIL),
        ("TasksMax=1", None),
    ],
)
def test_files_of_slices(node, line, outcome):
    path = "/etc/systemd/system/user-.slice.d/site.conf"
    node.add(DROP_INS, path, f"[Slice]\n{line}\n")
    assert node.bad(FILES) == ({f"{path}:2": outcome} if outcome else {})


@pytest.mark.parametrize(
    "place", ["etc/systemd/system", "etc/systemd/system.control", "run/systemd/system.control"]
)
def test_drop_ins_are_read_in_each_place(node, place):
    path = f"/{place}/system.slice.d/50-AllowedCPUs.conf"
    node.add(f"glob /{place}/*.slice.d/*.conf", path, "[Slice]\nAllowedCPUs=0\n")
    assert node.bad(FILES) == {f"{path}:2": FAIL}


def test_a_whole_slice_in_place_of_the_packages_is_read(node):
    path = "/etc/systemd/system/user.slice"
    node.add("glob /etc/systemd/system/*.slice", path, "[Unit]\nX=1\n[Slice]\nMemoryMax=1G\n")
    assert node.bad(FILES) == {f"{path}:4": FAIL}
    node.add(DROP_INS, f"{path}.d/late.conf", "[Slice]\nMemoryMax=infinity\n")
    assert node.bad(FILES) == {}


def test_what_another_file_hides_or_takes_back_does_not_count(node):
    early, late = (f"/etc/systemd/system/user.slice.d/{name}.conf" for name in ("10-a", "20-b"))
    node.add(DROP_INS, early, "[Slice]\nMemoryMax=1G\n")
    node.add(DROP_INS, late, "[Slice]\nMemoryMax=infinity\n")
    hiding = "/etc/systemd/system.control/system.slice.d/50-x.conf"
    node.add(CONTROL, hiding, "", link="/dev/null", type="other")
    hidden = hiding.replace("system.control", "system")
    node.add(DROP_INS, hidden, "[Slice]\nAllowedCPUs=0\n")
    assert node.bad(FILES) == {}


def test_slices_of_jobs_and_other_sections_are_let_be(node):
    for folder in ("jobs.slice.d", "kubepods.slice.d", "user-1000-jobs.slice.d"):
        node.add(DROP_INS, f"/etc/systemd/system/{folder}/x.conf", "[Slice]\nAllowedCPUs=0\n")
    path = "/etc/systemd/system/user.slice.d/x.conf"
    node.add(DROP_INS, path, "[Unit]\nAllowedCPUs=0\n")
    assert node.bad(FILES) == {}


# Unknown and hostile


@pytest.mark.parametrize(
    ("read", "changes"),
    [
        (SESSION, {"text": ""}),
        (SESSION, {"status": "denied"}),
        (FIRST, {"truncated": True}),
        (FIRST, {"text": "Cpus_allowed_list:\t\x1b[31mall\n"}),
        (FIRST, {"text": "Cpus_allowed_list:\t0-99999999\n"}),
        (CPUS_ONLINE.id, {"text": "\n"}),
        (CPUS_ONLINE.id, {"text": "<b>all</b>"}),
        (ISOLATED, {"status": "denied"}),
        (MEMINFO.id, {"text": ""}),
        ("systemd itself", {"text": "SystemState=running\n"}),
        ("units of systemd", {"text": "Id=ssh.service\nNames=ssh.service\nLoadState=loaded\n"}),
    ],
)
def test_what_is_not_understood_never_passes(node, read, changes):
    node.put(read, **changes)
    assert node.bad(LIVE) == {"": UNKNOWN}


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("cpu.max", "lots"),
        ("cpu.max", "1 0"),
        ("cpu.max", "1"),
        ("memory.max", "-5"),
        ("memory.max", "9" * 4000),
        ("memory.high", ""),
        ("cpuset.cpus", "3-1"),
        ("cpuset.mems", "\x1b[31mall"),
    ],
)
def test_a_control_group_that_is_not_understood_never_passes(node, file, text):
    group(node, f"user.slice/{file}", text)
    assert node.bad(LIVE) == {"": UNKNOWN}


@pytest.mark.parametrize(
    "line",
    ["AllowedCPUs=few", "CPUQuota=10", "CPUQuota=1e9%", "MemoryMax=lots", "MemoryMax=5‰"],
)
def test_a_line_that_is_not_understood_is_unknown(node, line):
    node.add(DROP_INS, "/etc/systemd/system/user.slice.d/x.conf", f"[Slice]\n{line}\n")
    assert UNKNOWN in node.bad(FILES).values()


def test_a_file_that_cannot_be_read_is_unknown(node):
    path = "/etc/systemd/system/user.slice.d/x.conf"
    node.add(DROP_INS, path, "", status="denied")
    assert node.bad(FILES) == {"": UNKNOWN}


def test_evidence_of_earlier_versions_is_unknown(ifupdown):
    assert ifupdown.bad(LIVE) == {"": UNKNOWN}
    assert ifupdown.bad(FILES) == {"": UNKNOWN}
    assert ifupdown.bad("limits.units") == {}


def test_values():
    assert numbers("0-2,5 7") == {0, 1, 2, 5, 7}
    assert time_per_second("infinity") == math.inf
    assert time_per_second("100ms") == pytest.approx(0.1)
    assert time_per_second("1h 1min 1.5s") == pytest.approx(3661.5)
    assert of_setting("MemoryMax", "2G", WHOLE) == 2 * GIB
    assert of_setting("MemoryMax", "10%", WHOLE) == pytest.approx(51.2 * GIB)
    for text in ("", "1 parsec", "1min4s", "-1s"):
        with pytest.raises(NotUnderstoodError):
            time_per_second(text)
