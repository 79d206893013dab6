"""What comes after a reboot: a boot that starts nothing, and scripts that set something else."""

from __future__ import annotations

import pytest

from hfprov.baseline import Baseline, Value
from hfprov.checks.boot import TARGETS
from hfprov.checks.registry import Facts
from hfprov.evidence import boot
from hfprov.evidence.boot import settings
from hfprov.evidence.cpu_power import AMD_ACCELERATOR
from hfprov.evidence.grep import heading
from hfprov.evidence.sysctl_files import FILES
from hfprov.judge import find_check, findings_of
from hfprov.reading import Observation
from hfprov.verdict import Outcome

PASS, FAIL, UNKNOWN = Outcome.PASS, Outcome.FAIL, Outcome.UNKNOWN
VALUES = {
    "performance_governor": "performance",
    "performance_transparent_hugepages": "madvise",
    "performance_numa_balancing": "auto",
    "performance_swappiness": "leave",
    "performance_hugepages": 0,
    "performance_max_map_count": 1048576,
    "performance_zone_reclaim_mode": 0,
    "performance_socket_buffer_bytes": 67108864,
    "performance_tcp_buffer_bytes": 67108864,
    "performance_netdev_max_backlog": 16384,
    "performance_tcp_timestamps": 1,
    "performance_extra_sysctls": {},
    "jumbo_mtu_interfaces": ["eth1"],
    "limits_nofile": 131072,
    "limits_nproc": "96365",
    "jumbo_mtu_bytes": 9000,
}
BASELINE = Baseline(
    "n1", ("performance", "jumbo_mtu"), {name: Value(one, "") for name, one in VALUES.items()}
)
GREP = boot.BOOT_SETTINGS.reads(BASELINE)[0]
ETC, LIB = (read.id for read in boot.TARGET.reads(BASELINE))
UNITS = boot.LOGIN_UNITS.reads(BASELINE)[0]
FORM = "Id={0}\nNames={0}\nLoadState=loaded\nUnitFileState={1}\n"
ABSENT = [{"name": "", "status": "absent"}]


def found(check_id, **results):
    seen = Observation.from_json({"results": results})
    return findings_of(find_check(check_id), Facts(seen, BASELINE), BASELINE)


def judged(check_id, **results):
    return {one.subject: one.outcome for one in found(check_id, **results)}


def scripts(text, **answer):
    amd = {read.id: [] for read in AMD_ACCELERATOR.reads(BASELINE)}
    told = {"name": "", "status": "ok", "code": 0, "text": heading(GREP) + text} | answer
    return judged("boot.scripts", **{GREP.id: [told]}, **amd)


def linked(to):
    return [{"name": "/default.target", "status": "ok", "link": f"/usr/lib/systemd/system/{to}"}]


@pytest.mark.parametrize(
    ("etc", "lib", "outcome"),
    [
        *((ABSENT, linked(one), PASS) for one in TARGETS),
        (linked("rescue.target"), linked("graphical.target"), FAIL),
        (linked("multi-user.target"), linked("graphical.target"), PASS),
        ([{"name": "/d", "status": "ok"}], linked("graphical.target"), FAIL),
        ([{"name": "/d", "status": "absent", "link": "/gone.target"}], ABSENT, FAIL),
        (ABSENT, ABSENT, UNKNOWN),
        ([], [], UNKNOWN),
    ],
)
def test_target_of_the_next_boot(etc, lib, outcome):
    assert judged("boot.target", **{ETC: etc, LIB: lib}) == {"": outcome}


def units_of_ssh(service, socket):
    blocks = [FORM.format(name, "disabled") for name in ("sshd.service", "sshd.socket")]
    blocks += [FORM.format("ssh.service", service), FORM.format("ssh.socket", socket)]
    return {UNITS.id: [{"name": "", "status": "ok", "code": 0, "text": "\n".join(blocks)}]}


