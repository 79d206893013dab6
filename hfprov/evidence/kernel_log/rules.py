"""Which kernel messages are events. The order matters: the first rule that matches a message wins.

Here those of PCI Express, network adapters, memory, CPUs, drives and the kernel itself, in wordings
of kernels 3.10 to 6.18 and of mlx5_core; those of accelerators come before them.
"""

from __future__ import annotations

import re

from hfprov.evidence.kernel_log.accelerator_rules import RULES as ACCELERATOR_RULES
from hfprov.evidence.kernel_log.rule import PROBE_FAILED, Rule, rule
from hfprov.evidence.xid import Severity
from hfprov.regex import regex

FATAL, WARN, INFO = Severity.FATAL, Severity.WARN, Severity.INFO

RULES: tuple[Rule, ...] = (
    *ACCELERATOR_RULES,
    # PCI Express
    rule(
        "aer",
        FATAL,
        "PCIe Bus Error",
        r"PCIe Bus Error: severity=(?P<aer>Uncorrect(?:ed|able) \(Fatal\)),"
        r" type=(?P<layer>[A-Za-z ]+)",
    ),
    rule(
        "aer",
        FATAL,
        "PCIe Bus Error",
        r"PCIe Bus Error: severity=(?P<aer>Uncorrect(?:ed|able) \(Non-Fatal\)),"
        r" type=(?P<layer>[A-Za-z ]+)",
    ),
    rule(
        "aer",
        WARN,
        "PCIe Bus Error",
        r"PCIe Bus Error: severity=(?P<aer>[A-Za-z ()-]+), type=(?P<layer>[A-Za-z ]+)",
    ),
    rule(
        "aer_message",
        FATAL,
        "error",
        r"AER: .*(?P<aer>Uncorrect(?:ed|able) \((?:Non-)?Fatal\)) error (?:message )?received",
    ),
    rule(
        "aer_message",
        WARN,
        "error",
        r"AER: .*(?P<aer>Correct(?:ed|able)) error (?:message )?received",
    ),
    rule("aer", FATAL, "aer_status", r"aer_uncor_status: (?P<status>0x[0-9a-f]*[1-9a-f])"),
    rule("dpc", FATAL, "DPC: ", r"DPC: (?:containment event|unmasked uncorrectable|ERR_FATAL)"),
    rule(
        "pcie_bandwidth",
        WARN,
        "available PCIe bandwidth",
        r"(?P<available>[\d.]+) Gb/s available PCIe bandwidth, limited by (?P<link>[^(]*?) link"
        r"(?: at (?P<at>[0-9a-f:.]+))?(?: \(capable of (?P<capable>[\d.]+) Gb/s)?",
    ),
    rule("pcie_link", WARN, "Link Down", r"pciehp.*Slot\(.*\): (?:Link Down|Card not present)"),
    rule("pcie_link", FATAL, "broken device, retraining"),
    rule("pcie_link", FATAL, "device recovery failed", r"AER: .*device recovery failed"),
    rule("pcie_link", FATAL, "giving up", r"not ready \d+ms after .*; giving up"),
    rule("pcie_link", FATAL, "change power state from", r"change power state from .*inaccessible"),
    rule("pcie_link", FATAL, "unknown header type 7f"),
    # NICs
    rule(
        "nic_power",
        WARN,
        "insufficient power",
        r"Detected insufficient power on the PCIe slot(?: \((?P<watts>\d+)W\))?",
    ),
    rule(
        "nic_module",
        FATAL,
        "Port module event",
        r"Port module event\[error\]: module (?P<module>\d+), (?P<problem>.*)",
    ),
    rule(
        "nic_firmware",
        FATAL,
        "mlx5",
        r"mlx5.*(?:health compromised|device's health|[Ff]atal error|firmware (?:crash|hang)|"
        r"Failed (?:to )?load|poll_health|synd(?:rome)? 0x[0-9a-f]*[1-9a-f].*fw_ver|"
        r"(?:load_one|init_one|handle_hca_cap) failed|pre-initializing state, abort|"
        r"Health issue observed,.* severity\([0-3]\)|handling bad device|fatal_sensors|"
        r"health recovery (?:flow aborted|failed)|mlx5_health_try_recover:.*(?:abort|fail)|"
        + PROBE_FAILED
        + ")",
    ),
    rule(
        "nic_firmware",
        WARN,
        "mlx5",
        r"mlx5.*(?:Health issue observed|Will cause a leak of a command|No done completion|"
        r"High temperature on sensors|(?:Error cqe|ERR CQE) on )",
    ),
    rule("nic_firmware", FATAL, "bnxt_en", r"bnxt_en.*[Ff]irmware (?:non-)?fatal"),
    rule("nic_firmware", WARN, "bnxt_en", r"bnxt_en.*Error \(timeout: \d+\) msg"),
    rule("nic_firmware", WARN, "emperature has gone above", r"bnxt_en.*has gone above"),
    rule("nic_firmware", FATAL, "mlx4_core", r"mlx4_core.*(?:Internal error detected|timed out)"),
    rule("nic_firmware", FATAL, "Detected ", r"Detected (?:Tx|Hardware) Unit Hang"),
    rule("nic_firmware", FATAL, "transmit timed out"),
    rule("nic_firmware", WARN, "Entering Safe Mode", r"ice .*Entering Safe Mode"),
    rule("nic_firmware", FATAL, "TX timeout detected"),
    rule("nic_firmware", FATAL, "NETDEV WATCHDOG", r"NETDEV WATCHDOG.*timed out"),
    rule("nic_firmware", WARN, "mlx5", r"mlx5.*\([0-9x]*\) op_mod\(.*\) failed"),
    rule("nic_link", WARN, "carrier", r"(?P<interface>\S+): (?:lost|Lost) carrier"),
    rule("nic_link", WARN, "link status definitely down"),
    rule("nic_link", INFO, "carrier", r"(?P<interface>\S+): (?:gained|Gained) carrier"),
    rule(
        "nic_link",
        WARN,
        "ink ",
        r"(?P<interface>[\w.]{1,32}): (?:NIC )?[Ll]ink (?:is )?[Dd]own",
    ),
    # Memory and processes
    rule("oom", WARN, "oom-kill"),
    rule("oom", WARN, "oom_kill"),
    rule("oom", WARN, "oom_reaper"),
    rule("oom", WARN, "Out of memory", r"Out of memory"),
    rule("oom", WARN, "out of memory", r"[Mm]emory cgroup out of memory"),
    rule("segfault", INFO, "segfault at", r"(?:(?P<process>\S+)\[(?P<pid>\d+)\]: )?segfault at"),
    rule("file_limit", WARN, "file-max limit"),
    # CPU, memory modules, kernel
    rule("panic", FATAL, "Kernel panic"),
    rule("kernel_bug", FATAL, "BUG: unable to handle"),
    rule("kernel_bug", FATAL, "general protection fault"),
    rule(
        "kernel_bug", FATAL, "BUG: ", r"BUG: (?:kernel NULL pointer|Bad (?:page|rss)|scheduling )"
    ),
    rule("kernel_bug", FATAL, "kernel BUG at "),
    rule("kernel_bug", FATAL, "Unable to handle kernel "),
    rule("kernel_bug", FATAL, "Oops: ", r"\bOops: .*\[#\d+\]"),
    rule("kernel_bug", WARN, ": nobody cared", r"irq \d+: nobody cared"),
    rule("soft_lockup", FATAL, "soft lockup", r"soft lockup - CPU#(?P<cpu>\d+)"),
    rule("hard_lockup", FATAL, "hard LOCKUP"),
    rule("rcu_stall", FATAL, "stall", r"rcu.*(?:self-)?detected (?:expedited )?stalls?"),
    rule(
        "hung_task",
        FATAL,
        "blocked for more than",
        r"INFO: task (?P<process>.+?):(?P<pid>\d+) blocked for more than (?P<seconds>\d+)",
    ),
    rule("hung_task", FATAL, "hung_task: blocked"),
    rule("edac", FATAL, "EDAC", r"EDAC .*\b(?P<count>\d+) (?P<kind>UE)\b"),
    rule("edac", WARN, "EDAC", r"EDAC .*\b(?P<count>\d+) (?P<kind>CE)\b"),
    rule(
        "mce", FATAL, "Machine check", r"[Mm]achine check.*(?:[Ee]xception|[Ff]atal|[Uu]ncorrect)"
    ),
    rule("mce", WARN, "achine check events logged"),
    rule("mce", FATAL, "mce: ", r"mce: .*Uncorrected hardware"),
    rule("mce", FATAL, "Memory failure: ", r"Memory failure: 0x[0-9a-f]+: "),
    rule(
        "hardware_error", FATAL, "[Hardware Error]", r"event severity: (?P<kind>fatal|recoverable)"
    ),
    rule("hardware_error", WARN, "[Hardware Error]", r"event severity: (?P<kind>\w+)"),
    rule(
        "hardware_error",
        FATAL,
        "[Hardware Error]",
        r"CPU (?P<cpu>\d+): Machine Check Exception|MC\d+_STATUS\[[^\]]*\bUE\b|"
        r"\]: (?:Uncorrected|System Fatal)\b",
    ),
    rule("hardware_error", WARN, "[Hardware Error]", r"mce: .*CPU (?P<cpu>\d+): Machine Check"),
    rule("hardware_error", WARN, "[Hardware Error]", r"\]: (?:Corrected|Deferred) error\b"),
    rule("hardware_error", INFO, "[Hardware Error]"),
    rule("thermal", WARN, "cpu clock ", r"cpu clock (?:is )?throttled"),
    rule("thermal", FATAL, "ritical temperature reached"),
    rule("iommu_fault", WARN, "IO_PAGE_FAULT"),
    rule("iommu_fault", WARN, "DMAR", r"DMAR: .*(?:fault|Request device|Time-out Error)"),
    rule("iommu_fault", WARN, "AMD-Vi: ", r"AMD-Vi: .*(?:INV_TIMEOUT|Completion-Wait loop timed)"),
    # Storage
    rule(
        "nvme",
        FATAL,
        "nvme",
        r"nvme.*(?:Disabling device after reset failure|"
        r"controller is down|Removing after probe failure|Device not ready|"
        r"no available path - failing|frozen state error)",
    ),
    rule("nvme", FATAL, "nvme", r"nvme.*" + PROBE_FAILED),
    rule(
        "nvme",
        WARN,
        "nvme",
        r"nvme.*(?:timeout, (?:reset|abort|completion)|I/O \d+ .*timeout|I/O Error \(sct |"
        r"Identify (?:namespace|Controller) failed)",
    ),
    rule("io_error", FATAL, "Disk failure on ", r"Disk failure on (?P<disk>[\w-]+)"),
    rule("io_error", WARN, "exception Emask"),
    rule(
        "io_error",
        FATAL,
        "critical medium error",
        r"critical medium error,? (?:on )?dev (?P<disk>[\w-]+)",
    ),
    rule("io_error", FATAL, "Unrecovered read error"),
    rule("io_error", FATAL, "Sense Key : ", r"Sense Key : (?:Medium|Hardware) Error"),
    rule("io_error", FATAL, "mpt3sas", r"mpt3sas.*fault_state\(0x"),
    rule(
        "io_error", FATAL, "megaraid_sas", r"megaraid_sas.*(?:in FAULT state|Fatal firmware error)"
    ),
    rule("io_error", FATAL, "I/O error", r"I/O error,? (?:on )?dev (?P<disk>[\w-]+)"),
    rule("io_error", FATAL, "I/O error"),
    rule("io_error", WARN, "beyond end of device"),
    rule("filesystem", WARN, "not responding", r"nfs: server \S+ not responding"),
    rule("filesystem", FATAL, "emounting filesystem read-only"),
    rule("filesystem", FATAL, "EXT4-fs error"),
    rule("filesystem", FATAL, "BTRFS", r"BTRFS (?:error|critical)\b"),
    rule("filesystem", FATAL, "XFS", r"XFS .*(?:[Cc]orruption|[Ss]hutting down|metadata I/O)"),
)

HINTS = regex("|".join(re.escape(hint) for hint in dict.fromkeys(r.hint for r in RULES)))
"""Matches every message that some rule may match."""
