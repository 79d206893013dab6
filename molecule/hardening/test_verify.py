"""What is closed is closed, and what jobs need is open. No code of the role or the checks."""

import os
import re
import subprocess

CONFIG = f"{os.environ['HFPROV_MOLECULE_RACK']}/ssh/config"
PYTHON_REACHES = (
    "import socket, sys; s = socket.socket(); s.settimeout(3); "
    "sys.exit(s.connect_ex((sys.argv[1], int(sys.argv[2]))))"
)


def ssh(host, *words):
    return subprocess.run(
        ["ssh", "-F", CONFIG, "-o", "ControlPath=none", *words, host.backend.hostname],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_only_a_key_lets_somebody_in(host):
    refused = ssh(host, "-o", "PreferredAuthentications=none")
    assert refused.returncode == 255
    assert "Permission denied (publickey)." in refused.stderr


def test_forwarding_works(host):
    assert ssh(host, "-W", "127.0.0.1:22").stdout.startswith("SSH-2.0-")


def test_network_settings_hold_for_every_interface(host):
    text = host.check_output("sysctl -a 2>/dev/null")
    assert len(re.findall(r"^net\.ipv4\.conf\.\S+\.rp_filter = 2$", text, re.MULTILINE)) >= 5
    assert not re.findall(r"^net\.ipv4\.conf\.\S+\.rp_filter = [01]$", text, re.MULTILINE)
    assert not re.findall(r"^net\.ipv[46]\.conf\.\S+\.accept_redirects = 1$", text, re.MULTILINE)
    assert not re.findall(r"^net\.ipv4\.conf\.\S+\.send_redirects = 1$", text, re.MULTILINE)


def test_nothing_is_set_that_jobs_need_otherwise(host):
    text = host.check_output("sh -c 'cat /etc/sysctl.d/*.conf | grep -v ^#'")
    assert "kernel.yama.ptrace_scope = 1\n" in text
    for name in ("ip_forward", "kexec_load", "modules_disabled", "tcp_timestamps = 0"):
        assert name not in text


def test_modules(host):
    assert "install /bin/false" in host.check_output("modprobe -n -v hfsplus")
    for name in ("vfat", "squashfs", "overlay", "ib_umad", "ib_uverbs", "rdma_ucm"):
        assert "/bin/false" not in host.run(f"modprobe -n -v {name}").stdout


def test_updates_leave_alone_what_jobs_depend_on(host):
    script = (
        "import apt_pkg, re; apt_pkg.init_config(); c = apt_pkg.config; "
        "p = c.value_list('Unattended-Upgrade::Package-Blacklist'); "
        "print(c.find('Unattended-Upgrade::Automatic-Reboot'), *[n for n in NAMES if not any("
        "re.match(one, n) for one in p)])"
    )
    kept = ["openssh-server", "libssl3"]
    excluded = ["linux-image-amd64", "linux-headers-6.1.0-50-amd64", "nvidia-driver", "libcuda1"]
    excluded += ["rdma-core", "libibverbs1", "containerd.io", "docker-ce", "runc", "slurmd"]
    found = host.check_output(f'python3 -c "NAMES = {kept + excluded}; {script}"')
    assert found.split() == ["false", *kept]
    for timer in ("apt-daily.timer", "apt-daily-upgrade.timer"):
        assert host.check_output(f"systemctl is-active {timer}") == "active"
        assert host.check_output(f"systemctl is-enabled {timer}") == "enabled"


def test_firewall_is_on_the_management_interface_only(host):
    """A port that is not declared: closed on eth0, open on eth1, where jobs talk to each other."""
    if host.backend.hostname != "node01":
        return
    host.run("systemd-run --quiet --unit=verify-listener python3 -m http.server 5999")
    reached = {}
    for name in ("eth0", "eth1"):
        address = host.interface(name).addresses[0]
        done = subprocess.run(
            [
                "ssh",
                "-F",
                CONFIG,
                "node02",
                "python3",
                "-c",
                f"'{PYTHON_REACHES}'",
                address,
                "5999",
            ],
            capture_output=True,
            timeout=30,
            check=False,
        )
        reached[name] = done.returncode == 0
    host.run("systemctl stop verify-listener")
    assert reached == {"eth0": False, "eth1": True}


def test_firewall_comes_back_at_boot(host):
    assert host.check_output("systemctl is-enabled hfprov-firewall") == "enabled"
    assert host.run("nft -c -f /etc/hfprov/management.nft").rc == 0
    # No guard waits to take anything back.
    assert host.run("systemctl is-active hfprov-guard.timer").stdout.strip() == "inactive"


def test_audit_is_left_to_the_host_of_a_container(host):
    assert host.run("systemctl is-enabled auditd").stdout.strip() in ("", "not-found")
    assert host.check_output("systemctl list-units --failed --no-legend") == ""
