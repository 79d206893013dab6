"""Kernel settings that jobs need: as they are, as files set them, in a container, and declared."""

from __future__ import annotations

import pytest

from hfprov.baseline import Baseline, Value
from hfprov.catalogue.kernel_needs import NAMES, kernel_needs
from hfprov.checks.registry import Facts
from hfprov.evidence import system
from hfprov.evidence.sysctl_files import FILES
from hfprov.judge import find_check, findings_of
from hfprov.reading import Observation
from hfprov.verdict import Outcome

PASS, WARN, FAIL, UNKNOWN = Outcome.PASS, Outcome.WARN, Outcome.FAIL, Outcome.UNKNOWN
CHECK = "node.kernel_settings"
USUAL = dict.fromkeys(NAMES, "0") | {
    "kernel.shmmax": "18446744073692774399",
    "user.max_user_namespaces": "127234",
    "net.core.somaxconn": "4096",
    "net.ipv4.ip_local_port_range": "32768\t60999",
    "net.ipv4.neigh.default.gc_thresh3": "1024",
    "net.ipv4.tcp_window_scaling": "1",
    "net.ipv4.tcp_sack": "1",
    "net.ipv4.tcp_retries2": "15",
}
"""What a kernel has when nobody changes anything."""


def results(changes, files, machine):
    found = {}
    for name, value in (USUAL | changes).items():
        read = f"file /proc/sys/{name.replace('.', '/')}"
        answer = value if isinstance(value, dict) else {"status": "ok", "text": f"{value}\n"}
        found[read] = [{"name": "", **answer}]
    for read in FILES.reads(Baseline("n1", ())):
        absent = [{"name": read.id, "status": "absent"}]
        found[read.id] = absent if read.request["kind"] == "file" else []
    for path, text in files.items():
        read = (
            f"file {path}"
            if path == "/etc/sysctl.conf"
            else f"glob {path.rpartition('/')[0]}/*.conf"
        )
        found[read] = [*(one for one in found[read] if one["status"] == "ok")]
        found[read].append({"name": path, "status": "ok", "text": text})
    for read in system.MACHINE.reads(Baseline("n1", ())):
        found[read.id] = [{"name": "", "status": "ok", "code": 0, "text": ""}]
    found[system.VIRTUALIZATION.id][0]["text"] = f"Virtualization={machine}\n"
    return found


def judged(changes=(), files=(), machine="", declared=()):
    values = {"performance_extra_sysctls": Value(dict.fromkeys(declared, 0), "")}
    baseline = Baseline("n1", (), values)
    seen = Observation.from_json({"results": results(dict(changes), dict(files), machine)})
    found = findings_of(find_check(CHECK), Facts(seen, baseline), baseline)
    return {one.subject: one.outcome for one in found}


GOOD = {"": PASS}


def test_what_a_kernel_has_by_itself_is_enough():
    assert judged() == GOOD
    assert {one.source for one in kernel_needs().settings} <= set(kernel_needs().sources)
    assert tuple(one.name for one in kernel_needs().settings) == NAMES


@pytest.mark.parametrize(
    ("name", "value", "outcome"),
    [
        ("vm.overcommit_memory", "2", FAIL),
        ("vm.overcommit_memory", "1", None),
        ("vm.panic_on_oom", "1", WARN),
        ("kernel.shmmax", "33554432", FAIL),
        ("user.max_user_namespaces", "0", WARN),
        ("net.core.somaxconn", "8", FAIL),
        ("net.core.somaxconn", "128", None),
        ("net.ipv4.ip_local_port_range", "32768 32800", FAIL),
        ("net.ipv4.ip_local_port_range", "1024 65535", None),
        ("net.ipv4.ip_local_port_range", "32768 36863", None),
        ("net.ipv4.neigh.default.gc_thresh3", "512", FAIL),
        ("net.ipv4.tcp_window_scaling", "0", FAIL),
        ("net.ipv4.tcp_sack", "0", WARN),
        ("net.ipv4.tcp_retries2", "5", WARN),
        ("net.ipv4.ip_no_pmtu_disc", "1", FAIL),
        ("net.ipv4.ip_no_pmtu_disc", "3", None),
        ("net.ipv4.icmp_echo_ignore_all", "1", WARN),
    ],
)
def test_a_value_now_and_in_a_file(name, value, outcome):
    assert judged({name: value}) == ({name: outcome} if outcome else GOOD)
    where = "/etc/sysctl.d/zz.conf"
    files = {where: f"# x\n{name} = {value}\n"}
    assert judged(files=files) == ({f"{where}:2 {name}": outcome} if outcome else GOOD)


def test_of_files_the_last_one_counts_and_those_of_others():
    first, last = "/etc/sysctl.d/10.conf", "/usr/lib/sysctl.d/90.conf"
    bad, good = "vm.overcommit_memory=2\n", "vm/overcommit_memory = 0\n"
    assert judged(files={first: bad, last: good}) == GOOD
    assert judged(files={first: good, last: bad}) == {f"{last}:1 vm.overcommit_memory": FAIL}
    main = "/etc/sysctl.conf"
    assert judged(files={last: good, main: bad}) == {f"{main}:1 vm.overcommit_memory": FAIL}


def test_what_holds_already_is_told_once():
    files = {"/etc/sysctl.d/zz.conf": "net.core.somaxconn = 8\n"}
    assert judged({"net.core.somaxconn": "8"}, files) == {"net.core.somaxconn": FAIL}


def test_what_is_declared_is_left_to_the_roles():
    assert judged({"net.ipv4.tcp_sack": "0"}, declared=["net.ipv4.tcp_sack"]) == GOOD


def test_a_container_is_not_judged_by_its_host():
    hosts = {"vm.overcommit_memory": "2", "kernel.shmmax": "1", "user.max_user_namespaces": "0"}
    assert judged(hosts, machine="systemd-nspawn") == GOOD
    own = {"net.ipv4.tcp_sack": "0", "net.core.somaxconn": "8"}
    expected = {"net.ipv4.tcp_sack": WARN, "net.core.somaxconn": FAIL}
    assert judged(hosts | own, machine="systemd-nspawn") == expected
    files = {"/etc/sysctl.d/zz.conf": "vm.overcommit_memory = 2\n"}
    where = "/etc/sysctl.d/zz.conf:1 vm.overcommit_memory"
    assert judged(files=files, machine="systemd-nspawn") == {where: FAIL}


def test_a_kernel_without_a_setting_is_not_asked_for_it():
    assert judged({"user.max_user_namespaces": {"status": "absent"}}) == GOOD


@pytest.mark.parametrize("value", ["", "many", "1 x", "\x1b[31m", "9" * 50])
def test_what_is_no_value_is_unknown(value):
    assert judged({"net.core.somaxconn": value}) == {"net.core.somaxconn": UNKNOWN}


@pytest.mark.parametrize("answer", [{"status": "denied"}, {"status": "ok", "truncated": True}])
def test_what_was_not_seen_never_passes(answer):
    assert judged({"net.core.somaxconn": answer}) == {"": UNKNOWN}
    found = findings_of(
        find_check(CHECK), Facts(Observation({}), Baseline("n", ())), Baseline("n", ())
    )
    assert [one.outcome for one in found] == [UNKNOWN]
