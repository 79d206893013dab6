"""Performance: what a practice node cannot have (CPUs, huge pages, swap), and the same hostile.

The node is made up from kernel documentation: four CPUs of a bare-metal machine.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from hfprov.baseline import Baseline, Value
from hfprov.checks import performance
from hfprov.checks.performance_settings import wanted_settings
from hfprov.errors import NotUnderstoodError
from hfprov.evidence.cpu_power import AMD_ACCELERATOR, parse_choice, parse_latency, parse_swaps
from hfprov.evidence.sysctl_files import dotted, parse
from hfprov.judge import find_check, judge
from hfprov.reading import Observation
from hfprov.verdict import Finding, NotApplicable, Outcome

PASS, FAIL, UNKNOWN = Outcome.PASS, Outcome.FAIL, Outcome.UNKNOWN
NA = Outcome.NOT_APPLICABLE
ROOT = Path(__file__).parents[3]
DEFAULTS = yaml.safe_load((ROOT / "roles/performance/defaults/main.yml").read_text())
CHECKS = (
    "performance.governor",
    "performance.idle_latency",
    "performance.hugepages",
    "performance.unit",
    "performance.sysctl.live",
    "performance.sysctl.file",
    "performance.rivals",
    "performance.services",
    "performance.swap",
)
SYSCTLS = {
    "net.core.netdev_max_backlog": "16384",
    "net.core.rmem_max": "67108864",
    "net.core.wmem_max": "67108864",
    "net.ipv4.tcp_rmem": "4096 131072 67108864",
    "net.ipv4.tcp_timestamps": "1",
    "net.ipv4.tcp_wmem": "4096 16384 67108864",
    "vm.max_map_count": "1048576",
    "vm.zone_reclaim_mode": "0",
}
UNIT_TEXT = """\
# Written by the role 'performance'; see its README. Changes made here are overwritten.
[Unit]
Description=Set CPU frequency, idle states and huge pages as declared
ConditionVirtualization=!container

[Service]
Type=oneshot
ExecStart=-udevadm settle --timeout=30
ExecStart=/bin/sh -ec 'for file in /sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor; \
do if [ -e "$$file" ]; then echo performance >"$$file"; fi; done'
ExecStart=/bin/sh -ec 'for file in /sys/devices/system/cpu/cpu[0-9]*/power/\
pm_qos_resume_latency_us; do if [ -e "$$file" ]; then echo 50 >"$$file"; fi; done'
ExecStart=/bin/sh -ec 'for file in /sys/kernel/mm/transparent_hugepage/enabled; \
do if [ -e "$$file" ]; then echo madvise >"$$file"; fi; done'

