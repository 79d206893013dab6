"""A part of what the roles declare, for pyinfra; bench_observe.py runs it with ``--dry``.

Fifteen packages, five services, eight kernel settings, six files with their rights: much less than
hfprov's 160 checks look at, and so a comparison that favours pyinfra.
"""

from pyinfra.operations import apt, files, server, systemd

PACKAGES = [
    *("chrony", "ethtool", "fio", "iperf3", "ipmitool", "irqbalance", "lldpd", "lshw", "numactl"),
    *("nvme-cli", "pciutils", "perftest", "rdma-core", "smartmontools", "stress-ng"),
]
SETTINGS = {
    "kernel.dmesg_restrict": 1,
    "kernel.kptr_restrict": 1,
    "kernel.numa_balancing": 0,
    "net.core.netdev_max_backlog": 250000,
    "net.core.rmem_max": 268435456,
    "net.core.wmem_max": 268435456,
    "vm.max_map_count": 1048576,
    "vm.zone_reclaim_mode": 0,
}
UNITS = ("chrony", "hfprov-irq-affinity", "hfprov-performance", "ssh", "systemd-networkd")
PATHS = (
    *("/etc/chrony/chrony.conf", "/etc/fstab", "/etc/nccl.conf", "/etc/security/limits.conf"),
    *("/etc/ssh/sshd_config", "/etc/systemd/logind.conf"),
)

apt.packages(name="packages", packages=PACKAGES)
for key, value in SETTINGS.items():
    server.sysctl(name=key, key=key, value=value)
for unit in UNITS:
    systemd.service(name=unit, service=f"{unit}.service", running=True, enabled=True)
for path in PATHS:
    files.file(name=path, path=path, mode="644", user="root", group="root")
