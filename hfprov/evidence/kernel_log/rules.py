"""Which kernel messages are events: one row per kind, with what it is about and how bad it is.

The order matters: the first rule that matches a message wins. ``hint`` is a piece of text that
every matching message contains; it keeps the look at harmless lines cheap. Wordings of kernels 3.10
to 6.18, of the NVIDIA driver to 610, of amdgpu, habanalabs, xe, i915 and mlx5_core. Xid and SXid
are read by ``hfprov.evidence.xid``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from hfprov.evidence.xid import Severity

FATAL, WARN, INFO = Severity.FATAL, Severity.WARN, Severity.INFO


@dataclass(frozen=True, slots=True)
class Rule:
    """Messages of one kind. Named groups of the pattern become the event's details."""

    category: str
    severity: Severity
    hint: str
    pattern: re.Pattern[str] = field(compare=False)


def _rule(category: str, severity: Severity, hint: str, pattern: str = "") -> Rule:
    return Rule(category, severity, hint, re.compile(pattern or re.escape(hint)))


_BLOCK = r"detected in (?:total in )?(?P<block>\w+) block"

RULES: tuple[Rule, ...] = (
    # NVIDIA
    _rule("gpu_lost", FATAL, "fallen off the bus"),
    _rule("gpu_lost", FATAL, "GPU has been lost"),
    _rule("gpu_lost", FATAL, "GPU is lost"),
    _rule("nvidia_driver", FATAL, "RmInitAdapter failed"),
    _rule("nvidia_driver", FATAL, "rm_init_adapter failed"),
    _rule("nvidia_driver", FATAL, "API mismatch"),
    _rule("nvidia_driver", FATAL, "GSP-CrashCat Report"),
    _rule("nvidia_driver", FATAL, "likely needs to be reset"),
    _rule(
        "nvidia_driver",
        FATAL,
        "NVRM",
        r"NVRM: .*(?:probe routine (?:failed|was not called)|"
        r"failed to (?:load|initialize|allocate)|This PCI I/O region .* is invalid)",
    ),
    _rule("nvidia_driver", WARN, "NVRM", r"NVRM: .*(?:Assertion failed|[Hh]eartbeat timed out)"),
    _rule("nvidia_peermem", WARN, "nvidia-peermem", r"nvidia-peermem .*ERROR"),
    _rule("nvlink", FATAL, "nvidia-nvlink", r"nvidia-nvlink.*\b(?:[Ee]rror|[Ff]ail)"),
    _rule(
        "nvswitch",
        FATAL,
        "nvidia-nvswitch",
        r"nvidia-nvswitch.*\b(?:[Ee]rror|[Ff]ailed|[Ff]ailure|[Ff]atal)",
    ),
    # AMD
    _rule(
        "amdgpu_ras",
        FATAL,
        "uncorrectable hardware errors",
        r"(?P<count>\d+) uncorrectable hardware errors " + _BLOCK,
    ),
    _rule(
        "amdgpu_ras",
        WARN,
        "correctable hardware errors",
        r"(?P<count>\d+) correctable hardware errors " + _BLOCK,
    ),
    _rule(
        "amdgpu_ras",
        WARN,
        "deferred hardware errors",
        r"(?P<count>\d+) deferred hardware errors " + _BLOCK,
    ),
    _rule("amdgpu_ras", FATAL, "amdgpu", r"amdgpu.*[Pp]oison is (?:consumed|created)"),
    _rule(
        "amdgpu_ras",
        FATAL,
        "reaches threshold value",
        r"Saved bad pages (?P<count>\d+) reaches threshold value (?P<threshold>\d+)",
    ),
    _rule("amdgpu_ras", FATAL, "amdgpu", r"amdgpu.*(?:RAS|ras).*(?:fatal|uncorrectable)"),
    _rule("amdgpu_ras", WARN, "amdgpu", r"amdgpu.*Error Address\(PA\)"),
    _rule("amdgpu_hardware", WARN, "amdgpu", r"amdgpu.*\[Hardware [Ee]rror\].*events logged"),
    _rule("amdgpu_hardware", INFO, "amdgpu", r"amdgpu.*\[Hardware [Ee]rror\]"),
    _rule("gpu_lost", FATAL, "amdgpu", r"amdgpu.*device lost from bus"),
    _rule("amdgpu_driver", FATAL, "amdgpu", r"amdgpu.*Fatal error during GPU init"),
    _rule(
        "amdgpu_driver",
        FATAL,
        "amdgpu",
        r"amdgpu.*(?:ring \S+ timeout|fence wait loop timeout|GPU reset (?:begin|failed)|"
        r"failed to (?:initialize|suspend|resume)|psp .*failed|SMU.*not (?:respond|done)|"
        r"MES might be in unrecoverable state)",
    ),
    _rule("amdgpu_driver", WARN, "amdgpu", r"amdgpu.*\b[Ff]ailed to\b"),
    # Intel: Gaudi, and GPUs of the drivers xe and i915
    _rule("habanalabs_driver", FATAL, "Device is NOT usable"),
    _rule("habanalabs_driver", FATAL, "Device heartbeat failed"),
    _rule(
        "habanalabs_driver",
        FATAL,
        "habanalabs",
        r"habanalabs.*\b[Ff]ailed to (?:initialize|communicate|load|reset)\b",
    ),
    _rule("habanalabs_driver", WARN, "habanalabs", r"habanalabs.*\b[Ff]ailed to\b"),
    _rule("intel_gpu_driver", FATAL, "as wedged", r"Xe has declared device \S+ as wedged"),
    _rule("intel_gpu_driver", FATAL, "declaring it wedged"),
    _rule(
        "intel_gpu_driver",
        WARN,
        "[drm]",
        r"\b(?:xe|i915) [0-9a-f:.]+: \[drm\] (?:GPU HANG|.*Timedout job|"
        r"\*ERROR\* .*(?:reset (?:request )?(?:failed|timed out)|[Ff]ailed to\b))",
    ),
    # PCI Express
    _rule(
        "aer",
        FATAL,
        "PCIe Bus Error",
        r"PCIe Bus Error: severity=(?P<aer>Uncorrect(?:ed|able) \(Fatal\)),"
        r" type=(?P<layer>[A-Za-z ]+)",
    ),
    _rule(
        "aer",
        FATAL,
        "PCIe Bus Error",
        r"PCIe Bus Error: severity=(?P<aer>Uncorrect(?:ed|able) \(Non-Fatal\)),"
        r" type=(?P<layer>[A-Za-z ]+)",
    ),
    _rule(
        "aer",
        WARN,
        "PCIe Bus Error",
        r"PCIe Bus Error: severity=(?P<aer>[A-Za-z ()-]+), type=(?P<layer>[A-Za-z ]+)",
    ),
    _rule(
        "aer_message",
        FATAL,
        "error",
        r"AER: .*(?P<aer>Uncorrect(?:ed|able) \((?:Non-)?Fatal\)) error (?:message )?received",
    ),
    _rule(
        "aer_message",
        WARN,
        "error",
        r"AER: .*(?P<aer>Correct(?:ed|able)) error (?:message )?received",
    ),
    _rule("aer", FATAL, "aer_status", r"aer_uncor_status: (?P<status>0x[0-9a-f]*[1-9a-f])"),
    _rule("dpc", FATAL, "DPC: ", r"DPC: (?:containment event|unmasked uncorrectable|ERR_FATAL)"),
    _rule(
        "pcie_bandwidth",
        WARN,
        "available PCIe bandwidth",
        r"(?P<available>[\d.]+) Gb/s available PCIe bandwidth, limited by (?P<link>[^(]*?) link"
        r"(?: at (?P<at>[0-9a-f:.]+))?(?: \(capable of (?P<capable>[\d.]+) Gb/s)?",
    ),
    _rule("pcie_link", WARN, "Link Down", r"pciehp.*Slot\(.*\): (?:Link Down|Card not present)"),
    _rule("pcie_link", FATAL, "broken device, retraining"),
    # NICs
    _rule(
        "nic_power",
        WARN,
        "insufficient power",
        r"Detected insufficient power on the PCIe slot(?: \((?P<watts>\d+)W\))?",
    ),
    _rule(
        "nic_module",
        FATAL,
        "Port module event",
        r"Port module event\[error\]: module (?P<module>\d+), (?P<problem>.*)",
    ),
    _rule(
        "nic_firmware",
        FATAL,
        "mlx5",
        r"mlx5.*(?:health compromised|device's health|[Ff]atal error|firmware (?:crash|hang)|"
        r"Failed (?:to )?load|poll_health|synd(?:rome)? 0x[0-9a-f]*[1-9a-f].*fw_ver)",
    ),
    _rule("nic_firmware", WARN, "mlx5", r"mlx5.*\([0-9x]*\) op_mod\(.*\) failed"),
    _rule("nic_link", WARN, "carrier", r"(?P<interface>\S+): (?:lost|Lost) carrier"),
    _rule("nic_link", INFO, "carrier", r"(?P<interface>\S+): (?:gained|Gained) carrier"),
    _rule(
        "nic_link",
        WARN,
        "ink ",
        r"(?P<interface>[\w.]{1,32}): (?:NIC )?[Ll]ink (?:is )?[Dd]own",
    ),
    # Memory and processes
    _rule("oom", WARN, "oom-kill"),
    _rule("oom", WARN, "oom_kill"),
    _rule("oom", WARN, "oom_reaper"),
    _rule("oom", WARN, "Out of memory", r"Out of memory"),
    _rule("oom", WARN, "out of memory", r"[Mm]emory cgroup out of memory"),
    _rule("segfault", INFO, "segfault at", r"(?:(?P<process>\S+)\[(?P<pid>\d+)\]: )?segfault at"),
    _rule("file_limit", WARN, "file-max limit"),
    # CPU, memory modules, kernel
    _rule("panic", FATAL, "Kernel panic"),
    _rule("kernel_bug", FATAL, "BUG: unable to handle"),
    _rule("kernel_bug", FATAL, "general protection fault"),
    _rule("soft_lockup", FATAL, "soft lockup", r"soft lockup - CPU#(?P<cpu>\d+)"),
    _rule("hard_lockup", FATAL, "hard LOCKUP"),
    _rule("rcu_stall", FATAL, "stall", r"rcu.*(?:self-)?detected (?:expedited )?stalls?"),
    _rule(
        "hung_task",
        FATAL,
        "blocked for more than",
        r"INFO: task (?P<process>.+?):(?P<pid>\d+) blocked for more than (?P<seconds>\d+)",
    ),
    _rule("hung_task", FATAL, "hung_task: blocked"),
    _rule("edac", FATAL, "EDAC", r"EDAC .*\b(?P<count>\d+) (?P<kind>UE)\b"),
    _rule("edac", WARN, "EDAC", r"EDAC .*\b(?P<count>\d+) (?P<kind>CE)\b"),
    _rule(
        "mce", FATAL, "Machine check", r"[Mm]achine check.*(?:[Ee]xception|[Ff]atal|[Uu]ncorrect)"
    ),
    _rule("mce", WARN, "achine check events logged"),
    _rule("mce", FATAL, "mce: ", r"mce: .*Uncorrected hardware"),
    _rule(
        "hardware_error", FATAL, "[Hardware Error]", r"event severity: (?P<kind>fatal|recoverable)"
    ),
    _rule("hardware_error", WARN, "[Hardware Error]", r"event severity: (?P<kind>\w+)"),
    _rule("hardware_error", WARN, "[Hardware Error]", r"mce: .*CPU (?P<cpu>\d+): Machine Check"),
    _rule("hardware_error", INFO, "[Hardware Error]"),
    _rule("thermal", WARN, "cpu clock throttled"),
    _rule("iommu_fault", WARN, "IO_PAGE_FAULT"),
    _rule("iommu_fault", WARN, "DMAR", r"DMAR: .*(?:fault|Request device)"),
    # Storage
    _rule(
        "nvme",
        FATAL,
        "nvme",
        r"nvme.*(?:Disabling device after reset failure|"
        r"controller is down|Removing after probe failure|Device not ready|"
        r"no available path - failing|frozen state error)",
    ),
    _rule("nvme", WARN, "nvme", r"nvme.*(?:timeout, (?:reset|abort|completion)|I/O \d+ .*timeout)"),
    _rule("io_error", FATAL, "I/O error", r"I/O error,? (?:on )?dev (?P<disk>[\w-]+)"),
    _rule("io_error", FATAL, "I/O error"),
    _rule("io_error", WARN, "beyond end of device"),
    _rule("filesystem", FATAL, "emounting filesystem read-only"),
    _rule("filesystem", FATAL, "EXT4-fs error"),
    _rule("filesystem", FATAL, "XFS", r"XFS .*(?:[Cc]orruption|[Ss]hutting down|metadata I/O)"),
)

HINTS = re.compile("|".join(re.escape(hint) for hint in dict.fromkeys(r.hint for r in RULES)))
"""Matches every message that some rule may match."""
