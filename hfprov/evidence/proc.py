"""Files under /proc, and ``udevadm info``: which one it is shows from the text.

Understood: cmdline, meminfo, cpuinfo, modules, net/dev, vmstat, version, PID/numa_maps. Limits of
a process are in ``limits_files``, interrupts in ``interrupts``.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from hfprov.evidence.host_values import unknown_form
from hfprov.evidence.proc_system import (
    CmdlineFacts,
    CpuinfoFacts,
    MeminfoFacts,
    ModulesFacts,
    VersionFacts,
    parse_cmdline,
    parse_cpuinfo,
    parse_lsmod,
    parse_meminfo,
    parse_modules,
    parse_version,
)
from hfprov.evidence.proc_tables import (
    NetDevFacts,
    NumaMapsFacts,
    UdevFacts,
    VmstatFacts,
    parse_net_dev,
    parse_numa_maps,
    parse_udevadm,
    parse_vmstat,
)
from hfprov.evidence.text import clean
from hfprov.regex import regex

ProcFacts = (
    CmdlineFacts
    | CpuinfoFacts
    | MeminfoFacts
    | ModulesFacts
    | NetDevFacts
    | NumaMapsFacts
    | UdevFacts
    | VersionFacts
    | VmstatFacts
)

_FILES = "cmdline, meminfo, cpuinfo, modules, net/dev, vmstat, version or numa_maps"
_CMDLINE = regex(r"\S*(?:BOOT_IMAGE=|root=|initrd=|console=|\bro\b|quiet)")


_KINDS: tuple[tuple[re.Pattern[str], Callable[[str], ProcFacts]], ...] = (
    (regex(r"Linux version "), parse_version),
    (regex(r"MemTotal:|MemFree:"), parse_meminfo),
    (regex(r"processor\s*:|vendor_id\s*:"), parse_cpuinfo),
    (regex(r"Inter-\|"), parse_net_dev),
    (regex(r"[PNELSMRUTD]: "), parse_udevadm),
    (regex(r"Module +Size +Used by"), parse_lsmod),
    (regex(r"[a-z][a-z0-9_]* [0-9]+$"), parse_vmstat),
    (regex(r"[A-Za-z0-9_]+ [0-9]+ -?[0-9]+ \S"), parse_modules),
    (
        regex(r"[0-9a-f]{5,16} (?:default|prefer|bind|interleave|local|weighted)"),
        parse_numa_maps,
    ),
)
"""How the first line of each file begins."""


def parse(text: str) -> ProcFacts:
    """Facts from one file of /proc."""
    plain = clean(text)
    start = plain.lstrip("\n")
    first = start.split("\n", 1)[0]
    for beginning, parser in _KINDS:
        if beginning.match(first):
            return parser(plain)
    if "\n" not in start.strip() and any(map(_CMDLINE.match, start.split())):
        return parse_cmdline(plain)
    raise unknown_form("/proc", plain, f"one of the files {_FILES}")
