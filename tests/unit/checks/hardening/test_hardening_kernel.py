"""Kernel settings, modules, mounts: on a container the kernel is the host's, on metal it counts."""

from __future__ import annotations

import pytest

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.modprobe import bans_in, modules_of, parse_mounts
from hfprov.verdict import NotApplicable, Outcome

FAIL, UNKNOWN, WARN = Outcome.FAIL, Outcome.UNKNOWN, Outcome.WARN
CHECKS = (
    "hardening.sysctl.live",
    "hardening.sysctl.file",
    "hardening.sysctl.rivals",
    "hardening.modules.file",
    "hardening.modules.loaded",
    "hardening.modules.needed",
    "hardening.mounts",
)
SYSCTL_D = "glob /etc/sysctl.d/*.conf"
SYSCTL = "/etc/sysctl.d/99-zz-hfprov-hardening.conf"
MODPROBE_D = "glob /etc/modprobe.d/*.conf"
MODPROBE = "/etc/modprobe.d/hfprov-hardening.conf"
RP_FILTER = "net.ipv4.conf.*.rp_filter"
LIVE = "glob /proc/sys/net/ipv4/conf/*/rp_filter"


@pytest.mark.parametrize("check_id", CHECKS)
def test_healthy_node_passes(node, metal, check_id):
    assert node.outcomes(check_id) == {}
    assert metal.outcomes(check_id) == {}


def test_kernel_of_a_container_is_not_judged_and_of_metal_is(node, metal):
    def judged(one):
        return {
            found.subject
            for found in one.findings("hardening.sysctl.live")
            if found.outcome is Outcome.PASS
        }

    left = {"kernel.dmesg_restrict", "kernel.kptr_restrict", "kernel.yama.ptrace_scope"}
    assert judged(metal) - judged(node) == left
    (finding,) = node.findings("hardening.modules.loaded")
    assert finding.not_applicable is NotApplicable.CONTAINER


def test_setting_of_one_interface(node):
    node.results[LIVE][0]["text"] = "1\n"
    (finding,) = [one for one in node.findings("hardening.sysctl.live") if one.outcome is FAIL]
    assert finding.subject == RP_FILTER
    assert finding.observed == "net/ipv4/conf/all/rp_filter is 1"


def test_setting_of_the_kernel_on_metal(metal):
    metal.replace("glob /proc/sys/kernel/yama/ptrace_scope", "1", "0")
    assert metal.outcomes("hardening.sysctl.live") == {"kernel.yama.ptrace_scope": FAIL}
    metal.results["glob /proc/sys/kernel/yama/ptrace_scope"] = []
    assert metal.outcomes("hardening.sysctl.live") == {"kernel.yama.ptrace_scope": FAIL}


def test_kernel_without_ipv6_is_no_fault(node):
    node.results["glob /proc/sys/net/ipv6/conf/*/accept_redirects"] = []
    assert node.outcomes("hardening.sysctl.live") == {}


def test_more_settings_are_judged_as_well(node):
    node.values["hardening_extra_sysctls"] = {"net.ipv4.conf.all.log_martians": 1}
    path = "/proc/sys/net/ipv4/conf/all/log_martians"
    node.results[f"glob {path}"] = [{"name": path, "status": "ok", "text": "0\n"}]
    assert node.outcomes("hardening.sysctl.live") == {"net.ipv4.conf.all.log_martians": FAIL}
    assert node.outcomes("hardening.sysctl.file") == {SYSCTL: FAIL}


@pytest.mark.parametrize(
    ("path", "text", "good"),
    [
        ("/etc/sysctl.d/99-zzz.conf", "net.ipv4.conf.all.rp_filter = 1\n", False),
        ("/etc/sysctl.d/99-zzz.conf", "net.ipv4.conf.all.rp_filter = 2\n", True),
        ("/etc/sysctl.d/10-a.conf", "net.ipv4.conf.all.rp_filter = 1\n", True),
        ("/etc/sysctl.d/10-a.conf", "net.ipv4.conf.eth0.rp_filter = 1\n", False),
        ("/etc/sysctl.d/10-a.conf", "net/ipv4/conf/eth0/rp_filter=1\n", False),
        ("/etc/sysctl.d/10-a.conf", "net.ipv4.conf.*.rp_filter = 1\n", True),
        ("/etc/sysctl.d/99-zzz.conf", "net.ipv4.conf.*.rp_filter = 1\n", False),
        ("/etc/sysctl.d/99-zzz.conf", "net.ipv4.conf.e*.rp_filter = 1\n", False),
        ("/etc/sysctl.d/99-zzz.conf", "net.ipv4.conf.eth0.arp_filter = 1\n", True),
        ("/etc/sysctl.d/99-zzz.conf", "# net.ipv4.conf.all.rp_filter = 1\n", True),
        ("/etc/sysctl.d/99-zzz.conf", "kernel.kptr_restrict=0\n", False),
    ],
)
def test_other_files_of_settings(node, path, text, good):
    node.add(SYSCTL_D, path, text)
    expected = {} if good else {f"{path}:1": FAIL}
    assert node.outcomes("hardening.sysctl.rivals") == expected


def test_sysctl_conf_wins_over_any_file(node):
    node.put("file /etc/sysctl.conf", status="ok", text="kernel.dmesg_restrict = 0\n", mode=0o644)
    assert node.outcomes("hardening.sysctl.rivals") == {"/etc/sysctl.conf:1": FAIL}