@pytest.mark.parametrize(
    ("service", "socket", "outcome"),
    [
        ("enabled", "disabled", PASS),
        ("disabled", "enabled", PASS),
        ("disabled", "disabled", FAIL),
        ("enabled-runtime", "disabled", FAIL),
        ("masked", "", FAIL),
    ],
)
def test_login_after_a_reboot(service, socket, outcome):
    assert judged("boot.login", **units_of_ssh(service, socket)) == {"sshd": outcome}


@pytest.mark.parametrize(
    ("service", "socket", "observed", "reason"),
    [
        ("disabled", "disabled", "not started at boot", "Nobody can log in after a reboot"),
        ("masked", "disabled", "not started at boot", "Nobody can log in after a reboot"),
        ("masked-runtime", "disabled", "ssh.service masked-runtime", "masked until the next boot"),
        ("disabled", "enabled-runtime", "ssh.socket enabled-runtime", "until the next boot only"),
        ("linked-runtime", "disabled", "ssh.service linked-runtime", "gone after a reboot"),
    ],
)
def test_what_is_done_to_sshd_in_run_is_told_as_such(service, socket, observed, reason):
    [told] = found("boot.login", **units_of_ssh(service, socket))
    assert (told.outcome, told.observed) == (FAIL, observed)
    assert reason in told.reason


def test_what_is_masked_in_run_only_does_not_count_beside_a_socket_that_starts():
    assert judged("boot.login", **units_of_ssh("masked-runtime", "enabled")) == {"sshd": PASS}


def test_login_is_unknown_where_systemd_does_not_say():
    assert judged("boot.login", **{UNITS.id: [{"name": "", "status": "timeout"}]}) == {"": UNKNOWN}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("sysctl -w vm.swappiness=60", [("vm.swappiness", "60")]),
        ("sysctl -qw 'net.ipv4.tcp_rmem=1 2  3'", [("net.ipv4.tcp_rmem", "1 2 3")]),
        ('sysctl net/ipv4/tcp_rmem="1 2 3"', [("net.ipv4.tcp_rmem", "1 2 3")]),
        ("w! /proc/sys/net/ipv4/x - - - - 0", [("net.ipv4.x", "0")]),
        ("echo 0 > /proc/sys/net/ipv4/x", [("net.ipv4.x", "0")]),
        ("echo 0 | sudo tee /proc/sys/net/ipv4/x", [("net.ipv4.x", "0")]),
        ("ip link set dev eth1 mtu 1500", [("mtu", "1500")]),
        ("echo never > /sys/kernel/mm/transparent_hugepage/enabled", [("hugepages", "never")]),
        ("w /sys/kernel/mm/transparent_hugepage/enabled - - - - never", [("hugepages", "never")]),
        ("kernel/mm/transparent_hugepage/enabled = always", [("hugepages", "always")]),
        ('ATTR{cpufreq/scaling_governor}="powersave"', [("governor", "powersave")]),
        ("echo ondemand > /sys/x/scaling_governor", [("governor", "ondemand")]),
        ("cpupower frequency-set -g powersave", [("governor", "powersave")]),
        ("# sysctl -w vm.swappiness=60", []),
        ("sysctl --system", []),
        ("cat /proc/sys/net/ipv4/x", []),
        ("ip link set $IFACE mtu $MTU", []),
        ("sysctl -w vm.swappiness= ; true", [("vm.swappiness", "")]),
    ],
)
def test_every_way_of_setting(line, expected):
    assert list(settings(line)) == expected


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("sysctl -w net.ipv4.tcp_timestamps=0", "net.ipv4.tcp_timestamps"),
        ("echo never > /sys/kernel/mm/transparent_hugepage/enabled", "hugepages"),
        ("echo powersave > $cpu/cpufreq/scaling_governor", "governor"),
        ("ip link set eth1 mtu 1500", "mtu"),
        ("ip link set mtu 1500 dev eth1", "mtu"),
        ("ip link set $IFACE mtu 1500", "mtu"),
    ],
)
def test_script_that_sets_something_else_is_told(line, name):
    assert scripts(f"/etc/rc.local\0007:{line}\n") == {f"/etc/rc.local:7 {name}": FAIL}