[Install]
WantedBy=multi-user.target
"""
GOVERNORS = "glob /sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"
IDLE = "glob /sys/devices/system/cpu/cpu[0-9]*/power/pm_qos_resume_latency_us"
THP = "file /sys/kernel/mm/transparent_hugepage/enabled"
SWAPS = "file /proc/swaps"
PCI = "glob /sys/bus/pci/devices/*/uevent"
VIRT = "systemd itself"
ETC = "glob /etc/sysctl.d/*.conf"
CONF = "file /etc/sysctl.conf"
OURS = "/etc/sysctl.d/99-zz-hfprov.conf"
NVIDIA = "DRIVER=nvidia\nPCI_CLASS=30200\nPCI_ID=10DE:2330\n"
AMD = "DRIVER=amdgpu\nPCI_CLASS=120000\nPCI_ID=1002:74A1\n"
HEADING = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"


def one(text: str, name: str = "", **changes: Any) -> dict[str, Any]:
    return {"name": name, "status": "ok", "text": text, "mode": 0o644, "uid": 0, "gid": 0} | changes


ABSENT = {"name": "", "status": "absent", "stderr": "No such file or directory"}


class Node:
    """A healthy bare-metal node that declares everything; to be spoilt one thing at a time."""

    def __init__(self) -> None:
        self.values = DEFAULTS | {
            "performance_swap": "disabled",
            "performance_idle_latency_us": "50",
        }
        cpu = "/sys/devices/system/cpu/cpu{}/{}"
        file = "".join(f"{name} = {value}\n" for name, value in sorted(SYSCTLS.items()))
        self.results: dict[str, list[dict[str, Any]]] = {
            VIRT: [one("Virtualization=\n", code=0)],
            GOVERNORS: [
                one("performance\n", cpu.format(n, "cpufreq/scaling_governor")) for n in range(4)
            ],
            IDLE: [one("50\n", cpu.format(n, "power/pm_qos_resume_latency_us")) for n in range(4)],
            THP: [one("always [madvise] never\n")],
            SWAPS: [one(HEADING)],
            PCI: [one(NVIDIA, "/sys/bus/pci/devices/0000:17:00.0/uevent")],
            ETC: [one("# hfprov\n" + file, OURS)],
            CONF: [dict(ABSENT)],
            "file /etc/ufw/sysctl.conf": [dict(ABSENT)],
            f"file /etc/systemd/system/{performance.UNIT}": [one(UNIT_TEXT)],
        }
        for place in ("/run", "/usr/local/lib", "/usr/lib", "/lib"):
            self.results[f"glob {place}/sysctl.d/*.conf"] = []
        for name, value in SYSCTLS.items():
            path = "/proc/sys/" + name.replace(".", "/")
            self.results[f"file {path}"] = [one(value.replace(" ", "\t") + "\n", path)]
        self.results["file /proc/sys/kernel/numa_balancing"] = [one("0\n")]
        self.units = {
            performance.UNIT: {"UnitFileState": "enabled", "LoadState": "loaded"},
            performance.SYSCTL_UNIT: {"UnitFileState": "static", "LoadState": "loaded"},
            performance.SWAP_TARGET: {"UnitFileState": "masked", "LoadState": "masked"},
        }

    def observation(self) -> Observation:
        baseline, blocks = self.baseline(), []
        services = [f"{name}.service" for name in self.values["performance_stop_services"]]
        for name in (*list(self.units)[:3], *services):
            found = {
                "LoadState": "not-found",
                "ActiveState": "inactive",
                "UnitFileState": "",
                "NeedDaemonReload": "no",
                "Result": "success",
                "DropInPaths": "",
            } | self.units.get(name, {})
            blocks.append("\n".join(f"{key}={value}" for key, value in found.items()))
        for read in performance.DROP_INS.reads(baseline):
            self.results.setdefault(read.id, [])
        (show,) = performance.UNITS.reads(baseline)
        self.results.setdefault(show.id, [one("\n\n".join(blocks) + "\n", code=0)])
        return Observation.from_json({"results": self.results})

    def baseline(self) -> Baseline:
        values = {name: Value(value, "") for name, value in self.values.items()}
        return Baseline("node", ("performance",), values)

    def findings(self, check_id: str) -> list[Finding]:
        seen = self.observation()
        found = [v.finding for v in judge(seen, self.baseline()) if v.check == check_id]
        assert found
        return found

    def bad(self, check_id: str) -> dict[str, Outcome]:
        return {f.subject: f.outcome for f in self.findings(check_id) if f.outcome is not PASS}


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.mark.parametrize("check_id", CHECKS)
def test_healthy_node_passes(node, check_id):
    assert node.bad(check_id) == {}


@pytest.mark.parametrize(
    ("check_id", "read", "text"),
    [
        ("performance.governor", GOVERNORS, "powersave\n"),
        ("performance.idle_latency", IDLE, "0\n"),
        ("performance.idle_latency", IDLE, "n/a\n"),
        ("performance.hugepages", THP, "[always] madvise never\n"),
        ("performance.hugepages", THP, "always madvise [never]\n"),
    ],
)
def test_another_value_fails(node, check_id, read, text):
    node.results[read][-1]["text"] = text
    assert node.bad(check_id) == {"": FAIL}


def test_one_cpu_among_many_is_named(node):
    node.results[GOVERNORS][2]["text"] = "powersave\n"
    (finding,) = node.findings("performance.governor")
    assert (finding.outcome, finding.observed) == (FAIL, "CPU 2 powersave of 4")


@pytest.mark.parametrize(
    ("virt", "outcome", "why"),
    [
        ("", FAIL, None),
        ("kvm", NA, NotApplicable.VIRTUAL_MACHINE),
        ("systemd-nspawn", NA, NotApplicable.CONTAINER),
    ],
)
def test_no_governor_at_all(node, virt, outcome, why):
    """On a machine of its own the firmware keeps it: that is not as declared."""
    node.results[GOVERNORS] = []
    node.results[VIRT] = [one(f"Virtualization={virt}\n", code=0)]
    (finding,) = node.findings("performance.governor")
    assert (finding.outcome, finding.not_applicable) == (outcome, why)


@pytest.mark.parametrize(
    ("check_id", "variable"),
    [
        ("performance.governor", "performance_governor"),
        ("performance.idle_latency", "performance_idle_latency_us"),
        ("performance.hugepages", "performance_transparent_hugepages"),
        ("performance.swap", "performance_swap"),
    ],
)
def test_what_is_left_is_not_judged(node, check_id, variable):
    node.values[variable] = "leave"
    (finding,) = node.findings(check_id)
    assert finding.not_applicable is NotApplicable.NOT_REQUESTED


def test_container_is_judged_by_its_own_settings_only(node):
    node.results[VIRT] = [one("Virtualization=systemd-nspawn\n", code=0)]
    for name in ("vm/max_map_count", "net/core/rmem_max", "net/ipv4/tcp_timestamps"):
        node.results[f"file /proc/sys/{name}"][0]["text"] = "7\n"
    found = {f.subject: f.outcome for f in node.findings("performance.sysctl.live")}
    assert found["vm.max_map_count"] is NA
    assert found["net.core.rmem_max"] is NA
    assert found["net.ipv4.tcp_timestamps"] is FAIL
    assert found["net.ipv4.tcp_rmem"] is PASS


@pytest.mark.parametrize("name", SYSCTLS)
def test_each_setting_is_read_back(node, name):
    node.results["file /proc/sys/" + name.replace(".", "/")][0]["text"] = "3\n"
    assert node.bad("performance.sysctl.live") == {name: FAIL}


def test_absent_setting_fails_unless_it_means_off(node):
    for name in ("vm/zone_reclaim_mode", "vm/max_map_count"):
        node.results[f"file /proc/sys/{name}"] = [dict(ABSENT)]
    assert node.bad("performance.sysctl.live") == {"vm.max_map_count": FAIL}


def test_absent_setting_that_is_to_be_on_fails(node):
    node.values["performance_zone_reclaim_mode"] = 1
    node.results["file /proc/sys/vm/zone_reclaim_mode"] = [dict(ABSENT)]
    assert node.bad("performance.sysctl.live") == {"vm.zone_reclaim_mode": FAIL}


def test_amd_accelerator_asks_for_balancing_off(node):
    node.results[PCI].append(one(AMD, "/sys/bus/pci/devices/0000:c1:00.0/uevent"))
    assert set(node.bad("performance.sysctl.file")) == {OURS}
    node.results["file /proc/sys/kernel/numa_balancing"][0]["text"] = "1\n"
    assert node.bad("performance.sysctl.live") == {"kernel.numa_balancing": FAIL}
    node.values["performance_numa_balancing"] = "leave"
    assert node.bad("performance.sysctl.live") == {}


@pytest.mark.parametrize(
    ("text", "amd"),
    [
        (AMD, True),
        ("PCI_CLASS=38000\nPCI_ID=1002:7408\n", True),
        ("PCI_CLASS=30000\nPCI_ID=1002:164E\n", False),  # the screen of a desktop processor
        ("PCI_CLASS=20000\nPCI_ID=1DD8:1002\n", False),  # a NIC of AMD's
        (NVIDIA, False),
    ],
)
def test_amd_accelerators_are_told_from_other_devices(node, text, amd):
    node.results[PCI] = [one(text)]
    assert AMD_ACCELERATOR.parse(node.observation(), node.baseline()) is amd


@pytest.mark.parametrize(
    ("variable", "value", "name", "text"),
    [
        ("performance_hugepages", 512, "vm.nr_hugepages", "512"),
        ("performance_swappiness", 10, "vm.swappiness", "10"),
        ("performance_extra_sysctls", {"fs.aio-max-nr": 1048576}, "fs.aio-max-nr", "1048576"),
    ],
)
def test_what_is_declared_besides_is_wanted(node, variable, value, name, text):
    node.values[variable] = value
    assert wanted_settings(node.baseline(), amd=False)[name] == text


def test_fewer_huge_pages_than_declared_fail(node):
    node.values["performance_hugepages"] = 512
    node.results["file /proc/sys/vm/nr_hugepages"] = [one("401\n")]
    assert node.bad("performance.sysctl.live") == {"vm.nr_hugepages": FAIL}


def test_name_that_is_none_is_unknown(node):
    node.values["performance_extra_sysctls"] = {"../../etc/passwd": 1}
    assert UNKNOWN in node.bad("performance.sysctl.live").values()


@pytest.mark.parametrize(
    ("path", "text", "subject"),
    [
        ("/etc/sysctl.d/99-zzz.conf", "vm.max_map_count=1\n", "/etc/sysctl.d/99-zzz.conf:1"),
        (
            "/etc/sysctl.d/99-zzz.conf",
            "# a\n-vm/max_map_count = 1\n",
            "/etc/sysctl.d/99-zzz.conf:2",
        ),
        ("/etc/sysctl.d/99-zzz.conf", "vm.max_map_count=1048576\n", None),
        ("/etc/sysctl.d/99-zzz.conf", "net.ipv4.tcp_rmem=4096  131072\t67108864\n", None),
        ("/etc/sysctl.d/99-sysctl.conf", "vm.max_map_count=1\n", None),
        ("/etc/sysctl.d/50-site.conf", "vm.max_map_count=1\n", None),
        ("/etc/sysctl.d/99-zzz.conf", "vm.overcommit_memory=1\n", None),
    ],
)
def test_only_what_is_applied_later_is_a_rival(node, path, text, subject):
    node.results[ETC].append(one(text, path))
    assert node.bad("performance.rivals") == ({subject: FAIL} if subject else {})


def test_last_line_of_a_later_file_counts(node):
    text = "vm.max_map_count=1\nvm.max_map_count=1048576\n"
    node.results[ETC].append(one(text, "/etc/sysctl.d/99-zzz.conf"))
    assert node.bad("performance.rivals") == {}


def test_files_of_all_places_are_applied_by_name(node):
    node.results[ETC].append(one("vm.max_map_count=1048576\n", "/etc/sysctl.d/99-zzz2.conf"))
    lib = "/usr/lib/sysctl.d/99-zzz1.conf"
    node.results["glob /usr/lib/sysctl.d/*.conf"] = [one("vm.max_map_count=1\n", lib)]
    assert node.bad("performance.rivals") == {}


def test_earlier_file_is_no_rival_because_ours_is_missing(node):
    node.results[ETC] = [one("vm.max_map_count=1\n", "/etc/sysctl.d/50-site.conf")]
    assert node.bad("performance.rivals") == {}
    assert node.bad("performance.sysctl.file") == {OURS: FAIL}


def test_hidden_file_is_no_rival(node):
    node.results["glob /usr/lib/sysctl.d/*.conf"] = [one("vm.max_map_count=1\n", "/usr/lib/z.conf")]
    assert set(node.bad("performance.rivals")) == {"/usr/lib/z.conf:1"}
    node.results[ETC].append(one("", "/etc/z.conf", type="other", link="/dev/null"))
    assert node.bad("performance.rivals") == {}


def test_sysctl_conf_is_always_a_rival(node):
    node.results[CONF] = [one("net.ipv4.tcp_timestamps = 0\n", "/etc/sysctl.conf")]
    assert node.bad("performance.rivals") == {"/etc/sysctl.conf:1": FAIL}


def test_drop_in_of_the_unit_is_a_rival(node):
    path = f"/etc/systemd/system/{performance.UNIT}.d/site.conf"
    node.units[performance.UNIT]["DropInPaths"] = path
    assert [f.outcome for f in node.findings("performance.rivals")] == [FAIL]
    assert node.bad("performance.rivals") == {path: FAIL}


@pytest.mark.parametrize(
    ("unit", "key", "value", "subject"),
    [
        ("UNIT", "UnitFileState", "disabled", "UNIT UnitFileState"),
        ("UNIT", "NeedDaemonReload", "yes", "UNIT NeedDaemonReload"),
        ("UNIT", "Result", "exit-code", "UNIT Result"),
        ("SYSCTL_UNIT", "LoadState", "masked", "SYSCTL_UNIT"),
    ],
)
def test_units_are_there_for_the_next_boot(node, unit, key, value, subject):
    node.units[getattr(performance, unit)][key] = value
    expected = subject.replace(unit, getattr(performance, unit))
    assert node.bad("performance.unit") == {expected: FAIL}


def test_service_that_was_started_by_hand(node):
    node.units["tuned.service"] = {"LoadState": "loaded", "ActiveState": "active"}
    assert node.bad("performance.services") == {"tuned.service": FAIL}
    node.units["tuned.service"] |= {"ActiveState": "inactive", "UnitFileState": "masked"}
    node.results = Node().results
    assert node.bad("performance.services") == {}


def test_swap_space_in_use_or_to_come_back(node):
    node.results[SWAPS] = [one(HEADING + "/dev/nvme0n1p3   partition 8388604 12 -2\n")]
    node.units[performance.SWAP_TARGET]["LoadState"] = "loaded"
    assert node.bad("performance.swap") == {"swap.target": FAIL, "in use": FAIL}


def test_swap_in_use_is_the_hosts_in_a_container(node):
    node.results[VIRT] = [one("Virtualization=podman\n", code=0)]
    assert node.bad("performance.swap") == {"in use": NA}


@pytest.mark.parametrize("check_id", CHECKS)
@pytest.mark.parametrize(
    "hostile",
    [{"status": "timeout", "text": ""}, {"status": "denied", "text": ""}, {"truncated": True}],
    ids=lambda change: next(iter(change)),
)
def test_without_whole_evidence_nothing_passes(node, check_id, hostile):
    node.observation()
    check = find_check(check_id)
    reads = {read.id for source in check.sources for read in source.reads(node.baseline())}
    for name in sorted(reads):
        if not node.results[name] or node.results[name][0]["status"] == "absent":
            continue
        spoilt = Node()
        spoilt.observation()
        for result in spoilt.results[name]:
            result.update(hostile)
        # Who balances does not matter where nothing asks for it, nor does the container's kind.
        assert UNKNOWN in spoilt.bad(check_id).values(), name


@pytest.mark.parametrize("check_id", ["performance.governor", "performance.idle_latency"])
@pytest.mark.parametrize("text", ["", "\0", "<b>x</b>", "performance powersave", "50\n50", "-1"])
def test_values_that_are_not_understood(node, check_id, text):
    node.results[GOVERNORS][0]["text"] = node.results[IDLE][0]["text"] = text
    assert set(node.bad(check_id).values()) == {UNKNOWN}


@pytest.mark.parametrize("text", ["", "madvise", "[always] [never]", "always"])
def test_choice_that_is_not_marked(text):
    with pytest.raises(NotUnderstoodError):
        parse_choice(text)


@pytest.mark.parametrize("text", ["", "a b c d e", HEADING + "/dev/sda2 partition"])
def test_swaps_that_are_not_understood(text):
    with pytest.raises(NotUnderstoodError):
        parse_swaps(text)


def test_latency_none_at_all():
    assert parse_latency("n/a\n") == "n/a"


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("net.ipv4.tcp_rmem", "net.ipv4.tcp_rmem"),
        ("net/ipv4/tcp_rmem", "net.ipv4.tcp_rmem"),
        ("net/ipv4/conf/eth0.5/mtu", "net.ipv4.conf.eth0/5.mtu"),
        ("net.ipv4.conf.eth0/5.mtu", "net.ipv4.conf.eth0/5.mtu"),
    ],
)
def test_both_ways_of_writing_a_name(written, name):
    assert dotted(written) == name


def test_lines_that_are_passed_over():
    found, strange = parse("; a\n# b\n\n-net.ipv4.conf.*.rp_filter\nnonsense\na.b =  1  2 \n", "f")
    assert [(one.statement, one.line) for one in found] == [("a.b = 1 2", 6)]
    assert strange == ("nonsense",)