@pytest.mark.parametrize(
    ("check_id", "words", "path"),
    [
        ("hardening.sysctl.file", SYSCTL_D, SYSCTL),
        ("hardening.modules.file", MODPROBE_D, MODPROBE),
    ],
)
def test_the_roles_own_files(node, check_id, words, path):
    result = next(one for one in node.results[words] if one["name"] == path)
    for changes in ({"mode": 0o666}, {"uid": 7}, {"text": result["text"] + "x y\n"}, {"text": ""}):
        kept = dict(result)
        result.update(changes)
        assert node.outcomes(check_id) == {path: FAIL}
        result.update(kept)
    node.results[words].remove(result)
    assert node.outcomes(check_id) == {path: FAIL}


def test_disabled_module_that_is_loaded(metal):
    metal.put("file /proc/modules", text="dccp 1 0 - Live 0x0\nnvme 1 1 - Live 0x0\n")
    assert metal.outcomes("hardening.modules.loaded") == {"dccp": FAIL}
    metal.put("file /proc/modules", text="!\n")
    assert metal.outcomes("hardening.modules.loaded") == {"": UNKNOWN}


EFI = "UUID=1 /boot/efi vfat umask=0077 0 1\n"


@pytest.mark.parametrize(
    ("text", "fstab", "bad"),
    [
        ("install vfat /bin/true\n", EFI, True),
        ("install fat /bin/false\n", EFI, True),
        ("blacklist vfat\n", EFI, True),
        ("install vfat /bin/true\n", "", False),
        ("# install vfat /bin/true\n", EFI, False),
        ("install vfat /usr/bin/logger x\n", EFI, False),
        ("install squashfs \\\n  /usr/bin/false\n", "/x /snap squashfs ro 0 0\n", True),
        ("blacklist ib_umad\n", "", True),
        ("install rdma-cm /bin/false\n", "", True),
        ("blacklist mlx5_ib\n", "", True),
        ("blacklist nouveau\noptions ib_core a=1\n", "", False),
    ],
)
def test_needed_modules(node, text, fstab, bad):
    node.add(MODPROBE_D, "/etc/modprobe.d/site.conf", text)
    node.put("file /etc/fstab", text=fstab)
    assert (node.outcomes("hardening.modules.needed") != {}) is bad


def test_needed_module_that_is_disabled_at_boot(node):
    node.put("file /proc/cmdline", text="root=x modprobe.blacklist=nouveau,ib_core quiet\n")
    subject = "ib_core in the kernel's command line"
    assert node.outcomes("hardening.modules.needed") == {subject: FAIL}


def test_file_that_hides_another_disables_nothing(node):
    text = "blacklist ib_umad\n"
    node.add("glob /usr/lib/modprobe.d/*.conf", "/usr/lib/modprobe.d/a.conf", text)
    assert node.outcomes("hardening.modules.needed") != {}
    node.add(MODPROBE_D, "/etc/modprobe.d/a.conf", "", type="other", link="/dev/null")
    assert node.outcomes("hardening.modules.needed") == {}


def test_mount_unit_needs_its_module(node):
    node.add(MODPROBE_D, "/etc/modprobe.d/site.conf", "install xfs /bin/false\n")
    unit = "[Mount]\nWhat=/dev/x\nWhere=/data\nType=xfs\n"
    node.add("glob /etc/systemd/system/*.mount", "/etc/systemd/system/data.mount", unit)
    assert node.outcomes("hardening.modules.needed") != {}


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("tmpfs /dev/shm tmpfs rw,nosuid,nodev,noexec 0 0\n", {"/dev/shm": WARN}),
        ("tmpfs /dev/shm tmpfs rw 0 0\n", {"/dev/shm": WARN}),
        ("tmpfs /var/tmp tmpfs rw,nosuid,nodev,noexec 0 0\n", {}),
        ("tmpfs /var/tmp tmpfs rw,nodev 0 0\n", {"/var/tmp": WARN}),
    ],
)
def test_mounts_are_only_reported(node, line, outcome):
    node.put("file /proc/self/mounts", text=f"overlay / overlay rw 0 0\n{line}")
    assert node.outcomes("hardening.mounts") == outcome


def test_mounts_that_are_not_understood():
    with pytest.raises(NotUnderstoodError):
        parse_mounts("a b\n", "f")
    assert [modules_of(one) for one in parse_mounts("a b vfat,ext3 c # d\n", "f")] == [
        ("vfat", "fat"),
        ("ext3", "ext4"),
    ]


def test_bans():
    text = "blacklist  a-b\ninstall c /bin/false --x\nalias d off\ninstall e\n"
    assert [one.module for one in bans_in(text, "f")] == ["a_b", "c"]


HOSTILE = [{"status": "timeout", "text": ""}, {"status": "denied", "text": ""}, {"truncated": True}]


@pytest.mark.parametrize("check_id", CHECKS)
@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda change: next(iter(change)))
def test_without_whole_evidence_nothing_passes(metal, check_id, hostile):
    for name in metal.reads_of(check_id):
        spoilt = type(metal)(metal.results)
        absent = {one["status"] for one in spoilt.results[name]} == {"absent"}
        # /lib is /usr/lib: its files are hidden by those of the same name, and not looked into.
        if absent or name.startswith("glob /lib/"):
            continue
        for result in spoilt.results[name]:
            result.update(hostile)
        assert UNKNOWN in spoilt.outcomes(check_id).values(), name