@pytest.mark.parametrize(
    "line",
    [
        "sysctl -w net.ipv4.tcp_timestamps=1",
        "sysctl -w kernel.panic=10",
        "ip link set eth1 mtu 9000",
        "ip link set eth0 mtu 1500",
        "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        "sysctl -w vm.swappiness=60",  # left as it is
    ],
)
def test_script_that_sets_what_is_declared_or_nobody_declares_is_not(line):
    assert scripts(f"/etc/rc.local\0007:{line}\n") == {"": PASS}


def test_rules_of_udev_on_mtus_are_another_check_s():
    assert scripts("/etc/udev/rules.d/a.rules\0001:RUN+='ip link set eth1 mtu 1500'\n") == {
        "": PASS
    }


@pytest.mark.parametrize("answer", [{"code": 2}, {"truncated": True}, {"status": "timeout"}])
def test_scripts_that_could_not_be_looked_through_are_unknown(answer):
    assert scripts("", **answer) == {"": UNKNOWN}


def kernel_settings(text, path="/etc/sysctl.d/50-site.conf"):
    results = {read.id: [] for read in FILES.reads(BASELINE) if read.id.startswith("glob")}
    results |= {read.id: ABSENT for read in FILES.reads(BASELINE) if read.id not in results}
    results["glob /etc/sysctl.d/*.conf"] = [{"name": path, "status": "ok", "text": text}]
    return judged("boot.kernel_settings", **results)


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("kernel.modules_disabled = 1", FAIL),
        ("kernel/modules_disabled=1", FAIL),
        ("fs.nr_open = 1024", FAIL),
        ("kernel.pid_max = 32768", FAIL),
        ("kernel.modules_disabled = 0", PASS),
        ("fs.nr_open = 131072", PASS),
        ("fs.nr_open = 1024\nfs.nr_open = 1048576", PASS),
        ("kernel.pid_max = 4194304\nkernel.panic = 10", PASS),
    ],
)
def test_kernel_settings_that_take_away_what_is_declared(text, outcome):
    (found,) = kernel_settings(text).values()
    assert found is outcome


def test_kernel_settings_that_were_not_read_are_unknown():
    assert judged("boot.kernel_settings") == {"": UNKNOWN}


SETS = "/opt/tune.sh\x002:sysctl -w vm.max_map_count=65530\n"


@pytest.mark.parametrize(
    "call",
    [
        "/etc/cron.d/site\x001:* * * * * root /opt/tune.sh\n",
        "/etc/cron.d/site\x001:@reboot root bash /opt/tune.sh >/dev/null 2>&1\n",
        "/etc/cron.weekly/site\x002:/opt/tune.sh\n",
        "/etc/systemd/system/a.service\x005:ExecStart=-/opt/tune.sh\n",
        "/etc/cron.d/a\x001:0 4 * * 0 root /root/all.sh\n/root/all.sh\x002:  sh /opt/tune.sh\n",
    ],
)
def test_script_of_the_site_that_something_starts(call):
    assert scripts(call + SETS) == {"/opt/tune.sh:2 vm.max_map_count": FAIL}


@pytest.mark.parametrize(
    "other",
    [
        "",
        "/etc/cron.d/site\x001:* * * * * root /opt/tune.sh.old\n",
        "/etc/cron.d/site\x001:# * * * * * root /opt/tune.sh # why\n",
        "/root/all.sh\x002:/opt/tune.sh\n/root/all.sh\x003:sysctl -n vm.swappiness\n",
    ],
)
def test_script_of_the_site_that_nothing_starts(other):
    assert scripts(other + SETS) == {"": PASS}
