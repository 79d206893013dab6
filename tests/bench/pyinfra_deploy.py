"""A part of what the roles declare, for pyinfra; bench_observe.py runs it with ``--dry``.

Eighty operations: 15 packages in one, 12 units, 27 kernel settings, 18 files with their rights, 22
lines of files. hfprov's 160 checks look at all of that and at much more, so the comparison still
favours pyinfra.
"""

from pyinfra.operations import apt, files, server, systemd

PACKAGES = [
    *("chrony", "ethtool", "fio", "iperf3", "ipmitool", "irqbalance", "lldpd", "lshw", "numactl"),
    *("nvme-cli", "pciutils", "perftest", "rdma-core", "smartmontools", "stress-ng"),
]
SETTINGS = {
    "fs.protected_fifos": 1,
    "fs.protected_hardlinks": 1,
    "fs.protected_regular": 2,
    "fs.protected_symlinks": 1,
    "fs.suid_dumpable": 0,
    "kernel.dmesg_restrict": 1,
    "kernel.kptr_restrict": 1,
    "kernel.numa_balancing": 0,
    "kernel.randomize_va_space": 2,
    "kernel.sysrq": 438,
    "kernel.unprivileged_bpf_disabled": 2,
    "kernel.yama.ptrace_scope": 1,
    "net.core.default_qdisc": "fq_codel",
    "net.core.netdev_max_backlog": 250000,
    "net.core.rmem_max": 268435456,
    "net.core.wmem_max": 268435456,
    "net.ipv4.conf.all.accept_redirects": 0,
    "net.ipv4.conf.all.accept_source_route": 0,
    "net.ipv4.conf.all.send_redirects": 0,
    "net.ipv4.icmp_echo_ignore_broadcasts": 1,
    "net.ipv4.tcp_mtu_probing": 1,
    "net.ipv4.tcp_syncookies": 1,
    "net.ipv6.conf.all.accept_redirects": 0,
    "vm.max_map_count": 1048576,
    "vm.min_free_kbytes": 67584,
    "vm.swappiness": 1,
    "vm.zone_reclaim_mode": 0,
}
UNITS = (
    *("apt-daily-upgrade.timer", "apt-daily.timer", "chrony.service", "irqbalance.service"),
    *("hfprov-irq-affinity.service", "hfprov-irq-affinity.timer", "hfprov-performance.service"),
    *("hfprov-rdma.service", "ssh.service", "systemd-networkd.service", "systemd-sysctl.service"),
    "unattended-upgrades.service",
)
PATHS = (
    *("/etc/apt/apt.conf.d/90hfprov-updates", "/etc/chrony/chrony.conf", "/etc/fstab"),
    *("/etc/hfprov/irq-affinity.json", "/etc/modprobe.d/hfprov-hardening.conf"),
    *("/etc/modprobe.d/hfprov-rdma.conf", "/etc/modules-load.d/hfprov-rdma.conf"),
    *("/etc/nccl.conf", "/etc/rccl.conf", "/etc/security/limits.conf", "/etc/ssh/sshd_config"),
    *("/etc/security/limits.d/90-hfprov.conf", "/etc/ssh/sshd_config.d/00-hfprov.conf"),
    *("/etc/sysctl.d/99-zz-hfprov-hardening.conf", "/etc/sysctl.d/99-zz-hfprov.conf"),
    *("/etc/systemd/logind.conf.d/90-hfprov-limits.conf", "/etc/ucx/ucx.conf"),
    "/etc/udev/rules.d/90-hfprov-rdma.rules",
)
LINES = {
    "/etc/security/limits.d/90-hfprov.conf": [
        f"{domain} {limit}"
        for domain in ("*", "root")
        for limit in ("- memlock 8192", "- nofile 1048576", "- nproc 262144", "soft stack 8192")
    ],
    "/etc/ssh/sshd_config.d/00-hfprov.conf": [
        *("PermitRootLogin prohibit-password", "PasswordAuthentication no", "UsePAM yes"),
        *("KbdInteractiveAuthentication no", "PermitEmptyPasswords no", "AllowTcpForwarding no"),
        "X11Forwarding no",
    ],
    "/etc/modprobe.d/hfprov-hardening.conf": [
        f"install {module} /bin/false"
        for module in ("cramfs", "dccp", "freevxfs", "hfs", "hfsplus", "jffs2", "tipc")
    ],
}

apt.packages(name="packages", packages=PACKAGES)
for key, value in SETTINGS.items():
    server.sysctl(name=key, key=key, value=value)
for unit in UNITS:
    systemd.service(name=unit, service=unit, running=True, enabled=True)
for path in PATHS:
    files.file(name=path, path=path, mode="644", user="root", group="root")
for path, lines in LINES.items():
    for line in lines:
        files.line(name=line, path=path, line=line)
