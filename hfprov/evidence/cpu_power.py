"""What bears on a node's speed from moment to moment: CPU frequency, idle states, huge pages, swap.

Sources: Linux Documentation/admin-guide/pm/cpufreq.rst and mm/transhuge.rst,
ABI/testing/sysfs-devices-power, proc(5).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from hfprov.errors import NotUnderstoodError
from hfprov.evidence.cpufreq import parse_governor
from hfprov.evidence.sysfs_attributes import one_line
from hfprov.evidence.text import clean, excerpt
from hfprov.reading import (
    Observation,
    Read,
    Source,
    complete_text,
    file,
    glob,
    text_source,
)
from hfprov.regex import regex

_MOST_CPUS = 8192
_GOVERNORS = glob(
    "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor", limit=256, most=_MOST_CPUS
)
_IDLE = glob(
    "/sys/devices/system/cpu/cpu[0-9]*/power/pm_qos_resume_latency_us",
    limit=256,
    most=_MOST_CPUS,
)
_PCI = glob("/sys/bus/pci/devices/*/uevent", limit=4096, most=8192)
_HUGE_PAGES = file("/sys/kernel/mm/transparent_hugepage/enabled", limit=256)
_SWAPS = file("/proc/swaps")


def _texts(seen: Observation, read: Read) -> Mapping[int, str]:
    """The text of each CPU's file, by number of the CPU."""
    found = {}
    for result in seen.each(read):
        match = re.search(r"/cpu([0-9]+)/", result.name)
        if match is None:
            raise NotUnderstoodError(f"'{excerpt(result.name)}' names no CPU.")
        found[int(match.group(1))] = complete_text(read, result)
    return found


GOVERNORS: Source[Mapping[int, str]] = Source(
    "governors",
    lambda _: (_GOVERNORS,),
    lambda seen, _: {
        cpu: parse_governor(text) for cpu, text in sorted(_texts(seen, _GOVERNORS).items())
    },
)
"""Frequency governor by CPU. Empty where the kernel cannot set the frequency."""


def parse_latency(text: str) -> str:
    """The text of ``pm_qos_resume_latency_us``: microseconds, or ``n/a`` for "none at all"."""
    plain = one_line(text, "pm_qos_resume_latency_us")
    if not re.fullmatch(r"[0-9]{1,10}|n/a", plain):
        raise NotUnderstoodError(f"'{excerpt(plain, 40)}' is not a latency in microseconds.")
    return plain


IDLE_LATENCIES: Source[Mapping[int, str]] = Source(
    "idle latencies",
    lambda _: (_IDLE,),
    lambda seen, _: {cpu: parse_latency(text) for cpu, text in sorted(_texts(seen, _IDLE).items())},
)


def parse_choice(text: str) -> str:
    """The word in brackets of a text such as ``always [madvise] never``."""
    found = re.findall(r"\[([a-z+_]+)\]", clean(text))
    if len(found) != 1:
        raise NotUnderstoodError(f"'{excerpt(text)}' does not mark one choice with brackets.")
    return str(found[0])


HUGE_PAGES: Source[str] = text_source("transparent huge pages", _HUGE_PAGES, parse_choice)


def parse_swaps(text: str) -> tuple[str, ...]:
    """Names of swap spaces that are in use, from ``/proc/swaps``."""
    lines = clean(text).splitlines()
    if not lines or lines[0].split()[:2] != ["Filename", "Type"]:
        raise NotUnderstoodError("'/proc/swaps' has no heading.")
    found = []
    for line in lines[1:]:
        words = line.split()
        if len(words) < 5:
            raise NotUnderstoodError(f"'{excerpt(line)}' is not a line of '/proc/swaps'.")
        found.append(words[0])
    return tuple(found)


SWAPS: Source[tuple[str, ...]] = text_source("swap spaces", _SWAPS, parse_swaps)

_ACCELERATOR = regex(r"^PCI_CLASS=(?:12|302|380)[0-9A-F]{2,4}$", re.MULTILINE)
"""PCI classes: processing accelerators, 3D controllers, other display controllers."""


def _has_amd(seen: Observation) -> bool:
    for result in seen.each(_PCI):
        if result.status == "absent":
            continue  # the device went away while it was being looked at
        text = clean(complete_text(_PCI, result))
        if _ACCELERATOR.search(text) and re.search(r"^PCI_ID=1002:", text, re.MULTILINE):
            return True
    return False


AMD_ACCELERATOR: Source[bool] = Source(
    "AMD accelerator", lambda _: (_PCI,), lambda seen, _: _has_amd(seen)
)
"""Whether there is one on the PCI bus, with or without a driver."""
