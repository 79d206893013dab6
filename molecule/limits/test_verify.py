"""Each way a process can start gets the limits. Shares no code with the role or the checks."""

import re

WANTED = {
    "Max locked memory": (4096 * 1024, 4096 * 1024),
    "Max open files": (16384, 16384),
    "Max processes": (65536, 65536),
}
STACK = 8192 * 1024


def check_limits(text):
    rows = {
        name: (soft, hard)
        for name, soft, hard in re.findall(
            r"^(Max [a-z ]+?)\s{2,}(\S+)\s+(\S+)", text, re.MULTILINE
        )
    }
    for name, (soft, hard) in WANTED.items():
        assert rows[name] == (str(soft), str(hard)), name
    assert rows["Max stack size"][0] == str(STACK)


def test_logins(host):
    check_limits(host.check_output("cat /proc/self/limits"))
    # su goes through pam_limits too, for a user who is not root.
    check_limits(host.check_output("su -s /bin/sh nobody -c 'cat /proc/self/limits'"))


def test_services(host):
    check_limits(host.check_output("cat /proc/$(systemctl show -p MainPID --value ssh)/limits"))
    # A service that nobody has named: it gets the defaults of the manager.
    check_limits(host.check_output("systemd-run --quiet --wait --pipe cat /proc/self/limits"))


def test_user_managers(host):
    shown = host.check_output("systemctl show user@1000.service -p LimitNOFILE,LimitMEMLOCKSoft")
    assert sorted(shown.split()) == ["LimitMEMLOCKSoft=4194304", "LimitNOFILE=16384"]
    config = host.check_output("systemd-analyze cat-config systemd/user.conf")
    assert "\nDefaultLimitNOFILE=16384\n" in config


def test_shared_memory_outlives_a_login(host):
    shown = host.check_output(
        "busctl get-property org.freedesktop.login1 /org/freedesktop/login1 "
        "org.freedesktop.login1.Manager RemoveIPC"
    )
    assert shown == "b false"
    config = host.check_output("systemd-analyze cat-config systemd/logind.conf")
    assert config.splitlines()[-1] == "RemoveIPC=no"
