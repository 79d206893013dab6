"""Every tool whose output hfprov can read from a file: ``hfprov parse TOOL FILE`` and the API.

One row per tool. ``parse`` takes the whole text and returns facts: a frozen dataclass, or a tuple
of them. A tool that prints several forms (XML, table, CSV) recognises the form from the text.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from hfprov.errors import UsageError
from hfprov.evidence.pasted import as_printed, without_prompts


class Tool(Struct, frozen=True):
    """A tool that tells something about a node, and the parser of what it prints."""

    name: str
    module: str
    """Module in ``hfprov.evidence``, which has the function ``parse(text)``; imported on use."""
    covers: str
    """Which forms and versions, in words, for the coverage table."""

    def parse(self, text: str) -> Any:
        """Facts from the tool's recorded output. Raises NotUnderstoodError when it cannot say.

        Prompts, commands, fences and quote marks, as in what people paste, are passed over.
        """
        module = importlib.import_module(f"hfprov.evidence.{self.module}")
        parse: Callable[[str], Any] = module.parse
        return parse(without_prompts(as_printed(text), self.name))


TOOLS: tuple[Tool, ...] = (
    Tool(
        "lspci",
        "lspci",
        "plain, -n, -nn, -mm, -k, -v to -vvv, -vmm with -n/-nn/-k, -t; "
        "excerpts cut out by scripts; pciutils 3.1 to 3.13",
    ),
    Tool("sysfs", "sysfs", "a dump of files ({path: content} JSON, ttar), or the text of one file"),
    Tool("lscpu", "lscpu", "text, -x, JSON, -e and -p; util-linux 2.1x to 2.4x; C locale only"),
    Tool("numactl", "numactl", "--hardware; nodes without memory or CPUs, text that was cut off"),
    Tool("dmidecode", "dmidecode", "whole output or -t; 2.11 to 3.6"),
    Tool(
        "proc",
        "proc",
        "cmdline, meminfo, cpuinfo, modules, net/dev, vmstat, version, PID/numa_maps; lsmod; "
        "udevadm info",
    ),
    Tool("proc-interrupts", "interrupts", "x86 and arm64, any number of CPUs, Linux 3.10 to 6.x"),
    Tool(
        "redfish",
        "redfish",
        "single resources, collections (also expanded) and logs; Dell, Lenovo, NVIDIA, BlueField "
        "on real output, HPE and Supermicro from the schema",
    ),
    Tool(
        "ipmi",
        "ipmi",
        "ipmitool sel list/elist/get, sdr (-v too), sensor, fru, lan, mc info, chassis status, "
        "user list; FreeIPMI ipmi-sensors and ipmi-sel; ipmicfg -summary",
    ),
    Tool("nvme-cli", "nvme", "list, smart-log and id-ctrl; JSON of 1.x to 2.11 and text"),
    Tool("smartctl", "smartctl", "-a -j of ATA, NVMe and SCSI drives, and text; 7.x"),
    Tool("os-release", "os_release", "/etc/os-release"),
    Tool("packages", "packages", "dpkg -l, dpkg-query -W, rpm -qa (lines, JSON), rpm -qi"),
    Tool("sysctl", "sysctl", "sysctl -a, sysctl NAME, sysctl.conf"),
    Tool("limits", "limits_files", "limits.conf and /proc/PID/limits"),
    Tool("network-config", "network_files", "netplan YAML, ifcfg files, nmcli device/connection"),
    Tool("slurm", "slurm", "sinfo with header, squeue, scontrol show node"),
    Tool(
        "nvidia-smi",
        "nvidia_smi.forms",
        "-q -x (DTD v11 to v13, later tags kept), -q and -q -d, --query-gpu / -compute-apps / "
        "-accounted-apps / -retired-pages CSV, table, -L, mig -lgi/-lci/-lgip/-lcip, topo -m, "
        "nvlink -s, dmon, pmon, --version, --help-query-gpu; drivers 375 to 610, MIG, Windows; "
        "its failure sentences",
    ),
    Tool(
        "dcgmi",
        "dcgmi.forms",
        "diag as JSON (DCGM 2, 3, 4) and table, health, discovery -l, nvlink -s",
    ),
    Tool(
        "fabricmanager",
        "fabricmanager",
        "fabricmanager.log with several starts; the journal's lines",
    ),
    Tool(
        "kernel-log",
        "kernel_log.log",
        "dmesg (plain, -T, iso, --decode, -r), journalctl -k (text, json, json-pretty), /dev/kmsg, "
        "syslog: Xid, SXid, AER, DPC, amdgpu RAS, mlx5, OOM, lockups, EDAC, MCE, disks",
    ),
    Tool("nccl-topo", "nccl_topo", "NCCL topology XML, dumped or written for virtual machines"),
    Tool("healthcheck", "healthcheck", "oci-hpc check_gpu_setup, active_healthcheck, ncclscout"),
    Tool(
        "ethtool",
        "ethtool.dispatch",
        "DEV, -i, -g, -l, -a, -c, -k, -S (any driver, excerpts, --all-groups), -m (SFP, QSFP, "
        "CMIS), -T, -P, --show-fec, --show-priv-flags; ethtool 3.x to 6.x; --json from its "
        "sources and samples, no real JSON recorded; its failure sentences",
    ),
    Tool(
        "ip-link",
        "ip_link",
        "ip link, ip addr, ip neigh: -j with -d, -s; text (-o, -s, -d, -br); iproute2 3.x on",
    ),
    Tool("proc-net-bonding", "bonding", "all seven modes, several bonds; bonding 3.2 to today"),
    Tool("lldp", "lldp", "lldpctl json, json0, keyvalue and text; lldptool -t -n"),
    Tool("ibstat", "ibstat", "ibstat, ibstatus, ibstat -p of several hosts, ibnetdiscover"),
    Tool("ibv_devinfo", "ibv_devinfo", "plain, -v, -vv, several devices; ibv_devices"),
    Tool(
        "rdma",
        "rdma",
        "link, dev, statistic, resource, system as text and -j; show_counters; hiroce3 gids",
    ),
    Tool("show_gids", "show_gids", "with and without IPv4, network device and closing count"),
    Tool("mlnx_qos", "mlnx_qos", "trust, DSCP map, PFC, buffers, classes; Spiderpool's rdma-qos"),
    Tool(
        "dcb",
        "dcb",
        "pfc, app, ets, buffer, dcbx, apptrust as text and -j; from iproute2's sources, no real "
        "output seen",
    ),
    Tool(
        "devlink",
        "devlink",
        "-j dev info, dev param, port, health; dev info, dev show and health show as text; most "
        "from kernel documentation, real output seen of dev info's text only",
    ),
    Tool("mlxconfig", "mlxconfig", "query (-e too), set; several devices, excerpts"),
    Tool(
        "mlxfwmanager",
        "mlxfwmanager",
        "mlxfwmanager and mlxup query and update, mlxfwreset: running, stored, available firmware",
    ),
    Tool("flint", "flint", "flint and mstflint query, firmware that waits for a reset"),
    Tool("mst", "mst", "mst status and status -v, modules loaded or not, virtual functions"),
    Tool("ofed", "ofed", "ofed_info -s, openibd status"),
    Tool("ibdev2netdev", "ibdev2netdev", "plain and -v; InfiniBand, RoCE, virtual functions"),
    Tool("nicctl", "nicctl", "show port, lif, statistics, rates, rdma queue pairs with -j"),
    Tool(
        "iperf",
        "iperf",
        "iperf3 -J, --json-stream and text: TCP, UDP, several streams, --bidir, errors; text of "
        "iperf 2; netperf results of PerfKit Benchmarker",
    ),
    Tool(
        "perftest",
        "perftest",
        "ib_{write,read,send,atomic}_{bw,lat}: text of all units and columns, one or two "
        "processes, cut off, failures; --out_json, also the invalid JSON of versions 4.5 and 23.01",
    ),
    Tool(
        "amd-smi",
        "amd_smi",
        "list, static, metric, monitor, topology, xgmi, process, bad-pages, firmware, version, "
        "default screen; text, JSON, CSV; ROCm 5.7 to 7",
    ),
    Tool(
        "rocm-smi",
        "rocm_smi",
        "JSON, CSV, concise table, GPU[n] lines, topology, RAS blocks, .info files; ROCm 4 to 6",
    ),
    Tool("rvs", "rvs", "logs of all modules, with and without the summary table of ROCm 7"),
    Tool("rccl-ras", "rccl_ras", "text of 2.28, JSON of 2.28.9; NCCL's too"),
    Tool(
        "npu-smi",
        "npu_smi",
        "info table (310P, 910, 910B, 910C), -t board/ecc/health/..., -l, -m; releases 20 to 26",
    ),
    Tool("hl-smi", "hl_smi", "table, -q, -Q with CSV header, port states; 1.4 to 1.23"),
    Tool(
        "xpu-smi",
        "xpu_smi",
        "discovery, health, diag, prechecks, amcsensor, ps, dump, stats, updatefw; xpumcli too",
    ),
    Tool("docker", "docker", "info (text, JSON, stderr) from 1.9 to 29; daemon.json"),
    Tool("containerd", "containerd", "configuration versions 1 to 4; CRI-O's crio.conf"),
    Tool("cdi", "cdi", "specifications in YAML and JSON; nvidia-ctk cdi list"),
    Tool("nvbandwidth", "nvbandwidth", "JSON 0.5 to 0.8, also from DCGM; plain text"),
    Tool(
        "nccl-tests",
        "nccl_tests",
        "text of every collective, 2.0 to 2.17, RCCL's too, mpirun and srun prefixes; JSON (-J)",
    ),
    Tool("fio", "fio", "JSON and json+ of fio 2.1 to 3.x, with text around it; plain text"),
    Tool("stream", "stream", "STREAM 5.9 and 5.10"),
    Tool("transferbench", "transferbench", "p2p and a2a matrices, transfers; text and CSV"),
    Tool("rocm-bandwidth-test", "rocm_bandwidth_test", "device list, matrices, size curves; 2.x"),
    Tool("superbench", "superbench", "results-summary.jsonl"),
)


def find_tool(name: str) -> Tool:
    """The tool called ``name``. Raises UsageError with the names that exist."""
    for tool in TOOLS:
        if tool.name == name:
            return tool
    names = ", ".join(sorted(tool.name for tool in TOOLS))
    raise UsageError(f"There is no parser for a tool called '{name}'.", hint=f"Known: {names}.")


def plain(facts: Any) -> Any:
    """Facts as JSON-ready data: structs as objects, enums as their values."""
    if isinstance(facts, Struct):
        return {name: plain(value) for name, value in asdict(facts).items()}
    if isinstance(facts, dict):
        return {str(key): plain(value) for key, value in facts.items()}
    if isinstance(facts, (list, tuple, set, frozenset)):
        return [plain(item) for item in facts]
    return facts
