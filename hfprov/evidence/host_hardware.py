"""What a host was bought with, as its kernel shows it: memory, CPUs and sockets."""

from __future__ import annotations

import re

from hfprov.baseline import Baseline
from hfprov.errors import NoEvidenceError, NotUnderstoodError
from hfprov.evidence.cpulist import parse_cpulist
from hfprov.evidence.system import CPUS_ONLINE
from hfprov.evidence.text import clean
from hfprov.reading import Observation, Source, file, glob, text_source
from hfprov.regex import regex

MEMINFO = file("/proc/meminfo", limit=16 * 1024)
PACKAGES = glob(
    "/sys/devices/system/cpu/cpu[0-9]*/topology/physical_package_id", limit=64, most=8192
)
_TOTAL = regex(r"^MemTotal:\s+(\d{1,15}) kB$", re.MULTILINE)


def parse_memory_total(text: str) -> float:
    """GiB of memory that the kernel has, from ``/proc/meminfo``."""
    match = _TOTAL.search(clean(text))
    if match is None:
        raise NotUnderstoodError("'/proc/meminfo' has no 'MemTotal'.")
    return int(match.group(1)) / 1024**2


MEMORY_GIB: Source[float] = text_source("host memory", MEMINFO, parse_memory_total)


CPUS = text_source("cpus online", CPUS_ONLINE, parse_cpulist)


def _parse_sockets(seen: Observation, _: Baseline) -> int:
    packages = {result.text.strip() for result in seen.each(PACKAGES) if result.ok}
    if not packages:
        raise NoEvidenceError("The kernel does not tell which CPUs are in which socket.")
    return len(packages)


SOCKETS: Source[int] = Source("cpu sockets", lambda _: (PACKAGES,), _parse_sockets)
