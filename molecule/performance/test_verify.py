"""What a container can have of the settings. Shares no code with the role or the checks."""

import re

LIVE = {
    "net.ipv4.tcp_rmem": "4096 131072 33554432",
    "net.ipv4.tcp_wmem": "4096 16384 33554432",
    "net.ipv4.tcp_timestamps": "2",
    "net.ipv4.tcp_syn_retries": "4",
    "net.core.somaxconn": "8192",
}
AT_BOOT = {"vm.max_map_count": "1048576", "vm.zone_reclaim_mode": "0", **LIVE}
UNIT = "hfprov-performance.service"


def test_settings_hold_now(host):
    names = " ".join(LIVE)
    values = host.check_output(f"sysctl -n {names}").splitlines()
    assert [" ".join(value.split()) for value in values] == list(LIVE.values())


def test_systemd_will_set_them_at_boot(host):
    config = host.check_output("systemd-analyze cat-config sysctl.d")
    last = dict(re.findall(r"^([a-z0-9_.]+)\s*=\s*(.*)$", config, re.MULTILINE))
    assert {name: last[name] for name in AT_BOOT} == AT_BOOT


def test_unit_is_started_at_boot_but_not_in_containers(host):
    shown = host.check_output(f"systemctl show -p UnitFileState,LoadError,Type {UNIT}")
    assert sorted(shown.split()) == ["LoadError=", "Type=oneshot", "UnitFileState=enabled"]
    host.check_output(f"systemd-analyze verify /etc/systemd/system/{UNIT}")
    host.check_output(f"systemctl start {UNIT}")
    assert host.check_output(f"systemctl show -p ConditionResult --value {UNIT}") == "no"


def test_unit_writes_what_is_declared(host):
    """Its own commands, on files that stand for the kernel's."""
    host.check_output("mkdir -p /run/t/cpu0/cpufreq /run/t/cpu0/power /run/t/cpu1/cpufreq")
    host.check_output("cd /run/t && echo x | tee cpu0/cpufreq/scaling_governor enabled")
    host.check_output("cd /run/t && echo 0 > cpu0/power/pm_qos_resume_latency_us")
    text = host.check_output(f"cat /etc/systemd/system/{UNIT}")
    scripts = re.findall(r"^ExecStart=/bin/sh -ec '(.*)'$", text, re.MULTILINE)
    assert len(scripts) == 3
    for script in scripts:
        moved = script.replace("/sys/devices/system/cpu/", "/run/t/").replace("$$", "$")
        moved = moved.replace("/sys/kernel/mm/transparent_hugepage/", "/run/t/")
        assert "/sys/" not in moved
        host.check_output(f"sh -ec '{moved}'")
    written = host.check_output(
        "cat /run/t/cpu0/cpufreq/scaling_governor /run/t/cpu0/power/* /run/t/enabled"
    )
    assert written.split() == ["performance", "50", "madvise"]
    # A file that is not there is not made.
    assert host.check_output("ls /run/t/cpu1/cpufreq") == ""
    host.check_output("rm -r /run/t")


def test_no_swap_space_comes_back(host):
    assert host.check_output("readlink /etc/systemd/system/swap.target") == "/dev/null"
