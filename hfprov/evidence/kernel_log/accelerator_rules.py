"""Which messages of the accelerators' drivers are events. The first rule that matches wins.

Wordings of the NVIDIA driver to 610, of amdgpu, habanalabs, xe and i915. Xid and SXid are read by
``hfprov.evidence.xid``.
"""

from __future__ import annotations

from hfprov.evidence.kernel_log.rule import PROBE_FAILED, Rule, rule
from hfprov.evidence.xid import Severity

FATAL, WARN, INFO = Severity.FATAL, Severity.WARN, Severity.INFO
_BLOCK = r"detected in (?:total in )?(?P<block>\w+) block"

RULES: tuple[Rule, ...] = (
    # NVIDIA
    rule("gpu_lost", FATAL, "fallen off the bus"),
    rule("gpu_lost", FATAL, "GPU has been lost"),
    rule("gpu_lost", FATAL, "GPU is lost"),
    rule("nvidia_driver", FATAL, "RmInitAdapter failed"),
    rule("nvidia_driver", FATAL, "rm_init_adapter failed"),
    rule("nvidia_driver", FATAL, "API mismatch"),
    rule("nvidia_driver", FATAL, "GSP-CrashCat Report"),
    rule("nvidia_driver", FATAL, "needs to be reset"),
    rule("nvidia_driver", FATAL, "may need to be reset"),
    rule("nvidia_driver", FATAL, "nvidia", r"nvidia\b.*" + PROBE_FAILED),
    rule(
        "nvidia_driver",
        FATAL,
        "NVRM",
        r"NVRM: .*(?:probe routine (?:failed|was not called)|"
        r"failed to (?:load|initialize|allocate)|This PCI I/O region .* is invalid|"
        r"Cannot (?:initialize|attach)|GPU is probably locked|WPR2 already up|"
        r"None of the NVIDIA .* initialized|"
        r"installed in this system (?:is not supported by|requires))",
    ),
    rule(
        "nvidia_driver",
        WARN,
        "NVRM",
        r"NVRM: .*(?:Assertion failed|Check failed|[Hh]eartbeat timed out|Timed out waiting)",
    ),
    rule("nvlink", WARN, "knvlink", r"NVRM: .*knvlink.*\b[Ff]ailed\b"),
    rule("nvidia_peermem", WARN, "nvidia-peermem", r"nvidia-peermem .*ERROR"),
    rule("nvlink", FATAL, "nvidia-nvlink", r"nvidia-nvlink.*\b(?:[Ee]rror|[Ff]ail)"),
    rule(
        "nvswitch",
        FATAL,
        "nvidia-nvswitch",
        r"nvidia-nvswitch.*\b(?:[Ee]rror|[Ff]ailed|[Ff]ailure|[Ff]atal)",
    ),
    # AMD
    rule(
        "amdgpu_ras",
        FATAL,
        "uncorrectable hardware errors",
        r"(?P<count>\d+) uncorrectable hardware errors " + _BLOCK,
    ),
    rule(
        "amdgpu_ras",
        WARN,
        "correctable hardware errors",
        r"(?P<count>\d+) correctable hardware errors " + _BLOCK,
    ),
    rule(
        "amdgpu_ras",
        WARN,
        "deferred hardware errors",
        r"(?P<count>\d+) deferred hardware errors " + _BLOCK,
    ),
    rule("amdgpu_ras", FATAL, "uncorrectable hardware error("),
    rule("amdgpu_ras", WARN, "RAS controller interrupt triggered"),
    rule(
        "amdgpu_ras", FATAL, "amdgpu", r"amdgpu.*[Pp]oison (?:is (?:consumed|created)|consumption)"
    ),
    rule(
        "amdgpu_ras",
        FATAL,
        "reaches threshold value",
        r"Saved bad pages (?P<count>\d+) reaches threshold value (?P<threshold>\d+)",
    ),
    rule("amdgpu_ras", FATAL, "amdgpu", r"amdgpu.*(?:RAS|ras).*(?:fatal|uncorrectable)"),
    rule("amdgpu_ras", WARN, "amdgpu", r"amdgpu.*Error Address\(PA\)"),
    rule("amdgpu_hardware", WARN, "amdgpu", r"amdgpu.*\[Hardware [Ee]rror\].*events logged"),
    rule("amdgpu_hardware", INFO, "amdgpu", r"amdgpu.*\[Hardware [Ee]rror\]"),
    rule("gpu_lost", FATAL, "amdgpu", r"amdgpu.*device lost from bus"),
    rule("amdgpu_driver", FATAL, "amdgpu", r"amdgpu.*Fatal error during GPU init"),
    rule(
        "amdgpu_driver",
        FATAL,
        "amdgpu",
        r"amdgpu.*(?:ring \S+ timeout|fence wait loop timeout|GPU reset ?(?:begin|\S* ?failed)|"
        r"failed to (?:initialize|suspend|resume)|(?:psp|PSP) .*failed|SMU.*not (?:respond|done)|"
        r"MES might be in unrecoverable state|cp might be in an unrecoverable state|"
        r"[Qq]ueue preemption (?:failed|time ?out)|"
        r"(?:over temperature range|GPU HW Critical Fault).*detected|"
        r"IP block \S+ failed|invalid ip discovery|" + PROBE_FAILED + ")",
    ),
    rule("amdgpu_driver", WARN, "amdgpu", r"amdgpu.*\b(?:[Ff]ailed to\b|no-retry page fault)"),
    # Intel: Gaudi, and GPUs of the drivers xe and i915
    rule("habanalabs_driver", FATAL, "Device is NOT usable"),
    rule("habanalabs_driver", FATAL, "Device heartbeat failed"),
    rule(
        "habanalabs_driver",
        FATAL,
        "habanalabs",
        r"habanalabs.*\b[Ff]ailed to (?:initialize|communicate|load|reset)\b",
    ),
    rule(
        "habanalabs_driver", WARN, "habanalabs", r"habanalabs.*\b(?:[Ff]ailed to|Going to reset)\b"
    ),
    rule("intel_gpu_driver", FATAL, "as wedged", r"Xe has declared device \S+ as wedged"),
    rule("intel_gpu_driver", FATAL, "declaring it wedged"),
    rule("intel_gpu_driver", FATAL, "In Survivability Mode"),
    rule("intel_gpu_driver", FATAL, "probe", r"\b(?:xe|i915|habanalabs)\b.*" + PROBE_FAILED),
    rule(
        "intel_gpu_driver",
        WARN,
        "[drm]",
        r"\b(?:xe|i915) [0-9a-f:.]+: \[drm\] (?:GPU HANG|.*Timedout job|"
        r".*Engine reset: engine_class|"
        r"\*ERROR\* .*(?:reset (?:request )?(?:failed|timed out)|[Ff]ailed to|load failed)\b)",
    ),
)
